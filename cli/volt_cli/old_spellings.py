"""How commands used to be written, and how they are written now: one table, and the advice that it gives.

>>> refuse_old_spellings("decode", ["--ids", "-m", "a.volt"])
Traceback (most recent call last):
    ...
volt.errors.ConfigError: --ids is --form ids now
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from volt.errors import ConfigError

_FORM = r"\1 names a place; write --form \2 (or --output ./\2 for a file of that name)"
_MODEL = r"the vocabulary is an option now; write volt {command} -m MODEL"
_NO_MODEL = r"^(?!.* (?:-m|--model|-h$|--help$)).* [^-]"  # a name, and no option for it
_TRUST = {r" --no-user-code(?= |$)": "no code of a configuration runs here, unless you say --trust; leave this out"}

# command → patterns of its arguments, with a space before each (and between an option and its value) → what to write
OLD_SPELLINGS: dict[str, dict[str, str]] = {
    "encode": {
        r" (--output) (pieces|ids|npy|bin)(?= |$)": _FORM,
        r" --out(?= |$)": "--out is --output (or -o) now",
        r" --ids(?= |$)": "--ids is --form ids now",
    },
    "decode": {
        r" --ids(?= |$)": "--ids is --form ids now",
        r" --out(?= |$)": "--out is --output (or -o) now",
    },
    "inspect": {_NO_MODEL: _MODEL},
    "export": {_NO_MODEL: _MODEL},
    "compare": {
        r" --json -(?= |$)": "--json prints on stdout and takes no place; write --json",
        r" --json (\S+\.json)(?= |$)": r"--json prints on stdout and takes no file; write --json > \1",
    },
    "preview": _TRUST,
    "plan": _TRUST,
    "audit": _TRUST,
    "trace": _TRUST,
    "schema": {r" --no-user-code(?= |$)": "no code of a configuration runs here; leave this out"},
}


def refuse_old_spellings(command: str, arguments: Sequence[str]) -> None:
    """Raise ConfigError, with the new spelling, if a command is given in an old one."""
    line = _line(arguments)
    for pattern, advice in OLD_SPELLINGS.get(command, {}).items():
        if result := re.search(pattern, line):
            raise ConfigError(result.expand(advice.format(command=command)))


def _line(arguments: Sequence[str]) -> str:
    """What the patterns are looked for in: arguments up to "--", with a space before each and none inside.

    >>> _line(["--output=ids", "two words"])
    ' --output ids two·words'
    """
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    solid = (re.sub(r"\s", "·", argument) for argument in before)
    return "".join(re.sub(r"^ (--[a-z-]+)=", r" \1 ", f" {argument}") for argument in solid)
