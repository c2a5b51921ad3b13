r"""Encode vocabularies whose pre-tokens contain spaces: merges may cross spaces, as in SuperBPE.

    "by the way, he"   →   tokens "by", "Ġthe", "Ġway", ",", "Ġhe"   →   "byĠtheĠway", ",", "Ġhe"

A *stretch* is such a pre-token. Few stretches repeat, so a cache of them would not help. But let
the first merge that crosses a *boundary*, the place before a space that follows another character,
have rank t. Merges of lower ranks can be applied to each *unit*, the text between boundaries, alone,
and units do repeat. A stretch becomes the tokens of its units, and then all merges are applied to
these tokens: merging would reach the same tokens in the stretch before it applies rank t.

A stretch ends where the pattern's match in a unit starts or ends. So the cached values of a unit say
after which of its tokens stretches end, and whether one ends before the unit.
A unit that Python encodes does not say it, nor does a pattern of several splits; then the text is
split a second time.

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
from volt.array_types import Ints, Longs
from volt.encode.arrays import EncodedPart, group_ends
from volt.encode.batch_encoder import BatchEncoder
from volt.encode.chunks import Chunk
from volt.encode.merge_tables import MergeTables
from volt.encode.pretokens import split_lines, word_lines
from volt.encode.rendering import Rendering
from volt.encode.unit_cache import UnitCache
from volt.encode.units import UnitRule
from volt.encode.word_tables import NEVER_SPLIT, WordTables, join_words_of_lines
from volt.files.loop_memory import aligned_zeros
from volt.kernels.superwords import (
    ENDS_STRETCH,
    ENDS_UNIT_WORD,
    IS_UNSURE,
    LAG,
    RUN_SIZE,
    SLACK,
    STARTS_STRETCH,
    SYMBOL_SHIFT,
    UNSURE,
    Joins,
)
from volt.text.atoms import SPACE
from volt.text.byte_alphabet import ALPHABET
from volt.text.patterns.published import BYTES, drops_rest, is_declared, name_of, splits_of
from volt.text.patterns.splitter import Split
from volt.text.patterns.word_cutter import LINE_END
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary
from volt.vocabulary.cached_vocabulary import cached_with

_LINE = "metaspace-line"
_UNITS = Split(" +[^ ]*|[^ ]+")  # cuts a stretch at its boundaries
_ALL_TEXT = Split(r"[\s\S]+")
_BITS_OF_PAIR = 32  # of the filter, at least
_FIRST_SHIFT = 52  # 64 minus the bits of a number of a bit in the smallest filter
_N_RUNS = 1 << 17  # that each thread knows; they take up to 8 MB


@dataclass(frozen=True)
class SuperwordTables:
    """A vocabulary whose pre-tokens may contain spaces, for compiled code.

    units: the merges before the first merge across a boundary; its vocabulary splits text into units
    joins: all merges
    sizes: the number of characters of each token
    n_across: the number of the other merges
    """

    tables: MergeTables
    units: MergeTables
    joins: Joins
    sizes: Ints
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
        pairs, rivals, joinable, sizes, numbers = arrays
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
            merges=merges._replace(rivals=rivals[:0]),  # those of pairs of atoms only
            rule=tables.rule,
            ids=np.zeros(0, np.int32),
        )
        return cls(tables, units, joins, sizes, len(merges.results) - n_first)

    @cached_property
    def longest(self) -> int:
        """Return the number of characters of the longest token."""
        return int(self.sizes.max(initial=1))

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
    numbers = np.array([n_first, first_merges.first, shift])
    return [first_merges.pairs, first_merges.rivals, joinable, sizes, numbers]


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
        unit_rendering = Rendering("symbols", tables.tables)
        super().__init__(tables.units, unit_rendering, limit=limit)
        self.rendering = rendering
        self._superwords = tables
        self._joins = tables.joins
        if rendering.is_single:
            self._joins = tables.joins._replace(ids=rendering.rows_of_symbols()[1])
        lines_are_stretches = not tables.tables.vocabulary.pretokenizer.has_own_pattern
        self._unsure = IS_UNSURE
        if lines_are_stretches and not rendering.marks_words:
            self._unsure = 0
        # whether no token can be joined or split back, and values are returned
        self._ends_only = rendering.gives_symbols and not (tables.n_across or tables.splits_back)
        self._unit_ends = b""  # a line cannot be cut
        self._idle_runs: list[Ints] = []  # each thread borrows its own known runs

    def _line_for_cache(self, line: str, data: bytes) -> bytes | None:
        """Return None: no line needs only the cache."""

    def _encode_texts(self, texts: Sequence[str]) -> EncodedPart:
        """Return the values of units of lines that Python splits."""
        words_of_lines = split_lines(self._tables.vocabulary, texts)
        text, lengths, n_words = join_words_of_lines(words_of_lines)
        values, ends = self._encode_words(text, lengths)
        return EncodedPart(values, group_ends(ends, n_words))

    def _encode_lines(self, chunk: Chunk, cache: UnitCache) -> EncodedPart:
        """Return the values of a chunk's lines. Symbols end where stretches end."""
        units = super()._encode_lines(chunk, cache)
        lines = self._end_stretches(units) if self._ends_only else self._join(units)
        if lines is None:
            units_of_stretches = self._mark_stretches(chunk, units)
            if units_of_stretches is None:
                lines = self._segment(chunk)
            else:
                lines = self._join(units_of_stretches)
                assert lines is not None  # no value is unsure now

        values = lines.values
        rendering = self.rendering
        if rendering.gives_symbols:
            is_end = values & ENDS_STRETCH != 0
            return EncodedPart(values >> SYMBOL_SHIFT, 1 + np.flatnonzero(is_end))
        if rendering.is_single and values.min(initial=0) >= 0:
            return lines
        if rendering.marks_words:  # the lowest bit that remains is ENDS_STRETCH
            return self._render(EncodedPart(values >> SYMBOL_SHIFT - 1, lines.ends))
        return self._render(EncodedPart(values >> SYMBOL_SHIFT, lines.ends))

    def _end_stretches(self, units: EncodedPart) -> EncodedPart | None:
        """Mark the values after which stretches end; return None if that is not sure."""
        values = units.values
        if (values & self._unsure).any():
            return None
        values[:-1] |= (values[1:] & STARTS_STRETCH) * ENDS_STRETCH
        values[units.ends[units.ends > 0] - 1] |= ENDS_STRETCH
        return units

    def _join(self, units: EncodedPart) -> EncodedPart | None:
        """Join the tokens of the units of lines; return None if it is not sure where stretches end."""
        from volt.kernels.apply_bpe import longest, room_of
        from volt.kernels.superwords import join_stretches

        superwords = self._superwords
        values = units.values
        ends = units.ends.copy()
        n_pieces = len(values)
        if superwords.splits_back:  # tokens are split back into at most their characters
            n_pieces = int(superwords.sizes[np.maximum(values >> SYMBOL_SHIFT, 0)].sum())
        out = np.empty(n_pieces + SLACK, np.int32)
        known = self._idle_runs.pop() if self._idle_runs else _no_runs()
        n_out = join_stretches(
            values,
            ends,
            self._unsure,
            self._joins,
            room_of(max(longest(ends), superwords.longest)),
            known,
            np.empty(2 * (len(values) + len(ends) + LAG), np.int64),
            out,
        )
        self._idle_runs.append(known)
        if n_out == UNSURE:
            return None
        return EncodedPart(out[:n_out], ends)

    def _mark_stretches(self, chunk: Chunk, units: EncodedPart) -> EncodedPart | None:
        """Mark the values after which stretches end in a chunk's text; return None if stretches do not
        consist of the units' words.
        """
        unit_ends = _find_ends(self._tables.vocabulary, chunk)
        stretch_ends = _find_ends(self._superwords.tables.vocabulary, chunk)
        values = units.values
        places = np.flatnonzero(values & ENDS_UNIT_WORD)
        if len(places) != len(unit_ends) or not np.isin(stretch_ends, unit_ends).all():
            return None
        values &= ~(STARTS_STRETCH | ENDS_STRETCH | IS_UNSURE)
        values[places[np.isin(unit_ends, stretch_ends)]] |= ENDS_STRETCH
        return units

    def _segment(self, chunk: Chunk) -> EncodedPart:
        """Encode the stretches of a chunk's lines one by one. Return their values."""
        tables = self._superwords.tables
        words_of_lines = split_lines(tables.vocabulary, chunk.decode())
        text, lengths, n_words = join_words_of_lines(words_of_lines)
        symbols, ends = tables.segment(text, lengths)
        values = symbols << SYMBOL_SHIFT
        values[ends - 1] |= ENDS_STRETCH
        return EncodedPart(values, group_ends(ends, n_words))


def _find_ends(vocabulary: Vocabulary, chunk: Chunk) -> Longs:
    """Return where the words of a chunk's lines end, in bytes of words."""
    words = np.frombuffer(word_lines(vocabulary, chunk), np.uint8)
    is_end = (words == LINE_END) | (words == ord(" "))
    ends = np.unique(np.cumsum(~is_end)[is_end])
    return ends[ends > 0]


def _no_runs() -> Ints:
    return aligned_zeros(_N_RUNS * RUN_SIZE // 2).view(np.int32)
