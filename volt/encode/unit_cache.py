r"""`UnitCache`: bytes → values, line by line, by a table of known units and their values.

A cache belongs to one thread at a time, and is emptied when it exceeds its limit. volt.kernels explains unit, pending
and irregular.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from volt.encode.merge_tables import MergeTables
from volt.encode.pretokens import UnitRule, parting_of_units
from volt.encode.rendering import Rendering, places_of
from volt.files.buffers import Padded, PaddedMemory, aligned, longer
from volt.files.ranges import FileSpan
from volt.text.characters import ALPHABET, BYTE_TOKENS, SPACE, CharacterClasses
from volt.text.pretokenizer import IF_ABSENT
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.kernels.pretokenize import Cutter
    from volt.kernels.unit_encoder import LoopState, UnitEncoder
    from volt.text.patterns.split_points import SplitPoints


_NOTHING = np.zeros(0, np.int32)
_ALPHABET = np.array([ord(character) for character in ALPHABET], np.int32)


def unit_encoder_of(tables: MergeTables, rendering: Rendering | None, classes: CharacterClasses) -> UnitEncoder:
    """Return the tables by which compiled code encodes units; `UnitEncoder.for_thread` adds memory."""
    from volt.kernels.unit_encoder import ID_SIZE, numbering

    starts, values = rendering.known_rows(len(tables.retained)) if rendering else (np.zeros(1, np.int64), _NOTHING)
    starts, values = starts * values.itemsize, np.concatenate([values.view(np.uint8), np.zeros(8, np.uint8)])
    empty, widths, vocabulary, byte_ids = numbering(), np.diff(starts), tables.vocabulary, _NOTHING
    is_by_bytes = vocabulary.byte_fallback and not vocabulary.pretokenizer.is_bytes and vocabulary.marker != "suffix"
    if rendering and rendering.are_ids and is_by_bytes:  # bytes alone spell unknown characters
        byte_ids = np.array([vocabulary.ids[token] for token in BYTE_TOKENS], np.int32)
    return empty._replace(
        cutter=_cutter(tables, empty.cutter, classes), sampled=rendering is None, merges=tables.merges,
        rule=tables.rule, starts=starts, rendered=values, byte_ids=byte_ids,
        widest=max(ID_SIZE, int(widths.max(initial=0))),
        width=int(widths[0]) if len(widths) and (widths == widths[0]).all() else 0,
    )  # fmt: skip


def _cutter(tables: MergeTables, empty: Cutter, classes: CharacterClasses) -> Cutter:
    from volt.kernels.pretokenize import BYTES, WORD

    vocabulary, parting = tables.vocabulary, parting_of_units(tables.vocabulary)
    cut, marker = _cut(vocabulary, parting), ("none", "suffix", "prefix").index(vocabulary.marker)
    characters = _ALPHABET if cut >= BYTES else np.where(np.arange(256) == ord(" "), ord(SPACE), np.arange(256))
    user = vocabulary.special.user if cut > WORD else ()  # only if units are text
    user_starts = np.zeros(256 if user else 0, np.uint8)
    user_starts[[token.encode()[0] for token in user]] = 1
    cutter = empty._replace(
        cut=cut, marker=marker, symbol_of=tables.symbol_of, user_starts=user_starts,
        byte_symbols=tables.symbol_of[np.concatenate([2 * characters, 2 * characters + 1])],
    )  # fmt: skip
    if parting is None:
        return cutter._replace(classes=classes.table) if _uses_classes(cut) else cutter
    own = vocabulary.pretokenizer.cutter
    assert own is not None  # only a pattern has split points
    automaton = own.splitter.tables
    return cutter._replace(
        classes=automaton.classes, moves=automaton.moves, end=automaton.end, splits=automaton.splits,
        kinds=parting.kinds, breaks=parting.breaks, alone=int(parting.alone), matches_only=int(own.matches_only),
    )  # fmt: skip


def _cut(vocabulary: Vocabulary, parting: SplitPoints | None) -> int:
    from volt.kernels import pretokenize

    name = vocabulary.pretokenizer.name
    if vocabulary.pretokenizer.has_own_pattern:
        if parting is None:
            return pretokenize.WORD  # units are normalised pre-tokens
        return pretokenize.BYTE_PATTERN if vocabulary.pretokenizer.is_bytes else pretokenize.PATTERN
    if vocabulary.normalizer.name != "none" or name.endswith(IF_ABSENT):
        return pretokenize.NEVER
    if name == "whitespace":
        return pretokenize.SPLIT
    cuts = {
        "metaspace": pretokenize.METASPACE, "metaspace-runs": pretokenize.RUNS, "metaspace-line": pretokenize.RUNS,
        "unicode": pretokenize.UNICODE, "gpt2": pretokenize.GPT2, "bytes": pretokenize.BYTES,
    }  # fmt: skip
    return cuts[name] if vocabulary.marker == "none" else pretokenize.NEVER


def _uses_classes(cut: int) -> bool:
    from volt.kernels.pretokenize import BYTES, GPT2, UNICODE

    return cut in (UNICODE, GPT2, BYTES)


Longs = NDArray[np.int64]
_N_SLOTS = 1 << 17
_N_LINES, _N_LEFT = 1 << 14, 1 << 9
_N_AT_ONCE = 1 << 12  # pending units that are encoded in one call


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """The encoded lines of a chunk.

    values: ids (n,) int32, or text (n,) uint8 with a line end after each line
    ends: (n_lines,) int64, where each line's values end
    left: (n_left, 2) int64, lines that Python must encode, absent from `values`: number, and end of text
    """

    values: NDArray[Any]
    ends: Longs
    left: Longs = field(default_factory=lambda: np.empty((0, 2), np.int64))


class UnitCache:
    """The distinct units so far, and their values.

    rule: where units begin and end
    encoder: the tables for new units
    dtype: the type of the values
    limit: about how many units are cached; each further word of a unit counts as one more
    """

    def __init__(self, rule: UnitRule, encoder: UnitEncoder, dtype: DTypeLike, *, limit: int = 1 << 20) -> None:
        from volt.kernels.encode_units import RING

        self.rule, self.limit, self._encoder, self._dtype = rule, limit, encoder.for_thread(), np.dtype(dtype)
        self._line_ends, self._left = np.empty(_N_LINES, np.int64), np.empty((_N_LEFT, 2), np.int64)
        self._memory, self._ring = PaddedMemory(), aligned(RING)
        self.clear()

    @property
    def uses_classes(self) -> bool:
        return _uses_classes(self._encoder.cutter.cut)

    def trim(self) -> None:
        if self.n_units > self.limit:
            self.clear()

    def clear(self) -> None:
        from volt.kernels.encode_units import ROOM
        from volt.kernels.unit_table import UnitRows

        n = _N_SLOTS * 3 // 8
        self._table = UnitRows(
            rows=aligned(4 * _N_SLOTS), bytes=np.zeros(16 * n, np.uint8), starts=np.zeros(n + 1, np.int64),
            firsts=np.zeros(n, np.uint8), value_starts=np.zeros(n, np.int64),
            values=np.zeros(16 * n + ROOM, np.uint8), pending=np.zeros(n, np.int64),
        )  # fmt: skip
        self.n_units = self._n_values = self._n_pending = 0

    def read(self, text: bytes | memoryview | FileSpan, *, separator: int, padded: bool = False) -> Padded:
        """Return a text padded for the loop, in reused memory: see `PaddedMemory`."""
        return self._memory.read(text, separator=separator, padded=padded)

    def encode(self, text: Padded, *, strips_return: bool = False) -> EncodedPart:
        """Return the values of a text's lines, valid only if no units are `pending`: see `fill_pending`."""
        from volt.kernels.encode_units import ROOM, Rule, encode_units
        from volt.kernels.unit_encoder import LoopState

        own = self.rule
        rule = Rule(
            text.separator, strips_return, own.breaks, own.clinging, own.keeps_breaks, own.marks_first,
            self._dtype == np.uint8,
        )  # fmt: skip
        self._n_pending = 0
        out = np.empty((2 * text.size if rule.is_text else text.size + text.size // 2) + 2 * ROOM, np.uint8)
        slots = LoopState(n_units=self.n_units, n_values=self._n_values).slots()
        while status := encode_units(
            text.data, text.size, rule, self._table, self._encoder, out, self._line_ends, self._left, self._ring, slots
        ):
            out = self._with_room(status, out, LoopState.read(slots), text)
        state = LoopState.read(slots)
        self.n_units, self._n_values, self._n_pending = state.n_units, state.n_values, state.n_pending
        ends = self._line_ends[: state.line] // self._dtype.itemsize
        return EncodedPart(out[: state.written].view(self._dtype), ends, self._left[: state.n_left].copy())

    def _with_room(self, status: int, out: NDArray[np.uint8], state: LoopState, text: Padded) -> NDArray[np.uint8]:
        """Enlarge the full array. Return `out`, or a longer copy of it."""
        from volt.kernels.encode_units import LINES_FULL, OUT_FULL
        from volt.kernels.pretokenize import LONGEST
        from volt.kernels.unit_table import rebuild

        table = self._table
        if status == OUT_FULL:
            return longer(out, 2 * len(out))
        if status == LINES_FULL:
            self._line_ends = longer(self._line_ends, 2 * len(self._line_ends))
            self._left = np.concatenate([self._left, np.empty_like(self._left)])
        elif state.n_units >= len(table.firsts):
            rows, n = aligned(2 * len(table.rows)), 2 * len(table.firsts)
            rebuild(rows, table.rows)
            self._table = table._replace(
                rows=rows, starts=longer(table.starts, n + 1), firsts=longer(table.firsts, n),
                value_starts=longer(table.value_starts, n), pending=longer(table.pending, n),
            )  # fmt: skip
        else:  # any unit of the text must fit
            n_values = 2 * len(table.values) + 2 * (LONGEST + 1) * self._encoder.widest
            data = longer(table.bytes, 2 * len(table.bytes) + text.size)
            self._table = table._replace(bytes=data, values=longer(table.values, n_values))
        return out

    @property
    def pending(self) -> Longs:
        """The numbers of the last text's pending units, (n,)."""
        return self._table.pending[: self._n_pending]

    def units(self, numbers: Longs) -> tuple[bytes, Longs]:
        """Return the bytes of units, concatenated, and where each ends."""
        starts, sizes = self._table.starts[numbers], self._table.starts[numbers + 1] - self._table.starts[numbers]
        return self._table.bytes[places_of(starts, sizes)].tobytes(), np.cumsum(sizes)

    def firsts(self, numbers: Longs) -> NDArray[np.uint8]:
        return self._table.firsts[numbers]

    def encode_pending(self) -> None:
        """Encode pending units whose characters have a class now."""
        from volt.kernels.encode_units import ROOM, encode_pending
        from volt.kernels.unit_table import complete

        pending, retained = self.pending.copy(), list[Longs]()
        for numbers in np.array_split(pending, 1 + len(pending) // _N_AT_ONCE):
            n_bytes = int((self._table.starts[numbers + 1] - self._table.starts[numbers]).sum())
            self._reserve(self._n_values + 2 * (n_bytes + len(numbers)) * self._encoder.widest + ROOM)
            data, sizes = self._table.bytes[:], np.empty(len(numbers), np.int64)
            data.flags.writeable = False
            self._n_values = encode_pending(data, self._table, self._encoder, numbers, sizes, self._n_values)
            complete(self._table, numbers[sizes >= 0], sizes[sizes >= 0])
            retained.append(numbers[sizes < 0])
        left = np.concatenate(retained)
        self._table.pending[: len(left)], self._n_pending = left, len(left)

    def fill_pending(self, values: NDArray[Any], ends: Longs, irregular: NDArray[np.bool_]) -> None:
        from volt.kernels.encode_units import ROOM
        from volt.kernels.unit_encoder import IRREGULAR
        from volt.kernels.unit_table import complete

        used, values, ends = self._n_values, values.view(np.uint8), ends * self._dtype.itemsize
        self._reserve(used + len(values) + ROOM)
        table = self._table
        table.values[used : used + len(values)] = values
        starts = np.concatenate([[0], ends[:-1]])
        table.value_starts[self.pending] = used + starts
        complete(table, self.pending, np.where(irregular, IRREGULAR, ends - starts))
        self._n_values, self._n_pending = used + len(values), 0

    def _reserve(self, n: int) -> None:
        if n > len(self._table.values):
            self._table = self._table._replace(values=longer(self._table.values, 2 * n))
