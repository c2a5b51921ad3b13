"""Inputs and outputs of commands: text, places for `-o`, and models for `-m`.

A file appears when it is complete, and never replaces an input. When data goes to stdout, reports go to stderr.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from volt.errors import ConfigError, VoltError, shown_path
from volt.urls import name_of, url_of
from volt_cli.console import messages, output, say, warn

if TYPE_CHECKING:
    from rich.console import Console

    from volt.count.word_counts import WordCounts
    from volt.files.blocks import Block, Errors, Wait
    from volt.vocabulary import Vocabulary
    from volt_cli.console import Phases


_PACKED = (".gz", ".bz2", ".xz", ".zst")


def is_stdout(place: str | Path | None) -> bool:
    """Check whether a place is stdout: -, or a file such as /dev/stdout."""
    from volt.files.atomic import follow

    if place is None or str(place) == "-":
        return place is not None
    try:
        return follow(place).descriptor == 1
    except (OSError, ValueError):  # reported when something is written to the place
        return False


def check_place(place: Path) -> None:
    """Raise ConfigError for a place that cannot be written, or that ends in .gz and the like."""
    from volt.files.atomic import check_writable

    if place.suffix in _PACKED:
        raise ConfigError(
            f"-o {shown_path(place)}: output is not compressed; remove {place.suffix}, and compress it later"
        )

    if not is_stdout(place):
        check_writable(place)


def check_places(
    outputs: Iterable[str | Path | None],
    inputs: Iterable[str | Path | None] = (),
    *,
    model: Path | None = None,
) -> None:
    """Raise ConfigError if an output is also an input, a file of the model, or another output."""
    from volt.files.atomic import STDOUT, check_distinct
    from volt.formats.registry import files_read

    read = [path for path in inputs if path is not None]
    if model:
        read += [file for file in files_read(model) if file.exists() or file == model]
    written = [STDOUT if is_stdout(place) else place for place in outputs if place is not None]
    check_distinct(written, read)


def check_outputs(
    outputs: Mapping[str, Path | None],
    inputs: Iterable[str | Path | None] = (),
    *,
    model: Path | None = None,
    json: bool = False,
) -> None:
    """Raise ConfigError for outputs that collide (see `check_places`) or cannot be written. outputs: option → place"""
    check_one_for_stdout(json=json, **{name: is_stdout(place) for name, place in outputs.items()})
    check_places(outputs.values(), inputs, model=model)
    for place in filter(None, outputs.values()):
        check_place(place)


@contextmanager
def written(place: Path) -> Iterator[Path]:
    """Yield the path to write to; for stdout, the path of a temporary file."""
    if not is_stdout(place):
        yield place
        return
    from volt.files.temporary import scratch_folder

    with scratch_folder() as folder:
        path = folder / "stdout"
        try:
            yield path
        except VoltError as error:
            raise error.reworded(named_stdout(place, path, error.message)) from error
        if not path.is_file() or len(list(folder.iterdir())) > 1:
            raise ConfigError(
                "-o -: this is more than one file, but stdout takes only one; name a file or folder"
            )
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()


def named_stdout(place: Path, path: Path, message: str) -> str:
    return message.replace(str(path), "stdout") if is_stdout(place) else message


def write_bytes(data: bytes, place: Path) -> None:
    from volt.files.atomic import write_atomic

    with written(place) as path, write_atomic(path) as file:
        file.write(data)


def save(vocabulary: Vocabulary, place: Path) -> None:
    with written(place) as path:
        vocabulary.save(path)


def count_text(files: list[str], phases: Phases, **options: Any) -> WordCounts:
    from volt.count.corpus import count_words

    with phases.phase("count", unit="B") as advance:
        return count_words(
            files, progress=lambda path, done, total: advance(done, total), **options
        )


def report_console(*places: Path | None) -> Console:
    """Return the console for a report: stderr if data goes to stdout, otherwise stdout."""
    return messages() if any(map(is_stdout, places)) else output()


def check_one_for_stdout(**claims: bool) -> None:
    claimed = [f"--{name}" for name, claim in claims.items() if claim]
    if len(claimed) > 1:
        raise ConfigError(
            f"{' and '.join(claimed)} would both write to stdout; give one of them another place"
        )


def say_written(place: Path, content: str = "") -> None:
    message = f"wrote {shown_place(place)}"
    if content:
        message += f": {content}"
    say(message)


def shown_place(place: Path) -> str:
    return "stdout" if is_stdout(place) else shown_path(place)


BLOCK_SIZE = 1 << 20  # maximum bytes of text that is decoded at once


def text_blocks(
    files: list[str], *, errors: Errors, max_line: int | None, wait: Wait | None = None
) -> Iterator[Block]:
    from volt.files.blocks import read_blocks

    for path in files:
        yield from read_blocks(
            path, block_size=BLOCK_SIZE, errors=errors, max_line=max_line, wait=wait
        )


def lines_of(block: Block) -> list[str]:
    lines = block.data.decode().split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def warn_of_columns(files: Iterable[str], done: str, remedy: str) -> None:
    """Warn if the first file is a table, all of which is treated as text. done: "counted", say"""
    from volt.files.tables import columns_in

    path = next(iter(files), None)
    columns = path and columns_in(path)
    if path and columns:
        warn(f"{shown_path(path)}: {columns}; all is {done}. To use one column, {remedy}")


def waiting_for(place: str | Path) -> Wait:
    """Return a function that waits for input. If data goes to stdout, the wait ends when stdout's reader does."""
    from volt.files.blocks import is_ready

    try:
        return partial(is_ready, outlet=sys.stdout.fileno()) if is_stdout(place) else is_ready
    except OSError:  # the replacement of stdout is not a file
        return is_ready


def is_conversation(paths: Sequence[str], place: str | Path) -> bool:
    """Check whether a person types the lines or reads the answers."""
    return ("-" in paths and sys.stdin.isatty()) or (is_stdout(place) and sys.stdout.isatty())


def open_output(place: Path) -> AbstractContextManager[BinaryIO]:
    from volt.files.atomic import write_atomic

    return nullcontext(sys.stdout.buffer) if is_stdout(place) else write_atomic(place)


def write_each(file: BinaryIO, texts: Iterable[bytes]) -> None:
    """Write each text before the next text is computed."""
    for text in texts:
        file.write(text)
        file.flush()


def load_model(
    path: Path, *, texts: Collection[str] = (), pattern: str | None = None, option: str = "-m"
) -> Vocabulary:
    """Load a vocabulary of any format; report on stderr what the file lacks.

    texts: the text inputs; stdin cannot be both a text and the vocabulary
    pattern: the pattern that splits text, if the file contains no pattern
    option: the option that names the file
    """
    if str(path) == "-" and "-" in texts:
        raise ConfigError(
            f"{option} -: stdin cannot be both the vocabulary and the text; name a file for one of them"
        )
    from volt.formats.registry import VOLT, read_with_format

    with read_once(path) as copy:
        vocabulary, name = read_with_format(copy, pattern=pattern)
        if name != VOLT:
            say_losses(copy, vocabulary)
    return vocabulary


def say_losses(path: Path, vocabulary: Vocabulary) -> None:
    for note in vocabulary.notes:
        say(f"note: {name_of(path) or path}: {note}")


@contextmanager
def read_once(path: Path) -> Iterator[Path]:
    """Yield a path that can be read twice; for stdin, a pipe or a URL, the path of a copy."""
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
