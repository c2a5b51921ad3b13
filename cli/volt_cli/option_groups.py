"""Let a command take groups of options: frozen dataclasses whose fields are options.

typer accepts only single options as parameters of a command. So `expand_groups` turns a command
with groups into one with a parameter for each field; when it is called, it builds the groups from
the values.

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

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import is_dataclass
from functools import cache, partial, wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, cast, get_args, get_type_hints

from typer.models import OptionInfo

Command = Callable[..., None]


def expand_groups(command: Command) -> Command:
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
