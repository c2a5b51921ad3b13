"""`volt stream debug`: each step's effect on the first lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from volt.display import LabelledText, packed
from volt.errors import shown_path
from volt_cli.console import output, print_json, show
from volt_cli.io import (
    check_distinct_files,
    check_single_use_of_stdout,
    is_stdout,
    report_written,
    write_bytes,
)
from volt_cli.options import Trust, flag, option
from volt_cli.stream.opening import StreamOptions

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from volt.stream.checking.trace import DebugLine, Fields, TraceStep

_NAME_WIDTH = 16  # columns of a step's name; longer names break after "_"
_NEXT_FIELD = "⇥ "  # before each field of a line except the first


def debug(
    source: StreamOptions,
    lines: Annotated[int, option("N", "Number of lines of each task or source.", min=1)] = 20,
    html: Annotated[
        Path | None, option("FILE", "Write an HTML page instead, or - for stdout.")
    ] = None,
    changed: Annotated[
        bool, flag("Hide transforms that did not change the line.", "--changed")
    ] = False,
    trust: Trust = False,
    as_json: Annotated[
        bool, flag("Print a JSON object for each line on stdout.", "--json")
    ] = False,
) -> None:
    """Show what each step does to the first lines of a task, before and after side by side.

    Dropped lines are shown with the step that drops them. Tokens that a step removes or adds are
    coloured; without colour, they are enclosed in [-…-] and {+…+}.
    """
    from volt.stream.checking.trace import debug, debug_page

    check_single_use_of_stdout(json=as_json, html=is_stdout(html))
    check_distinct_files([html], source.files)
    with source.open(user_code=trust, n_workers=0) as stream:
        check_distinct_files([html], stream.files)
        result: Iterable[DebugLine] = debug(stream, n_lines=lines)
        if html is not None:
            result = [*result]
        if as_json:
            for line in result:
                print_json(line.to_json())
        if html is not None:
            write_bytes(debug_page([*result], title=shown_path(source.config)).encode(), html)
            report_written(html)
        elif not as_json:
            is_plain = output().color_system is None
            for number, line in enumerate(result):
                if number:
                    show("")
                show(*line_parts(line, only_changes=changed, is_plain=is_plain))


def line_parts(line: DebugLine, *, only_changes: bool, is_plain: bool) -> Iterator[RenderableType]:
    """Yield the origin of a line, a table of the steps, and the line's faults.

    only_changes: skip steps that did not change the line
    is_plain: whether there is no colour, so that brackets mark changed tokens
    """
    from rich.table import Table
    from rich.text import Text

    yield LabelledText(
        f"{line.source}  ", [f"{line.path}:{line.line}"], style="dim", label_style="bold"
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=True)
    table.add_column("step", style="cyan", overflow="fold")
    table.add_column("before", overflow="fold", ratio=1)
    table.add_column("after", overflow="fold", ratio=1)
    for step in line.steps:
        if not only_changes or step.before != step.after:
            name = "_\n".join(packed(step.name.split("_"), _NAME_WIDTH, gap="_"))
            table.add_row(Text(name), *_cells(step, fate=line.fate or "dropped", is_plain=is_plain))
    if not line.steps or (only_changes and not table.rows):
        table.add_row(
            Text("read"), _lines([_unmarked(line.raw)]), _lines([*map(_unmarked, line.text)])
        )
    yield table
    for fault in line.faults:
        yield LabelledText("unfit  ", fault.split(" "), style="red", label_style="bold red")


def _cells(step: TraceStep, *, fate: str, is_plain: bool) -> tuple[Text, Text]:
    from rich.text import Text

    from volt.stream.checking.trace import compare_lines

    if step.before == step.after:
        return Text("as it was", style="dim"), Text("")
    removed = "[-{}-]" if is_plain else "{}"
    added = "{{+{}+}}" if is_plain else "{}"
    before, after = compare_lines(step)
    left = _lines([_shown(fields, "red", removed) for fields in before])
    if not step.after:
        return left, Text(fate, style="bold red")
    return left, _lines([_shown(fields, "bold green", added) for fields in after])


def _lines(texts: Sequence[Text]) -> Text:
    from rich.text import Text

    return Text("\n").join(texts)


def _unmarked(line: str) -> Text:
    from volt.stream.checking.trace import split_into_tokens

    return _shown(split_into_tokens([line])[0], "", "{}")


def _shown(fields: Fields, style: str, mark: str) -> Text:
    """Return the tokens of a line; changed ones in a style, and formatted by `mark`."""
    from rich.text import Text

    from volt_cli.terminal import harmless

    shown_fields = list[Text]()
    for tokens in fields:
        runs = list[Text]()
        for is_changed, run in groupby(tokens, key=lambda token: token.is_changed):
            text = harmless(" ".join(token.text for token in run))
            if is_changed:
                runs.append(Text(mark.format(text) if text else "", style))
            else:
                runs.append(Text(text))
        shown_fields.append(Text(" ").join(runs))
    return Text(f"\n{_NEXT_FIELD}", style="dim").join(shown_fields)
