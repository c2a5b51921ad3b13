"""Noise that draws from a vocabulary: replace tokens, insert tokens, or move word boundaries.

▁a boat  →  Switchout  ▁house ▁a        Insertion  ▁house ▁a ▁a boat        WbNoise  ▁a ▁boat
"""

from __future__ import annotations

import re
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Self

import numpy as np

from volt import arguments
from volt.errors import VocabularyError
from volt.stream.transforms.column import Column, longs
from volt.stream.transforms.fields import Draws, each_field
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.noise import Hit, TokenNoise
from volt.stream.transforms.options import Amount, Fields, File, Probability
from volt.stream.transforms.transform import FileTransform, LoadedFiles, Opened, signature
from volt.stream.transforms.word_types import NO_OTHERS, with_values, written
from volt.text.atoms import SPACE

_SPECIAL = re.compile(r"<[^<> ]+>")
_BREAKING = re.compile(r"[ \t\r\n]")
_AFTER_MARK = chr(ord(SPACE) + 1)  # sorts just after all texts that start with the mark


@dataclass(frozen=True, slots=True)
class VocabularyNoise(FileTransform, TokenNoise):
    vocabulary: File
    """A vocabulary file of any format that VOLT reads, or a list of tokens with or without
    counts."""
    temperature: Amount | None = None
    """The probability of hitting k tokens falls with exp(-temperature k), where k is from 0 to n -
    1 in a line of n tokens; by default 2, with which 86 of 100 lines have no hit."""
    rate: Probability | None = None
    """Instead of a temperature: the probability of hitting a token, the same for all tokens."""
    fields: Fields | None = None
    """The fields to change; by default 1 and, if the line has it, 2."""
    without: tuple[str, ...] = ()
    """Tokens of the vocabulary never to draw, besides special tokens and tags that steps of the
    same list add."""

    def check(self) -> None:
        TokenNoise.check(self)
        arguments.texts(self.without, "without", one="give a tuple of tokens")

    def excluding(self, tokens: tuple[str, ...]) -> Self:
        return replace(self, without=tuple(dict.fromkeys((*self.without, *tokens))))

    def opened(self, files: LoadedFiles) -> Opened:
        vocabulary = files.load(self.vocabulary, noise_vocabulary).without(self.without)
        self.check_vocabulary(vocabulary)
        values = {
            "type": type(self).__name__,
            "vocabulary": vocabulary.fingerprint,
            "temperature": self.temperature,
            "rate": self.rate,
            "fields": signature(self.fields),
        }
        return Opened(self, partial(self._noisy, vocabulary), values)

    def _noisy(self, vocabulary: NoiseVocabulary, batch: Batch, rng: LineRng) -> Batch:
        def changed(column: Column, draws: Draws) -> Column:
            hit = self.hit(column, draws, n_choices=len(vocabulary))
            if hit is None:
                return column
            return with_values(column, hit.lines, self.changed_lines(hit, vocabulary))

        return each_field(batch, rng, changed, fields=self.fields)

    def check_vocabulary(self, vocabulary: NoiseVocabulary) -> None: ...

    @abstractmethod
    def changed_lines(self, hit: Hit, vocabulary: NoiseVocabulary) -> Column: ...


@dataclass(frozen=True, slots=True)
class Switchout(VocabularyNoise):
    """Replace random tokens by tokens of a vocabulary, all equally probable."""

    def changed_lines(self, hit: Hit, vocabulary: NoiseVocabulary) -> Column:
        tokens = hit.tokens
        chosen = np.arange(len(tokens))
        is_hit = hit.drawn >= 0
        chosen[is_hit] = -1 - hit.drawn[is_hit]
        return written(tokens, chosen, tokens.ends, vocabulary.like(tokens.column))


@dataclass(frozen=True, slots=True)
class Insertion(VocabularyNoise):
    """Insert tokens of a vocabulary, all equally probable, before random tokens."""

    def changed_lines(self, hit: Hit, vocabulary: NoiseVocabulary) -> Column:
        tokens = hit.tokens
        is_hit = hit.drawn >= 0
        inserted = -1 - hit.drawn[is_hit]
        chosen = np.insert(np.arange(len(tokens)), np.flatnonzero(is_hit), inserted)
        n_inserted = np.cumsum(is_hit, dtype=np.int64)
        ends = tokens.ends + n_inserted[tokens.ends - 1]
        return written(tokens, chosen, ends, vocabulary.like(tokens.column))


@dataclass(frozen=True, slots=True)
class WbNoise(VocabularyNoise):
    """Move word boundaries: remove or add a leading ▁ of random tokens, if the result is in the
    vocabulary."""

    def check_vocabulary(self, vocabulary: NoiseVocabulary) -> None:
        if vocabulary.marked[0] == vocabulary.marked[1]:
            raise VocabularyError(
                f"{vocabulary.path}: no token starts with {SPACE!r}; remove wb_noise"
            )

    def changed_lines(self, hit: Hit, vocabulary: NoiseVocabulary) -> Column:
        tokens = hit.tokens
        others = vocabulary.like(tokens.column)
        if others.is_ids:
            output = written(tokens, np.arange(len(tokens)), tokens.ends, NO_OTHERS)
            ids = np.array(output.data)
            table = vocabulary.toggled
            is_known = (ids >= 0) & (ids < len(table))
            places = np.flatnonzero((hit.drawn >= 0) & is_known)
            toggled = table[ids[places]]
            is_token = toggled >= 0
            ids[places[is_token]] = toggled[is_token]
            return Column(ids, output.starts, output.sizes)
        from volt.kernels.noise import toggle_marks

        chosen = longs(len(tokens))
        toggle_marks(*tokens.views, hit.drawn, *others.views, *vocabulary.marked, chosen)
        return written(tokens, chosen, tokens.ends, others)


class NoiseVocabulary:
    """Tokens to draw from, in the order of their bytes, without special tokens and tokens with a
    space.

    texts, ids: the tokens as text and as ids; `ids` is None for a list without ids.
    marked: the first index of the tokens that start with "▁", and the index after the last.
    toggled: (n_ids,) int32, id → the id of the token with "▁" removed or added, or −1.
    """

    def __init__(self, path: Path, ids: Mapping[str, int], *, has_ids: bool) -> None:
        tokens = sorted(ids)  # code points and bytes have the same order
        if not tokens:
            raise VocabularyError(
                f"{path}: contains only special tokens; give the vocabulary that split the text"
            )
        numbers = [ids[token] for token in tokens]
        self.path = path
        self.texts = Column.of(tokens)
        self.ids: Column | None = None
        if has_ids:
            offsets = np.arange(len(tokens) + 1)
            self.ids = Column.of_ids(np.array(numbers, np.int32), offsets)
        self.marked = (bisect_left(tokens, SPACE), bisect_left(tokens, _AFTER_MARK))

        self.toggled = np.full(max(numbers) + 1, -1, np.int32)
        for token, number in ids.items():
            other = SPACE + token
            if token.startswith(SPACE):
                other = token.removeprefix(SPACE)
            self.toggled[number] = ids.get(other, -1)

        content = repr((tokens, numbers, has_ids)).encode("utf-8", "surrogatepass")
        self.fingerprint = blake2b(content, digest_size=8).hexdigest()

    def __len__(self) -> int:
        return len(self.texts)

    def like(self, column: Column) -> Column:
        """Return the tokens in the form of a column, text or ids."""
        if not column.is_ids:
            return self.texts
        if self.ids is None:
            raise VocabularyError(
                f"{self.path}: lists tokens without ids, but the fields contain ids; add ids"
            )
        return self.ids

    def without(self, tokens: Iterable[str]) -> NoiseVocabulary:
        texts = self.texts.strings()
        excluded = set(tokens)
        if excluded.isdisjoint(texts):
            return self
        numbers = range(len(texts)) if self.ids is None else self.ids.data.tolist()
        retained = dict(zip(texts, numbers, strict=True))
        for token in excluded:
            retained.pop(token, None)
        return NoiseVocabulary(self.path, retained, has_ids=self.ids is not None)


def noise_vocabulary(path: Path) -> NoiseVocabulary:
    """Return the tokens of a file. Raises VocabularyError if it has no usable token."""
    tokens, has_ids = _tokens(path)
    ids = {token: n for token, n in tokens.items() if token and not _BREAKING.search(token)}
    return NoiseVocabulary(path, ids, has_ids=has_ids)


def _tokens(path: Path) -> tuple[dict[str, int], bool]:
    from volt.files.small_files import read_bytes
    from volt.formats.protocol import HEAD_SIZE
    from volt.formats.registry import listed_pieces, read_with_format
    from volt.formats.sentencepiece.model_file import normal_pieces, recognises

    if recognises(path, read_bytes(path, kind=VocabularyError)[:HEAD_SIZE]):
        return normal_pieces(path), True
    pieces = listed_pieces(path)
    if pieces is None:
        vocabulary, _ = read_with_format(path)
        return {token: vocabulary.ids[token] for token in vocabulary.tokens}, True
    numbers = {piece: n for n, piece in enumerate(pieces) if not _SPECIAL.fullmatch(piece)}
    return numbers, False
