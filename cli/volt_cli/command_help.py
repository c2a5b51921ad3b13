"""Add functions as commands of typer: their help pages, two examples each, and groups of options.

typer accepts only single options as parameters of a command. So `expand_groups` turns a command
that takes groups of options (frozen dataclasses whose fields are options) into one with a parameter
for each field; when it is called, it builds the groups from the values. Tests run EXAMPLES from top
to bottom.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Sound:
...     PANEL = "Sound"  # heading of the group on the help page
...     volume: Annotated[int, OptionInfo(help="From 0 to 11.")] = 5
>>> def play(song: Annotated[str, OptionInfo()], sound: Sound) -> None:
...     print(song, sound.volume)
>>> list(signature(expand_groups(play)).parameters)
['song', 'volume']
>>> expand_groups(play)(song="Lilith", volume=11)
Lilith 11
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import is_dataclass
from functools import cache, partial, wraps
from inspect import Parameter, Signature, getdoc, signature
from pathlib import Path
from typing import Annotated, Any, cast, get_args, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.models import OptionInfo

# Each command, without "volt", and below it two command lines. Tests run them from top to bottom.
_EXAMPLES = """\
volt
  volt search corpus.txt
  volt encode -m corpus.volt corpus.txt -o corpus.pieces

search
  volt search corpus.txt --sizes 500:4000:500 -o corpus.volt
  zcat corpus.txt.gz | volt search - --select fixed:1000 --json -o small.volt > small.json

trial
  volt trial corpus.txt --hours 0.5 --epochs 10
  volt trial corpus.txt --hours 2 --read 500M -o trial --json > trial.json

shrink
  volt shrink corpus.volt --to 400 --on corpus.txt -o less.volt --map less.npy
  volt shrink corpus.volt --to 400 --on corpus.txt --closed -o - | gzip > less.volt.gz

encode
  volt encode -m corpus.volt corpus.txt --form npy -o encoded/
  volt encode -m corpus.volt --separator @@ < corpus.txt > corpus.bpe

binarize
  volt binarize -m corpus.volt corpus.txt -o train.de-en.de
  volt binarize -m corpus.volt corpus.txt --bos 1 --eos none --dtype i32 -o ids/

decode
  volt decode -m corpus.volt corpus.pieces -o corpus.back
  volt encode -m corpus.volt --form ids < corpus.txt | volt decode -m corpus.volt --form ids

inspect
  volt inspect -m corpus.volt "an unseen sentence about subclasses"
  volt inspect -m corpus.volt -n 100 --json > tokens.json

export
  volt export -m corpus.volt --to subword-nmt -o corpus.codes --check corpus.txt
  volt export -m corpus.volt --to huggingface -o corpus-hf --check corpus.txt

import
  volt import corpus-hf -o again.volt
  volt import corpus.codes --from subword-nmt -o - | gzip > again.volt.gz

compare
  volt compare corpus.txt --with bpe:1000 --with corpus.volt -o report.html
  volt compare docs=corpus.txt --heldout docs=heldout.txt --with bpe:1000 --json > report.json

demo
  volt demo
  volt demo --select fixed:4000 -o demo.volt

warmup
  volt warmup
  volt warmup --quiet

stream
  volt stream example case-noise -o noise
  volt stream run noise/stream.yaml --limit 1000 > lines.tsv

stream run
  volt stream run noise/stream.yaml --workers 2 --limit 1000 > lines.tsv
  volt stream run noise/stream.yaml --resume --state state.json | head -1000 > lines.tsv

stream preview
  volt stream preview noise/stream.yaml
  volt stream preview noise/stream.yaml -n 3 --from 1000 --changed

stream plan
  volt stream plan noise/stream.yaml
  volt stream plan noise/stream.yaml --at 1e7 --workers 2 --demand 900

stream audit
  volt stream audit noise/stream.yaml
  volt stream audit noise/stream.yaml --epochs 2 --world 8 --content --json

stream trace
  volt stream trace noise/stream.yaml 42
  volt stream trace noise/stream.yaml 1000000 --json

stream schema
  volt stream schema tag
  volt stream schema --expand noise/stream.yaml

stream example
  volt stream example batches
  volt stream example tasks -o tasks

stream batches
  volt stream batches batches/stream.yaml
  volt stream batches batches/stream.yaml -n 120 --world 8 --state steps.json --json

shard
  volt shard tasks/stream.yaml -o shards
  volt shard tasks/stream.yaml -o shards --task de_en --lines 100 --compress gz

translate-input
  volt translate-input tasks/stream.yaml --task de_en < corpus.txt > corpus.in
  volt translate-input tasks/stream.yaml corpus.txt --task auto_en -o corpus.in

translate-output
  volt translate-output tasks/stream.yaml --task de_en < corpus.in > corpus.out
  volt translate-output tasks/stream.yaml corpus.in --task de_en -o corpus.out

stream debug
  volt stream debug tasks/stream.yaml --task de_en --lines 3
  volt stream debug tasks/stream.yaml --task auto_en --html auto.html

stream vocabulary
  volt stream vocabulary tasks/stream.yaml --lines 1000 -o subwords.tsv
  volt stream vocabulary tasks/stream.yaml --task de_en --lines 1000 --top 100 > de_en.tsv

stream import-dynamicdata
  volt stream import-dynamicdata dynamicdata.yaml -o stream.yaml
  volt stream import-dynamicdata dynamicdata.yaml -o - --batch-samples 64 > stream.yaml

stream cache
  volt stream cache
  volt stream cache --prune --days 7

stream merge-states
  volt stream merge-states state.json -o merged.json
  volt stream merge-states state.json -o - > merged.json

stream skip
  volt stream skip batches/stream.yaml steps.json 120:130 -o skipped.json
  volt stream skip batches/stream.yaml steps.json 120:150 -o - > skipped.json
"""


def parse_examples(text: str) -> dict[str, list[str]]:
    """Return the examples of each command. text: blocks of a command and its examples

    >>> parse_examples("demo\\n  volt demo\\n  volt demo -o demo.volt\\n")
    {'demo': ['volt demo', 'volt demo -o demo.volt']}
    """
    blocks = [block.splitlines() for block in text.strip().split("\n\n")]
    return {command: [line.strip() for line in lines] for command, *lines in blocks}


EXAMPLES = parse_examples(_EXAMPLES)
SETTINGS = {"help_option_names": ["-h", "--help"]}


class Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return _adapt(super().get_params(ctx))


class Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return _adapt(super().get_params(ctx))


def _process_value(parameter: Any, context: Any, value: Any) -> Any:
    """Return the value of an option as typer does, which would import pydantic, in 70 ms.

    typer itself converts or refuses what `_convert` does not know.
    """
    try:
        result = _convert(parameter, value)
    except ValueError:
        return type(parameter).process_value(parameter, context, value)
    if parameter.callback is None:
        return result
    return parameter.callback(context, parameter, result)


def _convert(parameter: Any, value: Any) -> Any:
    """Convert a default, a text, one of several choices, or the path of a readable file.

    Raises ValueError for other values.
    """
    annotation = parameter.type_descriptor.annotation
    parser = parameter.type_descriptor.parameter_info.parser
    if parameter.required and not value:
        raise ValueError
    if parameter.nargs != 1 or getattr(parameter, "multiple", False):
        if annotation != list[str] or parser:
            raise ValueError
        return () if value is None else [*value]
    if value is None:
        return None
    if parser:
        return parser(value)
    if annotation is Path and os.access(value, os.R_OK):
        return Path(value)
    is_known = value in get_args(annotation) or type(value) is annotation
    if not is_known:
        raise ValueError
    return value


def _adapt(parameters: list[Any]) -> list[Any]:
    """Show no types on help pages, and convert values with `_process_value`."""
    for parameter in parameters:
        vars(parameter)["process_value"] = partial(_process_value, parameter)
        if isinstance(parameter, TyperOption) and parameter.is_flag:
            parameter.metavar = ""
        elif isinstance(parameter, TyperArgument):
            vars(parameter)["display_type_rich"] = lambda ctx: ""
    return parameters


def group(name: str, help: str, *, add_completion: bool = False) -> typer.Typer:
    return typer.Typer(
        name=name,
        cls=Group,
        help=help,
        epilog=epilog(name),
        context_settings=SETTINGS,
        no_args_is_help=True,
        add_completion=add_completion,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )


def add_commands(app: typer.Typer, *functions: Callable[..., None], within: str = "") -> None:
    """Add functions as commands of the same names, with their docstrings as help.

    within: the group of the commands, such as stream
    """
    for function in functions:
        name = function.__name__.strip("_").replace("_", "-")
        paragraphs = (getdoc(function) or "").split("\n\n")
        help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        examples = epilog(f"{within} {name}".strip())
        app.command(name, cls=Command, help=help, epilog=examples)(expand_groups(function))


def epilog(command: str) -> str:
    return "\n".join(("[dim]Examples[/]", *(f"  $ {example}" for example in EXAMPLES[command])))


def expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with a parameter for each field of its option groups.

    Groups may contain groups.
    """

    @wraps(command)
    def run(**values: Any) -> None:
        _call_with_groups(command, values)

    parameters = sorted(
        _expand_parameters(command), key=lambda parameter: parameter.default is not Parameter.empty
    )
    vars(run)["__signature__"] = Signature(parameters)
    return run


_hints = cache(partial(get_type_hints, include_extras=True))


def _expand_parameters(function: Callable[..., Any]) -> Iterator[Parameter]:
    """Yield the parameters of a command or group, and instead of a group its own parameters."""
    for name, parameter in signature(function).parameters.items():
        hint = _hints(function)[name]
        if is_dataclass(hint):
            yield from _expand_parameters(cast(type, hint))
            continue
        value_type, declared = get_args(hint)
        option: OptionInfo = copy(declared)
        option.rich_help_panel = getattr(function, "PANEL", None)
        yield parameter.replace(
            annotation=Annotated[value_type, option],
            kind=Parameter.KEYWORD_ONLY,
        )


def _call_with_groups(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call a command or the constructor of a group with the values of its options."""
    arguments = dict[str, Any]()
    for name in signature(function).parameters:
        hint = _hints(function)[name]
        is_group = is_dataclass(hint)
        arguments[name] = _call_with_groups(hint, values) if is_group else values[name]
    return function(**arguments)
