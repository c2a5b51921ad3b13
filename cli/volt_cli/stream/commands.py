"""`volt stream`: the group of commands.

Here are the commands that show or check a stream (preview, trace, plan, audit) and those that help
to write its configuration (schema, example), with the tables that they print. The other commands
have modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volt.display import Grid, LabelledText
from volt.errors import ConfigError, StreamError
from volt_cli.command_help import add_commands, group
from volt_cli.console import print_json, print_result, say, show
from volt_cli.io import is_stdout
from volt_cli.options import (
    Json,
    Rank,
    Seed,
    Trust,
    Workers,
    World,
    argument,
    flag,
    option,
    parse_settings,
)
from volt_cli.stream.batches import batches
from volt_cli.stream.debug import debug
from volt_cli.stream.opening import Settings, StreamOptions
from volt_cli.stream.run import run
from volt_cli.stream.tools import cache, import_dynamicdata, merge_states, skip, vocabulary

if TYPE_CHECKING:
    from rich.console import RenderableType

    from volt.stream.checking.audit import Audit
    from volt.stream.checking.plan import Plan
    from volt.stream.checking.trace import Trace, TraceStep
    from volt.stream.running.state import State


_TAB = "  ⇥  "  # shown for a tab, which separates fields


def trace_entries(trace: Trace, *, only_changes: bool = False) -> Iterator[LabelledText]:
    """Yield the origin of a line, then the line after each step.

    only_changes: skip steps that did not change the line
    """
    place = (
        f"{trace.path}:{trace.line},",
        f"epoch {trace.epoch},",
        f"block at {trace.start},",
        f"place {trace.offset}",
    )
    yield LabelledText(
        f"line {trace.n}  ", [f"{trace.source} ", *place], style="dim", label_style="bold"
    )
    width = max(map(len, ["read", *(step.name for step in trace.steps)])) + 2
    yield LabelledText(f"  {'read':{width}}", _words(trace.raw), label_style="cyan")
    for step in trace.steps:
        if not only_changes or step.before != step.after:
            yield from _step_entries(step, width)


def _step_entries(step: TraceStep, width: int) -> Iterator[LabelledText]:
    label = f"  {step.name:{width}}"
    if step.before == step.after:
        yield LabelledText(label, ["as it was"], style="dim", label_style="cyan")
        return
    if not step.after:
        yield LabelledText(label, ["dropped"], style="red", label_style="cyan")
    for line in step.after:
        yield LabelledText(label, _words(line), style="green", label_style="cyan")
        label = "".ljust(len(label))


def _words(line: str) -> list[str]:
    return line.replace("\t", _TAB).split(" ")


def _with_indent(line: str) -> LabelledText:
    text = line.lstrip(" ")
    indent = line[: len(line) - len(text)]
    return LabelledText(indent, text.split(" "))


def plan_parts(plan: Plan, *, demand: float | None) -> Iterator[RenderableType]:
    """Yield the tables of a plan, the memory, and the speed compared with --demand."""
    from rich.text import Text

    yield Text(f"at line {plan.at:,}", style="italic")
    heads = (
        "source",
        "lines given",
        "lines in its files",
        "out per line in",
        "epochs",
        "lines per block",
    )
    rows = [
        (
            name,
            f"{source.lines:,.0f}",
            f"{source.n_lines:,}",
            f"{source.yield_:.3f}",
            f"{source.epochs:,.2f}",
            f"{source.block_lines:,}",
        )
        for name, source in plan.sources.items()
    ]
    yield Grid(heads, rows, numbers=range(1, len(heads)))
    yield from _virtual_epoch(plan)
    speed = "not measured: the stream ended"
    if plan.lines_per_second:
        speed = f"{plan.lines_per_second:,.0f} lines/s"
    if demand:
        ratio = (plan.lines_per_second or 0) / demand
        speed += f", {ratio:.1f} × the demand of {demand:,.0f}"
    yield LabelledText("memory for data   ", [f"about {plan.memory / 1e6:,.0f} MB"], label_style="")
    yield LabelledText("speed here        ", speed.split(" "), label_style="")


def _virtual_epoch(plan: Plan) -> Iterator[RenderableType]:
    from rich.text import Text

    if plan.epoch_lines is None or len(plan.sources) < 2:
        return
    yield Text(f"in a virtual epoch of {plan.epoch_lines:,} lines", style="italic")
    heads = ("source", "lines given", "share", "passes")
    rows = [
        (name, f"{source.epoch_lines:,.0f}", f"{source.share:.2%}", f"{source.epoch_passes:,.2f}")
        for name, source in plan.sources.items()
    ]
    yield Grid(heads, rows, numbers=range(1, len(heads)))


def audit_table(audit: Audit) -> Grid:
    heads = ("source", "lines", "epochs", "blocks", "missing", "repeated", "uneven", "content")
    rows = []
    for source in audit.sources:
        numbers = (
            source.n_lines,
            source.epochs,
            source.n_blocks,
            source.missing,
            source.repeated,
            source.uneven,
        )
        content = {None: "not read", True: "the same", False: "differs"}[source.content]
        rows.append((source.name, *(f"{number:,}" for number in numbers), content))
    return Grid(heads, rows, numbers=range(1, len(heads) - 1))


app = group("stream", "Training data as an infinite, exact, resumable stream of lines.")


def preview(
    source: StreamOptions,
    samples: Annotated[int, option("N", "Number of lines to show.", "-n", "--samples")] = 5,
    first: Annotated[int, option("N", "The first line to show, from 0.", "--from")] = 0,
    changed: Annotated[
        bool, flag("Hide transforms that did not change the line.", "--changed")
    ] = False,
    seed: Seed = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Show the first lines, and how each transform changes them."""
    from volt.stream.checking.trace import trace as trace_lines

    if samples < 1 or first < 0:
        raise ConfigError(
            f"-n {samples} --from {first}: give -n of 1 or more, and --from of 0 or more"
        )
    numbers = range(first, first + samples)
    with source.open(user_code=trust, seed=seed, n_workers=0) as stream:
        lines = trace_lines(stream, numbers)
        if as_json:
            print_json([line.to_json() for line in lines])
        for number, line in enumerate(lines):
            if number:
                show("")
            show(*trace_entries(line, only_changes=changed))


def trace(
    source: StreamOptions,
    number: Annotated[int, argument("N", "The number of a line, from 0.")],
    from_state: Annotated[
        Path | None,
        option("FILE", "A later state: reports whether its run skipped the line.", "--state"),
    ] = None,
    seed: Seed = None,
    rank: Rank = None,
    world: World = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Show where line N comes from (source, file, line, epoch), and how each transform changes it."""
    from volt.stream.checking.trace import trace as trace_lines

    if number < 0:
        raise ConfigError(f"{number}: lines are numbered from 0; give 0 or more")
    with source.open(user_code=trust, seed=seed, rank=rank, world=world, n_workers=0) as stream:
        result = next(trace_lines(stream, [number]))
        rank = stream.rank
        world = stream.world
    data = result.to_json()
    entries = [*trace_entries(result)]
    if from_state is not None:
        later = _read_lines_state(from_state)
        data["skipped"] = later.has_skipped(number, rank=rank, world=world)
        if data["skipped"]:
            entries.append(LabelledText("  skipped  ", [f"in the run of {from_state}"]))
    print_result(data, *entries, as_json=as_json)


def _read_lines_state(path: Path) -> State:
    from volt.batches.steps_state import StepsState
    from volt.ext.loader_state import Position
    from volt.stream.running.checkpoint import read_state
    from volt.stream.running.state import FORMAT, State

    state = read_state(path)
    if state.get("format") == FORMAT:
        return State.from_json(state)
    return StepsState.from_json(Position.from_json(state).steps or {}).lines


def plan(
    source: StreamOptions,
    at: Annotated[str, option("N", "Plan up to this line, such as 1e6.")] = "1e6",
    demand: Annotated[
        float | None, option("RATE", "Lines per second that the trainer uses.")
    ] = None,
    seconds: Annotated[float, option("S", "Seconds to measure the speed.")] = 2.0,
    workers: Workers = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Predict how often each source is read, how much memory is needed, and how fast this machine is.

    The exit status is 1 if the stream is slower than --demand.
    """
    from volt.stream.checking import plan as planning

    if seconds <= 0 or (demand is not None and demand <= 0):
        raise ConfigError(f"--seconds {seconds} --demand {demand}: give more than 0")
    with source.open(user_code=trust, n_workers=workers) as stream:
        result = planning.plan(stream, at=_parse_lines(at), seconds=seconds)
    enough = demand is None or (result.lines_per_second or 0) >= demand
    data = {**result.to_json(), "demand": demand, "enough": enough}
    print_result(data, *plan_parts(result, demand=demand), as_json=as_json)
    if not enough:
        raise StreamError(
            f"{result.lines_per_second or 0:,.0f} lines/s are fewer than --demand {demand:,.0f}"
        )


def _parse_lines(text: str) -> int:
    """Parse a number of lines such as 1000 or 1e6."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1 << 62 or not number.is_integer():
        raise ConfigError(f"{text!r} is not a number of lines; give one such as 1e6")
    return int(number)


def audit(
    source: StreamOptions,
    epochs: Annotated[int, option("N", "Number of epochs to check of each source.")] = 1,
    turns: Annotated[str, option("N", "Number of turns to check of the mixture.")] = "1e6",
    content: Annotated[
        bool, flag("Also read every line, and compare it with its file.", "--content")
    ] = False,
    world: Annotated[
        int, option("N", "Simulate this number of processes that share the stream.")
    ] = 1,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Prove that every line appears exactly once per epoch, and that every source has its share.

    If the proof fails, the exit status is 1.
    """
    from volt.stream.checking import audit as auditing

    if epochs < 1 or world < 1:
        raise ConfigError(f"--epochs {epochs} --world {world}: give 1 or more")
    with source.open(user_code=trust, rank=0, world=world, n_workers=0) as stream:
        result = auditing.audit(stream, epochs=epochs, turns=_parse_lines(turns), content=content)
    print_result(result.to_json(), audit_table(result), as_json=as_json)
    if not result.exact:
        raise StreamError("the stream is not exact; see the table")
    say(
        "exact: every line once per epoch, "
        f"shares kept within {result.deviation:.3f} samples over {result.n_turns:,} turns"
    )


def schema(
    names: Annotated[
        list[str] | None, argument("TRANSFORM", "Transforms to document; default: all keys.")
    ] = None,
    as_json: Annotated[bool, flag("Print a JSON schema on stdout, for editors.", "--json")] = False,
    expand: Annotated[
        Path | None, option("CONFIG", "Print this template with its values filled in.")
    ] = None,
    settings: Settings = None,
) -> None:
    """Document every key of a configuration.

    A configuration may be a template: {{KEY}} stands for the value of --set KEY=VALUE, {% if %}
    omits parts, {% for %} repeats parts. --expand shows the result.
    """
    if expand is not None or settings:
        from volt.files.paths import check_readable
        from volt.stream.config.template_rendering import expand_template, read_template

        if expand is None or names or as_json:
            raise ConfigError(
                "--set needs --expand, and --expand excludes TRANSFORM and --json; remove these"
            )
        check_readable(expand, kind=ConfigError)
        values = parse_settings(settings)
        result = expand_template(read_template(expand), values, path=str(expand))
        typer.echo(result.text, nl=False)
        return
    from volt.stream.config import json_schema as documented
    from volt.stream.config.json_schema import as_text
    from volt.stream.config.problems import suggest_name
    from volt.stream.transforms.registry import TRANSFORMS

    for name in names or []:
        if name not in TRANSFORMS:
            raise ConfigError(f"no transform {name!r}; {suggest_name(name, list(TRANSFORMS))}")
    if as_json:
        schemas = {name: documented.transform_schema(name) for name in names or []}
        print_json(schemas or documented.json_schema(), indent=1)
    else:
        show(*(_with_indent(line) for line in as_text(names or []).rstrip().split("\n")))


def example(
    name: Annotated[
        str | None, argument("NAME", "Name of the example; by default, all are listed.")
    ] = None,
    out: Annotated[
        Path | None,
        option("FOLDER", "Where to write; default: the example's name.", "-o", "--output"),
    ] = None,
) -> None:
    """Write a working configuration, with generated data."""
    from volt.stream.example_streams import RECIPES, write_recipe

    if name is None:
        show(
            *(
                LabelledText(f"{key:18}", recipe.about.split(" "), label_style="")
                for key, recipe in RECIPES.items()
            )
        )
        return
    if is_stdout(out):
        raise ConfigError(
            "-o -: an example is several files, but stdout takes only one; name a folder"
        )
    paths = write_recipe(name, out or Path(name))
    say(f"wrote {', '.join(map(str, paths))}")
    say(f"next: {RECIPES[name].next.format(paths[0])}")


add_commands(
    app,
    run,
    preview,
    debug,
    plan,
    audit,
    trace,
    batches,
    vocabulary,
    schema,
    example,
    import_dynamicdata,
    cache,
    merge_states,
    skip,
    within="stream",
)
