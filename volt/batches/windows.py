"""A stream → windows: the samples whose batches are made together, with what is needed to read them once more.

A window's samples are those of one or more stretches of the stream: the newest is read whole, and of earlier ones there
is what they left. A stretch is the stream's state at its start and a number of lines, so a window can be read again
anywhere, and that is all that a state of steps has to hold.

>>> stretch = Stretch({"n": 40}, 10, np.zeros((10, 2), np.int64))
>>> stretch.of(np.array([2, 5])).of(np.array([1])).wanted
array([5])

Where a run of steps stands, as JSON: the stretches of its window, and how many of the window's steps were given.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from volt import arguments
from volt.batches.batch_sampler import ByPacks, ByTokens, WindowPlan
from volt.batches.lengths import Longs
from volt.batches.packing import taken_samples
from volt.batches.samples import SampleFormat, Samples, joined_samples
from volt.errors import StreamError, shown_path
from volt.stream.running import state as values
from volt.stream.running.source_buffer import StreamBatch
from volt.stream.running.state import checksum, refusal
from volt.stream.running.stream import Stream

Size = int | Literal["epoch"]


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Lines of a stream that stand one after the other.

    state: the stream's at its start
    n_lines: how many lines
    places: (n_lines, 2) int64, for each line the number of its source, and its own number in the source
    wanted: int64, which of its samples are wanted, in order; None for all
    """

    state: Mapping[str, Any]
    n_lines: int
    places: Longs
    wanted: Longs | None = None

    def goes_on_with(self, other: Stretch) -> bool:
        """Check whether all its samples are wanted, and the lines of the other come next."""
        return self.wanted is None and self.state["n"] + self.n_lines == other.state["n"]

    def of(self, samples: Longs) -> Stretch:
        """Return the same where of its samples only these are wanted."""
        return replace(self, wanted=samples if self.wanted is None else self.wanted[samples])


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Samples and their steps.

    number: of the window, from 0
    world: how many ranks its steps are for
    stretches: where its samples come from, the newest last
    starts: (n_stretches + 1,) int64, where the samples of each stretch begin, and where the last end
    samples: those of each stretch, one after the other
    is_last: whether the stream ends with it
    planned: its steps
    """

    number: int
    world: int
    stretches: tuple[Stretch, ...]
    starts: Longs
    samples: Samples
    is_last: bool
    planned: WindowPlan

    @property
    def n_left(self) -> int:
        """How many samples are too few for a step, at the end of the stream."""
        return len(self.planned.left) if self.is_last else 0

    def only(self, rows: Longs) -> list[tuple[Stretch, Samples]]:
        """Some of its samples, by stretch, without stretches of which there is none. rows: in order"""
        cuts = np.searchsorted(rows, self.starts).tolist()
        pieces = [rows[start:end] for start, end in pairwise(cuts)]
        bounds = pairwise(self.starts.tolist())
        return [
            (stretch if len(piece) == end - start else stretch.of(piece - start), taken_samples(self.samples, piece))
            for stretch, (start, end), piece in zip(self.stretches, bounds, pieces, strict=True)
            if len(piece)
        ]

    def place(self, row: int) -> tuple[int, int, int]:
        """Of the line that a sample was made of: its number in the stream, that of its source, that in its source."""
        stretch = self.stretches[int(np.searchsorted(self.starts, row, side="right")) - 1]
        number = int(self.samples.numbers[row])
        source, line = stretch.places[number - stretch.state["n"]].tolist()
        return number, source, line


class Windows:
    """Makes the windows of a stream.

    samples: how lines become samples
    rule: makes steps of them
    size: how many lines are read for each window, or "epoch" for those of an epoch
    world: how many ranks there are
    pad_to_multiple: of the arrays' layout
    """

    def __init__(
        self, stream: Stream, samples: SampleFormat, rule: ByTokens | ByPacks, *, size: Size, world: int,
        pad_to_multiple: int = 1,
    ) -> None:  # fmt: skip
        self.stream, self.format, self.rule, self.size, self.world = stream, samples, rule, size, world
        self.pad_to_multiple = pad_to_multiple
        self.is_stopped = False  # whether the window that a thread makes is not wanted

    def stop(self) -> None:
        """Have the thread that makes a window raise StreamError soon; until `is_stopped` is reset, none is made."""
        self.is_stopped = True
        self.stream.interrupt()

    def first(self, number: int) -> Window:
        """Return the window that begins where the stream stands, without what an earlier one has left."""
        return self._with_next(number, [])

    def after(self, window: Window) -> Window | None:
        """Return the next window; None if the stream has ended."""
        return None if window.is_last else self._with_next(window.number + 1, window.only(window.planned.left))

    def again(self, number: int, world: int, stretches: Sequence[Stretch]) -> Window:
        """Return a window that was made before, from its stretches. The stream then stands where it ends.

        Raises StreamError if the stream gives fewer samples than there were.
        """
        parts = []
        for told in stretches:
            self.stream.restore(told.state)
            stretch, samples = self._joined(self._read(told.n_lines), told.state)
            if stretch.n_lines != told.n_lines:
                raise refusal(f"the state has a stretch of {told.n_lines:,} lines, and there are {stretch.n_lines:,}")
            if told.wanted is not None:
                if len(told.wanted) and told.wanted[-1] >= len(samples):
                    raise refusal(f"the state wants sample {told.wanted[-1]:,} of {len(samples):,}")
                stretch, samples = stretch.of(told.wanted), taken_samples(samples, told.wanted)
            parts.append((stretch, samples))
        return self._made(number, world, parts)

    def rest(self, window: Window, n_steps: int) -> Window | None:
        """What a window holds when so many steps have been given, in steps for the ranks that there are now.

        None if it holds nothing more.
        """
        parts = window.only(window.planned.rest(n_steps))
        return self._made(window.number, self.world, parts) if parts else None

    def _with_next(self, number: int, retained: list[tuple[Stretch, Samples]]) -> Window:
        state = self.stream.state()
        lines = self._read(self.size) if self.size != "epoch" else self._epoch()
        try:
            read = self._joined(lines, state)
            return self._made(number, self.world, _behind(retained, read))
        except BaseException:
            self.stream.restore(state)  # so that no line is lost where reading goes on
            raise

    def _made(self, number: int, world: int, parts: Sequence[tuple[Stretch, Samples]]) -> Window:
        samples = joined_samples([some for _, some in parts])
        starts = np.cumsum([0, *(len(some) for _, some in parts)])
        is_last = self.stream.place() is None
        planned = self.rule.planned(
            samples, world=world, seed=self.stream.seed, window=number, n_old=int(starts[-2]), is_last=is_last,
            pad_to_multiple=self.pad_to_multiple,
        )  # fmt: skip
        window = Window(number, world, tuple(stretch for stretch, _ in parts), starts, samples, is_last, planned)
        self._refuse_long(window)
        return window

    def _refuse_long(self, window: Window) -> None:
        """Raise StreamError, with the place of its line, for the first sample that is too long, if that is wanted."""
        too_long, _ = window.planned.unused
        if self.rule.on_long != "raise" or not len(too_long):
            return
        name, limit = self.rule.limit(self.pad_to_multiple)
        size = int(window.samples.lengths[too_long[0]].max())
        raise StreamError(
            f"{self.shown(window, int(too_long[0]))}: has {size:,} ids; {name} is {limit:,}; raise it, drop such lines "
            "with the filter length, or say on_long='report'"
        )

    def shown(self, window: Window, row: int) -> str:
        """Return where the line of a sample is, for people."""
        number, source, line = window.place(row)
        path, at = self.stream.sources[source].place_of(line)
        return f"{shown_path(path)}:{at} (line {number:,} of the stream)"

    # reading

    def _read(self, n: int | None) -> Iterator[StreamBatch]:
        return self.stream.batches(limit=n)

    def _epoch(self) -> Iterator[StreamBatch]:
        """Yield the lines of the next line's epoch; of several sources, those of a virtual epoch, or all."""
        if len(self.stream.sources) > 1:
            yield from self._read(self.stream.epoch_lines)
            return
        epoch = -1
        while (place := self.stream.place()) is not None and epoch in (-1, place[1].part.epoch):
            epoch = place[1].part.epoch
            yield next(self.stream.batches())

    def _joined(self, lines: Iterator[StreamBatch], state: Mapping[str, Any]) -> tuple[Stretch, Samples]:
        places, parts = [np.empty((0, 2), np.int64)], [self._none]
        for batch in lines:
            if self.is_stopped:
                raise StreamError("the steps were closed while a window was read; read on to have it made again")
            places.append(np.stack([batch.sources, batch.lines.origins], axis=1))
            parts.append(self.format.samples(batch))
        result = np.concatenate(places)
        return Stretch(state, len(result), result), self.rule.prepared(joined_samples(parts))

    @property
    def _none(self) -> Samples:
        return Samples.of({name: [] for name in self.format.vocabularies})


def _behind(retained: list[tuple[Stretch, Samples]], read: tuple[Stretch, Samples]) -> list[tuple[Stretch, Samples]]:
    """What is kept, and what has been read behind it; as one stretch where nothing of the last has been given."""
    if not retained:
        return [read]
    (last, samples), (stretch, new) = retained[-1], read
    if not len(new):
        return retained
    if not last.goes_on_with(stretch):
        return [*retained, read]
    places = np.concatenate([last.places, stretch.places])
    return [*retained[:-1], (Stretch(last.state, len(places), places), joined_samples([samples, new]))]


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
        """Return the state as JSON values.

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
        """Return the state that `to_json` wrote. Raises StreamError if it is none, and names what is wrong."""
        arguments.mapping(stored, "state", remedy="give what Steps.state returns")
        if stored.get("format") != FORMAT:
            kind = "a stream of lines" if stored.get("format") == "volt.stream" else "no steps"
            raise refusal(f"the state is that of {kind}, not one that Steps.state gave")
        if stored.get("version") != VERSION:
            raise refusal(f"the state has version {arguments.shortened(repr(stored.get('version')))}, not {VERSION}")
        values.check_keys(stored, _KEYS)
        result = cls(
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
        if not result.stretches:
            raise refusal("the state has no stretches")
        return result


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
    result: dict[str, Any] = {"fields": fields, "samples": told, rule.name: asdict(rule) | padding, "window": window}
    return dict(json.loads(json.dumps(result)))


def _stretch(stored: object, at: str) -> Stretch:
    data = values.mapping(stored, at)
    values.check_keys(data, ("stream", "n_lines", "wanted"), at)
    wanted = None if data["wanted"] is None else samples_of(values.text(data["wanted"], f"{at}.wanted"), f"{at}.wanted")
    lines = values.whole(data["n_lines"], f"{at}.n_lines")
    return Stretch(dict(values.mapping(data["stream"], f"{at}.stream")), lines, np.empty((0, 2), np.int64), wanted)


def bits_of(samples: Longs) -> str:
    """Numbers in rising order as bits.

    >>> len(bits_of(np.arange(100_000))) < 100
    True
    """
    bits = np.zeros(int(samples.max(initial=-1)) + 1, bool)
    bits[samples] = True
    return b64encode(zlib.compress(np.packbits(bits).tobytes(), 9)).decode()


def samples_of(bits: str, at: str) -> Longs:
    """Return the numbers that `bits_of` wrote. Raises StreamError for what it did not write. at: the key of the state

    >>> samples_of(bits_of(np.array([0, 2])), "wanted").tolist()
    [0, 2]
    """
    try:
        data = zlib.decompressobj().decompress(b64decode(bits.encode(), validate=True), _MOST_BYTES)
    except (zlib.error, binascii.Error, UnicodeEncodeError):
        raise refusal(f"the state's {at} holds no bits") from None
    return np.flatnonzero(np.unpackbits(np.frombuffer(data, np.uint8)))
