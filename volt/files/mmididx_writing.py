"""Sentences of ids → NAME.bin and NAME.idx, as `volt.files.mmididx` describes them; both whole, or as they were.

>>> dtype_for(65_499), dtype_for(65_500)
('u16', 'i32')
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.errors import ConfigError, shown_path
from volt.files.atomic import retire, write_atomic
from volt.files.destination import follow
from volt.files.mmididx import BIN, CODES, HEAD, IDX, MAGIC, VERSION, dtype_of, prefix_of

_SPAN = 1 << 18  # sentences whose pointers are written at a time
_MOST_SMALL = 65_500  # ids that u16 is not taken for, as in fairseq: it leaves room for tokens that are added


def dtype_for(n_ids: int) -> str:
    """The kind of number that ids of a vocabulary are kept as. n_ids: how many there are."""
    return "u16" if n_ids < _MOST_SMALL else "i32"


def check_dtype(dtype: str, n_ids: int) -> None:
    """Raise ConfigError unless a kind of number holds the ids below `n_ids`.

    >>> check_dtype("u8", 300)
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: dtype='u8' holds ids up to 255, and there are ids up to 299; choose dtype='u16'
    """
    most = int(np.iinfo(dtype_of(arguments.choice(dtype, "dtype", tuple(CODES)))).max)
    if n_ids - 1 > most:
        found = f"dtype={dtype!r} holds ids up to {most:,}, and there are ids up to {n_ids - 1:,}"
        raise ConfigError(f"{found}; choose dtype={dtype_for(n_ids)!r}")


class IdsWriter:
    """Writes sentences one after the other; sizes, 4 bytes each, are kept until the end.

    data: what the ids are written to
    dtype: of the ids
    """

    def __init__(self, data: BinaryIO, dtype: str) -> None:
        self.dtype, self._data = dtype, data
        self._file_dtype = dtype_of(dtype)
        self._info = np.iinfo(self._file_dtype)
        self._sizes = list[NDArray[np.int32]]()

    def add(self, ids: NDArray[Any], sizes: NDArray[Any]) -> None:
        """Write sentences.

        ids: (n_ids,) whole numbers, of all of them, one sentence after the other
        sizes: (n,) ids per sentence
        Raises ConfigError if an id does not fit the kind of number, or the sizes do not make up the ids.
        """
        if len(sizes) and (int(sizes.min()) < 0 or int(sizes.max()) > np.iinfo(np.int32).max):
            raise ConfigError(f"a sentence of {int(sizes.min())} or {int(sizes.max()):,} ids; 0 to 2^31 − 1 can be")
        if int(sizes.sum()) != len(ids):
            raise ConfigError(f"sizes sum up to {int(sizes.sum()):,}, and there are {len(ids):,} ids; give all of both")
        for id_ in (int(ids.min()), int(ids.max())) if len(ids) else ():
            if not self._info.min <= id_ <= self._info.max:
                held = f"{self.dtype} holds {int(self._info.min):,} to {int(self._info.max):,}"
                raise ConfigError(f"id {id_:,} does not fit: {held}; choose another dtype")
        self._data.write(ids.astype(self._file_dtype, copy=False).tobytes())
        self._sizes.append(sizes.astype("<i4"))

    def write_index(self, file: BinaryIO) -> None:
        """Write what .idx holds."""
        sizes = np.concatenate([np.zeros(0, "<i4"), *self._sizes])
        file.write(HEAD.pack(MAGIC, VERSION, CODES[self.dtype], len(sizes)))
        file.write(sizes.tobytes())
        before = 0
        for first in range(0, len(sizes), _SPAN):
            ends = before + self._file_dtype.itemsize * np.cumsum(sizes[first : first + _SPAN], dtype=np.int64)
            file.write(np.concatenate([[before], ends[:-1]]).astype("<i8").tobytes())
            before = int(ends[-1])


@contextmanager
def write_ids(path: str | os.PathLike[str], *, dtype: str) -> Iterator[IdsWriter]:
    """What writes NAME.bin and NAME.idx, which take their places when the block ends, and vanish if it fails.

    A kill at any moment leaves the old pair, the new pair, or no .idx, without which no .bin is read.
    path: NAME, or that of either file
    dtype: u8, i8, i16, i32, i64, u16, u32 or u64
    Raises OutputError if a file cannot be written, ConfigError if one is to be a pipe or a device.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with write_ids(f"{folder}/a", dtype="u8") as writer:
    ...         writer.add(np.array([5, 2]), np.array([2]))
    ...     sorted(os.listdir(folder))
    ['a.bin', 'a.idx']
    """
    arguments.choice(dtype, "dtype", tuple(CODES))
    prefix = prefix_of(path)
    for ending in (BIN, IDX):
        _refuse_pipe(prefix + ending)
    with write_atomic(prefix + IDX) as index, write_atomic(prefix + BIN) as data:
        writer = IdsWriter(data, dtype)
        yield writer
        writer.write_index(index)
        retire(prefix + IDX, data, index)


def _refuse_pipe(path: str) -> None:
    """Raise ConfigError if a path leads to a pipe or a device."""
    with suppress(OSError, ValueError):  # writing reports it
        if follow(path).is_written_through:
            raise ConfigError(f"{shown_path(path)}: no file, and ids are two of them; name files")
