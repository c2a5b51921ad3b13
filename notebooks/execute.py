"""Run the notebooks and write them back with their outputs: python notebooks/execute.py [NOTEBOOK …]

Nothing of the machine stays in them: no times, no paths, no kernel but "python3".
"""

from __future__ import annotations

import sys
import warnings
from hashlib import sha256
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
DEADLINE = 300  # seconds for a cell; the first use compiles


def executed(path: Path) -> Any:
    """The notebook after a run in a fresh kernel. Raises nbclient's CellExecutionError if a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the kernel's client, which are none of this project's
        NotebookClient(notebook, timeout=DEADLINE, kernel_name="python3", record_timing=False).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
    notebook.metadata.sources = digest(notebook)
    return notebook


def digest(notebook: Any) -> str:
    """Identify the sources of the code cells. It is stored with the outputs."""
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return sha256("\0".join(sources).encode()).hexdigest()[:16]


def joined(outputs: list[Any]) -> list[Any]:
    """Outputs with consecutive parts of a stream in one; where a kernel flushes is chance."""
    found: list[Any] = []
    for output in outputs:
        if found and output.output_type == found[-1].output_type == "stream" and output.name == found[-1].name:
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def main() -> None:
    """Run those named, or all."""
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(executed(path), path)
        print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
