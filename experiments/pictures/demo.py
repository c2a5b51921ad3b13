"""Draw the README's picture: what `volt demo` shows, as an SVG of a terminal.

python experiments/pictures/demo.py            writes experiments/pictures/demo.svg
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from pydoc_data.topics import topics
from tempfile import TemporaryDirectory

from rich.console import Console

import volt
from volt.choose.report import as_text


def main() -> None:
    """Search the embedded corpus and save the report."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "topics.txt")
        path.write_text("\n".join(topics.values()), encoding="utf-8")
        result = volt.search(volt.learn_bpe(volt.count_words(path)))
    console = Console(record=True, width=112, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(as_text(result))
    svg = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="volt demo"), flags=re.DOTALL)  # no font from afar
    Path(__file__).with_suffix(".svg").write_text(svg, encoding="utf-8")
    sys.stderr.write("wrote experiments/pictures/demo.svg\n")


if __name__ == "__main__":
    main()
