"""Text → sentences of ids as fairseq and Megatron read them: NAME.bin and NAME.idx (`volt.files.indexed_dataset`).

Each line becomes a sentence: bos, a language's token, the ids of the line, eos. An empty line becomes the
special tokens alone, so line i stays aligned with line i of its translation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from volt import arguments
from volt.encode.batch_encoder import EncodedPart
from volt.encode.chunks import Chunk
from volt.encode.encoder import Encoder
from volt.encode.files import (
    EncodeJob,
    Parts,
    Progress,
    check_both,
    check_outputs,
    encoded_parts,
    input_paths,
    of_one_file,
    outputs_of,
)
from volt.encode.frames import Frame
from volt.files.atomic import make_folder
from volt.files.indexed_dataset import BIN, IDX, check_dtype, dtype_for, prefix_of, write_ids

_JOB = EncodeJob(form="bin")


@dataclass(frozen=True, slots=True)
class Binarized:
    """Summary of the .bin and .idx files just written.

    n_ids: ids in all sentences, including bos, language and eos tokens
    """

    prefix: Path
    n_lines: int
    n_ids: int
    dtype: str


def binarize(
    encoder: Encoder, paths: Iterable[str], prefix: Path, *, frame: Frame | None = None, dtype: str | None = None,
    job: EncodeJob = _JOB, progress: Progress | None = None, parts: Parts | None = None,
) -> Binarized:  # fmt: skip
    """Encode files, in order, into one pair of files.

    prefix: the path of the pair, without .bin and .idx
    frame: the special tokens around each line; by default eos after each line
    dtype: the type of the ids; by default u16 for fewer than 65,500 ids, else i32
    parts: see `encode_stream`
    Raises ConfigError if the ids do not fit `dtype` or an output is an input; OutputError if writing fails.
    """
    paths, prefix = input_paths(paths), Path(arguments.path(prefix, "prefix"))
    check_both(encoder, job)
    check_outputs(pair_files(prefix), paths)
    frame, dtype = _resolved(encoder, frame, dtype)
    encode = parts or encoded_parts
    return _write(prefix, encode(encoder, paths, job, restart=False, progress=progress), frame, dtype)


def binarize_each(
    encoder: Encoder, paths: Iterable[str], folder: Path, *, frame: Frame | None = None, dtype: str | None = None,
    job: EncodeJob = _JOB, progress: Progress | None = None, write: Callable[..., Iterator[Any]] | None = None,
) -> Iterator[Binarized]:  # fmt: skip
    """Encode each file into a pair named after it in `folder`, created if needed. Options: see `binarize`.

    write: writes the pairs, in any order; `volt.ext.ray.RayWriter().each`, or None for this process
    """
    check_both(encoder, job)
    outputs = outputs_of(input_paths(paths), folder, "")
    check_outputs([file for output in outputs.values() for file in pair_files(output)], outputs)
    frame, dtype = _resolved(encoder, frame, dtype)
    make_folder(folder)
    if write:
        one = partial(_write_one, encoder=encoder, frame=frame, dtype=dtype)
        yield from (pair for _, pair in write(one, outputs, job, progress or (lambda _: None), files=pair_files))
        return
    parts = encoded_parts(encoder, outputs, job, restart=True, progress=progress)
    for output in outputs.values():
        yield _write(output, of_one_file(parts), frame, dtype)


def pair_files(prefix: Path) -> list[Path]:
    """Return the two files of a pair. prefix: their path without an ending, or one of the two files"""
    name = prefix_of(prefix)
    return [Path(name + BIN), Path(name + IDX)]


def _resolved(encoder: Encoder, frame: Frame | None, dtype: str | None) -> tuple[Frame, str]:
    if frame is not None:
        arguments.instance(frame, Frame, "frame", remedy="give a Frame, or None for the vocabulary's eos")
    frame = frame or Frame.of(encoder.vocabulary, eos=encoder.vocabulary.special.eos)
    n_ids = max([len(encoder.vocabulary), *(id_ + 1 for id_ in frame.front + frame.back)])
    dtype = dtype or dtype_for(n_ids)
    check_dtype(dtype, n_ids)
    return frame, dtype


def _write_one(path: str, prefix: Path, job: EncodeJob, *, encoder: Encoder, frame: Frame, dtype: str) -> Binarized:
    return _write(prefix, encoded_parts(encoder, [path], job, restart=True), frame, dtype)


def _write(prefix: Path, parts: Iterable[tuple[Chunk, EncodedPart]], frame: Frame, dtype: str) -> Binarized:
    n_lines = n_ids = 0
    with write_ids(prefix, dtype=dtype) as writer:
        for _, part in parts:
            ids, sizes = frame.around(part.values, part.ends)
            writer.add(ids, sizes)
            n_lines, n_ids = n_lines + len(sizes), n_ids + len(ids)
    return Binarized(Path(prefix_of(prefix)), n_lines, n_ids, dtype)
