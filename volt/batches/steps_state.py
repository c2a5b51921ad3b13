"""The state of steps, as JSON.

A window's samples come from stretches of lines. To read a stretch again, its stream state and
number of lines suffice:

    {"format": "volt.steps", "version": 1, "n": 812, "window": 3, "steps": 20, "world": 8,
     "stretches": [{"stream": …, "n_lines": 16384, "wanted": null}, …], "configuration": …}

`wanted` has one bit for each sample of a stretch, compressed with zlib and encoded in base64.
"""

from __future__ import annotations

import binascii
import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from volt import arguments
from volt.batches.argument_checks import Longs
from volt.batches.batching_rules import ByPacks, ByTokens
from volt.batches.samples import SampleFormat
from volt.stream.running import state_validation as schema
from volt.stream.running.state_validation import check_checksum, checksum, refusal

Size = int | Literal["epoch"]
Values = dict[str, Any]
FORMAT, VERSION = "volt.steps", 1
_NUMBERS = ("n", "window", "steps", "world")
_KEYS = ("format", "version", *_NUMBERS, "stretches", "configuration", "checksum")
_MOST_BYTES = 1 << 28  # after decompression: bits of two thousand million samples


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """A stretch: consecutive lines of a stream.

    state: the stream's state at the first of these lines
    places: (n_lines, 2) int64, each line's source, and its number in the source
    wanted: int64, the samples not yet used, in order; None for all
    """

    state: Mapping[str, Any]
    n_lines: int
    places: Longs
    wanted: Longs | None = None

    def of(self, samples: Longs) -> Stretch:
        """Return the stretch with only some of its samples not yet used."""
        return replace(self, wanted=samples if self.wanted is None else self.wanted[samples])

    def to_json(self) -> Values:
        wanted = None if self.wanted is None else bits_of(self.wanted)
        return {"stream": self.state, "n_lines": self.n_lines, "wanted": wanted}

    @classmethod
    def from_json(cls, stored: object, at: str) -> Stretch:
        """Return the stretch that `to_json` wrote. at: the key of the state, for errors"""
        data = schema.mapping(stored, at)
        schema.check_keys(data, ("stream", "n_lines", "wanted"), at)
        wanted = data["wanted"]
        return cls(
            state=dict(schema.mapping(data["stream"], f"{at}.stream")),
            n_lines=schema.whole(data["n_lines"], f"{at}.n_lines"),
            places=np.empty((0, 2), np.int64),
            wanted=None
            if wanted is None
            else samples_of(schema.text(wanted, f"{at}.wanted"), f"{at}.wanted"),
        )


@dataclass(frozen=True, slots=True)
class StepsState:
    """The position and configuration of steps.

    n: steps so far
    steps: steps so far in the window
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

    def to_json(self) -> Values:
        values = {
            "format": FORMAT,
            "version": VERSION,
            **{name: getattr(self, name) for name in _NUMBERS},
            "stretches": [stretch.to_json() for stretch in self.stretches],
            "configuration": self.configuration,
        }
        values = json.loads(json.dumps(values))
        return {**values, "checksum": checksum(values)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> StepsState:
        """Return the state that `to_json` wrote.

        Raises StreamError, with the key at fault, for anything else.
        """
        arguments.mapping(stored, "state", remedy="give what Steps.state returns")
        if stored.get("format") == "volt.stream":
            raise refusal("the state belongs to a stream of lines, not to steps")
        if stored.get("format") != FORMAT:
            raise refusal("this is not a state of steps")
        if stored.get("version") != VERSION:
            raise refusal(
                f"the state has version {arguments.shortened(repr(stored.get('version')))}, not {VERSION}"
            )
        schema.check_keys(stored, _KEYS)
        stretches = enumerate(schema.listed(stored["stretches"], "stretches"))
        result = cls(
            **{
                name: schema.whole(stored[name], name, low=int(name == "world"))
                for name in _NUMBERS
            },
            stretches=tuple(
                Stretch.from_json(stretch, f"stretches.{at}") for at, stretch in stretches
            ),
            configuration=dict(schema.mapping(stored["configuration"], "configuration")),
        )
        check_checksum(stored)
        if not result.stretches:
            raise refusal("the state has no stretches")
        return result


def configuration_of(
    samples: SampleFormat, rule: ByTokens | ByPacks, window: Size, pad_to_multiple: int
) -> Values:
    """Return `StepsState.configuration`."""
    fields = {
        f"field {place} ({name})": {
            "vocabulary": numbering.fingerprint,
            "prefix": [*samples.prefix.get(name, ())],
        }
        for place, (name, numbering) in enumerate(samples.vocabularies.items(), start=1)
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


def bits_of(samples: Longs) -> str:
    """Return numbers as bits (bit n is 1 if n is among them), compressed with zlib and encoded in
    base64.

    >>> samples_of(bits_of(np.array([0, 2])), "wanted").tolist()
    [0, 2]
    """
    bits = np.zeros(int(samples.max(initial=-1)) + 1, bool)
    bits[samples] = True
    data = np.packbits(bits).tobytes()
    return b64encode(zlib.compress(data, 9)).decode()


def samples_of(bits: str, at: str) -> Longs:
    """Return the numbers that `bits_of` encoded. at: the key of the state, for errors"""
    try:
        compressed = b64decode(bits.encode(), validate=True)
        data = zlib.decompressobj().decompress(compressed, _MOST_BYTES)
    except (zlib.error, binascii.Error, UnicodeEncodeError):
        raise refusal(f"the state's {at} does not contain bits") from None
    packed = np.frombuffer(data, np.uint8)
    return np.flatnonzero(np.unpackbits(packed))
