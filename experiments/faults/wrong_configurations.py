"""Configurations of streams with one thing wrong each, made of right ones line by line, and what a stream should say.

A right configuration says behind a line what its value may be, as in `seed: 3  # whole 0`; that is how the campaign
knows, without asking the code under test, which changes are legal.

>>> wrong = next(one for one in mutants() if one.kind == "misspelt key")
>>> wrong.line, wrong.text.split("\\n")[0]
(1, 'sed: 3')
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from experiments.faults.right_configurations import RIGHT, SPECIAL

REFUSED = object()  # what YAML, or our reading of it, has no value for
VALUES: dict[str, dict[str, Any]] = {
    "wrong type": {
        "{x: 1}": {"x": 1}, "[[1]]": [[1]], "word": "word", "true": True, "12.5": 12.5, "null": None, "'3'": "3",
        "2026-01-01": "2026-01-01",
    },
    "out of range": {"-1": -1, "0": 0, "-0.5": -0.5, "1e3": 1000, "1_000": 1000, "0x1F": 31},
    "huge number": {"99999999999999999999": 10**20 - 1, "9223372036854775807": 2**63 - 1, "-1e300": -(10**300)},
    "not finite": {".nan": math.nan, ".inf": math.inf, "-.inf": -math.inf, "1e400": math.inf},
    "empty": {"[]": [], "''": "", "{}": {}},
    "unit": {"64M": "64M", "50%": "50%", "5s": "5s"},
    "YAML 1.1": {"no": REFUSED, "on": REFUSED, "Yes": REFUSED, "010": REFUSED, "1:30": REFUSED},
    "anchor": {"*nowhere": REFUSED, "&self [*self]": REFUSED, "!!python/name:os.system ''": REFUSED},
    "variable": {"$VOLT_NO_SUCH/x": "$VOLT_NO_SUCH/x", "~no_such_user/x": "~no_such_user/x"},
    "character": {'"a\\tb"': "a\tb", '"a\\0b"': "a\0b", '"\\ud800"': REFUSED},
}  # fmt: skip
_LINE = re.compile(r"(?P<before> *(- )?)(?P<key>\w+):(?P<value> [^#]*?)?( +# (?P<kind>.*))?")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A configuration with a change.

    kind: of the change;  base: what it is a change of;  told: the change in words
    line: of the change; 0 if more than one may be told
    is_legal: whether it still says what a stream can be
    """

    kind: str
    base: str
    told: str
    text: str | bytes
    line: int
    is_legal: bool


def mutants() -> Iterator[Mutant]:
    """All of them."""
    for base, text in RIGHT.items():
        lines = text.rstrip("\n").split("\n")
        for place, line in enumerate(lines):
            if found := _LINE.fullmatch(line):
                yield from _changes(base, lines, place, found)
    yield from (Mutant(one.kind, "special", one.told, one.text, one.line, one.is_legal) for one in SPECIAL)


def _changes(base: str, lines: list[str], place: int, found: re.Match[str]) -> Iterator[Mutant]:
    """A line changed in every way."""

    def changed(kind: str, told: str, *instead: str, is_legal: bool = False, line: int = place) -> Mutant:
        text = "\n".join([*lines[:place], *instead, *lines[place + 1 :]]) + "\n"
        return Mutant(kind, base, f"{found['key']}: {told}", text, line + 1, is_legal)

    before, key, value, kind = found["before"], found["key"], found["value"] or "", found["kind"] or ""
    indent = " " * len(before)
    if kind != "free" and len(key) > 1:
        yield changed("misspelt key", "key", f"{before}{key[:-2]}{key[-1:]}:{value}")
        yield changed("unknown key", "key", f"{before}zzz: 1", f"{indent}{key}:{value}")
    if value:
        yield changed("duplicate key", "twice", lines[place], f"{indent}{key}:{value}", line=place + 1)
        # a quote further down may close it, so that the line where YAML breaks is a later one
        yield changed("quotes", "open quote", f'{before}{key}: "{value.strip()}', line=-1)
        yield changed("brackets", "open bracket", f"{before}{key}: [{value.strip()}")
    if indent:
        yield changed("tab", "tab", f"\t{key}:{value}")
    for name, values in VALUES.items() if kind and kind != "free" else ():
        for text, meaning in values.items():
            at = -1 if "with" in kind.split() else place
            yield changed(name, text, f"{before}{key}: {text}", is_legal=fits(kind, meaning), line=at)


def fits(kind: str, value: Any) -> bool:
    """Whether a value is of a kind, as a right configuration names it.

    >>> fits("whole 0 9", 3), fits("whole 1", 0), fits("word a|b", "a"), fits("whole 1 null", None)
    (True, False, True, True)
    """
    name, *limits = kind.split()
    if value is REFUSED:
        return False
    if value is None:
        return "null" in limits
    if name in ("whole", "number"):
        return _is_number(name, value) and _is_within(
            value, [float(limit) for limit in limits if limit not in ("null", "with")]
        )
    if isinstance(value, str) and name in ("text", "path", "regex"):
        return _is_text(name, value)
    return (name == "bool" and isinstance(value, bool)) or (name == "word" and value in limits[0].split("|"))


def _is_number(name: str, value: Any) -> bool:
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return not isinstance(value, bool) and isinstance(value, int | float) and (is_whole or name == "number")


def _is_within(value: float, bounds: list[float]) -> bool:
    low, high = (*bounds, math.inf)[:2]
    return math.isfinite(value) and low <= value <= high


def _is_text(name: str, value: str) -> bool:
    if name == "path":
        return bool(value) and "\0" not in value and not value.startswith(("$", "~"))
    return "\t" not in value if name == "text" else bool(value)
