"""Text → sentences of ids as fairseq or Megatron reads them, in files NAME.bin and NAME.idx.

    "low t"   →   [bos, token of the language, 6, 7, 0, eos]   each special token only if wanted

The files are written by `volt.files.indexed_dataset`. Each line becomes a sentence. An empty line
becomes the special tokens alone, so line i stays aligned with line i of its translation. Megatron's
index also contains documents, which are one or more sentences: a line, a file, or the lines up to a
blank line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from volt import arguments
from volt.encode.arrays import ends_to_sizes
from volt.encode.encoder import Encoder
from volt.encode.files import (
    EncodedChunks,
    EncodeJob,
    Parts,
    Progress,
    check_arguments,
    check_input_paths,
    check_outputs,
    encode_to_parts,
    name_outputs,
    take_one_file,
)
from volt.encode.frames import Frame
from volt.errors import ConfigError
from volt.files.atomic import make_folder
from volt.files.indexed_dataset import BIN, IDX, check_dtype, dtype_for, prefix_of, write_ids

Documents = Literal["line", "file", "blank"]
_JOB = EncodeJob(form="bin")
_UNKNOWN_TO_MEGATRON = ("u32", "u64")


@dataclass(frozen=True, slots=True)
class Binarized:
    """Summary of the .bin and .idx files just written.

    n_lines: sentences
    n_ids: ids in all sentences, including bos, language and eos tokens
    n_documents: None if the index is fairseq's
    """

    prefix: Path
    n_lines: int
    n_ids: int
    dtype: str
    n_documents: int | None = None


def binarize(
    encoder: Encoder,
    paths: Iterable[str],
    prefix: Path,
    *,
    frame: Frame | None = None,
    dtype: str | None = None,
    documents: Documents | None = None,
    job: EncodeJob = _JOB,
    progress: Progress | None = None,
    parts: Parts | None = None,
) -> Binarized:
    """Encode files, in order, into one pair of files.

    prefix: the path of the pair, without .bin and .idx
    frame: the special tokens around each line; by default eos after each line
    dtype: the type of the ids; by default u16 for fewer than 65,500 ids, else i32
    documents: None writes fairseq's index. The others write Megatron's, in which a document is a
        line, the lines of a file, or the lines up to a blank line or the end of a file. Blank
        lines, which have no ids of text, then only separate documents. No document is empty.
    parts: see `encode_stream`
    Raises ConfigError if the ids do not fit `dtype` or an output is an input; OutputError if
    writing fails.
    """
    check_arguments(encoder, job)
    paths = check_input_paths(paths, job)
    prefix = Path(arguments.path(prefix, "prefix"))
    check_outputs(pair_files(prefix), paths)
    write_pair = _build_pair_writer(encoder, job, frame, dtype, documents)
    encode = parts or encode_to_parts
    return write_pair(prefix, encode(encoder, paths, job, progress=progress))


def binarize_each(
    encoder: Encoder,
    paths: Iterable[str],
    folder: Path,
    *,
    frame: Frame | None = None,
    dtype: str | None = None,
    documents: Documents | None = None,
    job: EncodeJob = _JOB,
    progress: Progress | None = None,
    write: Callable[..., Iterator[Any]] | None = None,
) -> Iterator[Binarized]:
    """Encode each file into a pair of the file's name in `folder`, which is created if needed.

    frame, dtype, documents: see `binarize`
    write: writes the pairs, in any order; `volt.ext.ray.RayWriter().each`, or None for this process
    """
    check_arguments(encoder, job)
    outputs = name_outputs(check_input_paths(paths, job), folder, "")
    files = [file for output in outputs.values() for file in pair_files(output)]
    check_outputs(files, outputs)
    write_pair = _build_pair_writer(encoder, job, frame, dtype, documents)
    make_folder(folder)
    if write:
        write_one = partial(_encode_pair, encoder=encoder, write_pair=write_pair)
        report = progress or (lambda _: None)
        for _, pair in write(write_one, outputs, job, report, files=pair_files):
            yield pair
        return
    parts = encode_to_parts(encoder, outputs, job, restart=True, progress=progress)
    for output in outputs.values():
        yield write_pair(output, take_one_file(parts))


def pair_files(prefix: Path) -> list[Path]:
    """Return the two files of a pair.

    prefix: the path of the pair, without .bin and .idx, or one of the two files
    """
    name = prefix_of(prefix)
    return [Path(name + BIN), Path(name + IDX)]


def _build_pair_writer(
    encoder: Encoder,
    job: EncodeJob,
    frame: Frame | None,
    dtype: str | None,
    documents: Documents | None,
) -> Callable[..., Binarized]:
    """Check the options. Return the function that writes encoded lines into a pair of files."""
    if frame is None:
        frame = Frame.of(encoder.vocabulary, eos=encoder.vocabulary.special.eos)
    remedy = "give a Frame, or None for the vocabulary's eos"
    frame = arguments.instance(frame, Frame, "frame", remedy=remedy)
    largest = max(frame.front + frame.back, default=0)
    n_ids = max(len(encoder.vocabulary), largest + 1)
    dtype = dtype or dtype_for(n_ids)
    check_dtype(dtype, n_ids)
    if documents is not None:
        arguments.choice(documents, "documents", get_args(Documents))
        if dtype in _UNKNOWN_TO_MEGATRON:
            fault = f"Megatron does not read the dtype {dtype!r}"
            raise ConfigError(f"{fault}; pass", hint={"dtype": "i64"})
        if documents == "blank" and (job.bos or job.eos or job.pad_to):
            raise ConfigError(
                "documents='blank' needs blank lines, but bos, eos or pad_to in the job fill them; "
                "pass bos and eos as a frame instead"
            )
    return partial(_write_pair, frame=frame, dtype=dtype, documents=documents)


def _encode_pair(
    path: str,
    prefix: Path,
    job: EncodeJob,
    *,
    encoder: Encoder,
    write_pair: Callable[..., Binarized],
) -> Binarized:
    return write_pair(prefix, encode_to_parts(encoder, [path], job, restart=True))


def _write_pair(
    prefix: Path,
    parts: EncodedChunks,
    *,
    frame: Frame,
    dtype: str,
    documents: Documents | None,
) -> Binarized:
    n_lines = 0
    n_ids = 0
    n_documents = 0
    next_starts_document = True
    with write_ids(prefix, dtype=dtype, has_documents=documents is not None) as writer:
        for chunk, part in parts:
            is_sentence = (ends_to_sizes(part.ends) > 0) | (documents != "blank")
            ends_document = ~is_sentence | (documents == "line")
            starts_document = np.append(next_starts_document, ends_document)
            next_starts_document = bool(starts_document[-1]) or chunk.ends_file

            starts = starts_document[:-1][is_sentence]
            ids, ends = frame.fit(part.values, part.ends[is_sentence])
            writer.add(ids, ends_to_sizes(ends), starts_document=starts)
            n_lines += len(ends)
            n_ids += len(ids)
            n_documents += int(starts.sum())
    return Binarized(
        prefix=Path(prefix_of(prefix)),
        n_lines=n_lines,
        n_ids=n_ids,
        dtype=dtype,
        n_documents=None if documents is None else n_documents,
    )
