"""Compare the configuration in a state with a stream's; `accept` allows some differences.

{"seed": 1, "sources": {"wmt": {"weight": 2.0}}}  and  {"seed": 1, "sources": {"wmt": {"weight": 1.0}}}
→ "sources.wmt.weight: 2.0 in the state, 1.0 here", which "weights" in `accept` allows
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from volt import arguments
from volt.errors import StreamError

ACCEPTABLE = ("weights", "sources", "data")
# the last keys of the values that change when lines are appended
_CHANGED_BY_DATA = (".lines", ".n_lines", ".block_lines", ".chunk_lines")


def differences(
    stored: Mapping[str, Any], current: Mapping[str, Any], *, prefix: str = ""
) -> list[str]:
    """Return the differences between two configurations, one line for each value.

    prefix: the start of each value's key, such as "sources."
    """
    lines = list[str]()
    for name in sorted({*stored, *current}):
        old = stored.get(name)
        new = current.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            lines += differences(old, new, prefix=f"{prefix}{name}.")
        elif prefix == "sources." and name not in current:
            lines.append(f"{prefix}{name}: only in the state")
        elif prefix == "sources." and name not in stored:
            lines.append(f"{prefix}{name}: not in the state")
        elif old != new:
            before, now = ("none" if value is None else value for value in (old, new))
            lines.append(f"{prefix}{name}: {before} in the state, {now} here")
    return lines


def refuse_difference(
    stored: Mapping[str, Any],
    current: Mapping[str, Any],
    *,
    accept: Collection[str] = (),
    grown: Collection[str] = (),
) -> tuple[str, ...]:
    """Raise StreamError if configurations differ in ways that `accept` does not allow.

    Return the kinds of the differences: some of the values that `accept` may have.

    accept: "weights", "sources" (added sources), "data" (appended lines)
    grown: names of the sources with appended lines
    """
    for name in arguments.several(accept, "accept", one="did you mean ['weights']?"):
        arguments.choice(name, "accept", ACCEPTABLE)
    kinds = {line: _classify(line, grown) for line in differences(stored, current)}
    refused = [line for line, kind in kinds.items() if kind not in accept]
    if refused:
        raise _refusal(refused, {*kinds.values()})
    return tuple(sorted({*kinds.values()}))


def _refusal(refused: Sequence[str], kinds: Collection[str]) -> StreamError:
    shown = "; ".join(refused)
    if {line.partition(":")[0] for line in refused} <= {"rank", "world"}:
        remedy = "restore it there, or merge the states of all ranks and restore the result"
        return StreamError(f"the state belongs to another rank: {shown}; {remedy}")
    if "" in kinds and any(".n_lines: " in line for line in refused):
        shown += (
            " (only lines after the others, not in Parquet or Arrow, and new files can be accepted)"
        )
    problem = f"the state belongs to another stream: {shown}; restore it there, or start anew"
    if "" in kinds:
        return StreamError(problem)
    return StreamError(f"{problem}, or pass", hint={"accept": sorted(kinds)})


def _classify(difference: str, grown: Collection[str]) -> str:
    """Return the kind of a difference, or "" if it cannot be accepted."""
    key, _, values = difference.partition(": ")
    if key == "mix":
        return "weights"
    if not key.startswith("sources."):
        return ""
    if values == "not in the state":
        return "sources"
    if any(key.startswith(f"sources.{name}.") and key.endswith(_CHANGED_BY_DATA) for name in grown):
        return "data"
    if key.endswith(".weight") or ".weight." in key:
        return "weights"
    return ""
