"""Return the ids of text or pieces by a VOLT vocabulary, a SentencePiece model or a list of tokens.

A piece is the occurrence of a token in text. Pieces without an id get the id of <unk>, here 3:

>>> numbers = numbering_of(["<s>", "<pad>", "</s>", "<unk>", "lo", "w"], "src")
>>> numbers, numbers.look_up(Column.of(["w lo", "", "w low"])).strings()
(<Numbering: 6 ids, of pieces>, ['5 4', '', '5 3'])
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from volt import arguments
from volt.array_types import Ints
from volt.errors import ConfigError, VocabularyError, quoted
from volt.stream.reading.open_source import fingerprint
from volt.stream.transforms.column import Column

if TYPE_CHECKING:
    from volt.encode.encoder import Encoder
    from volt.kernels.word_types import Types
    from volt.stream.transforms.transform import Transform

_GIVE = "give a vocabulary, the path of a vocabulary or SentencePiece model, or a list of tokens"
_ROLES = {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>"}


@dataclass(frozen=True, eq=False)
class Numbering:
    """The ids of tokens.

    pieces: the token of each id
    unk, bos, eos, pad: the ids of special tokens; None if there is no such token
    fingerprint: hash of everything that the ids depend on
    encode: a column of text → a column of ids; None for a list of tokens
    """

    pieces: tuple[str, ...]
    unk: int | None
    bos: int | None
    eos: int | None
    pad: int | None
    fingerprint: str
    encode: Callable[[Column], Column] | None = None

    def __repr__(self) -> str:
        kind = "pieces" if self.encode is None else "text"
        return f"<Numbering: {len(self):,} ids, of {kind}>"

    def __len__(self) -> int:
        return len(self.pieces)

    @property
    def unknown(self) -> int:
        """The id of unknown pieces: `unk`, or -1 without it."""
        return -1 if self.unk is None else self.unk

    @cached_property
    def ids(self) -> Mapping[str, int]:
        """Token → id."""
        return {piece: number for number, piece in enumerate(self.pieces)}

    def look_up(self, column: Column) -> Column:
        """Return the ids of a column of pieces.

        The id of unknown pieces is `unk` or, if that is None, -1.

        column: lines of pieces separated by spaces
        """
        from volt.kernels.word_types import find_words

        table, ids = self._table
        sizes = np.maximum(column.sizes, 0)
        max_pieces = int((sizes + 1).sum() // 2 + len(sizes))
        indices = np.empty(max_pieces, np.int32)
        ends = np.empty(len(sizes), np.int64)
        state = np.zeros(4, np.int64)
        find_words(column.data, column.starts, column.sizes, table, False, indices, ends, state)
        offsets = np.append(0, ends)
        return Column.of_ids(ids[indices[: offsets[-1]]], offsets)

    @cached_property
    def _table(self) -> tuple[Types, Ints]:
        """A hash table from pieces to indices, and the id of each index; the last is for other
        pieces."""
        from volt.kernels.word_types import Types, find_words

        ids = [id_ for piece, id_ in self.ids.items() if piece and " " not in piece]
        column = Column.of([self.pieces[id_] for id_ in ids])
        max_types = len(ids) + int(column.sizes.max(initial=1))
        table = Types(
            np.zeros(1 << (2 * max_types).bit_length(), np.int64),
            np.zeros(max_types, np.uint64),
            np.zeros(max_types + 1, np.int64),
            np.zeros(len(column.data) + 1, np.uint8),
        )
        indices = np.empty(len(column.data) + len(ids), np.int32)
        ends = np.empty(len(ids), np.int64)
        state = np.zeros(4, np.int64)
        find_words(column.data, column.starts, column.sizes, table, True, indices, ends, state)
        return table, np.array([*ids, self.unknown], np.int32)


def numbering_of(vocabulary: Any, name: str) -> Numbering:
    """Return the numbering of a field.

    vocabulary: a vocabulary or encoder, the path of a vocabulary or SentencePiece model, or a list
        of tokens
    name: the name of the field, for errors
    """
    from volt.encode.encoder import Encoder
    from volt.vocabulary import Vocabulary

    if isinstance(vocabulary, Numbering):
        return vocabulary
    if isinstance(vocabulary, Encoder):
        return _of_encoder(vocabulary)
    if isinstance(getattr(vocabulary, "vocabulary", vocabulary), Vocabulary):
        return _of_encoder(Encoder(vocabulary))
    if isinstance(vocabulary, str | os.PathLike):
        from volt.files.small_files import read_bytes
        from volt.formats.registry import format_module, read_with_format

        path = Path(arguments.path(vocabulary, name))
        if path.is_file():
            data = read_bytes(path, kind=VocabularyError)
            if format_module("sentencepiece").recognises(path, data):
                return _of_model(path, data)
        model, _ = read_with_format(path)
        return _of_encoder(Encoder(model))
    if vocabulary is None:
        raise ConfigError(f"field {quoted(name)} has no vocabulary; {_GIVE}")
    label = f"the vocabulary of {name}"
    listed = arguments.several(vocabulary, label, one=_GIVE, remedy=_GIVE)
    tokens = arguments.texts(listed, label, remedy=_GIVE)
    if not tokens:
        raise ConfigError(f"{label} has no token; {_GIVE}")
    ids = dict[str, int]()
    for number, token in enumerate(tokens):
        if ids.setdefault(token, number) != number:
            raise ConfigError(
                f"token {quoted(token)} of {label} is repeated, at {ids[token]} and {number}; "
                "remove one"
            )
    roles = {role: ids.get(token) for role, token in _ROLES.items()}
    return Numbering(tuple(tokens), **roles, fingerprint=fingerprint(tokens), encode=None)


def _of_encoder(encoder: Encoder) -> Numbering:
    from volt.stream.transforms.subwords import encode_column

    vocabulary = encoder.vocabulary
    ids: dict[str, int] = {
        role: vocabulary.ids[token] for role, token in vocabulary.special.roles.items()
    }
    return Numbering(
        vocabulary.pieces,
        **{role: ids.get(role) for role in _ROLES},
        fingerprint=vocabulary.fingerprint,
        encode=partial(encode_column, encoder, form="ids"),
    )


def _of_model(path: Path, data: bytes) -> Numbering:
    from volt.stream.transforms.spm import SpmEncode, make_processor
    from volt.stream.transforms.transform import LoadedFiles

    processor = make_processor(path, data)
    encoder = SpmEncode(model=path, to="ids", fields=(1,))
    transform = encoder.opened(LoadedFiles())
    roles = dict[str, int | None]()
    for role in _ROLES:
        number = getattr(processor, f"{role}_id")()
        roles[role] = number if number >= 0 else None
    return Numbering(
        tuple(map(processor.id_to_piece, range(processor.get_piece_size()))),
        **roles,
        fingerprint=fingerprint(transform.signature()),
        encode=partial(_transformed, transform),
    )


def _transformed(transform: Transform, column: Column) -> Column:
    from volt.stream.transforms.line_batch import Batch, LineRng

    batch = Batch((column,), None, np.arange(len(column)))
    return transform(batch, LineRng(0, 0)).column(1)
