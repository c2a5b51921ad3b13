"""How the configuration of a state differs from that of a stream, by name; what is told is refused, or accepted.

>>> differences({"seed": 1, "sources": {"wmt": "a1"}}, {"seed": 2, "sources": {"wmt": "a1"}})
['seed: 1 in the state, 2 here']
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from volt import arguments
from volt.errors import StreamError

if TYPE_CHECKING:
    from volt.stream.reading.open_source import OpenSource

ACCEPTABLE = ("weights",)


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
    """How two configurations differ, one line for each value."""
    found = list[str]()
    for name in sorted({*stored, *here}):
        old, new = stored.get(name), here.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, at=f"{at}{name}.")
        elif old != new:
            found.append(f"{at}{name}: {_shown(old)} in the state, {_shown(new)} here")
    return found


def _shown(value: object) -> str:
    return "none" if value is None else str(value)


def refuse_difference(
    stored: Mapping[str, Any], here: Mapping[str, Any], *, accept: Collection[str] = ()
) -> tuple[str, ...]:
    """Raise StreamError if a state's configuration is not this one; which differences there are that are accepted.

    accept: what may differ; "weights" is all there is: those of the sources, and how they were made of their lines.
    Raises ConfigError for other names.

    >>> old, new = ({"sources": {"wmt": {"weight": weight}}} for weight in (1.0, 2.0))
    >>> refuse_difference(old, new, accept=["weights"])
    ('weights',)
    """
    for name in arguments.several(accept, "accept", one="did you mean ['weights']?"):
        arguments.choice(name, "accept", ACCEPTABLE)
    seen = _with_weights(stored, here) if "weights" in accept else stored
    if not (found := differences(seen, here)):
        return ("weights",) if seen != stored else ()
    told, remedy = "; ".join(found), "restore it there, or start anew"
    if {line.partition(":")[0] for line in found} <= {"rank", "world"}:
        merged = "merge the states of all ranks (volt stream merge-states, volt.stream.merge_states)"
        raise StreamError(f"the state is that of another rank: {told}; restore it there, or {merged} and restore that")
    if all(_is_weight(line) for line in found):
        remedy = f"{remedy}, or accept it (accept=('weights',))"
    raise StreamError(f"the state belongs to another stream: {told}; {remedy}")


def _is_weight(difference: str) -> bool:
    place = difference.partition(": ")[0]
    return place == "mix" or (place.startswith("sources.") and (place.endswith(".weight") or ".weight." in place))


def _with_weights(stored: Mapping[str, Any], here: Mapping[str, Any]) -> Mapping[str, Any]:
    """A state's configuration with the weights that its sources have here, and what made them."""
    old, new = stored.get("sources"), here.get("sources")
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return stored
    sources = dict(old)
    for name in {*old} & {*new}:
        if isinstance(old[name], Mapping) and {"weight"} <= {*old[name]} & {*new[name]}:
            sources[name] = {**old[name], "weight": new[name]["weight"]}
    mix = {"mix": here["mix"]} if "mix" in here else {}
    return {**{key: value for key, value in stored.items() if key != "mix"}, "sources": sources, **mix}
