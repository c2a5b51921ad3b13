"""Noise: make typos, remove or add punctuation, drop or reorder tokens, independently for each
line.

With `rate`, noise hits each token with this probability. With a temperature T, it draws a number k,
and then k of the n tokens of a line:

    P(k) = exp(−T k) (1 − exp(−T)) / (1 − exp(−T n)),   k = 0 … n − 1        (uniform if T is 0)

>>> Drop(rate=0.5)(Batch.of(["there is a house by the sea"]), LineRng(1, 2)).lines
['there is by the sea']
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms.column import Column, Longs, from_ends, longs
from volt.stream.transforms.fields import Draws, each_field
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.options import Amount, Fields, Probability, number_between
from volt.stream.transforms.transform import Changes, LineTransform
from volt.stream.transforms.word_types import (
    NO_OTHERS,
    Tokens,
    cut,
    token_counts,
    with_values,
    written,
)

USUAL_TEMPERATURE = 2.0
_FLAT, _STEEP = 1e-100, 100.0  # temperatures below and above which results do not change in 53 bits
# In the order of the numbers in volt.kernels.noise
Kind = Literal["swap", "drop", "insert", "replace"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_N_CODES = 1 << 16
_N_AT_ONCE = 256  # characters that share one random number
_FINAL = ".!?…‼⁇⁈⁉。！？．｡؟۔।॥።፧။"  # marks that end a sentence, in any script
_APOSTROPHE = "’"  # may be inside a word, like the ASCII apostrophe
_WIDE_SCRIPTS = ("HIRAGANA", "KATAKANA", "CJK UNIFIED", "BOPOMOFO")


class Noise(LineTransform):
    __slots__ = ()
    changes: ClassVar[Changes] = "tokens"
    fields: Fields | None

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        return each_field(batch, rng, self.changed, fields=self.fields)

    def changed(self, column: Column, draws: Draws) -> Column:
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

    def changed(self, column: Column, draws: Draws) -> Column:
        from volt.kernels.noise import MOST_GROWTH, misspell

        column = column.as_text()
        kinds = np.array([KINDS.index(kind) for kind in self.kinds], np.uint8)
        powers = np.cumprod(np.full(_N_AT_ONCE, 1.0 - self.rate))
        room = MOST_GROWTH * int(column.sizes.sum())
        return _rewritten(misspell, column, draws, powers, kinds, room=room)


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

    def changed(self, column: Column, draws: Draws) -> Column:
        from volt.kernels.noise import change_marks

        column = column.as_text()
        rates = (float(self.drop), float(self.final))
        room = int(column.sizes.sum()) + 3 * len(column)  # for a full stop of three bytes
        return _rewritten(change_marks, column, draws, *rates, _marks(), room=room)


def _rewritten(loop: Any, column: Column, draws: Draws, *inputs: object, room: int) -> Column:
    """Return the values that a kernel writes, which need at most `room` bytes."""
    out = np.empty(room, np.uint8)
    ends = longs(len(column))
    loop(*column.views, draws.words, *inputs, out, ends)
    return from_ends(out[: ends.max(initial=0)], ends)


@cache
def _marks() -> NDArray[np.uint8]:
    from volt.kernels.noise import FINAL, INNER, MARK, WIDE

    characters = list(map(chr, range(_N_CODES)))
    is_mark = np.array([unicodedata.category(each)[0] == "P" for each in characters])
    is_wide = [unicodedata.name(each, "").startswith(_WIDE_SCRIPTS) for each in characters]
    wide = np.where(is_wide, WIDE, 0)
    values = np.where(is_mark, MARK, wide).astype(np.uint8)
    values[[*np.flatnonzero(is_mark[:128]), ord(_APOSTROPHE)]] |= INNER
    values[list(map(ord, _FINAL))] |= FINAL
    return values


class TokenNoise(Noise):
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

    def hit(
        self, column: Column, draws: Draws, *, spared: int = 0, n_choices: int = 1
    ) -> Hit | None:
        """Choose tokens, and draw a number below `n_choices` for each. In each line, at least
        `spared` are not hit."""
        from volt.kernels.noise import count_hits, hit_tokens

        counts = token_counts(column)
        if self.rate is not None:
            n_hits = longs(len(counts))
            count_hits(counts, float(self.rate), draws.words, n_hits)
        else:
            assert self.temperature is not None
            uniform = draws.rng.uniform(draws.origins)
            n_hits = truncated_geometric(uniform, counts, temperature=self.temperature)

        n_hits = np.minimum(n_hits, counts - spared)
        lines = np.flatnonzero(n_hits > 0)
        if not len(lines):
            return None

        tokens = cut(column.take(lines), counts[lines])
        bits = draws.rng.at("tokens").words(draws.origins)[lines]
        drawn = longs(len(tokens))
        hit_tokens(tokens.ends, n_hits[lines], n_choices, bits, drawn)
        return Hit(lines, tokens, drawn)


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

    def changed(self, column: Column, draws: Draws) -> Column:
        hit = self.hit(column, draws, spared=1)
        if hit is None:
            return column
        stay = hit.drawn < 0
        ends = np.cumsum(stay, dtype=np.int64)[hit.tokens.ends - 1]
        values = written(hit.tokens, np.flatnonzero(stay), ends, NO_OTHERS)
        return with_values(column, hit.lines, values)


@dataclass(frozen=True, slots=True)
class Reorder(Noise):
    """Change the order of tokens: sort them by their position plus a random number from 0 up to
    max_dist."""

    max_dist: Annotated[float, partial(number_between, high=1000)] = 3.0
    """Every token moves by fewer positions than this: with 3, by at most two; with 1 or less, by
    none."""
    fields: Fields = (1,)
    """The fields to reorder."""

    def changed(self, column: Column, draws: Draws) -> Column:
        counts = token_counts(column)
        lines = np.flatnonzero(counts > 1)
        if self.max_dist <= 1 or not len(lines):
            return column
        from volt.kernels.noise import reorder_tokens

        tokens = cut(column.take(lines), counts[lines])
        keys = np.empty(len(tokens))
        order = longs(len(tokens))
        bits = draws.words[lines]
        reorder_tokens(tokens.ends, float(self.max_dist), bits, keys, order)
        return with_values(column, lines, written(tokens, order, tokens.ends, NO_OTHERS))


class Hit(NamedTuple):
    """The tokens that noise hits.

    lines: (n_lines,) int64, the lines with hit tokens
    tokens: all tokens of these lines, hit or not
    drawn: (n_tokens,) int64, a random number for each hit token, −1 for other tokens
    """

    lines: Longs
    tokens: Tokens
    drawn: Longs


def truncated_geometric(
    uniform: NDArray[np.float64], counts: Longs, *, temperature: float
) -> Longs:
    """Return (n,) int64, numbers k with P(k) ∝ exp(−temperature k), by inversion of `uniform`."""
    n = np.maximum(counts, 1)
    if temperature < _FLAT:
        result = uniform * n
    else:
        steep = min(temperature, _STEEP)
        result = -np.log1p(uniform * np.expm1(-steep * n)) / steep
    whole: Longs = np.minimum(result.astype(np.int64), n - 1)
    return whole
