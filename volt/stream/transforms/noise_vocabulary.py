"""The tokens that noise draws from a vocabulary, as text and as ids, and which become which when "▁" goes or comes.

A vocabulary is a file of any format that VOLT reads. Of a list without merges, such as `count<TAB>subword`, the tokens
are taken as they are spelled there, and have no ids. Of a SentencePiece model, of any kind, the pieces have the ids
that the model gives them. Special tokens are left out: those that the file says are special, and in a list those in
angle brackets, as <unk>. So are tokens that hold a space, which no text between spaces is.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile() as file:
...     _ = file.write("9\\t▁lo\\n7\\tlo\\n3.5\\tw\\n1\\t<unk>\\n".encode()) and file.flush()
...     vocabulary = noise_vocabulary(Path(file.name))
>>> vocabulary.texts.strings(), vocabulary.marked, vocabulary.ids
(['lo', 'w', '▁lo'], (2, 3), None)
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from volt.errors import VocabularyError
from volt.stream.transforms.column import Column
from volt.text.markers import SPACE

_SPECIAL = re.compile(r"<[^<> ]+>")
_BREAKING = re.compile(r"[ \t\r\n]")
_BEHIND_MARK = chr(ord(SPACE) + 1)  # the least text that is more than all that start with the mark
_NONE = -1


@dataclass(frozen=True, slots=True, eq=False)
class NoiseVocabulary:
    """Tokens to draw from, in the order of their bytes.

    path: of its file.
    texts: one value for each token.
    ids: the same of ids; None for a list that has none.
    marked: from and before which tokens those stand that start with "▁".
    toggled: (n_ids,) int32; of each id, that of the token with "▁" taken away or put before it, or −1.
    fingerprint: of all this.
    """

    path: Path
    texts: Column
    ids: Column | None
    marked: tuple[int, int]
    toggled: NDArray[np.int32]
    fingerprint: str

    def __len__(self) -> int:
        return len(self.texts)

    def like(self, column: Column) -> Column:
        """The tokens as ids for a column of ids, and as text for one of text.

        Raises VocabularyError for ids that there are not.
        """
        if column.is_ids and self.ids is None:
            raise VocabularyError(
                f"{self.path}: lists tokens without ids, and the fields hold ids; give a .volt vocabulary or a "
                "SentencePiece model, or add noise before tokens become ids"
            )
        return self.ids if column.is_ids and self.ids is not None else self.texts

    def without(self, tokens: Iterable[str]) -> NoiseVocabulary:
        """The other tokens. Raises VocabularyError if none is left."""
        texts = self.texts.strings()
        if (left_out := set(tokens)).isdisjoint(texts):
            return self
        numbers = range(len(texts)) if self.ids is None else self.ids.data.tolist()
        kept = {text: number for text, number in zip(texts, numbers, strict=True) if text not in left_out}
        return _vocabulary(self.path, kept, has_ids=self.ids is not None)

    def check_marks(self) -> None:
        """Raise VocabularyError if no token starts with "▁"."""
        if self.marked[0] == self.marked[1]:
            raise VocabularyError(
                f"{self.path}: no token starts with {SPACE!r}, the mark of a word's start, so there is none to add or "
                "remove; leave wb_noise out, or give a vocabulary with such marks"
            )


def noise_vocabulary(path: Path) -> NoiseVocabulary:
    """The tokens of a file. Raises VocabularyError if it cannot be read or holds none, MissingLibraryError."""
    found, has_ids = _tokens(path)
    ids = {token: number for token, number in found.items() if token and not _BREAKING.search(token)}
    return _vocabulary(path, ids, has_ids=has_ids)


def _vocabulary(path: Path, ids: Mapping[str, int], *, has_ids: bool) -> NoiseVocabulary:
    """The vocabulary of these tokens. Raises VocabularyError if there are none."""
    tokens = sorted(ids)  # the order of code points is that of bytes
    if not tokens:
        raise VocabularyError(
            f"{path}: holds no token but special ones; give the vocabulary that the text was cut with"
        )
    numbers = np.array([ids[token] for token in tokens], np.int32)
    return NoiseVocabulary(
        path,
        Column.of(tokens),
        Column.of_ids(numbers, np.arange(len(tokens) + 1)) if has_ids else None,
        (bisect_left(tokens, SPACE), bisect_left(tokens, _BEHIND_MARK)),
        _toggled(ids),
        blake2b(repr((tokens, numbers.tolist(), has_ids)).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest(),
    )


def _tokens(path: Path) -> tuple[dict[str, int], bool]:
    """The tokens with their numbers, special ones left out; and whether these are ids."""
    from volt.files.whole import read_bytes
    from volt.formats.protocol import HEAD_SIZE
    from volt.formats.registry import listed_pieces, read_vocabulary
    from volt.formats.sentencepiece.model_file import normal_pieces, recognises

    if recognises(path, read_bytes(path, kind=VocabularyError)[:HEAD_SIZE]):
        return normal_pieces(path), True
    if (pieces := listed_pieces(path)) is not None:
        return {piece: number for number, piece in enumerate(pieces) if not _SPECIAL.fullmatch(piece)}, False
    vocabulary = read_vocabulary(path)
    return {token: vocabulary.ids[token] for token in vocabulary.tokens}, True


def _toggled(ids: Mapping[str, int]) -> NDArray[np.int32]:
    """(n_ids,) of each id, that of the token with "▁" taken away or put before it, or −1."""
    out = np.full(max(ids.values()) + 1, _NONE, np.int32)
    for token, number in ids.items():
        out[number] = ids.get(token.removeprefix(SPACE) if token.startswith(SPACE) else SPACE + token, _NONE)
    return out
