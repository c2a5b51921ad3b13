"""Encode and decode fields with a vocabulary, deterministically or with BPE-dropout."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from volt.errors import CorpusError, VocabularyError, quoted
from volt.stream.transforms.column import Column, holding_bytes
from volt.stream.transforms.fields import (
    BOTH_SIDES,
    Draws,
    each_field,
    filled_columns,
    with_fields,
)
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.options import Fields, File, Probability, Size
from volt.stream.transforms.transform import (
    Changes,
    FileTransform,
    LineFault,
    LineTransform,
    Loaded,
    LoadedFiles,
)

if TYPE_CHECKING:
    from volt.encode.encoder import Encoder

Form = Literal["pieces", "ids"]
_ID = re.compile("-?[0-9]{1,18}")
_SEED = 0  # the lines' numbers provide the randomness
_REFUSED = (ValueError, IndexError, CorpusError, VocabularyError)
_EMPTY, _LINE_END, _UNKNOWN = range(-3, 0)  # instead of an id


@dataclass(frozen=True, slots=True)
class Encode(FileTransform, LineTransform):
    """Encode fields with a VOLT vocabulary, as pieces or ids separated by spaces."""

    changes: ClassVar[Changes] = "pieces"
    vocabulary: File
    """A vocabulary file of VOLT or another library (subword-nmt, sentencepiece, Hugging Face,
    tiktoken)."""
    fields: Fields | None = None
    """The fields to encode; by default 1 and, if the line has it, 2."""
    to: Form = "pieces"
    """The form of the output."""
    dropout: Probability = 0.0
    """BPE-dropout: the probability of skipping a merge, drawn again each time that a line is
    read."""

    def load(self, files: LoadedFiles) -> Loaded:
        encoder = files.load(self.vocabulary, read_encoder)
        return partial(self._encoded, encoder), {"vocabulary": encoder.vocabulary.fingerprint}

    def deterministic(self) -> Encode:
        return replace(self, dropout=0.0)

    def inverse(self) -> Decode:
        return Decode(self.vocabulary, self.fields, self.to)

    def _encoded(self, encoder: Encoder, batch: Batch, rng: LineRng) -> Batch:
        def changed(column: Column, draws: Draws) -> Column:
            if not self.dropout:
                return encode_column(encoder, column, self.to)
            numbers = (draws.words >> np.uint64(1)).view(np.int64)
            return encode_column(
                encoder, column, self.to, dropout=self.dropout, seed=_SEED, numbers=numbers
            )

        return each_field(batch, rng, changed, fields=self.fields)


@dataclass(frozen=True, slots=True)
class Decode(FileTransform, LineTransform):
    """Decode fields of pieces or ids of a VOLT vocabulary into text."""

    decodes: ClassVar[bool] = True
    vocabulary: File
    """The vocabulary that encoded the fields."""
    fields: Fields | None = (1, 2)
    """The fields to decode; null means 1 and, if a line has it, 2."""
    from_: Form = "pieces"
    """The form of the input."""

    def load(self, files: LoadedFiles) -> Loaded:
        encoder = files.load(self.vocabulary, read_encoder)
        if self.from_ == "ids":
            whole = partial(_of_ids, encoder)
            one = partial(_decode_ids, encoder)
        else:
            whole = partial(_of_pieces, encoder)
            one = partial(_decode_pieces, encoder)
        call = partial(decoded, whole=whole, one=one, fields=self.fields)
        return call, {"vocabulary": encoder.vocabulary.fingerprint}


@dataclass(frozen=True, slots=True)
class StripEos(LineTransform):
    """Remove one end-of-sentence id from the end of lines of ids."""

    id: Size = 2
    """The id, which is 2 in VOLT's vocabularies and in fairseq's."""
    fields: Fields | None = None
    """The fields of ids; by default 1 and, if the line has it, 2."""

    def __call__(self, batch: Batch, rng: LineRng) -> Batch:
        batch, fields = with_fields(batch, self.fields)
        columns = filled_columns(batch, fields)
        reasons = dict[int, str]()
        for field, column in columns.items():
            if not column.is_ids:
                reason = f"field {field} is text, but strip_eos takes ids"
                reasons |= dict.fromkeys(np.flatnonzero(column.present).tolist(), reason)
        if reasons:
            raise LineFault(reasons)

        for field, column in columns.items():
            sizes = column.sizes.copy()
            filled = np.flatnonzero(sizes > 0)
            last = column.data[column.starts[filled] + sizes[filled] - 1]
            sizes[filled] -= last == self.id
            columns[field] = Column(column.data, column.starts, sizes)
        return batch.with_columns(columns)


def encode_column(encoder: Encoder, column: Column, form: Form, **options: Any) -> Column:
    """Return the pieces or ids of each value. options: of `Encoder.encode_bytes`"""
    text = column.text().tobytes()
    if form == "ids":
        encoded = encoder.encode_bytes(text, n_threads=1, **options)
        return Column.of_ids(encoded.ids, encoded.offsets)
    return Column.cut(encoder.encode_text(text, n_threads=1, **options))


def decoded(
    batch: Batch,
    rng: LineRng,
    *,
    whole: Callable[[Column], Column],
    one: Callable[[str], str],
    fields: Fields | None,
) -> Batch:
    """Return a batch with each column decoded by `whole`; if that fails, its values one by one, by
    `one`.

    Raises LineFault for values that `one` refuses, and for text that contains a tab or line end.
    """
    bad = dict[int, str]()

    def changed(column: Column, draws: Draws) -> Column:
        with suppress(*_REFUSED):
            output = whole(column)
            if len(output) == len(column):  # no value spells a line end
                return output

        values = column.strings()
        for place, value in enumerate(values):
            try:
                values[place] = one(value)
            except _REFUSED as error:
                bad.setdefault(place, f"field {draws.field} cannot be read: {error}")
        return Column.of(values)

    result = each_field(batch, rng, changed, fields=fields)
    for field in fields or BOTH_SIDES:
        column = result.column(field)
        breaking = [] if column.is_ids else np.flatnonzero(holding_bytes(column, b"\t\n")).tolist()
        for place, value in zip(breaking, column.take(breaking).strings(), strict=True):
            bad.setdefault(place, f"made a tab or a line feed: {value!r}")
    if bad:
        raise LineFault(bad)
    return result


def _of_ids(encoder: Encoder, column: Column) -> Column:
    if not column.is_ids:
        return Column.cut(encoder.decode_text(column.text().tobytes()))
    column = column.compact()
    offsets = np.append(column.starts, len(column.data))
    return _spelled(encoder, column.data, offsets)


def _of_pieces(encoder: Encoder, column: Column) -> Column:
    """Decode known pieces by their ids; values with an unknown piece are decoded one by one."""
    table = {**encoder.vocabulary.ids, "": _EMPTY, "\n": _LINE_END}
    text = column.text().tobytes().decode()
    pieces = text.replace("\n", " \n ").split(" ")
    known = map(table.get, pieces, repeat(_UNKNOWN))
    numbers = np.fromiter(known, np.int32, len(pieces))
    is_id = numbers >= 0
    is_end = numbers == _LINE_END
    n_ids = np.cumsum(is_id)[is_end]  # up to the end of each value
    output = _spelled(encoder, numbers[is_id], np.concatenate([[0], n_ids]))

    odd = np.unique(np.cumsum(is_end)[numbers == _UNKNOWN])
    if not len(odd):
        return output
    values = [_decode_pieces(encoder, value) for value in column.take(odd).strings()]
    return output.replaced(odd, Column.of(values))


def _spelled(encoder: Encoder, ids: NDArray[np.int32], offsets: NDArray[np.int64]) -> Column:
    from volt.encode.batch_encoder import Encoded

    return Column.cut(encoder.decode_bytes(Encoded(ids, offsets)))


def _decode_pieces(encoder: Encoder, value: str) -> str:
    return encoder.decode(pieces_of(value))


def _decode_ids(encoder: Encoder, value: str) -> str:
    return encoder.decode_ids(ids_of(value))


def pieces_of(value: str) -> list[str]:
    return [piece for piece in value.split(" ") if piece]


def ids_of(value: str) -> list[int]:
    pieces = pieces_of(value)
    for piece in pieces:
        if not _ID.fullmatch(piece):
            raise ValueError(f"{quoted(piece)} is not an id; give whole numbers")
    return list(map(int, pieces))


def read_encoder(path: Path) -> Encoder:
    from volt.encode.encoder import Encoder
    from volt.formats.registry import read_with_format

    vocabulary, _ = read_with_format(path)
    return Encoder(vocabulary)
