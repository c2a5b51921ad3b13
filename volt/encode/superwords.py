r"""Encode vocabularies whose pre-tokens contain spaces: merges may cross spaces, as in SuperBPE.

    "by the way, he"   →   tokens "by", "Ġthe", "Ġway", ",", "Ġhe"   →   "byĠtheĠway", ",", "Ġhe"

A *stretch* is such a pre-token. Few stretches repeat, so a cache of them would not help. But let
the first merge that crosses a *boundary*, the place before a space that follows another character,
have rank t. Merges of lower ranks can be applied to each *unit*, the text between boundaries, alone,
and units do repeat. A stretch becomes the tokens of its units, and then all merges are applied to
these tokens: merging would reach the same tokens in the stretch before it applies rank t.

All ways to make tokens by merges say which pairs of neighbouring tokens a merge can ever join. A
stretch is cut at all other pairs, and the runs that remain are merged one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain

import numpy as np

from volt.array_cache import Arrays
from volt.encode.arrays import Bytes, EncodedPart, Ints, Longs
from volt.encode.batch_encoder import BatchEncoder
from volt.encode.chunks import Chunk
from volt.encode.merge_tables import MergeTables
from volt.encode.pretokens import decode_lines, split_lines, word_lines
from volt.encode.rendering import Rendering
from volt.encode.unit_cache import UnitCache
from volt.encode.units import UnitRule
from volt.encode.word_tables import CONTINUED, NEVER_SPLIT, OWN_PRIVATE, WordTables, join_words
from volt.files.loop_memory import aligned_zeros
from volt.files.ranges import FileSpan
from volt.kernels.regex_cutting import SplitTables
from volt.kernels.superwords import LAG, MISMATCH, RUN_SIZE, SLACK, Joins, Stretches
from volt.text.atoms import SPACE
from volt.text.byte_alphabet import ALPHABET
from volt.text.patterns.published import BYTES, drops_rest, is_declared, name_of, splits_of
from volt.text.patterns.splitter import Split
from volt.text.patterns.word_cutter import LINE_END
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary.cached_vocabulary import cached_with

_LINE = "metaspace-line"
_UNITS = Split(" +[^ ]*|[^ ]+")  # cuts a stretch at its boundaries
_ALL_TEXT = Split(r"[\s\S]+")
_BITS_OF_PAIR = 32  # of the filter, at least
_FIRST_SHIFT = 52  # 64 minus the bits of a number of a bit in the smallest filter
_N_RUNS = 1 << 17  # that each thread knows; they take up to 8 MB
_BEYOND = np.iinfo(np.int64).max


@dataclass(frozen=True)
class SuperwordTables:
    """A vocabulary whose pre-tokens may contain spaces, for compiled code.

    units: the merges before the first merge across a boundary; its vocabulary splits text into units
    joins: all merges
    match_starts: `WordCutter.match_starts` of the pre-tokenizer; (0,) if lines are not cut by a pattern
    n_across: the number of the other merges
    """

    tables: MergeTables
    units: MergeTables
    joins: Joins
    match_starts: Bytes
    n_across: int

    @classmethod
    def of(cls, tables: WordTables) -> SuperwordTables | None:
        """Return the tables; None if pre-tokens of the vocabulary cannot be encoded in two steps."""
        vocabulary = tables.vocabulary
        pretokenizer = _split_at_boundaries(vocabulary.pretokenizer)
        if pretokenizer is None or vocabulary.marker != "none":
            return None
        if not isinstance(tables, MergeTables) or tables.words.longest:
            return None
        from volt.kernels.bpe_tables import Merges

        arrays = cached_with(vocabulary, ["superwords"], partial(_build_arrays, tables))
        pairs, rivals, joinable, shapes, match_starts, numbers = arrays
        n_first, first, shift = numbers.tolist()
        merges = tables.merges
        first_merges = Merges(pairs, merges.results[:n_first], rivals, merges.one_by_one, first)
        # `replace` would validate all merges again, and lose what is stored
        unit_vocabulary = copy(vocabulary)
        object.__setattr__(unit_vocabulary, "pretokenizer", pretokenizer)
        units = replace(
            tables,
            vocabulary=unit_vocabulary,
            merges=first_merges,
            retained=np.ones_like(tables.retained),
            parts=np.full_like(tables.parts, NEVER_SPLIT),
        )
        joins = Joins(
            joinable=joinable,
            shift=shift,
            shapes=shapes,
            own_private=OWN_PRIVATE,
            continued=CONTINUED,
            merges=merges._replace(rivals=rivals[:0]),  # those of pairs of atoms only
            rule=tables.rule,
        )
        return cls(tables, units, joins, match_starts, len(merges.results) - n_first)

    @cached_property
    def longest(self) -> int:
        """Return the number of characters of the longest token."""
        return int(self.joins.shapes.max(initial=2)) >> 1

    @cached_property
    def splits_back(self) -> bool:
        """Return whether some tokens are scaffolding."""
        return not self.joins.rule.retained.all()

    @property
    def is_faster(self) -> bool:
        """Check whether two steps take less time than one."""
        vocabulary = self.tables.vocabulary
        is_slow = UnitRule.of(vocabulary).units_are_words
        if not is_slow and not vocabulary.pretokenizer.name.startswith(_LINE):
            return False
        return self.n_across > 0 or not UnitRule.of(self.units.vocabulary).units_are_words


def _split_at_boundaries(pretokenizer: PreTokenizer) -> PreTokenizer | None:
    """Return a pre-tokenizer that also splits at boundaries; None if there is none."""
    name = pretokenizer.name
    if name.startswith(_LINE):
        return PreTokenizer(name.replace(_LINE, "metaspace-runs"))
    if not is_declared(name) or drops_rest(name):
        return None
    splits = [split for split in splits_of(name) if split != _ALL_TEXT]
    prefix = BYTES if pretokenizer.is_bytes else ""
    return PreTokenizer(prefix + name_of((*splits, _UNITS)))


def _build_arrays(tables: MergeTables) -> Arrays:
    """Return the arrays that `SuperwordTables.of` unpacks."""
    from volt.kernels.bpe_tables import pairs_met, ranked_merges
    from volt.kernels.superwords import mark_joinable

    strings = tables.tokens
    merges = tables.merges
    space = ALPHABET[ord(" ")] if tables.vocabulary.pretokenizer.is_bytes else SPACE
    n_first = len(merges.results)
    for rank, result in enumerate(merges.results.tolist()):
        if space in strings[result].lstrip(space):
            n_first = rank
            break

    lefts, rights, ranks = pairs_met(merges)
    is_first = ranks < n_first
    first_merges = ranked_merges(
        lefts[is_first],
        rights[is_first],
        merges.results[:n_first],
        ranks=ranks[is_first],
        one_by_one=merges.one_by_one,
    )
    pairs = _find_joinable(tables, n_first)
    shift = _FIRST_SHIFT
    while 1 << (64 - shift) < _BITS_OF_PAIR * len(pairs):
        shift -= 1
    joinable = np.zeros(1 << (64 - shift - 6), np.uint64)
    pair_lefts, pair_rights = np.ascontiguousarray(pairs.T, np.int32)
    mark_joinable(pair_lefts, pair_rights, shift, joinable)
    sizes = np.fromiter(map(len, strings), np.int32, len(strings))
    shapes = 2 * sizes + tables.retained
    numbers = np.array([n_first, first_merges.first, shift])
    cutter = tables.vocabulary.pretokenizer.cutter
    match_starts = np.zeros(0, np.uint8)
    if cutter is not None:
        match_starts = cutter.match_starts
    return [first_merges.pairs, first_merges.rivals, joinable, shapes, match_starts, numbers]


def _find_joinable(tables: MergeTables, n_first: int) -> Longs:
    """Return the pairs of neighbouring tokens of units between which a token can extend, (n, 2).

    n_first: the number of the merges that are applied to units
    """
    from volt.kernels.bpe_tables import pairs_met

    rows = np.stack(pairs_met(tables.merges), axis=1)
    rows = rows[np.argsort(rows[:, 2])]
    is_later = rows[:, 2] >= n_first
    later = [
        (left, right, int(tables.merges.results[rank]))
        for left, right, rank in rows[is_later].tolist()
    ]
    # token → the tokens of units that a token may end with, and start with
    lasts = dict[int, set[int]]()
    firsts = dict[int, set[int]]()
    in_units = np.ones(len(tables.tokens), bool)
    in_units[tables.merges.results[n_first:]] = False
    in_units[tables.merges.results[:n_first]] = True
    for _, _, result in later:
        own = {result} if in_units[result] else set[int]()
        lasts[result] = set(own)
        firsts[result] = set(own)

    n_found = -1
    n_before = -2
    while n_found != n_before:  # usually twice: most merges follow those that make their parts
        n_before = n_found
        for left, right, result in later:
            firsts[result] |= firsts.get(left, {left})
            lasts[result] |= lasts.get(right, {right})
        n_found = sum(map(len, chain(firsts.values(), lasts.values())))

    first_pairs = rows[~is_later, :2]
    is_made = np.isin(first_pairs, list(lasts)).any(axis=1)
    found = set[tuple[int, int]]()
    for left, right in chain(rows[is_later, :2].tolist(), first_pairs[is_made].tolist()):
        for last in lasts.get(left, {left}):
            found.update((last, first) for first in firsts.get(right, {right}))
    found.difference_update(map(tuple, first_pairs[is_made].tolist()))
    return np.array(sorted(found), np.int64).reshape(-1, 2)


class SuperwordEncoder(BatchEncoder):
    """A `BatchEncoder` for vocabularies whose pre-tokens may contain spaces.

    tables, rendering, limit: see `BatchEncoder`
    """

    def __init__(self, tables: SuperwordTables, rendering: Rendering, *, limit: int) -> None:
        super().__init__(tables.units, Rendering("symbols", tables.units), limit=limit)
        self.rendering = rendering
        self._superwords = tables
        self._unit_ends = b""  # a line cannot be cut
        self._idle_runs: list[Ints] = []  # each thread borrows its own known runs

    def _line_for_cache(self, line: str, data: bytes) -> bytes | None:
        """Return None: no line needs only the cache."""

    def _encode_texts(self, texts: Sequence[str]) -> EncodedPart:
        """Return the symbols of units of lines that Python splits."""
        symbols, ends, n_units = _segment(self._tables, texts)
        return EncodedPart(symbols, np.append(0, ends)[n_units])

    def _encode_lines(self, chunk: Chunk, cache: UnitCache) -> EncodedPart:
        """Return the values of a chunk's lines. Symbols end where stretches end."""
        if isinstance(chunk.text, FileSpan):
            chunk = replace(chunk, text=bytes(chunk.text))
        joined = self._join(chunk, super()._encode_lines(chunk, cache))
        if joined is None:
            lines = decode_lines(
                bytes(chunk.text), separator=chunk.separator, strips_return=chunk.strips_return
            )
            joined = _segment(self._superwords.tables, lines)
        symbols, ends, n_stretches = joined
        if self.rendering.gives_symbols:
            return EncodedPart(symbols, ends)
        line_ends = np.append(0, ends)[n_stretches]
        if self.rendering.marks_words:
            symbols *= 2
            symbols[ends - 1] += 1
        return self._render(EncodedPart(symbols, line_ends))

    def _join(self, chunk: Chunk, lines: EncodedPart) -> tuple[Ints, Longs, Longs] | None:
        """Join the tokens of units.

        lines: the symbols of the chunk's lines
        Return the symbols, where those of each stretch end, and how many stretches end up to the end
        of each line. Return None if the stretches do not consist of these tokens.
        """
        from volt.kernels.apply_bpe import longest, room_of
        from volt.kernels.superwords import join_stretches

        joins = self._superwords.joins
        n_symbols = len(lines.values)
        n_lines = len(lines.ends)
        n_pieces = n_symbols
        if self._superwords.splits_back:  # tokens are split back into at most their characters
            n_pieces = int((joins.shapes[np.maximum(lines.values, 0)] >> 1).sum())
        out = np.empty(n_pieces + SLACK, np.int32)
        n_stretches = np.empty(n_lines, np.int64)
        ends = np.empty(n_symbols, np.int64)
        runs = np.empty(n_symbols + LAG, np.int64)
        known = self._idle_runs.pop() if self._idle_runs else _no_runs()
        n_out = join_stretches(
            lines.values,
            lines.ends,
            self._find_stretches(chunk, lines.values, n_lines),
            joins,
            room_of(max(longest(lines.ends), self._superwords.longest)),
            known,
            runs,
            out,
            ends,
            n_stretches,
        )
        self._idle_runs.append(known)
        if n_out == MISMATCH:
            return None
        n = int(n_stretches[-1]) if n_lines else 0
        return out[:n_out], ends[:n], n_stretches

    def _find_stretches(self, chunk: Chunk, symbols: Ints, n_lines: int) -> Stretches:
        """Return where the stretches of a chunk end."""
        vocabulary = self._superwords.tables.vocabulary
        pretokenizer = vocabulary.pretokenizer
        if not (pretokenizer.has_own_pattern or self.rendering.marks_words):
            return Stretches(np.zeros(n_lines, np.int64), np.array([_BEYOND]))

        has_unknown = symbols.min(initial=0) < 0  # such as user tokens, which separate stretches
        cutter = pretokenizer.cutter
        is_plain = pretokenizer.is_bytes and vocabulary.normalizer.name == "none"
        match_starts = self._superwords.match_starts
        if cutter and is_plain and len(match_starts) and not has_unknown:
            return _cut_lines(chunk, cutter.splitter.tables, match_starts, n_lines)

        data = word_lines(
            vocabulary,
            bytes(chunk.text),
            separator=chunk.separator,
            strips_return=chunk.strips_return,
        )
        words = np.frombuffer(data, np.uint8)
        ends_line = words == LINE_END
        ends_word = ends_line | (words == ord(" "))
        places = np.cumsum(((words & 0xC0) != 0x80) & ~ends_word)
        starts = np.append(0, places[ends_line])[:-1]
        return Stretches(starts, np.append(places[ends_word], _BEYOND))


def _no_runs() -> Ints:
    return aligned_zeros(_N_RUNS * RUN_SIZE // 2).view(np.int32)


def _segment(tables: WordTables, texts: Sequence[str]) -> tuple[Ints, Longs, Longs]:
    """Split lines in Python. Return the symbols of their words, where those of each word end, and how
    many words end up to the end of each line."""
    words_of_lines = split_lines(tables.vocabulary, texts)
    symbols, ends = tables.segment(*join_words(list(chain.from_iterable(words_of_lines))))
    return symbols, ends, np.cumsum(list(map(len, words_of_lines)), dtype=np.int64)


def _cut_lines(chunk: Chunk, tables: SplitTables, match_starts: Bytes, n_lines: int) -> Stretches:
    """Return where the words of a chunk's lines end, in bytes."""
    from volt.kernels.regex_cutting import cut_lines

    assert not isinstance(chunk.text, FileSpan)
    data = np.frombuffer(chunk.text, np.uint8)
    starts = np.empty(n_lines, np.int64)
    ends = np.empty(len(data) + 1, np.int64)
    n = cut_lines(data, chunk.separator, chunk.strips_return, tables, match_starts, starts, ends)
    ends[n] = _BEYOND
    return Stretches(starts, ends[: n + 1])
