"""Differences between the configuration in a state and that of a stream; `accept` allows some of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from volt import arguments
from volt.errors import StreamError

ACCEPTABLE = ("weights", "sources", "data")
_OF_LINES = (".lines", ".n_lines", ".block_lines", ".chunk_lines")


def differences(
    stored: Mapping[str, Any], current: Mapping[str, Any], *, at: str = ""
) -> list[str]:
    """Return the differences between two configurations, one line for each value."""
    lines = list[str]()
    for name in sorted({*stored, *current}):
        old = stored.get(name)
        new = current.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            lines += differences(old, new, at=f"{at}{name}.")
        elif at == "sources." and name not in current:
            lines.append(f"{at}{name}: only in the state")
        elif at == "sources." and name not in stored:
            lines.append(f"{at}{name}: not in the state")
        elif old != new:
            before, now = ("none" if value is None else value for value in (old, new))
            lines.append(f"{at}{name}: {before} in the state, {now} here")
    return lines


def refuse_difference(
    stored: Mapping[str, Any],
    current: Mapping[str, Any],
    *,
    accept: Collection[str] = (),
    grown: Collection[str] = (),
) -> tuple[str, ...]:
    """Raise StreamError if configurations differ in ways that `accept` does not allow. Return the kinds of differences.

    accept: "weights", "sources" (added sources), "data" (appended lines)
    grown: names of the sources with appended lines
    """
    for name in arguments.several(accept, "accept", one="did you mean ['weights']?"):
        arguments.choice(name, "accept", ACCEPTABLE)
    needed = {line: _acceptable(line, grown) for line in differences(stored, current)}
    refused = [line for line, kind in needed.items() if kind not in accept]
    if refused:
        raise _refusal(refused, {*needed.values()})
    return tuple(sorted({*needed.values()}))


def _refusal(refused: Sequence[str], needed: Collection[str]) -> StreamError:
    shown = "; ".join(refused)
    if {line.partition(":")[0] for line in refused} <= {"rank", "world"}:
        remedy = "restore it there, or merge the states of all ranks and restore the result"
        return StreamError(f"the state belongs to another rank: {shown}; {remedy}")
    problem = f"the state belongs to another stream: {shown}; restore it there, or start anew"
    if "" in needed:
        return StreamError(problem)
    return StreamError(f"{problem}, or pass", hint={"accept": sorted(needed)})


def _acceptable(difference: str, grown: Collection[str]) -> str:
    """Return the kind of a difference, or "" if it cannot be accepted."""
    place, _, what = difference.partition(": ")
    if place == "mix":
        return "weights"
    if not place.startswith("sources."):
        return ""
    if what == "not in the state":
        return "sources"
    if any(place.startswith(f"sources.{name}.") and place.endswith(_OF_LINES) for name in grown):
        return "data"
    if place.endswith(".weight") or ".weight." in place:
        return "weights"
    return ""
