"""docs/pages/pictures/compare-light.png and -dark.png: the page that `volt compare` writes, as a browser shows it.

    volt compare docs=train.txt --heldout docs=heldout.txt --with bpe:1000 -o report.html
    python experiments/pictures/compare.py report.html docs/pages/pictures

It needs the browser chromium; how the two texts are made is said on the page docs/pages/how-to/compare.md.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

SCHEMES = ("light", "dark")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="what volt compare has written")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    told = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in SCHEMES:
            page = browser.new_page(viewport={"width": 1100, "height": 760}, color_scheme=scheme)
            page.goto(told.report.resolve().as_uri())
            page.screenshot(path=told.folder / f"compare-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main()
