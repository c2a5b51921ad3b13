"""The state of steps, as JSON: enough to read the lines of the current window again.

    {"format": "volt.steps", "version": 1, "n": 812, "window": 3, "steps": 20, "world": 8,
     "stretches": [{"stream": …, "n_lines": 16384, "wanted": null}, …], "configuration": …}

A *stretch* is consecutive lines of the stream whose samples have not all been used when the window
begins. Usually, a window has two: the old lines whose samples the window before left over, and the
lines read for this window. `stream` is the state of the stream at a stretch's first line; `wanted`
marks its unused samples: one bit for each sample of the stretch, compressed with zlib and encoded
in base64; null for all. `steps` of the window's steps were taken before the state.

`Steps` writes and restores states. `Windows` makes stretches, and reads their lines again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from volt import arguments
from volt.array_types import Longs
from volt.batches.batching_rules import ByPacks, ByTokens
from volt.batches.samples import SampleFormat
from volt.stream.running import state_validation as schema
from volt.stream.running.state import State
from volt.stream.running.state_validation import (
    check_checksum,
    checksum,
    decode_bits,
    encode_bits,
    refusal,
)

Size = int | Literal["epoch"]
Values = dict[str, Any]
FORMAT, VERSION = "volt.steps", 1
_MINIMUMS = {"n": 0, "window": 0, "steps": 0, "world": 1}  # of the state's numbers
_KEYS = ("format", "version", *_MINIMUMS, "stretches", "configuration", "checksum")


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Consecutive lines of a stream, and which of their samples are unused.

    state: the stream's state at the first of these lines
    origins: (n_lines, 2) int64, each line's source, and its number in the source; empty until the
        lines of a stored stretch are read
    unused: int64, the indices of the unused samples, ascending; None for all
    """

    state: Mapping[str, Any]
    n_lines: int
    origins: Longs
    unused: Longs | None = None

    def select_unused(self, indices: Longs) -> Stretch:
        """Return the stretch with fewer unused samples.

        indices: among the unused samples so far
        """
        unused = indices if self.unused is None else self.unused[indices]
        return replace(self, unused=unused)

    def to_json(self) -> Values:
        bits = None if self.unused is None else encode_bits(self.unused)
        return {"stream": self.state, "n_lines": self.n_lines, "wanted": bits}

    @classmethod
    def from_json(cls, stored: object, key: str) -> Stretch:
        """Return the stretch that `to_json` wrote.

        key: its key in the state, for errors
        """
        values = schema.mapping(stored, key)
        schema.check_keys(values, ("stream", "n_lines", "wanted"), key)
        unused = None
        if values["wanted"] is not None:
            bits = schema.text(values["wanted"], f"{key}.wanted")
            unused = decode_bits(bits, f"{key}.wanted")
        return cls(
            state=dict(schema.mapping(values["stream"], f"{key}.stream")),
            n_lines=schema.whole(values["n_lines"], f"{key}.n_lines"),
            origins=np.empty((0, 2), np.int64),
            unused=unused,
        )


@dataclass(frozen=True, slots=True)
class StepsState:
    """The position and configuration of steps.

    n: number of steps taken so far
    window: the number of the window
    steps: number of steps taken so far in the window
    world: the number of ranks of the window's steps
    stretches: the window's stretches; before the first window, one stretch without lines
    configuration: fingerprints and options that steps depend on, by name
    """

    n: int
    window: int
    steps: int
    world: int
    stretches: tuple[Stretch, ...]
    configuration: Values

    @property
    def lines(self) -> State:
        """The newest state of the stream of lines."""
        return State.from_json(self.stretches[-1].state)

    def add_skipped(self, lines: Longs) -> StepsState:
        """Return the state with more skipped lines.

        lines: their numbers in the stream
        """
        last = replace(self.stretches[-1], state=self.lines.add_skipped(lines).to_json())
        return replace(self, stretches=(*self.stretches[:-1], last))

    def to_json(self) -> Values:
        values = {
            "format": FORMAT,
            "version": VERSION,
            **{name: getattr(self, name) for name in _MINIMUMS},
            "stretches": [stretch.to_json() for stretch in self.stretches],
            "configuration": self.configuration,
        }
        values = json.loads(json.dumps(values))
        return {**values, "checksum": checksum(values)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> StepsState:
        """Return the state that `to_json` wrote.

        Raises StreamError, with the wrong key, for anything else.
        """
        arguments.mapping(stored, "state", remedy="give what Steps.state returns")
        if stored.get("format") == "volt.stream":
            raise refusal("the state belongs to a stream of lines, not to steps")
        if stored.get("format") != FORMAT:
            raise refusal("this is not a state of steps")
        if stored.get("version") != VERSION:
            version = arguments.shortened(repr(stored.get("version")))
            raise refusal(f"the state has version {version}, not {VERSION}")
        schema.check_keys(stored, _KEYS)
        numbers = {
            name: schema.whole(stored[name], name, low=low) for name, low in _MINIMUMS.items()
        }
        stretches = [
            Stretch.from_json(value, f"stretches.{index}")
            for index, value in enumerate(schema.listed(stored["stretches"], "stretches"))
        ]
        configuration = dict(schema.mapping(stored["configuration"], "configuration"))
        check_checksum(stored)
        if not stretches:
            raise refusal("the state has no stretches")
        return cls(**numbers, stretches=tuple(stretches), configuration=configuration)


def describe_configuration(
    samples: SampleFormat, rule: ByTokens | ByPacks, window: Size, pad_to_multiple: int
) -> Values:
    """Return the options and fingerprints that steps depend on, as JSON values."""
    fields = {
        f"field {number} ({name})": {
            "vocabulary": numbering.fingerprint,
            "prefix": [*samples.prefix.get(name, ())],
        }
        for number, (name, numbering) in enumerate(samples.vocabularies.items(), start=1)
    }
    names = ("holds", "bos", "eos", "max_length", "beyond", "unknown")
    rule_options = asdict(rule)
    if isinstance(rule, ByTokens) and pad_to_multiple > 1:
        rule_options["pad_to_multiple"] = pad_to_multiple
    values: Values = {
        "fields": fields,
        "samples": {name: getattr(samples, name) for name in names},
        rule.name: rule_options,
        "window": window,
    }
    return dict(json.loads(json.dumps(values)))
