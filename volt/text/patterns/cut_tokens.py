"""Find tokens that a pattern always splits, so that they never occur in encoded text.

    tokens "ab", "a b", "12" and the pattern "[a-z]+"   →   "a b" is always split

If a tokenizer's file does not name its pattern, its tokens reveal it: the right pattern splits few of
them. A split can leave a token whole in two ways:

    inside a match   if from some state, the automaton reads the whole token, and may still find a match
    in a gap         if nothing in the token matches

A token may begin or end inside a character; it is split if it would be with any such character.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import compress

import numpy as np

from volt.array_types import Flags, Ints
from volt.text.byte_alphabet import INNER, whole_characters
from volt.text.patterns.automaton import closure, leading_to
from volt.text.patterns.splitter import Split, Splitter
from volt.text.patterns.word_cutter import WordCutter

States = frozenset[int]


def n_cut(tokens: Sequence[bytes], patterns: Mapping[str, tuple[Split, ...]]) -> dict[str, int]:
    """Return how many tokens each pattern always splits. patterns: name → splits"""
    texts = TokenTexts.of(tokens)
    return {name: int(_are_cut(texts, splits).sum()) for name, splits in patterns.items()}


def cut_tokens(tokens: Sequence[bytes], splits: Iterable[Split]) -> list[bytes]:
    """Return the tokens that one of the splits always splits."""
    return list(compress(tokens, _are_cut(TokenTexts.of(tokens), splits)))


@lru_cache(maxsize=64)
def _paths(split: Split) -> _Paths:
    return _Paths(split)


def leaves_gaps(split: Split) -> bool:
    """Check whether some text has characters outside all matches."""
    return _paths(split).leave_gaps


@dataclass(frozen=True, eq=False, slots=True)
class TokenTexts:
    """Tokens as text.

    texts: the whole characters of each token; "" if it is not text
    follows_part: (n_tokens,) bool, whether part of a character precedes the whole characters
    precedes_part: (n_tokens,) bool, whether part of a character follows the whole characters
    """

    texts: Sequence[str]
    follows_part: Flags
    precedes_part: Flags

    @classmethod
    def of(cls, tokens: Sequence[bytes]) -> TokenTexts:
        bare = [token.lstrip(INNER) for token in tokens]
        texts = [whole_characters(token) or "" for token in bare]
        token_lengths = np.array(list(map(len, tokens)))
        bare_lengths = np.array(list(map(len, bare)))
        text_lengths = np.array([len(text.encode()) for text in texts])
        return cls(texts, bare_lengths < token_lengths, text_lengths < bare_lengths)

    def reversed(self) -> TokenTexts:
        texts = [text[::-1] for text in self.texts]
        return TokenTexts(texts, self.precedes_part, self.follows_part)


def _are_cut(texts: TokenTexts, splits: Iterable[Split]) -> Flags:
    return np.asarray(np.any([_are_cut_by_one(texts, split) for split in splits], axis=0))


def _are_cut_by_one(texts: TokenTexts, split: Split) -> Flags:
    paths = _paths(split)
    if split.from_end:
        texts = texts.reversed()
    cut = ~paths.match(texts)
    if paths.leave_gaps:  # if nothing in a token matches, all of it may be in a gap
        forwards = Splitter.of(replace(split, from_end=False))
        matches = WordCutter(forwards, is_bytes=True, matches_only=True)
        doubtful = list(compress(texts.texts, cut))
        cut[cut] = [words != "" for words in matches.cut_texts(doubtful)]
    return cut


class _Paths:
    """The paths through one split's automaton, from all its states at once."""

    def __init__(self, split: Split) -> None:
        splitter = Splitter.of(split)
        tables = splitter.tables
        width = tables.end + 1
        # moves[state, class] = 2 · width · next state, and 1 more if a match ends here; the column
        # `end` is the end of the text, and in state 0 the search is over.
        moves = tables.moves.reshape(-1, width)
        self._end = tables.end
        self._classes = tables.classes
        self._ends_match: list[list[int]] = (moves & 1).tolist()
        self._next: list[list[int]] = (moves // (2 * width)).tolist()
        self._start = splitter.automata[0].start

        # states after one or more characters of a search
        self._inside = frozenset(closure(self._after(self._start), self._after))
        before_match_end = {state for state, row in enumerate(self._ends_match) if any(row)}
        self._can_match = leading_to(before_match_end, self._next)  # now, or after more characters

    def _after(self, state: int) -> set[int]:
        return set(self._next[state][: self._end]) - {0}

    @property
    def leave_gaps(self) -> bool:
        def without_match(state: int) -> set[int]:
            result = set[int]()
            for column, ends_match in enumerate(self._ends_match[state]):
                is_empty = state == self._start and column == self._end  # no text is empty
                if not ends_match and not is_empty:
                    result.add(self._next[state][column])
            return result

        # The search can end without having found a match.
        return 0 in closure({self._start}, without_match)

    def match(self, tokens: TokenTexts) -> Flags:
        """Return which tokens may be inside a match, (n_tokens,) bool; True for tokens without text."""
        codes = np.frombuffer("".join(tokens.texts).encode("utf-32-le"), np.uint32)
        columns = self._classes[codes]
        lengths = np.fromiter(map(len, tokens.texts), np.int64, len(tokens.texts))
        starts = np.cumsum(lengths) - lengths

        # All tokens are read at once, character by character, from all states at once.
        index_of, moves = self._sets_of_states
        anywhere = index_of[self._inside | {self._start}]
        reached = np.where(tokens.follows_part, index_of[self._inside], anywhere)
        for n_read in range(int(lengths.max(initial=0))):
            unfinished = np.flatnonzero(lengths > n_read)
            next_columns = columns[starts[unfinished] + n_read]
            reached[unfinished] = moves[reached[unfinished], next_columns]

        can_match = np.array([not self._can_match.isdisjoint(states) for states in index_of])
        can_match_after_more = np.asarray(can_match[moves].any(axis=1))
        is_match = can_match[reached]
        continues = tokens.precedes_part
        is_match[continues] = can_match_after_more[reached[continues]]
        is_match[lengths == 0] = True
        return is_match

    @cached_property
    def _sets_of_states(self) -> tuple[dict[States, int], Ints]:
        """Sets of states → their indices; and the index of the next set, (n_sets, n_classes) int32."""
        waiting = list(dict.fromkeys([self._inside, self._inside | {self._start}]))
        index_of = {states: index for index, states in enumerate(waiting)}
        rows = list[list[int]]()
        for states in waiting:
            row = list[int]()
            for column in range(self._end):
                after = frozenset(self._next[state][column] for state in states) - {0}
                if after not in index_of:
                    index_of[after] = len(index_of)
                    waiting.append(after)
                row.append(index_of[after])
            rows.append(row)
        return index_of, np.array(rows, np.int32)
