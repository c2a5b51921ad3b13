"""Noise that draws from a vocabulary: replace tokens, insert tokens, or move word boundaries.

    ▁a boat  →  Switchout  ▁house ▁a        Insertion  ▁house ▁a ▁a boat        WbNoise  ▁a ▁boat

`TokenNoise.hit_tokens` chooses tokens of the field, and draws a token of the vocabulary for each.
A transform then says which tokens of the field and of the vocabulary make up its result.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np

from volt import arguments
from volt.errors import VocabularyError
from volt.stream.transforms.column import Column, longs
from volt.stream.transforms.fields import Draws, each_field
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.noise import Hits, TokenNoise
from volt.stream.transforms.options import Amount, Fields, File, Probability
from volt.stream.transforms.transform import (
    FileTransform,
    LoadedFiles,
    Opened,
    fingerprint_of,
    signature,
)
from volt.stream.transforms.word_types import join_tokens, replace_values
from volt.text.atoms import SPACE

_SPECIAL_TOKEN = re.compile(r"<[^<> ]+>")
_SEPARATOR = re.compile(r"[ \t\r\n]")
_AFTER_MARKER = chr(ord(SPACE) + 1)  # sorts just after all texts that start with the marker


@dataclass(frozen=True, slots=True)
class VocabularyNoise(FileTransform, TokenNoise):
    """Base class of noise with a vocabulary."""

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
        vocabulary = files.load(self.vocabulary, read_noise_vocabulary).without(self.without)
        self.check_vocabulary(vocabulary)
        values = {
            "type": type(self).__name__,
            "vocabulary": vocabulary.fingerprint,
            "temperature": self.temperature,
            "rate": self.rate,
            "fields": signature(self.fields),
        }
        return Opened(self, partial(self._add_noise, vocabulary), values)

    def _add_noise(self, vocabulary: NoiseVocabulary, batch: Batch, rng: LineRng) -> Batch:
        def change(column: Column, draws: Draws) -> Column:
            hits = self.hit_tokens(column, draws, n_choices=len(vocabulary))
            if hits is None:
                return column
            new_tokens = vocabulary.tokens_like(column)
            return replace_values(
                column, hits.lines, self.change_hits(hits, new_tokens, vocabulary)
            )

        return each_field(batch, rng, change, fields=self.fields)

    def check_vocabulary(self, vocabulary: NoiseVocabulary) -> None:
        """Raise VocabularyError if the noise cannot use a vocabulary."""

    @abstractmethod
    def change_hits(self, hits: Hits, new_tokens: Column, vocabulary: NoiseVocabulary) -> Column:
        """Return the changed values of the lines in `hits`.

        new_tokens: the tokens of the vocabulary, in the form of the field; `hits.drawn` are indices
        """


@dataclass(frozen=True, slots=True)
class Switchout(VocabularyNoise):
    """Replace random tokens by tokens of a vocabulary, all equally probable."""

    def change_hits(self, hits: Hits, new_tokens: Column, vocabulary: NoiseVocabulary) -> Column:
        own = np.arange(len(hits.tokens))
        chosen = np.where(hits.is_hit, -1 - hits.drawn, own)  # −1 − index: a new token
        return join_tokens(hits.tokens, chosen, hits.tokens.value_ends, new_tokens)


@dataclass(frozen=True, slots=True)
class Insertion(VocabularyNoise):
    """Insert tokens of a vocabulary, all equally probable, before random tokens."""

    def change_hits(self, hits: Hits, new_tokens: Column, vocabulary: NoiseVocabulary) -> Column:
        own = np.arange(len(hits.tokens))
        inserted = -1 - hits.drawn[hits.is_hit]  # −1 − index: a new token
        chosen = np.insert(own, np.flatnonzero(hits.is_hit), inserted)
        n_inserted = np.cumsum(hits.is_hit, dtype=np.int64)  # up to each token
        value_ends = hits.tokens.value_ends + n_inserted[hits.tokens.value_ends - 1]
        return join_tokens(hits.tokens, chosen, value_ends, new_tokens)


@dataclass(frozen=True, slots=True)
class WbNoise(VocabularyNoise):
    """Move word boundaries: remove or add a leading ▁ of random tokens, if the result is in the
    vocabulary."""

    def check_vocabulary(self, vocabulary: NoiseVocabulary) -> None:
        if not len(vocabulary.marked):
            raise VocabularyError(
                f"{vocabulary.path}: no token starts with {SPACE!r}; remove wb_noise"
            )

    def change_hits(self, hits: Hits, new_tokens: Column, vocabulary: NoiseVocabulary) -> Column:
        tokens = hits.tokens
        if new_tokens.is_ids:
            column = join_tokens(tokens, np.arange(len(tokens)), tokens.value_ends)
            ids = np.array(column.data)
            is_known = (ids >= 0) & (ids < len(vocabulary.toggled_ids))
            indices = np.flatnonzero(hits.is_hit & is_known)
            toggled = vocabulary.toggled_ids[ids[indices]]
            exists = toggled >= 0
            ids[indices[exists]] = toggled[exists]
            return Column(ids, column.starts, column.sizes)
        from volt.kernels.noise import toggle_marks

        chosen = longs(len(tokens))
        marked = vocabulary.marked
        toggle_marks(
            *tokens.views, hits.drawn, *new_tokens.views, marked.start, marked.stop, chosen
        )
        return join_tokens(tokens, chosen, tokens.value_ends, new_tokens)


class NoiseVocabulary:
    """Tokens to draw from, in the order of their bytes, without special tokens and tokens with a
    space.

    texts: the tokens as text
    ids: the tokens as ids; None for a list without ids
    marked: the indices of the tokens that start with "▁"
    toggled_ids: (n_ids,) int32, id → the id of the token with "▁" removed or added, or −1
    """

    def __init__(self, path: Path, ids: Mapping[str, int], *, has_ids: bool) -> None:
        tokens = sorted(ids)  # code points and bytes have the same order
        if not tokens:
            raise VocabularyError(
                f"{path}: contains only special tokens; give the vocabulary that split the text"
            )
        sorted_ids = [ids[token] for token in tokens]
        self.path = path
        self.texts = Column.of(tokens)
        self.ids: Column | None = None
        if has_ids:
            offsets = np.arange(len(tokens) + 1)
            self.ids = Column.of_ids(np.array(sorted_ids, np.int32), offsets)
        self.marked = range(bisect_left(tokens, SPACE), bisect_left(tokens, _AFTER_MARKER))

        self.toggled_ids = np.full(max(sorted_ids) + 1, -1, np.int32)
        for token, token_id in ids.items():
            toggled = SPACE + token
            if token.startswith(SPACE):
                toggled = token.removeprefix(SPACE)
            self.toggled_ids[token_id] = ids.get(toggled, -1)

        content = repr((tokens, sorted_ids, has_ids))
        self.fingerprint = fingerprint_of(content.encode("utf-8", "surrogatepass"))

    def __len__(self) -> int:
        return len(self.texts)

    def tokens_like(self, column: Column) -> Column:
        """Return the tokens in the form of a column, text or ids."""
        if not column.is_ids:
            return self.texts
        if self.ids is None:
            raise VocabularyError(
                f"{self.path}: lists tokens without ids, but the fields contain ids; add ids"
            )
        return self.ids

    def without(self, excluded: Iterable[str]) -> NoiseVocabulary:
        """Return the vocabulary without some tokens."""
        texts = self.texts.strings()
        if set(excluded).isdisjoint(texts):
            return self
        ids = range(len(texts)) if self.ids is None else self.ids.data.tolist()
        retained = dict(zip(texts, ids, strict=True))
        for token in excluded:
            retained.pop(token, None)
        return NoiseVocabulary(self.path, retained, has_ids=self.ids is not None)


def read_noise_vocabulary(path: Path) -> NoiseVocabulary:
    """Read the tokens of a file. Raises VocabularyError if it has no usable token."""
    tokens, has_ids = _read_tokens(path)
    ids = {token: n for token, n in tokens.items() if token and not _SEPARATOR.search(token)}
    return NoiseVocabulary(path, ids, has_ids=has_ids)


def _read_tokens(path: Path) -> tuple[dict[str, int], bool]:
    """Return token → id, and whether the file has ids; without ids, they are line numbers."""
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
    numbers = {piece: n for n, piece in enumerate(pieces) if not _SPECIAL_TOKEN.fullmatch(piece)}
    return numbers, False
