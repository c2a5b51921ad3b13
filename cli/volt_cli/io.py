"""Check, open and report the files that commands read and write.

A destination is where the option -o of a command writes: a path, or - for stdout. /dev/stdout means
-, too. Three rules hold for every command:

- A file appears at its destination only when it is complete.
- No output replaces an input, a file of the vocabulary, or another output.
- At most one output goes to stdout. If one does, reports go to stderr.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from volt.errors import ConfigError, VoltError, shown_path
from volt.urls import name_of, url_of
from volt_cli.console import messages, output, prepare_kernels, say, warn

if TYPE_CHECKING:
    from rich.console import Console

    from volt.choose.certificate import Certificate
    from volt.count.word_counts import WordCounts
    from volt.files.blocks import Block, Errors, Wait
    from volt.vocabulary import Vocabulary
    from volt_cli.console import Phases

COMPRESSED_ENDINGS = (".gz", ".bz2", ".xz", ".zst")
BLOCK_SIZE = 1 << 20  # bytes of text that are read and decoded together, at most


# Checks before a command starts


def is_stdout(destination: str | Path | None) -> bool:
    """Check whether a destination is stdout: -, or a file such as /dev/stdout."""
    from volt.files.atomic import follow

    if destination is None or str(destination) == "-":
        return destination is not None
    try:
        return follow(destination).descriptor == 1
    except (OSError, ValueError):  # reported when something is written there
        return False


def check_destinations(
    options: Mapping[str, Path | None],
    inputs: Iterable[str | Path | None] = (),
    *,
    model: Path | None = None,
    json: bool = False,
) -> None:
    """Check the outputs of a command before it starts.

    options: name of an option, without dashes → its destination
    json: whether the command prints JSON on stdout
    Raises ConfigError if two outputs go to stdout, if an output is also read or written otherwise
    (see `check_distinct_files`), or if a destination cannot be written.
    """
    uses_of_stdout = {name: is_stdout(destination) for name, destination in options.items()}
    check_single_use_of_stdout(json=json, **uses_of_stdout)
    check_distinct_files(options.values(), inputs, model=model)
    for destination in filter(None, options.values()):
        check_destination(destination)


def check_single_use_of_stdout(**uses_stdout: bool) -> None:
    """Raise ConfigError if several options would write to stdout. uses_stdout: for each option"""
    names = [f"--{name}" for name, is_used in uses_stdout.items() if is_used]
    if len(names) > 1:
        raise ConfigError(
            f"{' and '.join(names)} would both write to stdout; give one of them another place"
        )


def check_distinct_files(
    outputs: Iterable[str | Path | None],
    inputs: Iterable[str | Path | None] = (),
    *,
    model: Path | None = None,
) -> None:
    """Raise ConfigError if an output is also an input, a file of `model`, or another output."""
    from volt.files.atomic import STDOUT, check_distinct
    from volt.formats.registry import files_read

    read_paths = [path for path in inputs if path is not None]
    if model:
        read_paths += [file for file in files_read(model) if file.exists() or file == model]
    written_paths = [STDOUT if is_stdout(path) else path for path in outputs if path is not None]
    check_distinct(written_paths, read_paths)


def check_destination(destination: Path) -> None:
    """Raise ConfigError if a destination cannot be written, or has an ending such as .gz."""
    from volt.files.atomic import check_writable

    if destination.suffix in COMPRESSED_ENDINGS:
        raise ConfigError(
            f"-o {shown_path(destination)}: output is not compressed; remove {destination.suffix}, "
            "and compress it later"
        )
    if not is_stdout(destination):
        check_writable(destination)


def warn_of_table_columns(files: Iterable[str], verb: str) -> None:
    """Warn if the first file is a table, because a command treats all its columns as text.

    On Linux, this includes a file that is redirected to stdin; a pipe is never read.

    verb: what the command does with the text: "counted" or "encoded"
    """
    from volt.files.tables import columns_in

    path = next(iter(files), "")
    is_stdin = path == "-"
    if is_stdin and sys.platform == "linux":  # elsewhere, opening it would move its position
        path = os.path.realpath("/dev/stdin")
    columns = columns_in(path)
    is_refused = is_stdin and columns.endswith("JSON objects")
    if columns and not is_refused:
        warn(
            f"{shown_path(path)}: {columns}; all is {verb}. To use some columns, give --fields N,N, "
            "or --column NAME if the first line or each object has names"
        )


# Reading


def load_model(
    path: Path,
    *,
    texts: Collection[str] = (),
    pattern: str | None = None,
    option: str = "-m",
    quiet: bool = False,
) -> Vocabulary:
    """Load a vocabulary of any format; report on stderr what its file does not say.

    texts: the text inputs of the command; stdin cannot be both a text and the vocabulary
    pattern: the pattern that splits text into words, for a file without a pattern
    option: the option that names the file
    quiet: whether to report nothing
    """
    if str(path) == "-" and "-" in texts:
        raise ConfigError(
            f"{option} -: stdin cannot be both the vocabulary and the text; name a file for one of them"
        )
    from volt.formats.registry import VOLT, read_with_format

    with rereadable_path(path) as copy:
        vocabulary, format_name = read_with_format(copy, pattern=pattern)
        if format_name != VOLT and not quiet:
            report_losses(copy, vocabulary)
    return vocabulary


def report_losses(path: Path, vocabulary: Vocabulary) -> None:
    """Report on stderr what a vocabulary's file did not contain."""
    for note in vocabulary.notes:
        say(f"note: {name_of(path) or path}: {note}")


@contextmanager
def rereadable_path(path: Path) -> Iterator[Path]:
    """Yield a path that can be read twice: for stdin, a pipe or a URL, the path of a copy."""
    from volt.files.small_files import is_pipe
    from volt.files.temporary import scratch_folder

    if url_of(path) is not None:
        from volt.formats.registry import model_at_hand

        with model_at_hand(path) as copy:
            yield copy
        return
    is_stdin = str(path) == "-"
    if not is_stdin and not is_pipe(path):
        yield path
        return
    name = "stdin" if is_stdin else path.name
    with scratch_folder() as folder:
        copy = folder / name
        with (
            nullcontext(sys.stdin.buffer) if is_stdin else path.open("rb") as source,
            copy.open("wb") as file,
        ):
            shutil.copyfileobj(source, file)
        try:
            yield copy
        except VoltError as error:
            original = name if is_stdin else str(path)
            raise error.reworded(error.message.replace(str(copy), original)) from None


def count_text(files: list[str], phases: Phases, **options: Any) -> WordCounts:
    """Count the words of files with a progress bar. options: arguments of `volt.count_words`"""
    from volt.count.corpus import count_words

    with phases.phase("count", unit="B") as advance:
        return count_words(
            files, progress=lambda path, done, total: advance(done, total), **options
        )


def certify(vocabulary: Vocabulary, counts: WordCounts, phases: Phases) -> Certificate:
    """Return the certificate of a vocabulary on counted words, with a progress bar."""
    from volt.choose.certificate import MOST_SWEEPS
    from volt.choose.certificate import certify as run_certify

    prepare_kernels(phases, "learn", "words", "bound")
    with phases.phase("certify", total=MOST_SWEEPS, unit="sweeps") as advance:

        def report(n_sweeps: int, gap: float) -> None:
            advance(n_sweeps, note=f"at most {gap:.1%} above the fewest")

        return run_certify(vocabulary, counts, report=report)


def read_text_blocks(
    files: list[str], *, errors: Errors, max_line: int | None, wait: Wait | None = None
) -> Iterator[Block]:
    """Yield the text of files as blocks of whole lines. Raises CorpusError for a table.

    errors, max_line, wait: see `read_blocks`
    """
    from volt.files.table_rows import read_text

    for path in files:
        yield from read_text(
            path, block_size=BLOCK_SIZE, errors=errors, max_line=max_line, wait=wait
        )


def decode_lines(block: Block) -> list[str]:
    """Return the lines of a block without their line ends."""
    lines = block.data.decode().split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def choose_wait(destination: str | Path) -> Wait:
    """Return a function that waits for input.

    If data goes to stdout, it stops waiting when stdout's reader ends.
    """
    from volt.files.blocks import is_ready

    try:
        if is_stdout(destination):
            return partial(is_ready, outlet=sys.stdout.fileno())
    except OSError:  # a replacement of stdout that is not a file
        pass
    return is_ready


# Writing


@contextmanager
def writable_path(destination: Path) -> Iterator[Path]:
    """Yield a path to write one file to.

    If the destination is stdout, it is the path of a temporary file, which is printed after the
    block.
    """
    if not is_stdout(destination):
        yield destination
        return
    from volt.files.temporary import scratch_folder

    with scratch_folder() as folder:
        path = folder / "stdout"
        try:
            yield path
        except VoltError as error:
            message = name_stdout(error.message, destination, path)
            raise error.reworded(message) from error
        if not path.is_file() or len(list(folder.iterdir())) > 1:
            raise ConfigError(
                "-o -: this is more than one file, but stdout takes only one; name a file or folder"
            )
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()


def name_stdout(message: str, destination: Path, path: Path) -> str:
    """Replace the temporary path of `writable_path` by "stdout" in a message."""
    return message.replace(str(path), "stdout") if is_stdout(destination) else message


def write_bytes(data: bytes, destination: Path) -> None:
    from volt.files.atomic import write_atomic

    with writable_path(destination) as path, write_atomic(path) as file:
        file.write(data)


def save_vocabulary(vocabulary: Vocabulary, destination: Path) -> None:
    with writable_path(destination) as path:
        vocabulary.save(path)


def open_output(destination: Path) -> AbstractContextManager[BinaryIO]:
    from volt.files.atomic import write_atomic

    return nullcontext(sys.stdout.buffer) if is_stdout(destination) else write_atomic(destination)


def write_and_flush_each(file: BinaryIO, texts: Iterable[bytes]) -> None:
    """Write each text before the next text is computed, so that a reader gets it at once."""
    for text in texts:
        file.write(text)
        file.flush()


# Reports on what was written


def choose_report_console(*destinations: Path | None) -> Console:
    """Return the console for a report: stderr if a destination is stdout, otherwise stdout."""
    return messages() if any(map(is_stdout, destinations)) else output()


def report_written(destination: Path, content: str = "") -> None:
    message = f"wrote {show_destination(destination)}"
    if content:
        message += f": {content}"
    say(message)


def show_destination(destination: Path) -> str:
    return "stdout" if is_stdout(destination) else shown_path(destination)
