"""Noise: make typos, remove or add punctuation, drop or reorder tokens, independently for each
line.

With `rate`, noise hits each token with this probability. With a temperature T, it draws a number k,
and then k of the n tokens of a line, all sets of k tokens being equally probable:

    P(k) = exp(−T k) (1 − exp(−T)) / (1 − exp(−T n)),   k = 0 … n − 1        (uniform if T is 0)

With T = 2 and a long line, P(0) = 0.86, P(1) = 0.12 and P(2) = 0.02.

>>> Drop(rate=0.5)(Batch.of(["there is a house by the sea"]), LineRng(1, 2)).lines
['there is by the sea']
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np

from volt import arguments
from volt.array_types import Bytes, Flags, Floats, Longs
from volt.errors import ConfigError
from volt.stream.transforms.column import Column, longs, split_at
from volt.stream.transforms.fields import Draws, each_field
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.options import Amount, Fields, Probability, number_between
from volt.stream.transforms.transform import Changes, LineTransform
from volt.stream.transforms.word_types import (
    Tokens,
    count_tokens,
    join_tokens,
    replace_values,
    split_tokens,
)

USUAL_TEMPERATURE = 2.0
# Below the first temperature and above the second, results do not change in 53 bits
_FLAT_TEMPERATURE, _STEEP_TEMPERATURE = 1e-100, 100.0
Kind = Literal["swap", "drop", "insert", "replace"]
KINDS: tuple[Kind, ...] = get_args(Kind)  # a kind's index is its number in volt.kernels.noise
_N_CODE_POINTS = 1 << 16
_N_SHARED = 256  # the maximum number of characters whose fate one random number decides
_FULL_STOP_BYTES = 3
_FINAL_MARKS = ".!?…‼⁇⁈⁉。！？．｡؟۔।॥።፧။"  # marks that end a sentence, in any script
_APOSTROPHE = "’"  # may be inside a word, like the ASCII apostrophe
_WIDE_SCRIPTS = ("HIRAGANA", "KATAKANA", "CJK UNIFIED", "BOPOMOFO")


class Noise(LineTransform):
    """Base class of noise, which validation and translation skip."""

    __slots__ = ()
    changes: ClassVar[Changes] = "tokens"
    fields: Fields | None

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        return each_field(batch, rng, self.change, fields=self.fields)

    def change(self, column: Column, draws: Draws) -> Column:
        """Return a field with noise."""
        raise NotImplementedError

    def deterministic(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Typos(Noise):
    """Misspell random characters, using characters of the same field. Spaces stay, and no word
    disappears."""

    changes: ClassVar[Changes] = "spelling"
    rate: Probability = 0.01
    """The probability that a character is hit; spaces never are."""
    kinds: tuple[Kind, ...] = KINDS
    """The changes of a character that is hit, all equally probable: swap it with the next in the
    word, drop it, insert another before it, or replace it."""
    fields: Fields = (1,)
    """The fields to misspell."""

    def check(self) -> None:
        remedy = f"give a tuple of some of {', '.join(KINDS)}"
        kinds = arguments.several(self.kinds, "kinds", remedy=remedy)
        if not kinds or not set(kinds) <= set(KINDS) or len(set(kinds)) < len(kinds):
            raise ConfigError(f"kinds: {kinds}; give some of {', '.join(KINDS)}, each once")

    def change(self, column: Column, draws: Draws) -> Column:
        from volt.kernels.noise import MOST_GROWTH, misspell

        column = column.as_text()
        kinds = np.array([KINDS.index(kind) for kind in self.kinds], np.uint8)
        # spared_probs[k]: the probability that none of k + 1 characters is hit, (1 − rate)^(k + 1)
        spared_probs = np.cumprod(np.full(_N_SHARED, 1.0 - self.rate))
        most_bytes = MOST_GROWTH * int(column.sizes.sum())
        return _rewrite(column, draws, misspell, spared_probs, kinds, most_bytes=most_bytes)


@dataclass(frozen=True, slots=True)
class Punctuation(Noise):
    """Remove random punctuation marks, also final ones, or add a missing full stop ("。" in
    Chinese)."""

    changes: ClassVar[Changes] = "spelling"
    drop: Probability = 0.05
    """The probability of removing a mark; marks inside a word stay ("don't", "3.5", "a-b")."""
    final: Probability = 0.1
    """The probability that a field loses its sentence-final marks, or, if it ends without a mark,
    gets a full stop."""
    fields: Fields = (1,)
    """The fields to change."""

    def change(self, column: Column, draws: Draws) -> Column:
        from volt.kernels.noise import change_marks

        column = column.as_text()
        probs = (float(self.drop), float(self.final))
        most_bytes = int(column.sizes.sum()) + _FULL_STOP_BYTES * len(column)
        classes = _classify_characters()
        return _rewrite(column, draws, change_marks, *probs, classes, most_bytes=most_bytes)


def _rewrite(
    column: Column, draws: Draws, kernel: Any, *options: object, most_bytes: int
) -> Column:
    """Return the values that kernel(data, starts, sizes, random bits, *options, out, ends) writes.

    most_bytes: the maximum number of bytes that it writes
    """
    out = np.empty(most_bytes, np.uint8)
    ends = longs(len(column))
    kernel(*column.views, draws.words, *options, out, ends)
    return split_at(out[: ends.max(initial=0)], ends)


@cache
def _classify_characters() -> Bytes:
    """Return the bits MARK, INNER, FINAL and WIDE of each code point, as `change_marks` takes them."""
    from volt.kernels.noise import FINAL, INNER, MARK, WIDE

    characters = list(map(chr, range(_N_CODE_POINTS)))
    is_mark = np.array([unicodedata.category(each)[0] == "P" for each in characters])
    is_wide = [unicodedata.name(each, "").startswith(_WIDE_SCRIPTS) for each in characters]
    wide = np.where(is_wide, WIDE, 0)
    bits = np.where(is_mark, MARK, wide).astype(np.uint8)
    bits[[*np.flatnonzero(is_mark[:128]), ord(_APOSTROPHE)]] |= INNER
    bits[list(map(ord, _FINAL_MARKS))] |= FINAL
    return bits


class TokenNoise(Noise):
    """Base class of noise that hits tokens, by a temperature or a rate."""

    __slots__ = ()
    temperature: float | None
    rate: float | None

    def check(self) -> None:
        if self.temperature is not None and self.rate is not None:
            raise ConfigError(
                f"temperature: {self.temperature} and rate: {self.rate}; give one of them"
            )
        if self.rate is None and self.temperature is None:
            object.__setattr__(self, "temperature", USUAL_TEMPERATURE)

    def hit_tokens(
        self, column: Column, draws: Draws, *, min_spared: int = 0, n_choices: int = 1
    ) -> Hits | None:
        """Choose the tokens to hit, and draw a number for each; None if no token is hit.

        min_spared: how many tokens of each line are not hit, at least
        n_choices: the drawn numbers are below this
        """
        from volt.kernels.noise import count_hits, hit_tokens

        n_tokens = count_tokens(column)
        if self.rate is not None:
            n_hits = longs(len(n_tokens))
            count_hits(n_tokens, float(self.rate), draws.words, n_hits)
        else:
            assert self.temperature is not None
            uniform = draws.rng.uniform(draws.origins)
            n_hits = draw_truncated_geometric(uniform, n_tokens, temperature=self.temperature)

        n_hits = np.minimum(n_hits, n_tokens - min_spared)
        lines = np.flatnonzero(n_hits > 0)
        if not len(lines):
            return None

        tokens = split_tokens(column.take(lines), n_tokens[lines])
        random_bits = draws.rng.at("tokens").words(draws.origins)[lines]
        drawn = longs(len(tokens))
        hit_tokens(tokens.value_ends, n_hits[lines], n_choices, random_bits, drawn)
        return Hits(lines, tokens, drawn)


@dataclass(frozen=True, slots=True)
class Drop(TokenNoise):
    """Remove tokens at random, but never all tokens of a line."""

    temperature: Amount | None = None
    """The probability of dropping k tokens falls with exp(-temperature k), where k is from 0 to n -
    1 in a line of n tokens; by default 2, with which 86 of 100 lines lose no token."""
    rate: Probability | None = None
    """Instead of a temperature: the probability of dropping a token, the same for all tokens."""
    fields: Fields = (1,)
    """The fields that lose tokens."""

    def change(self, column: Column, draws: Draws) -> Column:
        hits = self.hit_tokens(column, draws, min_spared=1)
        if hits is None:
            return column
        n_spared = np.cumsum(~hits.is_hit, dtype=np.int64)  # up to each token
        value_ends = n_spared[hits.tokens.value_ends - 1]
        values = join_tokens(hits.tokens, np.flatnonzero(~hits.is_hit), value_ends)
        return replace_values(column, hits.lines, values)


@dataclass(frozen=True, slots=True)
class Reorder(Noise):
    """Change the order of tokens: sort them by their position plus a random number from 0 up to
    max_dist."""

    max_dist: Annotated[float, partial(number_between, high=1000)] = 3.0
    """Every token moves by fewer positions than this: with 3, by at most two; with 1 or less, by
    none."""
    fields: Fields = (1,)
    """The fields to reorder."""

    def change(self, column: Column, draws: Draws) -> Column:
        n_tokens = count_tokens(column)
        lines = np.flatnonzero(n_tokens > 1)
        if self.max_dist <= 1 or not len(lines):
            return column
        from volt.kernels.noise import reorder_tokens

        tokens = split_tokens(column.take(lines), n_tokens[lines])
        keys = np.empty(len(tokens))
        order = longs(len(tokens))
        random_bits = draws.words[lines]
        reorder_tokens(tokens.value_ends, float(self.max_dist), random_bits, keys, order)
        return replace_values(column, lines, join_tokens(tokens, order, tokens.value_ends))


class Hits(NamedTuple):
    """The tokens that noise hits.

    lines: (n_lines,) int64, the lines with hit tokens
    tokens: all tokens of these lines, hit or not
    drawn: (n_tokens,) int64, a random number for each hit token, −1 for other tokens
    """

    lines: Longs
    tokens: Tokens
    drawn: Longs

    @property
    def is_hit(self) -> Flags:
        """(n_tokens,) bool"""
        return self.drawn >= 0


def draw_truncated_geometric(uniform: Floats, n_tokens: Longs, *, temperature: float) -> Longs:
    """Return (n,) int64, for each line a number k below its number of tokens, with
    P(k) ∝ exp(−temperature k).

    uniform: (n,) random numbers in [0, 1); k is where the cumulative distribution exceeds them
    """
    n = np.maximum(n_tokens, 1)
    if temperature < _FLAT_TEMPERATURE:
        result = uniform * n
    else:
        steep = min(temperature, _STEEP_TEMPERATURE)
        result = -np.log1p(uniform * np.expm1(-steep * n)) / steep
    whole: Longs = np.minimum(result.astype(np.int64), n - 1)
    return whole
