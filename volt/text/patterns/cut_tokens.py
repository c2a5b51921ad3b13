"""Find tokens that a pattern always splits, so that they never occur in encoded text.

If a file does not name its pattern, its tokens reveal it: the right pattern splits few of them. A token may begin or
end inside a character. A split can leave a token whole in two ways:

    in a match    if from some state the automaton reads the whole token, and can still reach the end of a match
    in a gap      if nothing in the token matches
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from volt.text.byte_alphabet import whole_characters
from volt.text.patterns.automaton import closure
from volt.text.patterns.splitter import Split, Splitter, WordCutter

States = frozenset[int]
Flags = NDArray[np.bool_]
Longs = NDArray[np.int64]
_INNER = bytes(range(0x80, 0xC0))  # the bytes of a character after its first


def n_cut(tokens: Sequence[bytes], patterns: Mapping[str, tuple[Split, ...]]) -> dict[str, int]:
    """Return how many tokens each pattern splits. patterns: name → splits"""
    texts = TokenTexts.of(tokens)
    cut_by = cache(partial(_cut, texts))
    return {name: int(_any(map(cut_by, splits)).sum()) for name, splits in patterns.items()}


def cut_tokens(tokens: Sequence[bytes], splits: Iterable[Split]) -> list[bytes]:
    is_cut = _any(map(partial(_cut, TokenTexts.of(tokens)), splits))
    return list(compress(tokens, is_cut))


def leaves_gaps(split: Split) -> bool:
    """Check whether some text has characters outside all matches."""
    return _ways(split).leave_gaps


def _any(flags: Iterable[Flags]) -> Flags:
    result: Flags = np.logical_or.reduce(list(flags))
    return result


@dataclass(frozen=True, eq=False, slots=True)
class TokenTexts:
    texts: Sequence[str]  # the whole characters of each token; "" if it is not text
    codes: NDArray[np.uint32]  # (n_characters,), their code points, token after token
    starts: Longs  # (n_tokens,), where each token's characters start in `codes`
    lengths: Longs  # (n_tokens,), the number of each token's characters; 0 if it is not text
    order: Longs  # the indices of tokens, the longest first
    behind_part: Flags  # whether part of a character precedes the whole characters
    before_part: Flags  # whether part of a character follows them

    @classmethod
    def of(cls, tokens: Sequence[bytes]) -> TokenTexts:
        bare = [token.lstrip(_INNER) for token in tokens]
        texts = [whole_characters(token) or "" for token in bare]
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        return cls(
            texts,
            np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32),
            np.cumsum(lengths) - lengths,
            lengths,
            np.argsort(-lengths, kind="stable"),
            np.array(
                [len(rest) < len(token) for rest, token in zip(bare, tokens, strict=True)], np.bool_
            ),
            np.array(
                [len(text.encode()) < len(rest) for rest, text in zip(bare, texts, strict=True)],
                np.bool_,
            ),
        )


def _cut(texts: TokenTexts, split: Split) -> Flags:
    ways = _ways(split)
    cut = (texts.lengths > 0) & ~ways.match(texts, Splitter.of(split).tables.classes[texts.codes])
    if ways.leave_gaps:  # if nothing in a token matches, all of it may be in a gap
        forwards = Splitter.of(replace(split, from_end=False))
        matches = WordCutter(forwards, is_bytes=False, matches_only=True, reads_marks=False)
        doubtful = list(compress(texts.texts, cut))
        if split.from_end:
            doubtful = [text[::-1] for text in doubtful]
        cut[cut] = [words != "" for words in matches.cut_texts(doubtful)]
    return cut


@lru_cache(maxsize=64)
def _ways(split: Split) -> _Ways:
    return _Ways(Splitter.of(split))


class _Ways:
    """The paths through one split's automaton, from all its states at once."""

    def __init__(self, splitter: Splitter) -> None:
        self._end = splitter.tables.end
        moves = splitter.tables.moves.reshape(-1, self._end + 1)
        self._ends_match: list[list[int]] = (moves & 1).tolist()
        self._next: list[list[int]] = (moves // 2 // (self._end + 1)).tolist()
        self._start = splitter.automata[0].start
        self._is_backward = splitter.splits[0].from_end
        self._inner = frozenset(closure(self._after(self._start), self._after))  # inside a match
        self._hopeful = self._before_matches()

    def _before_matches(self) -> States:
        """Return the states from which a search can reach the end of a match."""
        states = {self._start, *self._inner}
        result = set[int]()
        more = {state for state in states if any(self._ends_match[state])}
        while more:
            result |= more
            states -= more
            more = {state for state in states if not result.isdisjoint(self._next[state])}
        return frozenset(result)

    def _after(self, state: int) -> set[int]:
        return set(self._next[state][: self._end]) - {0}

    @property
    def leave_gaps(self) -> bool:
        def open_ways(state: int) -> set[int]:
            ways = list(zip(self._next[state], self._ends_match[state], strict=True))
            if state == self._start:  # the text cannot end there
                ways.pop()
            return {following for following, ends_match in ways if not ends_match}

        return 0 in closure({self._start}, open_ways)

    def match(self, texts: TokenTexts, columns: NDArray[np.uint8]) -> Flags:
        """Return which tokens are part of a match. columns: (n_characters,) uint8, the class of each character."""
        names, moves = self._all_at_once
        after = texts.behind_part
        before = texts.before_part
        step = 1
        place = texts.starts
        if self._is_backward:
            after, before = before, after
            step = -1
            place = place + texts.lengths - 1
        state = np.where(after, names[self._inner], names[self._inner | {self._start}])
        for done in range(int(texts.lengths.max(initial=0))):
            going = texts.order[: np.count_nonzero(texts.lengths > done)]
            state[going] = moves[state[going], columns[place[going] + step * done]]
        hope = np.array([not states.isdisjoint(self._hopeful) for states in names])
        hope_inside = np.array(
            [not self._read(states, range(self._end)).isdisjoint(self._hopeful) for states in names]
        )
        return np.where(before, hope_inside[state], hope[state])

    def _read(self, states: States, columns: Iterable[int]) -> States:
        return frozenset(self._next[state][column] for column in columns for state in states) - {0}

    @cached_property
    def _all_at_once(self) -> tuple[dict[States, int], NDArray[np.int32]]:
        """Sets of states → their numbers, and the next set for each class, (n_sets, n_classes)."""
        waiting = list(dict.fromkeys([self._inner, self._inner | {self._start}]))
        names = {states: number for number, states in enumerate(waiting)}
        rows = list[list[int]]()
        for states in waiting:
            row = list[int]()
            for column in range(self._end):
                after = self._read(states, [column])
                if after not in names:
                    names[after] = len(names)
                    waiting.append(after)
                row.append(names[after])
            rows.append(row)
        return names, np.array(rows, np.int32)
