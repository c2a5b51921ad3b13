"""Notebooks, as they were run → pages of the site: text, code, what it printed, and its pictures.

>>> shown = {"output_type": "execute_result", "data": {"text/plain": "2"}}
>>> print(cell_text({"cell_type": "code", "source": "1 + 1", "outputs": [shown]}, "01", {}))
```python
1 + 1
```
<BLANKLINE>
```text
2
```
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
Made = dict[str, str | bytes]


def notebook_files() -> Made:
    """The pages of all notebooks, and their pictures, by their places in the site."""
    made: Made = {}
    for path in sorted(FOLDER.glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        pictures = dict[str, bytes]()
        texts = [cell_text(cell, path.stem, pictures) for cell in cells]
        made[f"notebooks/{path.stem}.md"] = (
            "\n\n".join(texts) + f"\n\n*`notebooks/{path.name}`, as it was run.*\n"
        )
        made |= {f"notebooks/{name}": picture for name, picture in pictures.items()}
    return made


def cell_text(cell: dict[str, Any], stem: str, pictures: dict[str, bytes]) -> str:
    """A cell in Markdown. pictures: where those that it shows are put, by their names, which begin with stem."""
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return re.sub(r"\[([^\]]+)\]\((?!https?:|#)([^)]+)\)", _link, source)
    outputs = [text for output in cell["outputs"] for text in _output_texts(output, stem, pictures)]
    return "\n\n".join([_fenced(source, "python"), *outputs])


def _link(found: re.Match[str]) -> str:
    """A link to another notebook leads to its page; a link to a file of the code is text here."""
    name, place = found.groups()
    return f"[{name}]({place.removesuffix('.ipynb')}.md)" if place.endswith(".ipynb") else name


def _output_texts(output: dict[str, Any], stem: str, pictures: dict[str, bytes]) -> Iterator[str]:
    """The best form of what was printed or shown."""
    if output["output_type"] == "stream":
        yield _fenced("".join(output["text"]).rstrip("\n"), "text")
        return
    data = output.get("data", {})
    if "image/png" in data:
        name = f"{stem}-{len(pictures) + 1}.png"
        pictures[name] = b64decode("".join(data["image/png"]))
        yield f"![What the cell above draws]({name})"
    elif "text/markdown" in data:
        yield "".join(data["text/markdown"])
    elif "text/plain" in data:
        yield _fenced("".join(data["text/plain"]), "text")


def _fenced(text: str, language: str) -> str:
    return f"```{language}\n{text}\n```"
