"""Files with ids as arrays: find out which files belong together, read and refuse them.

    ids.npy   a numpy file of all ids, int32           ids.npy.offsets.npy   (n_lines + 1,) int64
    ids.bin   all ids as raw int32, little-endian      ids.bin.offsets.npy

Line i has ids[offsets[i]:offsets[i + 1]]. `volt binarize` writes other pairs: NAME.bin and
NAME.idx.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib.format import MAGIC_PREFIX, open_memmap

from volt.encode.arrays import Ints, Longs
from volt.errors import CorpusError, shown_path
from volt.files.indexed_dataset import BIN, IDX
from volt.files.paths import mark_of
from volt.files.small_files import read_start

Arrays = tuple[Ints, Longs]  # ids, and the offsets of lines
ARRAY_FORMS = ("npy", "bin")
_OFFSETS = ".offsets.npy"
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


def write_header(file: BinaryIO, n_ids: int) -> None:
    """Write the header of a numpy file of n_ids ids. The header's size does not depend on n_ids."""
    header = {"descr": "<i4", "fortran_order": False, "shape": (n_ids,)}
    np.lib.format.write_array_header_1_0(file, header)


def read_arrays(path: str, form: str) -> Arrays:
    """Return the ids of an output in the form npy or bin, and the offsets of its lines.

    Raises CorpusError if the files are unreadable, or do not belong together.
    """
    try:
        ids = open_memmap(path, mode="r") if form == "npy" else np.fromfile(path, "<i4")
        offsets = open_memmap(path + _OFFSETS, mode="r")
        has_types = [ids.dtype, offsets.dtype] == [np.int32, np.int64]
        is_valid = has_types and offsets[-1] == ids.size
    except (OSError, ValueError, IndexError):
        is_valid = False
    if not is_valid:
        offsets_path = shown_path(path + _OFFSETS)
        fault = f"{shown_path(path)}: not an array of form {form} whose offsets are {offsets_path}"
        raise CorpusError(f"{fault}; give an output of volt encode, or encode the text again")
    return ids, offsets


def refuse_arrays(path: str) -> None:
    """Raise CorpusError if a file contains ids as an array, not as text."""
    for partner in filter(mark_of, find_partners(Path(path))):
        if partner.name.endswith(_OFFSETS):
            form = "npy" if read_start(path, len(MAGIC_PREFIX)) == MAGIC_PREFIX else "bin"
            raise CorpusError(
                f"{shown_path(path)}: an array of ids; decode it with", hint={"form": form}
            )
        raise CorpusError(
            f"{shown_path(path)}: not text, but belongs to {shown_path(partner)}; decode ids of "
            "volt encode, and read those of volt binarize in Python, with "
            "volt.files.indexed_dataset.open_ids"
        )
