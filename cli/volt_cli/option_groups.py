"""Options that belong together: declared once, as the fields of a frozen dataclass, and taken by commands as one value.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Sound:
...     PANEL = "Sound"
...     volume: Annotated[int, OptionInfo(help="From 0 to 11.")] = 5
>>> def play(song: str, sound: Sound) -> None:
...     output.append((song, sound.volume))
>>> output = []
>>> list(signature(expanded(play)).parameters)
['song', 'volume']
>>> expanded(play)(song="Lilith", volume=11)
>>> output
[('Lilith', 11)]

typer reads a command's options off its parameters and takes no dataclasses; `expanded` puts the fields in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_args, get_type_hints

from typer.models import OptionInfo

Command = Callable[..., None]


def expanded(command: Command) -> Command:
    """The same command with a parameter for each field of its option groups.

    A group's PANEL is the heading under which the help shows its options.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    vars(run)["__signature__"] = Signature(list(_parameters(signature(command), hints)))
    return run


def _parameters(of: Signature, hints: dict[str, Any]) -> Iterator[Parameter]:
    for name, parameter in of.parameters.items():
        if is_dataclass(hints[name]):
            yield from _of_group(hints[name])
        else:
            yield parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY)


def _of_group(group: Any) -> Iterator[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        default = Parameter.empty if field.default is MISSING else field.default
        annotation = _in_panel(hints[field.name], group.PANEL)
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _in_panel(hint: Any, panel: str) -> Any:
    """An annotation with typer's option, which the help shows under this heading."""
    kind, declared = get_args(hint)
    option: OptionInfo = copy(declared)
    option.rich_help_panel = panel
    return Annotated[kind, option]
