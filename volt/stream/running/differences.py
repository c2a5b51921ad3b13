"""How the configuration of a state differs from that of a stream, by name, and which differences can be accepted.

>>> differences({"seed": 1, "sources": {"wmt": "a1"}}, {"seed": 2, "sources": {"wmt": "a1"}})
['seed: 1 in the state, 2 here']
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from volt import arguments
from volt.errors import StreamError

if TYPE_CHECKING:
    from volt.stream.reading.open_source import OpenSource

ACCEPTABLE = ("weights", "sources", "data")
_OF_LINES = (".lines", ".n_lines", ".block_lines", ".chunk_lines")


def fingerprint(value: object) -> str:
    """16 hexadecimal digits that stand for JSON-able values.

    >>> fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    True
    """
    return blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()


def fingerprints(source: OpenSource) -> dict[str, Any]:
    """What a source's lines depend on, short: the files' lines by their number and a fingerprint, each transform by
    name and one.
    """
    signature = dict(source.signature)
    names = [transform.name for transform in source.source.transforms]
    told: Any = signature.pop("transforms")
    transforms = [f"{name} {fingerprint(one)}" for name, one in zip(names, told, strict=True)]
    lines = {"lines": fingerprint(signature["lines"]), "n_lines": source.n_lines}
    return {**signature, **lines, "transforms": transforms}


def differences(stored: Mapping[str, Any], here: Mapping[str, Any], *, at: str = "") -> list[str]:
    """Return how two configurations differ, one line for each value."""
    lines = list[str]()
    for name in sorted({*stored, *here}):
        old, new = stored.get(name), here.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            lines += differences(old, new, at=f"{at}{name}.")
        elif name not in stored and isinstance(new, Mapping) and at == "sources.":
            lines.append(f"{at}{name}: not in the state")
        elif name not in here and isinstance(old, Mapping) and at == "sources.":
            lines.append(f"{at}{name}: only in the state")
        elif old != new:
            lines.append(f"{at}{name}: {_shown(old)} in the state, {_shown(new)} here")
    return lines


def _shown(value: object) -> str:
    return "none" if value is None else str(value)


def refuse_difference(
    stored: Mapping[str, Any], here: Mapping[str, Any], *, accept: Collection[str] = (), grown: Collection[str] = ()
) -> tuple[str, ...]:
    """Raise StreamError if a state's configuration is not this one; return which accepted differences there are.

    accept: what may differ: "weights" of the sources, and how they follow from their lines; "sources", which are new;
        "data", lines that were appended to a source
    grown: names of the sources whose lines begin with those of the state
    Raises ConfigError for other names.

    >>> old, new = ({"sources": {"wmt": {"weight": weight}}} for weight in (1.0, 2.0))
    >>> refuse_difference(old, new, accept=["weights"])
    ('weights',)
    """
    for name in arguments.several(accept, "accept", one="did you mean ['weights']?"):
        arguments.choice(name, "accept", ACCEPTABLE)
    lines = differences(stored, here)
    needed = {line: _acceptable(line, grown) for line in lines}
    if refused := [line for line in lines if needed[line] not in accept]:
        raise _refusal(refused, {needed[line] for line in lines})
    return tuple(sorted({*needed.values()} - {""}))


def _refusal(refused: Sequence[str], needed: Collection[str]) -> StreamError:
    told, remedy = "; ".join(refused), "restore it there, or start anew"
    if {line.partition(":")[0] for line in refused} <= {"rank", "world"}:
        merged = "merge the states of all ranks (volt stream merge-states, volt.stream.merge_states)"
        return StreamError(f"the state is that of another rank: {told}; restore it there, or {merged} and restore that")
    if "" not in needed:
        names = ", ".join(map(repr, sorted(needed))) + "," * (len(needed) == 1)
        remedy = f"{remedy}, or accept it (accept=({names}))"
    return StreamError(f"the state belongs to another stream: {told}; {remedy}")


def _acceptable(difference: str, grown: Collection[str]) -> str:
    """Return the name by which a difference is accepted; "" if it cannot be."""
    place, _, what = difference.partition(": ")
    if what == "not in the state" and place.startswith("sources."):
        return "sources"
    if any(place.startswith(f"sources.{name}.") and place.endswith(_OF_LINES) for name in grown):
        return "data"
    is_weight = place.startswith("sources.") and (place.endswith(".weight") or ".weight." in place)
    return "weights" if is_weight or place == "mix" else ""
