"""Files → encoded files: one output for all inputs, or one for each. An output is written whole or not at all.

    pieces, ids   text, one line for each input line
    npy           a numpy file of all ids
    bin           all ids as raw int32, little-endian

npy and bin have a second file, OUTPUT.offsets.npy, such as ids.npy.offsets.npy, (n_lines + 1,) int64: line i has
ids[offsets[i]:offsets[i + 1]].
A folder of outputs has a manifest with their origins; up-to-date outputs are not rewritten.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import takewhile, tee
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

import numpy as np
from numpy.lib.format import MAGIC_PREFIX, open_memmap

from volt import arguments
from volt.arguments import MAX_LINE, checked_max_line
from volt.encode.arrays import Ints, Longs
from volt.encode.batch_encoder import Dropout, EncodedPart, expanded
from volt.encode.chunks import Chunk, checked_threads, file_chunks
from volt.encode.encoder import Encoder
from volt.encode.frames import Frame, PaddedIds, role_id
from volt.encode.rendering import checked_separator
from volt.errors import ConfigError, CorpusError, OutputError, shown_path
from volt.files.atomic import (
    append,
    check_distinct,
    follow,
    identity,
    make_folder,
    retire,
    write_atomic,
)
from volt.files.blocks import Errors, Wait, is_ready
from volt.files.indexed_dataset import BIN, IDX
from volt.files.paths import is_file, mark_of
from volt.files.ranges import FileRange
from volt.files.small_files import read_bytes, read_start
from volt.files.tables import refuse_json_lines
from volt.urls import bare, name_of, url_of

Output = Literal["pieces", "ids", "npy", "bin"]
Progress = Callable[[int], object]
Origin = dict[str, Any]  # all that an output depends on
EncodedChunks = Iterator[tuple[Chunk, EncodedPart]]
Parts = Callable[..., EncodedChunks]
Write = Callable[[Encoder, Mapping[str, Path], "EncodeJob", Progress], Iterator[tuple[str, int]]]
_MANIFEST = ".volt-encoded.json"
_MOST_UNSAVED = 1 / 8
_ARRAYS = ("npy", "bin")
_OFFSETS = ".offsets.npy"
_TEXTS = (".pieces", ".ids")
_NOT_IN_MANIFEST = ("n_threads", "max_line")
_ONLY_IF_USED = ("bos", "eos", "truncate", "pad_to")  # a manifest names these only if in use
_COMPRESSED = (".gz", ".bz2", ".zst", ".xz")


@dataclass(frozen=True, slots=True)
class EncodeJob:
    """Options for encoding files.

    form: pieces, ids, npy or bin
    separator, dropout, seed, errors, n_threads, max_line: see `Encoder.encode_text` and `Encoder.encode_file`
    bos, eos, truncate, pad_to: see `Encoder.encode_batch` and `Encoder.pad`; not for pieces
    """

    form: Output = "pieces"
    separator: str = ""
    dropout: float = 0.0
    seed: int | None = None
    errors: Errors = "strict"
    n_threads: int | None = None
    max_line: int | None = MAX_LINE
    bos: bool = False
    eos: bool = False
    truncate: int | None = None
    pad_to: int | None = None

    def __post_init__(self) -> None:
        arguments.choice(self.form, "output", get_args(Output))
        if checked_separator(self.separator) and self.form != "pieces":
            raise ConfigError("a separator works only with pieces; remove it")
        if self.shapes_lines and self.form == "pieces":
            raise ConfigError(
                "bos, eos, truncate and pad_to work only with ids; choose the form ids, npy or bin"
            )
        checked_threads(self.n_threads)
        Dropout.of(self.dropout, self.seed)
        checked_max_line(self.max_line)

    @property
    def is_text(self) -> bool:
        return self.form not in _ARRAYS

    @property
    def shapes_lines(self) -> bool:
        """Return whether lines get special tokens, or are cut or padded."""
        return self.bos or self.eos or self.truncate is not None or self.pad_to is not None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The output of a file. n_lines: None if the output was up to date."""

    source: str
    output: Path
    n_lines: int | None


def check_both(encoder: Encoder, job: EncodeJob) -> None:
    arguments.instance(encoder, Encoder, "encoder")
    remedy = "give an EncodeJob, such as volt.encode.files.EncodeJob(form='ids')"
    arguments.instance(job, EncodeJob, "job", remedy=remedy)


def input_paths(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the files to encode. Raises ConfigError if there are no files, CorpusError for JSON lines."""
    one = "did you mean [path]?"
    if isinstance(paths, os.PathLike):
        raise arguments.refusal(paths, "paths", one)
    listed = arguments.several(paths, "paths", one=one, remedy="give a list of paths")
    if not listed:
        raise ConfigError("paths is empty; name the files to encode")
    result = [arguments.path(path, f"paths[{place}]") for place, path in enumerate(listed)]
    for path in result:
        refuse_json_lines(path)
    return result


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
    parts: encodes the files; by default `encoded_parts`, in this process
    """
    check_both(encoder, job)
    if not job.is_text:
        raise ConfigError(
            f"{job.form} cannot go to a stream; name a file or a folder, or choose pieces or ids"
        )
    encode = parts or partial(encoded_parts, wait=wait)
    for _, part in encode(encoder, input_paths(paths), job, restart=False, progress=progress):
        yield part.values.tobytes()


def encode_one(
    encoder: Encoder,
    paths: Iterable[str],
    output: Path,
    *,
    job: EncodeJob,
    progress: Progress | None = None,
    parts: Parts | None = None,
) -> int:
    """Encode files into one file. Returns the number of lines.

    parts: see `encode_stream`
    Raises ConfigError if the output is an input, OutputError if it cannot be written.
    """
    check_both(encoder, job)
    paths = input_paths(paths)
    check_outputs(output_files(paths, output, job=job), paths)
    encode = parts or encoded_parts
    return _write(output, encode(encoder, paths, job, restart=False, progress=progress), job)


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

    An output is rewritten only if the input, the vocabulary, an option or the output itself has changed.
    Paths that are outputs of an earlier run into the folder are skipped.
    write: writes the outputs; by default `write_each`, in this process
    Raises ConfigError if two files share an output or an output is an input, OutputError if writing fails.
    """
    check_both(encoder, job)
    outputs = outputs_of(without_outputs(input_paths(paths), folder), folder, f".{job.form}")
    check_outputs(output_files(outputs, folder, job=job, each=True), outputs)
    make_folder(folder)
    manifest = _Manifest(folder)
    common = _common_origin(encoder, job)
    origins = {path: _origin(path, common) for path in outputs}
    missing = {}
    for path, output in outputs.items():
        if manifest.has(output, origins[path], job):
            yield Outcome(path, output, None)
        else:
            missing[path] = output
    if not missing:
        return

    manifest.plan({output.name: origins[path] for path, output in missing.items()})
    write = write or write_each
    try:
        for path, n_lines in write(encoder, missing, job, progress or (lambda _: None)):
            output = outputs[path]
            marks = _marks(output, job.form)
            manifest.add(output.name, origins[path] | {"files": marks})
            yield Outcome(path, output, n_lines)
    finally:
        manifest.close()


def without_outputs(paths: Sequence[str], folder: Path) -> list[str]:
    """Leave out the files that an earlier `encode_each` wrote into the folder, by its manifest."""
    written = set[str]()
    for name, origin in _read_manifest(folder).items():
        files = _files_of(Path(name), origin.get("form", ""))
        written.update(file.name for file in files)
    suspects = {path for path in paths if name_of(path) in written}
    own = {identity(folder / name_of(path)) for path in suspects}
    return [path for path in paths if path not in suspects or identity(path) not in own]


def write_each(
    encoder: Encoder, outputs: Mapping[str, Path], job: EncodeJob, progress: Progress
) -> Iterator[tuple[str, int]]:
    """Write each file's output, in order. Yields each file and its number of lines once the output is complete."""
    parts = encoded_parts(encoder, outputs, job, restart=True, progress=progress)
    for path, output in outputs.items():
        yield path, _write(output, of_one_file(parts), job)


def output_files(
    paths: Iterable[str], output: Path, *, job: EncodeJob, each: bool = False
) -> list[Path]:
    """Return the files that `encode_one` writes; with `each`, the files that `encode_each` writes."""
    if not each:
        return _files_of(output, job.form)
    outputs = outputs_of(paths, output, f".{job.form}").values()
    files = [file for path in outputs for file in _files_of(path, job.form)]
    return [*files, output / _MANIFEST]


def _files_of(output: Path, form: str) -> list[Path]:
    if form not in _ARRAYS or not output.name:  # writing to the current folder raises an error
        return [output]
    return [output, output.with_name(output.name + _OFFSETS)]


def check_outputs(outputs: Sequence[Path], inputs: Iterable[str]) -> None:
    """Raise ConfigError if an output is an input, or if another run wrote it together with a file that would stay."""
    check_distinct(outputs, inputs)
    written = set(outputs)
    for output in outputs:
        for partner in _partners(output):
            if partner not in written and mark_of(partner) is not None:
                fault = f"{shown_path(output)}: belongs to {shown_path(partner)}"
                raise ConfigError(
                    f"{fault}, which would no longer fit it; choose another name, or remove both"
                )


def _partners(output: Path) -> Iterator[Path]:
    """Yield the files that a run of `volt encode` or `volt binarize` may have written together with a file."""
    pair = {BIN: IDX, IDX: BIN}
    if output.suffix in pair:
        yield output.with_suffix(pair[output.suffix])
    if output.name.endswith(_OFFSETS):
        yield output.with_name(output.name.removesuffix(_OFFSETS))
    elif output.name and output.suffix not in _TEXTS:  # a folder may contain many
        yield output.with_name(output.name + _OFFSETS)


Arrays = tuple[Ints, Longs]


def read_arrays(path: str, form: str) -> Arrays:
    """Read the ids of an output npy or bin, and the offsets of its lines. Raises CorpusError."""
    try:
        ids = open_memmap(path, mode="r") if form == "npy" else np.fromfile(path, "<i4")
        offsets = open_memmap(path + _OFFSETS, mode="r")
        dtypes = [ids.dtype, offsets.dtype]
        fits = dtypes == [np.int32, np.int64] and offsets[-1] == ids.size
    except (OSError, ValueError, IndexError):
        fits = False
    if not fits:
        offsets_path = shown_path(path + _OFFSETS)
        fault = f"{shown_path(path)}: not an array of form {form} whose offsets are {offsets_path}"
        raise CorpusError(f"{fault}; give an output of volt encode, or encode the text again")
    return ids, offsets


def refuse_arrays(path: str) -> None:
    """Raise CorpusError if a file contains ids of `volt encode` or `volt binarize` that are not text."""
    for partner in filter(mark_of, _partners(Path(path))):
        if partner.name.endswith(_OFFSETS):
            form = "npy" if read_start(path, len(MAGIC_PREFIX)) == MAGIC_PREFIX else "bin"
            raise CorpusError(
                f"{shown_path(path)}: an array of ids; decode it with", hint={"form": form}
            )
        raise CorpusError(
            f"{shown_path(path)}: not text, but belongs to {shown_path(partner)}; decode ids of volt encode, and read "
            "those of volt binarize in Python, with volt.files.indexed_dataset.open_ids"
        )


def encoded_parts(
    encoder: Encoder,
    paths: Iterable[str | FileRange],
    job: EncodeJob,
    *,
    restart: bool,
    progress: Progress | None = None,
    wait: Wait = is_ready,
) -> EncodedChunks:
    """Yield each chunk and its encoded lines; a chunk without text, with `ends_file`, follows each file."""
    chunks, copies = tee(_chunks(paths, job, restart=restart, wait=wait))
    frames = _framing(encoder, job) if job.shapes_lines else None
    options: dict[str, Any] = {"dropout": job.dropout, "seed": job.seed, "n_threads": job.n_threads}
    if job.is_text and not frames:
        options |= {"form": job.form, "separator": job.separator}
        parts = encoder.text_parts(chunks, **options)
    else:
        parts = encoder.encode_parts(chunks, **options)

    n_bytes = 0
    for part, chunk in zip(parts, copies, strict=False):  # a copy is read after its chunk
        yield chunk, frames(part, chunk) if frames else part
        n_bytes += len(chunk.text)
        if progress:
            progress(n_bytes)


def _chunks(
    paths: Iterable[str | FileRange], job: EncodeJob, *, restart: bool, wait: Wait
) -> Iterator[Chunk]:
    first = 0
    for path in paths:
        chunks = file_chunks(
            path,
            errors=job.errors,
            first=0 if restart else first,
            numbered=job.dropout > 0,
            max_line=job.max_line,
            wait=wait,
        )
        for chunk in chunks:
            if job.dropout:
                first = chunk.next_line
            yield chunk
        yield Chunk(b"", first=first, ends_file=True)


def _framing(encoder: Encoder, job: EncodeJob) -> Callable[[EncodedPart, Chunk], EncodedPart]:
    """Return a function that puts bos and eos around lines of ids, cuts and pads them, and spells them if needed."""
    frame = Frame.of_roles(encoder.vocabulary, bos=job.bos, eos=job.eos)
    pad = None if job.pad_to is None else role_id(encoder.vocabulary, "pad")
    texts = []
    if job.is_text:
        texts = [f"{number} ".encode() for number in range(len(encoder.vocabulary))]
    starts = np.cumsum([0, *map(len, texts)])
    values = np.frombuffer(b"".join(texts), np.uint8)

    def framed(part: EncodedPart, chunk: Chunk) -> EncodedPart:
        ids, ends = frame.fit(part.values, part.ends, truncate=job.truncate)
        if pad is not None and len(ends):
            rows = PaddedIds.of(
                ids, ends, pad=pad, pad_to=job.pad_to, place=lambda line: chunk.block.place(line)
            ).ids
            ids = rows.ravel()
            ends = np.arange(1, len(rows) + 1) * rows.shape[1]
        if job.is_text:
            return expanded(ids, ends, starts, values)
        return EncodedPart(ids, ends)

    return framed


def of_one_file(parts: EncodedChunks) -> EncodedChunks:
    """Return the encoded chunks up to the end of the current file."""
    return takewhile(lambda pair: not pair[0].ends_file, parts)


def _write(output: Path, parts: EncodedChunks, job: EncodeJob) -> int:
    _refuse_pipe(output, job)
    n_lines = 0
    offsets = [np.zeros(1, np.int64)]
    with write_atomic(output) as file:
        if job.form == "npy":
            _write_header(file, 0)
        for _, part in parts:
            little_endian = part.values.dtype.newbyteorder("<")
            values = part.values.astype(little_endian, copy=False)
            file.write(values.view(np.uint8).data)
            file.flush()  # it may be a pipe, whose reader waits
            n_lines += len(part.ends)
            if not job.is_text and len(part.ends):
                offsets.append(part.ends + offsets[-1][-1])

        if job.form == "npy":
            file.seek(0)
            _write_header(file, int(offsets[-1][-1]))
            file.seek(0, os.SEEK_END)
        if not job.is_text:
            _, offsets_path = _files_of(output, job.form)
            with write_atomic(offsets_path) as offsets_file:
                np.save(offsets_file, np.concatenate(offsets))
                retire(output, file, offsets_file)
    return n_lines


def _write_header(file: BinaryIO, n: int) -> None:
    """Write the header of a numpy file of n ids, in equal size for any n."""
    header = {"descr": "<i4", "fortran_order": False, "shape": (n,)}
    np.lib.format.write_array_header_1_0(file, header)


def _refuse_pipe(output: Path, job: EncodeJob) -> None:
    if job.is_text:
        return
    with suppress(OSError, ValueError):  # opening it reports the error
        if follow(output).is_written_through:
            fault = f"{output}: not a file, and {job.form} needs two files"
            raise ConfigError(f"{fault}; name a file, or choose pieces or ids")


def outputs_of(paths: Iterable[str], folder: Path, ending: str) -> dict[str, Path]:
    """Return the path of each file's output in a folder. Raises ConfigError if two files would share an output."""
    outputs = {}
    taken = set[Path]()
    for path in paths:
        if path == "-":
            raise ConfigError(
                "stdin has no name for an output in a folder; name a file to write to"
            )
        name = name_of(path)
        for packed in _COMPRESSED:
            name = name.removesuffix(packed)
        output = folder / f"{name}{ending}"
        if output in taken:
            raise ConfigError(
                f"{path}: another file has the same output, {output}; give the files different names"
            )
        outputs[path] = output
        taken.add(output)
    return outputs


def _common_origin(encoder: Encoder, job: EncodeJob) -> Origin:
    origin = {"vocabulary": encoder.vocabulary.fingerprint}
    for name, value in asdict(job).items():
        if name not in _NOT_IN_MANIFEST and (value or name not in _ONLY_IF_USED):
            origin[name] = value
    return origin


def _origin(path: str, common: Origin) -> Origin:
    mark = mark_of(path)
    if mark is None:
        return {}
    n_bytes, modified = mark
    source = bare(path) if url_of(path) else os.path.abspath(path)
    return {"source": source, "bytes": n_bytes, "modified": modified, **common}


class _Manifest:
    """The origin of each output of a folder; until an output is complete, its origin has no entry "files".

    The file starts as a JSON object. For each new output, a line is appended, so that a killed process loses nothing. A
    manifest at a URL is rewritten instead, whenever an eighth of its outputs are new.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _MANIFEST
        self._n_unsaved = 0
        self._origins = _read_manifest(folder)

    def has(self, output: Path, origin: Origin, job: EncodeJob) -> bool:
        marks = _marks(output, job.form)
        if marks is None:
            return False
        return self._origins.get(output.name) == origin | {"files": marks}

    def plan(self, origins: Mapping[str, Origin]) -> None:
        """Record outputs before they are written: a killed process may leave incomplete files."""
        self._origins |= origins
        self._save()

    def add(self, name: str, origin: Origin) -> None:
        self._origins[name] = origin
        self._n_unsaved += 1
        if url_of(self._path) is None:
            line = json.dumps({name: origin}, sort_keys=True)
            append(self._path, f"\n{line}".encode())
        elif self._n_unsaved >= _MOST_UNSAVED * len(self._origins):
            self._save()

    def close(self) -> None:
        """Write the manifest as one object. If that fails, the next run encodes the outputs again."""
        if self._n_unsaved:
            with suppress(OutputError):
                self._save()

    def _save(self) -> None:
        with write_atomic(self._path) as file:
            file.write(json.dumps(self._origins, sort_keys=True).encode())
        self._n_unsaved = 0


def _read_manifest(folder: Path) -> dict[str, Origin]:
    origins = dict[str, Any]()
    end = 0
    with suppress(OutputError, TypeError, ValueError):
        text = read_bytes(folder / _MANIFEST, kind=OutputError).decode()
        while end < len(text):
            entries, end = json.JSONDecoder().raw_decode(text, end)
            origins |= entries
            end += text.startswith("\n", end)
    return {name: origin for name, origin in origins.items() if isinstance(origin, dict)}


def _marks(output: Path, form: str) -> list[list[int]] | None:
    marks = []
    for file in _files_of(output, form):
        mark = mark_of(file) if is_file(file) else None
        if mark is None:
            return None
        marks.append(list(mark))
    return marks
