"""Foreign formats, one module each; here, which of them a file of merges is in.

>>> import tempfile, pathlib
>>> with tempfile.TemporaryDirectory() as folder:
...     path = pathlib.Path(folder, "codes")
...     _ = path.write_text("#version: 0.2\\nt h\\nth e</w>\\n")
...     read_merges(path).pairs
[('t', 'h'), ('th', 'e</w>')]
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volt.atoms import Marker
from volt.errors import CandidateError


@dataclass(frozen=True, slots=True)
class MergeList:
    """Merges by rank, and the word marker that their strings are written with."""

    pairs: list[tuple[str, str]]
    marker: Marker


def read_merges(path: str | Path) -> MergeList:
    """The merges of a subword-nmt codes file or a sentencepiece BPE model.

    Raises CandidateError, with file and line, if the file is neither, or damaged.
    """
    from volt.formats import sentencepiece, subword_nmt

    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise CandidateError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    if not data:
        raise CandidateError(f"{path}: empty; give subword-nmt codes or a sentencepiece BPE .model")
    if data.startswith(sentencepiece.FIRST_BYTE):
        return sentencepiece.read_merges(path, data)
    return subword_nmt.read_merges(path, data)
