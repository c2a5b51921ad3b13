"""Draw the pictures of README and site: the report of `volt demo`, and the page of `volt compare`.

    python experiments/pictures.py                                   experiments/pictures/demo.svg
    python experiments/pictures.py report.html docs/pages/pictures   compare-light.png and compare-dark.png, by chromium

docs/pages/how-to/compare.md shows how to make the report.
"""

from __future__ import annotations

import io
import re
import shutil
import sys
from pathlib import Path
from pydoc_data.topics import topics
from tempfile import TemporaryDirectory


def draw_demo(target: Path) -> None:
    """Search the embedded corpus and save the report as an SVG of a terminal."""
    from rich.console import Console

    import volt
    from volt.choose.report import as_text

    with TemporaryDirectory() as folder:
        path = Path(folder, "topics.txt")
        path.write_text("\n".join(topics.values()), encoding="utf-8")
        result = volt.search(volt.learn_bpe(volt.count_words(path)))
    console = Console(record=True, width=112, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(as_text(result))
    svg = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="volt demo"), flags=re.DOTALL)  # no remote font
    target.write_text(svg, encoding="utf-8")


def photograph(report: Path, folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1100, "height": 760}, color_scheme=scheme)
            page.goto(report.resolve().as_uri())
            page.screenshot(path=folder / f"compare-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        photograph(*map(Path, sys.argv[1:]))
    else:
        draw_demo(Path(__file__).parent / "pictures" / "demo.svg")
