"""`volt translate-input` and `volt translate-output`: what happens around a translation system.

The first applies a task's transforms to text; the second turns the system's answers back into text.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from volt_cli.console import Phases, loading, prepare_kernels
from volt_cli.io import (
    check_distinct_files,
    choose_wait,
    open_output,
    read_text_blocks,
    write_and_flush_each,
)
from volt_cli.options import Files, Output, Reading, option
from volt_cli.stream.opening import ConfigOptions


@dataclass(frozen=True, kw_only=True)
class StrictReading(Reading):
    PANEL = "Reading"

    encoding_errors: Annotated[  # without `skip`, so that every line has an answer
        Literal["strict", "replace"],
        option("HOW", "Lines that are not UTF-8: strict stops, replace fixes."),
    ] = "strict"


@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    source: ConfigOptions
    files: Files
    task: Annotated[str, option("NAME", "The task, of any split, whose transforms are applied.")]
    out: Output = Path("-")
    reading: StrictReading


def translate_input(options: TranslateOptions) -> None:
    """Turn text into the input of a translation system: the task's transforms, without noise, filters and sampling.

    Each line of text gives one line, equal to field 1 in `volt stream run --split valid --task
    NAME`. If a step refuses a line, the command fails, and names the line and the step.
    """
    _translate(options, is_input=True)


def translate_output(options: TranslateOptions) -> None:
    """Turn the answers of a translation system into plain text: the task's target-side pieces are joined.

    Each line gives one line. Pieces that the task's vocabulary lacks stay as they are spelled. If
    the vocabulary lacks an id, the command fails, and names the line.
    """
    _translate(options, is_input=False)


def _translate(options: TranslateOptions, *, is_input: bool) -> None:
    source = options.source
    files = options.files
    out = options.out
    with loading():
        from volt.stream.running.translation import Translation
        from volt.stream.transforms.user_file import protect_stdout

        check_distinct_files([out], [source.config, *files])
        prepare_kernels(Phases(quiet=True), "stream")
        protect_stdout()
        translation = Translation(
            source.config, options.task, values=source.template_values, user_code=source.trust
        )
    check_distinct_files([out], translation.files)
    translated = translation.input_blocks if is_input else translation.output_blocks
    blocks = read_text_blocks(files, **options.reading.limits, wait=choose_wait(out))
    with open_output(out) as file:
        write_and_flush_each(file, translated(blocks))
