"""Where a run of steps stands, as JSON: the stretches of its window, and how many of the window's steps were given.

    {"format": "volt.steps", "version": 1, "n": 812, "window": 3, "steps": 20, "world": 8, "stretches": [{"stream": …,
     "n_lines": 16384, "wanted": null}, …], "configuration": …}

It says nothing of a rank: it is the same for all. `wanted` names samples of a stretch by bits: base64 of zlib.

>>> bits_of(samples_of(bits_of(np.array([1, 9])), "wanted")) == bits_of(np.array([1, 9]))
True
"""

from __future__ import annotations

import binascii
import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from volt import arguments
from volt.batches.lengths import Longs
from volt.batches.rules import ByPacks, ByTokens
from volt.batches.samples import SampleFormat
from volt.batches.windows import Size, Stretch
from volt.stream.running import state_values as values
from volt.stream.running.state import checksum
from volt.stream.running.state_values import refusal

FORMAT, VERSION = "volt.steps", 1
_KEYS = ("format", "version", "n", "window", "steps", "world", "stretches", "configuration", "checksum")
_MOST_BYTES = 1 << 28  # of bits: two thousand million samples


@dataclass(frozen=True, slots=True)
class StepsState:
    """Where a run of steps stands.

    n: how many steps it has given
    window: the number of the window that it stands in
    steps: how many of the window's steps have been given
    world: for how many ranks the window's steps were made
    stretches: where the window's samples come from; one without lines where no window has been made yet
    configuration: fingerprints and options, by name, of all that steps depend on beside the stream
    """

    n: int
    window: int
    steps: int
    world: int
    stretches: tuple[Stretch, ...]
    configuration: dict[str, Any]

    @property
    def is_unread(self) -> bool:
        """Whether no window has been made yet."""
        return not any(stretch.n_lines for stretch in self.stretches)

    def to_json(self) -> dict[str, Any]:
        """The state as JSON values.

        >>> StepsState(3, 0, 3, 2, (Stretch({"n": 0}, 9, np.zeros((9, 2), np.int64)),), {}).to_json()["stretches"]
        [{'stream': {'n': 0}, 'n_lines': 9, 'wanted': None}]
        """
        stretches = [
            {"stream": one.state, "n_lines": one.n_lines, "wanted": None if one.wanted is None else bits_of(one.wanted)}
            for one in self.stretches
        ]
        told: dict[str, Any] = {
            "format": FORMAT, "version": VERSION, "n": self.n, "window": self.window, "steps": self.steps,
            "world": self.world, "stretches": stretches, "configuration": self.configuration,
        }  # fmt: skip
        told = json.loads(json.dumps(told))
        return {**told, "checksum": checksum(told)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> StepsState:
        """The state that `to_json` wrote. Raises StreamError if it is none, and names what is wrong."""
        arguments.mapping(stored, "state", remedy="give what Steps.state returns")
        if stored.get("format") != FORMAT:
            kind = "a stream of lines" if stored.get("format") == "volt.stream" else "no steps"
            raise refusal(f"the state is that of {kind}, not one that Steps.state gave")
        if stored.get("version") != VERSION:
            raise refusal(f"the state has version {arguments.shortened(repr(stored.get('version')))}, not {VERSION}")
        values.check_keys(stored, _KEYS)
        found = cls(
            n=values.whole(stored["n"], "n"),
            window=values.whole(stored["window"], "window"),
            steps=values.whole(stored["steps"], "steps"),
            world=values.whole(stored["world"], "world", low=1),
            stretches=tuple(
                _stretch(one, f"stretches.{at}")
                for at, one in enumerate(values.listed(stored["stretches"], "stretches"))
            ),
            configuration=dict(values.mapping(stored["configuration"], "configuration")),
        )
        if values.text(stored["checksum"], "checksum") != checksum(stored):
            raise refusal("the state has been damaged, or edited by hand: its checksum does not fit")
        if not found.stretches:
            raise refusal("the state has no stretches")
        return found


def configuration_of(
    samples: SampleFormat, rule: ByTokens | ByPacks, window: Size, pad_to_multiple: int = 1
) -> dict[str, Any]:
    """Fingerprints and options, by name, of all that steps depend on beside the stream, as JSON values.

    pad_to_multiple: of the layout; batches by tokens depend on it

    >>> configuration_of(SampleFormat({"text": ["</s>", "lo"]}), ByTokens(max_tokens=64), 9)["window"]
    9
    """
    fields = {
        f"field {place} ({name})": {"vocabulary": numbering.fingerprint, "prefix": [*samples.prefix.get(name, ())]}
        for place, (name, numbering) in enumerate(samples.vocabularies.items(), start=1)
    }
    own = ("holds", "bos", "eos", "max_length", "beyond", "unknown")
    told = {name: getattr(samples, name) for name in own}
    padding = {"pad_to_multiple": pad_to_multiple} if isinstance(rule, ByTokens) and pad_to_multiple > 1 else {}
    found: dict[str, Any] = {"fields": fields, "samples": told, rule.name: asdict(rule) | padding, "window": window}
    return dict(json.loads(json.dumps(found)))


def _stretch(stored: object, at: str) -> Stretch:
    told = values.mapping(stored, at)
    values.check_keys(told, ("stream", "n_lines", "wanted"), at)
    wanted = None if told["wanted"] is None else samples_of(values.text(told["wanted"], f"{at}.wanted"), f"{at}.wanted")
    lines = values.whole(told["n_lines"], f"{at}.n_lines")
    return Stretch(dict(values.mapping(told["stream"], f"{at}.stream")), lines, np.empty((0, 2), np.int64), wanted)


def bits_of(samples: Longs) -> str:
    """Numbers in rising order as bits.

    >>> len(bits_of(np.arange(100_000))) < 100
    True
    """
    bits = np.zeros(int(samples.max(initial=-1)) + 1, bool)
    bits[samples] = True
    return b64encode(zlib.compress(np.packbits(bits).tobytes(), 9)).decode()


def samples_of(bits: str, at: str) -> Longs:
    """The numbers that `bits_of` wrote. Raises StreamError for what it did not write. at: the key of the state

    >>> samples_of(bits_of(np.array([0, 2])), "wanted").tolist()
    [0, 2]
    """
    try:
        data = zlib.decompressobj().decompress(b64decode(bits.encode(), validate=True), _MOST_BYTES)
    except (zlib.error, binascii.Error, UnicodeEncodeError):
        raise refusal(f"the state's {at} holds no bits") from None
    return np.flatnonzero(np.unpackbits(np.frombuffer(data, np.uint8)))
