"""The merges of a subword-nmt codes file or a sentencepiece model, as candidates for a search.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile() as file:
...     _ = file.write(b"#version: 0.2\\nt h\\nth e</w>\\n") and file.flush()
...     read_merges(file.name).pairs
[('t', 'h'), ('th', 'e</w>')]
"""

from __future__ import annotations

from pathlib import Path

from volt import arguments
from volt.errors import CandidateError
from volt.files.whole import read_bytes
from volt.formats.protocol import MergeList


def read_merges(path: str | Path) -> MergeList:
    """The merges of a subword-nmt codes file or a sentencepiece BPE model.

    path: of the file

    Raises CandidateError, with file and line, if the file is neither, or damaged.

    >>> read_merges("/nowhere/codes")
    Traceback (most recent call last):
        ...
    volt.errors.CandidateError: /nowhere/codes: cannot be read: no such file or directory; check the path
    """
    from volt.formats import subword_nmt
    from volt.formats.sentencepiece import model_file as sentencepiece

    data = read_bytes(arguments.path(path), kind=CandidateError)
    if not data:
        raise CandidateError(f"{path}: empty; give subword-nmt codes or a sentencepiece BPE .model")
    if data.startswith(sentencepiece.FIRST_BYTE):
        return sentencepiece.read_merges(path, data)
    return subword_nmt.read_merges(path, data)
