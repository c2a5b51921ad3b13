"""Foreign formats, one module each, named as users name them.

Each module holds some of: `write(vocabulary, path)`, which returns what the format cannot carry, a sentence each;
`read(path, merges=None)`; `recognises(path, head)`; `peer(path)`, the real library with that file loaded.

>>> import tempfile, pathlib
>>> with tempfile.TemporaryDirectory() as folder:
...     path = pathlib.Path(folder, "codes")
...     _ = path.write_text("#version: 0.2\\nt h\\nth e</w>\\n")
...     read_merges(path).pairs
[('t', 'h'), ('th', 'e</w>')]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from volt.atoms import Marker
from volt.errors import CandidateError

FORMATS = {
    "subword-nmt": "volt.formats.subword_nmt",
    "sentencepiece": "volt.formats.sentencepiece",
    "huggingface": "volt.formats.huggingface",
    "tiktoken": "volt.formats.tiktoken",
    "fairseq": "volt.formats.fairseq",
    "marian": "volt.formats.marian",
    "opennmt": "volt.formats.opennmt",
    "tokens": "volt.formats.tokens",
}


@dataclass(frozen=True, slots=True)
class MergeList:
    """Merges by rank, and the word marker that their strings are written with."""

    pairs: list[tuple[str, str]]
    marker: Marker


@dataclass(frozen=True, slots=True)
class Peer:
    """A real library with a file loaded: lines → pieces in VOLT's spelling, and → ids where the library has ids that a
    VOLT vocabulary exported to it shares (None: it has no ids of its own)."""

    library: str
    pieces: Callable[[Sequence[str]], list[list[str]]]
    ids: Callable[[Sequence[str]], list[list[int]]] | None = None


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
