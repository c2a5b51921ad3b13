"""Draw the README's picture, the report of `volt demo`: python experiments/pictures.py"""

from __future__ import annotations

import io
import re
from pathlib import Path
from pydoc_data.topics import topics
from tempfile import TemporaryDirectory


def draw_demo(target: Path) -> None:
    """Search the embedded corpus and save the report as an SVG of a terminal."""
    from rich.console import Console

    import volt
    from volt.choose.report import as_text
    from volt_cli.options import name_options

    with TemporaryDirectory() as folder:
        path = Path(folder, "topics.txt")
        path.write_text("\n".join(topics.values()), encoding="utf-8")
        result = volt.search(volt.learn_bpe(volt.count_words(path)))
    console = Console(
        record=True, width=112, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(as_text(result, reword=name_options))
    svg = re.sub(
        r"@font-face \{.*?\}", "", console.export_svg(title="volt demo"), flags=re.DOTALL
    )  # no remote font
    target.write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    draw_demo(Path(__file__).parent / "pictures" / "demo.svg")
