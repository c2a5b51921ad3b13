"""`volt translate-input` and `volt translate-output`: a task's transforms before and after a translation system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

import typer

from volt_cli.console import Phases, loading, prepare_kernels
from volt_cli.io import check_places, open_output, text_blocks, waiting_for, write_each
from volt_cli.options import MAX_LINE, Config, Files, MaxLine, Trust, option
from volt_cli.stream.opening import Settings, values_of

if TYPE_CHECKING:
    from volt.stream.running.translation import Translation

TaskName = Annotated[str, option("NAME", "The task, of any split, whose transforms are applied.")]
Out = Annotated[Path, option("FILE", "Where to write, or - for stdout.", "-o", "--output")]
STDOUT = Path("-")


@dataclass(frozen=True)
class TranslateOptions:
    PANEL = "Reading"

    encoding_errors: Annotated[  # no `skip`, which would leave lines without an answer
        Literal["strict", "replace"],
        typer.Option(metavar="HOW", help="Lines that are not UTF-8: strict stops, replace fixes."),
    ] = "strict"
    max_line: MaxLine = MAX_LINE

    def reading(self, out: Path) -> dict[str, Any]:
        from volt.files.limits import parse_max_line

        return {
            "errors": self.encoding_errors, "max_line": parse_max_line(self.max_line), "wait": waiting_for(out)
        }  # fmt: skip


def translate_input(
    config: Config,
    files: Files,
    task: TaskName,
    reading: TranslateOptions,
    out: Out = STDOUT,
    settings: Settings = None,
    trust: Trust = False,
) -> None:
    """Turn text into the input of a translation system: the task's transforms, without noise, filters and sampling.

    Each line of text gives one line, as `volt stream run --split valid --task NAME` gives it in field 1. A line that a
    step refuses is an error, with its number and the name of the step.
    """
    with _opened(config, task, out, files, settings, trust=trust) as (translation, file):
        write_each(file, translation.input_blocks(text_blocks(files, **reading.reading(out))))


def translate_output(
    config: Config,
    files: Files,
    task: TaskName,
    reading: TranslateOptions,
    out: Out = STDOUT,
    settings: Settings = None,
    trust: Trust = False,
) -> None:
    """Turn the answers of a translation system into plain text: the task's target-side pieces are joined.

    Each line gives one line. Pieces that the task's vocabulary lacks are taken as they are spelled. An id that it lacks
    is an error, with the number of the line.
    """
    with _opened(config, task, out, files, settings, trust=trust) as (translation, file):
        write_each(file, translation.output_blocks(text_blocks(files, **reading.reading(out))))


@contextmanager
def _opened(
    config: Path, task: str, out: Path, files: list[str], settings: list[str] | None, *, trust: bool
) -> Iterator[tuple[Translation, BinaryIO]]:
    """Yield the task and the file to write."""
    with loading():
        from volt.stream.running.translation import Translation
        from volt.stream.transforms.user_file import lead_descriptor

        check_places([out], [config, *files])
        prepare_kernels(Phases(quiet=True), "stream")
        lead_descriptor()
        translation = Translation(config, task, values=values_of(settings), user_code=trust)
    check_places([out], translation.files)
    with open_output(out) as file:
        yield translation, file
