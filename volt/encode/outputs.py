"""The files of encoded outputs: which files belong together, ids as arrays, and the manifest of a folder.

    ids.npy   a numpy file of all ids, int32           ids.npy.offsets.npy   (n_lines + 1,) int64
    ids.bin   all ids as raw int32, little-endian      ids.bin.offsets.npy

Line i has ids[offsets[i]:offsets[i + 1]]. `volt binarize` writes other pairs: NAME.bin and NAME.idx.

A *manifest* says what each output in a folder depends on, so that only outdated outputs are rewritten:

    {"a.txt.ids": {"source": "/data/a.txt", "bytes": 512, "modified": 1764…, "vocabulary": "9f…",
                   "form": "ids", …, "files": [[size of a.txt.ids, time of its change]]}}

An *origin* is all that an output depends on: its source, the vocabulary, and options. The entry
"files" describes the output's files, and is added once they are complete; so an output whose origin
has no "files" may be incomplete.

The manifest is a JSON object. While outputs are written, the entry of each is appended as a line
with one more object, so that a killed process loses nothing and the time is linear in the number of
outputs. A manifest at a URL cannot be appended to; it is rewritten whenever an eighth of its
outputs are new.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.format import MAGIC_PREFIX, open_memmap

from volt.array_types import Array, Ints, Longs
from volt.errors import CorpusError, OutputError, shown_path, unreadable
from volt.files.atomic import append, write_atomic
from volt.files.indexed_dataset import BIN, IDX, open_ids, prefix_of
from volt.files.paths import is_file, mark_of, size_of
from volt.files.small_files import read_bytes, read_start
from volt.files.text_checks import HEAD_SIZE
from volt.urls import url_of

Arrays = tuple[Ints, Longs]  # ids, and the offsets of lines
Origin = dict[str, Any]
ARRAY_FORMS = ("npy", "bin")
MANIFEST = ".volt-encoded.json"
_MOST_UNSAVED = 1 / 8  # of the outputs in a manifest at a URL
_OFFSETS = ".offsets.npy"
_AGAIN = "copy both files again, or encode the text again"
_TEXT_ENDINGS = (".pieces", ".ids")


def list_output_files(output: Path, form: str) -> list[Path]:
    """Return the files of an output of `volt encode`: for arrays, also the file of offsets."""
    if form not in ARRAY_FORMS or not output.name:  # writing to the current folder raises an error
        return [output]
    return [output, output.with_name(output.name + _OFFSETS)]


def find_partners(output: Path) -> Iterator[Path]:
    """Yield the files that `volt encode` or `volt binarize` may have written with a file."""
    partner_ending = {BIN: IDX, IDX: BIN}
    if output.suffix in partner_ending:
        yield output.with_suffix(partner_ending[output.suffix])
    if output.name.endswith(_OFFSETS):
        yield output.with_name(output.name.removesuffix(_OFFSETS))
    elif output.name and output.suffix not in _TEXT_ENDINGS:  # a folder may contain many of these
        yield output.with_name(output.name + _OFFSETS)


def without_partners(paths: Sequence[str]) -> list[str]:
    """Return the paths without the offsets and indices of others.

    >>> without_partners(["a.npy", "a.npy.offsets.npy", "b.bin", "b.idx"])
    ['a.npy', 'b.bin']
    """
    partners = {path + _OFFSETS for path in paths}
    partners |= {prefix_of(path) + IDX for path in paths if path.endswith(BIN)}
    return [path for path in paths if path not in partners]


def write_header(file: BinaryIO, n_ids: int) -> None:
    """Write the header of a numpy file of n_ids ids. The header's size does not depend on n_ids."""
    header = {"descr": "<i4", "fortran_order": False, "shape": (n_ids,)}
    np.lib.format.write_array_header_1_0(file, header)


def form_of(path: str) -> str:
    """Return the form of encoded text: "npy", "bin", "idx" for a pair of `volt binarize`, or "text".

    Raises CorpusError for a file that belongs to another, or lacks another.
    """
    if not is_file(path):  # a pipe can be read only once
        return "text"
    if path.endswith(_OFFSETS):
        raise CorpusError(
            f"{shown_path(path)}: offsets, not ids; give {shown_path(path.removesuffix(_OFFSETS))}"
        )
    head = read_start(path, HEAD_SIZE)
    if head.startswith(MAGIC_PREFIX):
        return "npy"
    if mark_of(path + _OFFSETS):
        return "bin"
    if Path(path).suffix in (BIN, IDX):
        index = prefix_of(path) + IDX
        if mark_of(index):
            return "idx"
        if b"\0" in head:
            raise CorpusError(
                f"{shown_path(path)}: ids without lines; copy {shown_path(path + _OFFSETS)} of volt "
                f"encode, or {shown_path(index)} of volt binarize, to the same folder"
            )
    return "text"


def open_arrays(path: str, form: str) -> Arrays:
    """Map the ids of lines into memory. Return them with the offsets of the lines.

    form: "npy", "bin" or "idx"
    Raises CorpusError if a file is unreadable or damaged, or the files do not belong together.
    """
    if form == "idx":
        pair = open_ids(path)
        return pair.span(0, len(pair))
    offsets = _map_array(path + _OFFSETS, np.int64)
    if form == "npy":
        ids = _map_array(path, np.int32)
        n_bytes = ids.nbytes
    else:
        ids = np.fromfile(path, "<i4")
        n_bytes = size_of(path) or 0
    required = ids.itemsize * max(offsets, default=-1)
    if n_bytes != required or offsets[0]:
        raise CorpusError(
            f"{shown_path(path)}: has {n_bytes:,} bytes of ids, but "
            f"{shown_path(path + _OFFSETS)} requires {required:,}; {_AGAIN}"
        )
    return ids, offsets


def _map_array(path: str, dtype: type) -> Array:
    try:
        array = open_memmap(path, mode="r")
    except (OSError, ValueError) as error:
        raise unreadable(path, error, kind=CorpusError, remedy=_AGAIN) from None
    if array.dtype != dtype or array.ndim != 1:
        raise CorpusError(
            f"{shown_path(path)}: a {array.ndim}-D array of {array.dtype}, not a 1-D array of "
            f"{np.dtype(dtype)}; {_AGAIN}"
        )
    return array


class OutputManifest:
    """The origins of the outputs in a folder, by the name of the output."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / MANIFEST
        self._origins = read_origins(folder)
        self._n_unsaved = 0

    def is_up_to_date(self, output: Path, origin: Origin, form: str) -> bool:
        """Check that an output is complete and unchanged, and has this origin."""
        files = _describe_files(output, form)
        if files is None:
            return False
        return self._origins.get(output.name) == origin | {"files": files}

    def plan(self, origins: Mapping[str, Origin]) -> None:
        """Record outputs before they are written: a killed process may leave incomplete files."""
        self._origins |= origins
        self._save()

    def add(self, output: Path, origin: Origin, form: str) -> None:
        """Record an output that is complete."""
        entry = {output.name: origin | {"files": _describe_files(output, form)}}
        self._origins |= entry
        self._n_unsaved += 1
        if url_of(self._path) is None:
            append(self._path, f"\n{json.dumps(entry, sort_keys=True)}".encode())
        elif self._n_unsaved >= _MOST_UNSAVED * len(self._origins):
            self._save()

    def close(self) -> None:
        """Write the manifest as one object. If that fails, the next run repeats the outputs."""
        if self._n_unsaved:
            with suppress(OutputError):
                self._save()

    def _save(self) -> None:
        with write_atomic(self._path) as file:
            file.write(json.dumps(self._origins, sort_keys=True).encode())
        self._n_unsaved = 0


def read_origins(folder: Path) -> dict[str, Origin]:
    """Return the origins in a folder's manifest, as far as it is valid, by outputs' names."""
    origins = dict[str, Any]()
    end = 0
    with suppress(OutputError, TypeError, ValueError):
        text = read_bytes(folder / MANIFEST, kind=OutputError).decode()
        while end < len(text):
            entries, end = json.JSONDecoder().raw_decode(text, end)
            origins |= entries
            end += text.startswith("\n", end)
    return {name: origin for name, origin in origins.items() if isinstance(origin, dict)}


def _describe_files(output: Path, form: str) -> list[list[int]] | None:
    """Return the size and time of change of each file of an output; None if one does not exist."""
    descriptions = []
    for file in list_output_files(output, form):
        mark = mark_of(file) if is_file(file) else None
        if mark is None:
            return None
        descriptions.append(list(mark))
    return descriptions
