"""Files of text → files of pieces or ids: one output for all inputs, or one for each.

    a.txt  b.txt.gz   →   out/a.txt.ids  out/b.txt.ids   with `encode_each` and the form "ids"

    pieces, ids   text, one line for each input line
    npy, bin      ids as an array, and a file of offsets, see volt.encode.outputs

An output is written whole or not at all. A folder of outputs has a manifest (volt.encode.outputs);
up-to-date outputs are not rewritten.

The files are encoded as one sequence of chunks (see `encode_to_parts`): a chunk without text marks
the end of each file, so that threads encode small files together. A caller may have the files
encoded, or the outputs written, by other processes; volt.ext.ray does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import takewhile, tee
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from volt import arguments
from volt.arguments import MAX_LINE, checked_max_line
from volt.encode.arrays import EncodedPart
from volt.encode.batch_encoder import expand_rows
from volt.encode.chunks import NEWLINE, Chunk, check_threads, file_chunks
from volt.encode.encoder import Encoder
from volt.encode.frames import Frame, PaddedIds, role_id
from volt.encode.outputs import (
    ARRAY_FORMS,
    MANIFEST,
    Origin,
    OutputManifest,
    find_partners,
    list_output_files,
    read_origins,
    write_header,
)
from volt.encode.rendering import check_separator
from volt.encode.segmentation_sampling import ALL_PATHS, SegmentationSampling
from volt.encode.table_outputs import TableWriter
from volt.errors import ConfigError, CorpusError, shown_path
from volt.files.atomic import check_distinct, identity, make_folder, retire, write_atomic
from volt.files.blocks import Errors, Wait, is_ready
from volt.files.paths import mark_of, without_compression
from volt.files.ranges import FileRange
from volt.files.table_rows import TextColumns, refuse_table
from volt.files.tables import Kind, kind_of_name
from volt.urls import bare, name_of, url_of

Output = Literal["pieces", "ids", "npy", "bin"]
Progress = Callable[[int], object]  # gets the number of bytes of text encoded so far
EncodedChunks = Iterator[tuple[Chunk, EncodedPart]]
Parts = Callable[..., EncodedChunks]  # encodes files, like `encode_to_parts`
# Writes outputs, like `write_each`.
Write = Callable[[Encoder, Mapping[str, Path], "EncodeJob", Progress], Iterator[tuple[str, int]]]
# Options that do not change an output, or that `_find_common_origin` adds if they are used
_NOT_IN_ORIGIN = ("n_threads", "max_line", "as_table", "alpha", "nbest")
_IN_ORIGIN_IF_USED = ("bos", "eos", "truncate", "pad_to", "column", "fields", "to_column")


@dataclass(frozen=True, slots=True)
class EncodeJob:
    """Options for encoding files.

    form: pieces, ids, npy or bin
    separator, dropout, alpha, nbest, seed, n_threads: see `Encoder.encode_text`
    errors, max_line: see `Encoder.encode_file`
    bos, eos, truncate, pad_to: see `Encoder.encode_batch` and `Encoder.pad`; not for pieces
    column, fields: see `volt.count_words`; each text of a table is then a line. With several
        fields, pieces and ids are written as TSV, with the other fields
    to_column: writes the table, with a new column of this name
    as_table: whether the table is written, with the texts replaced unless there is `to_column`
    """

    form: Output = "pieces"
    separator: str = ""
    dropout: float = 0.0
    alpha: float | None = None
    nbest: int = ALL_PATHS
    seed: int | None = None
    errors: Errors = "strict"
    n_threads: int | None = None
    max_line: int | None = MAX_LINE
    bos: bool = False
    eos: bool = False
    truncate: int | None = None
    pad_to: int | None = None
    column: str | None = None
    fields: str | int | Iterable[int] | None = None
    to_column: str | None = None
    as_table: bool = False

    def __post_init__(self) -> None:
        arguments.choice(self.form, "output", get_args(Output))
        if check_separator(self.separator) and self.form != "pieces":
            raise ConfigError("a separator works only with pieces; remove it")
        if self.shapes_lines and self.form == "pieces":
            raise ConfigError(
                "bos, eos, truncate and pad_to work only with ids; choose the form ids, npy or bin"
            )
        self._check_table()
        check_threads(self.n_threads)
        self.check_sampling(is_unigram=self.alpha is not None)
        checked_max_line(self.max_line)

    def _check_table(self) -> None:
        fields = self.columns.fields
        object.__setattr__(self, "fields", fields)  # the dataclass is frozen
        if self.to_column is not None:
            arguments.text(self.to_column, "to_column")
            if self.column is None:
                raise ConfigError(
                    "to_column needs the column of a table; add", hint={"column": "text"}
                )
        if self.is_text:
            object.__setattr__(
                self, "as_table", self.as_table or len(fields) > 1 or self.to_column is not None
            )
        elif self.to_column is not None or self.as_table:
            raise ConfigError(f"{self.form} is not a table; choose the form pieces or ids")
        elif len(fields) > 1:
            raise ConfigError(
                f"fields {','.join(map(str, fields))} would be mixed in {self.form}; "
                "encode one field at a time, or choose the form pieces or ids"
            )

    def check_sampling(self, *, is_unigram: bool) -> None:
        """Raise ConfigError if a vocabulary's model, unigram or merges, cannot be sampled so."""
        SegmentationSampling.of(
            self.dropout, self.seed, self.alpha, self.nbest, is_unigram=is_unigram
        )

    @property
    def is_sampled(self) -> bool:
        return self.dropout > 0 or self.alpha is not None

    @property
    def columns(self) -> TextColumns:
        return TextColumns(self.column, self.fields)

    @property
    def is_text(self) -> bool:
        return self.form not in ARRAY_FORMS

    @property
    def has_lists(self) -> bool:
        """Return whether ids are written into a table, and not as text."""
        return self.as_table and self.form == "ids"

    @property
    def ending(self) -> str:
        """The ending of an output in a folder, after the name of its input."""
        return "" if self.to_column is not None else f".{self.form}"

    @property
    def shapes_lines(self) -> bool:
        """Return whether lines of ids get special tokens, or are truncated or padded."""
        return self.bos or self.eos or self.truncate is not None or self.pad_to is not None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The output of a file. n_lines: None if the output was up to date."""

    source: str
    output: Path
    n_lines: int | None


def encode_stream(
    encoder: Encoder,
    paths: Iterable[str],
    *,
    job: EncodeJob,
    progress: Progress | None = None,
    wait: Wait = is_ready,
    parts: Parts | None = None,
) -> Iterator[bytes]:
    """Yield the encoded lines of all files as text, in order, chunk by chunk.

    progress: called with the number of bytes of text encoded so far
    wait: the function that waits for a pipe; complete lines read before the wait are yielded first
    parts: encodes the files; by default `encode_to_parts`, in this process
    """
    check_arguments(encoder, job)
    if not job.is_text:
        raise ConfigError(
            f"{job.form} cannot go to a stream; name a file or a folder, or choose pieces or ids"
        )
    _refuse_remote_table(job, parts)
    encode = parts or partial(encode_to_parts, wait=wait)
    paths = check_input_paths(paths, job)
    encoded = encode(encoder, paths, job, progress=progress)
    for data, _ in _text_parts(encoded, job):
        yield data


def encode_one(
    encoder: Encoder,
    paths: Iterable[str],
    output: Path,
    *,
    job: EncodeJob,
    progress: Progress | None = None,
    parts: Parts | None = None,
) -> int:
    """Encode files into one file. Return the number of lines.

    progress, parts: see `encode_stream`
    Raises ConfigError if the output is an input, OutputError if it cannot be written.
    """
    check_arguments(encoder, job)
    paths = check_input_paths(paths, job)
    check_outputs(output_files(paths, output, job=job), paths)
    if job.columns and job.is_text and kind_of_name(output.name):
        job = replace(job, as_table=True)
    _refuse_remote_table(job, parts)
    encode = parts or encode_to_parts
    return _write(output, encode(encoder, paths, job, progress=progress), job)


def encode_each(
    encoder: Encoder,
    paths: Iterable[str],
    folder: Path,
    *,
    job: EncodeJob,
    progress: Progress | None = None,
    write: Write | None = None,
) -> Iterator[Outcome]:
    """Encode each file into a file of the same name in `folder`, which is created if needed.

    An output is rewritten only if the input, the vocabulary, an option or the output itself has
    changed. Paths of outputs that an earlier run wrote into the folder are skipped.

    progress: see `encode_stream`
    write: writes the outputs; by default `write_each`, in this process
    Raises ConfigError if two files share an output or an output is an input, OutputError if writing
    fails.
    """
    check_arguments(encoder, job)
    sources = without_outputs(check_input_paths(paths, job), folder)
    outputs = name_outputs(sources, folder, job.ending)
    check_outputs(output_files(outputs, folder, job=job, each=True), outputs)
    make_folder(folder)
    manifest = OutputManifest(folder)
    common = _find_common_origin(encoder, job)
    origins = {path: _find_origin(path, common) for path in outputs}
    outdated = {}
    for path, output in outputs.items():
        if manifest.is_up_to_date(output, origins[path], job.form):
            yield Outcome(path, output, None)
        else:
            outdated[path] = output
    if not outdated:
        return

    manifest.plan({output.name: origins[path] for path, output in outdated.items()})
    write = write or write_each
    try:
        for path, n_lines in write(encoder, outdated, job, progress or (lambda _: None)):
            manifest.add(outputs[path], origins[path], job.form)
            yield Outcome(path, outputs[path], n_lines)
    finally:
        manifest.close()


def _refuse_remote_table(job: EncodeJob, parts: Parts | None) -> None:
    if job.as_table and parts:
        raise ConfigError(
            "workers do not send tables; encode each file into a folder, or without Ray"
        )


def write_each(
    encoder: Encoder, outputs: Mapping[str, Path], job: EncodeJob, progress: Progress
) -> Iterator[tuple[str, int]]:
    """Write the output of each file, in order.

    outputs: file → its output
    Yield each file and its number of lines, once its output is complete.
    """
    parts = encode_to_parts(encoder, outputs, job, restart=True, progress=progress)
    for path, output in outputs.items():
        yield path, _write(output, take_one_file(parts), job)


def check_arguments(encoder: Encoder, job: EncodeJob) -> None:
    """Raise ArgumentError if `encoder` is not an Encoder, or `job` is not an EncodeJob.

    Raises ConfigError if the job samples another kind of model than the vocabulary's.
    """
    arguments.instance(encoder, Encoder, "encoder")
    remedy = "give an EncodeJob, such as volt.encode.files.EncodeJob(form='ids')"
    arguments.instance(job, EncodeJob, "job", remedy=remedy)
    job.check_sampling(is_unigram=encoder.vocabulary.is_unigram)


def check_input_paths(paths: Iterable[str | os.PathLike[str]], job: EncodeJob) -> list[str]:
    """Return the files to encode, as a list of paths.

    Raises ConfigError if there are no files; CorpusError for a table whose column is not named,
    before anything is written.
    """
    one = "did you mean [path]?"
    if isinstance(paths, os.PathLike):
        raise arguments.refusal(paths, "paths", one)
    listed = arguments.several(paths, "paths", one=one, remedy="give a list of paths")
    if not listed:
        raise ConfigError("paths is empty; name the files to encode")
    result = [arguments.path(path, f"paths[{index}]") for index, path in enumerate(listed)]
    if not job.columns:
        for path in result:
            refuse_table(path)
    return result


def without_outputs(paths: Sequence[str], folder: Path) -> list[str]:
    """Return the paths except outputs that an earlier `encode_each` wrote into the folder."""
    output_names = set[str]()
    for name, origin in read_origins(folder).items():
        files = list_output_files(Path(name), origin.get("form", ""))
        output_names.update(file.name for file in files)
    suspects = {path for path in paths if name_of(path) in output_names}
    outputs = {identity(folder / name_of(path)) for path in suspects}
    return [path for path in paths if path not in suspects or identity(path) not in outputs]


def name_outputs(paths: Iterable[str], folder: Path, ending: str) -> dict[str, Path]:
    """Return each file's output: folder/NAME + ending, where NAME has no ending of compression.

    Raises ConfigError if two files would share an output.
    """
    outputs = {}
    taken = set[Path]()
    for path in paths:
        if path == "-":
            raise ConfigError(
                "stdin has no name for an output in a folder; name a file to write to"
            )
        output = folder / f"{without_compression(name_of(path))}{ending}"
        if output in taken:
            raise ConfigError(
                f"{path}: another file has the same output, {output}; give the files different names"
            )
        outputs[path] = output
        taken.add(output)
    return outputs


def output_files(
    paths: Iterable[str], output: Path, *, job: EncodeJob, each: bool = False
) -> list[Path]:
    """Return the files that `encode_one` writes, or with `each`, that `encode_each` writes."""
    if not each:
        return list_output_files(output, job.form)
    outputs = name_outputs(paths, output, job.ending).values()
    files = [file for path in outputs for file in list_output_files(path, job.form)]
    return [*files, output / MANIFEST]


def check_outputs(outputs: Sequence[Path], inputs: Iterable[str]) -> None:
    """Raise ConfigError if an output is an input, or if it would make another file outdated.

    That file belongs to the output, such as its offsets, exists, and is not an output itself.
    """
    check_distinct(outputs, inputs)
    written = set(outputs)
    for output in outputs:
        for partner in find_partners(output):
            if partner not in written and mark_of(partner) is not None:
                fault = f"{shown_path(output)}: belongs to {shown_path(partner)}"
                raise ConfigError(
                    f"{fault}, which would no longer fit it; choose another name, or remove both"
                )


def encode_to_parts(
    encoder: Encoder,
    paths: Iterable[str | FileRange],
    job: EncodeJob,
    *,
    restart: bool = False,
    progress: Progress | None = None,
    wait: Wait = is_ready,
) -> EncodedChunks:
    """Yield each chunk of the files with its encoded lines.

    After each file, a chunk without text, whose `ends_file` is True, is yielded.

    restart: whether the numbers of lines, for sampling, start again with each file
    progress, wait: see `encode_stream`
    """
    chunks, copies = tee(_read_chunks(paths, job, restart=restart, wait=wait))
    shape_lines = _build_line_shaper(encoder, job) if job.shapes_lines else None
    options: dict[str, Any] = {
        "dropout": job.dropout,
        "alpha": job.alpha,
        "nbest": job.nbest,
        "seed": job.seed,
        "n_threads": job.n_threads,
    }
    if job.is_text and not job.has_lists and not shape_lines:
        options |= {"form": job.form, "separator": job.separator}
        parts = encoder.text_parts(chunks, **options)
    else:
        parts = encoder.encode_parts(chunks, **options)

    n_bytes = 0
    for part, chunk in zip(parts, copies, strict=False):  # a copy is read after its chunk
        if chunk.rows and not job.as_table:
            _refuse_line_ends(chunk, part)
        yield chunk, shape_lines(part, chunk) if shape_lines else part
        n_bytes += len(chunk.text)
        if progress:
            progress(n_bytes)


def _refuse_line_ends(chunk: Chunk, part: EncodedPart) -> None:
    """Raise CorpusError if a line end is part of a piece, so that its text would be two lines."""
    if part.values.dtype != np.uint8:
        return
    line_ends = np.flatnonzero(part.values == NEWLINE) + 1
    if len(line_ends) > len(part.ends):
        index = int(np.argmax(line_ends[: len(part.ends)] != part.ends))
        raise CorpusError(
            f"{chunk.place(index)}: a piece contains a line end, so the text would be two lines; "
            "write ids, or a table"
        )


def take_one_file(parts: EncodedChunks) -> EncodedChunks:
    """Yield the encoded chunks up to the end of the current file."""
    return takewhile(lambda pair: not pair[0].ends_file, parts)


def _read_chunks(
    paths: Iterable[str | FileRange], job: EncodeJob, *, restart: bool, wait: Wait
) -> Iterator[Chunk]:
    first = 0
    for path in paths:
        chunks = file_chunks(
            path,
            errors=job.errors,
            first=0 if restart else first,
            numbered=job.is_sampled,
            max_line=job.max_line,
            wait=wait,
            columns=job.columns,
            keeps_columns=job.as_table,
        )
        for chunk in chunks:
            if job.is_sampled:
                first = chunk.next_line
            yield chunk
        yield Chunk(b"", first=first, ends_file=True)


def _build_line_shaper(
    encoder: Encoder, job: EncodeJob
) -> Callable[[EncodedPart, Chunk], EncodedPart]:
    """Return a function that puts bos and eos around lines of ids, and truncates and pads them.

    If the output is text, the function also spells the ids.
    """
    frame = Frame.of_roles(encoder.vocabulary, bos=job.bos, eos=job.eos)
    pad = None if job.pad_to is None else role_id(encoder.vocabulary, "pad")
    texts = []
    if job.is_text and not job.has_lists:
        texts = [f"{number} ".encode() for number in range(len(encoder.vocabulary))]
    text_starts = np.cumsum([0, *map(len, texts)])
    all_text = np.frombuffer(b"".join(texts), np.uint8)

    def shape_lines(part: EncodedPart, chunk: Chunk) -> EncodedPart:
        ids, ends = frame.fit(part.values, part.ends, truncate=job.truncate)
        if pad is not None and len(ends):
            rows = PaddedIds.of(
                ids,
                ends,
                pad=pad,
                pad_to=job.pad_to,
                place=chunk.place,
            ).ids
            ids = rows.ravel()
            ends = np.arange(1, len(rows) + 1) * rows.shape[1]
        if texts:
            return expand_rows(ids, ends, text_starts, all_text)
        return EncodedPart(ids, ends)

    return shape_lines


def _write(output: Path, parts: EncodedChunks, job: EncodeJob) -> int:
    """Write encoded lines into an output. Return the number of lines, or of rows of a table."""
    if not job.is_text:
        return _write_arrays(output, parts, job)
    n_lines = 0
    with write_atomic(output) as file:
        for data, n_new in _text_parts(parts, job, kind=kind_of_name(output.name)):
            file.write(data)
            file.flush()  # it may be a pipe, whose reader waits
            n_lines += n_new
    return n_lines


def _text_parts(
    parts: EncodedChunks, job: EncodeJob, *, kind: Kind | None = None
) -> Iterator[tuple[bytes, int]]:
    """Yield the bytes of lines, or of a table, in parts, and the number of lines or rows of each.

    kind: of the table; None for any
    """
    writer = TableWriter(job.columns, to_column=job.to_column, kind=kind)
    for chunk, part in parts:
        if not job.as_table:
            yield part.values.tobytes(), len(part.ends)
        elif chunk.rows:
            yield writer.add(chunk.rows, part), len(chunk.rows.lines)
        else:
            yield b"", 0
    yield writer.close(), 0


def _write_arrays(output: Path, parts: EncodedChunks, job: EncodeJob) -> int:
    offsets = [np.zeros(1, np.int64)]
    n_ids = 0
    with write_atomic(output, only_file=True) as file:
        if job.form == "npy":
            write_header(file, 0)  # replaced below, once the number of ids is known
        for _, part in parts:
            file.write(part.values.astype("<i4", copy=False).view(np.uint8).data)
            offsets.append(part.ends + n_ids)
            n_ids += len(part.values)
        if job.form == "npy":
            file.seek(0)
            write_header(file, n_ids)
            file.seek(0, os.SEEK_END)
        _, offsets_path = list_output_files(output, job.form)
        with write_atomic(offsets_path) as offsets_file:
            np.save(offsets_file, np.concatenate(offsets))
            retire(output, file, offsets_file)
    return sum(map(len, offsets)) - 1


def _find_common_origin(encoder: Encoder, job: EncodeJob) -> Origin:
    """Return what all outputs depend on: the vocabulary, and the job's options."""
    origin: Origin = {"vocabulary": encoder.vocabulary.fingerprint}
    for name, value in asdict(job).items():
        if name not in _NOT_IN_ORIGIN and (value or name not in _IN_ORIGIN_IF_USED):
            origin[name] = list(value) if isinstance(value, tuple) else value
    if job.alpha is not None:
        origin |= {"alpha": job.alpha, "nbest": job.nbest}
    return origin


def _find_origin(path: str, common: Origin) -> Origin:
    mark = mark_of(path)
    if mark is None:
        return {}
    n_bytes, modified = mark
    source = bare(path) if url_of(path) else os.path.abspath(path)
    return {"source": source, "bytes": n_bytes, "modified": modified, **common}
