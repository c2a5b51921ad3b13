"""Encode and decode fields with a vocabulary, deterministically or with sampled segmentations.

low lower  →  encode, to pieces: low</w> low er</w>     to ids: 25 21 24
"""

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

from volt.array_types import Ints, Longs
from volt.encode.segmentation_sampling import SegmentationSampling
from volt.errors import CorpusError, VocabularyError, quoted
from volt.stream.transforms.column import Column
from volt.stream.transforms.column_measurements import find_bytes
from volt.stream.transforms.fields import (
    BOTH_SIDES,
    Draws,
    each_field,
    filled_columns,
    with_fields,
)
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.options import Amount, Fields, File, Number, Probability, Size
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
SEED = 0  # constant, because the lines' random bits provide the randomness
_DECODING_ERRORS = (ValueError, IndexError, CorpusError, VocabularyError)
_EMPTY, _LINE_END, _UNKNOWN = range(-3, 0)  # stand for an id in `_decode_piece_column`


@dataclass(frozen=True, slots=True)
class Encode(FileTransform, LineTransform):
    """Encode fields with a VOLT vocabulary, as pieces or ids separated by spaces."""

    changes: ClassVar[Changes] = "pieces"
    newer_options: ClassVar[tuple[str, ...]] = ("alpha", "nbest")
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
    alpha: Amount | None = None
    """Subword sampling with a unigram model, drawn again each time that a line is read: paths have
    probabilities in proportion to exp(alpha · score)."""
    nbest: Number | None = None
    """With `alpha`, how many best paths are drawn from; by default all."""

    def load(self, files: LoadedFiles) -> Loaded:
        encoder = files.load(self.vocabulary, read_encoder)
        sampling = self._sampling
        SegmentationSampling.of(**sampling, is_unigram=encoder.vocabulary.is_unigram)
        return partial(self._encode, encoder, sampling), {
            "vocabulary": encoder.vocabulary.fingerprint
        }

    def deterministic(self) -> Encode:
        return replace(self, dropout=0.0, alpha=None, nbest=None)

    def inverse(self) -> Decode:
        return Decode(self.vocabulary, self.fields, self.to)

    @property
    def _sampling(self) -> dict[str, Any]:
        """The options of `Encoder.encode_bytes` for random segmentations."""
        options: dict[str, Any] = {"dropout": self.dropout, "alpha": self.alpha, "seed": SEED}
        if self.nbest is not None:
            options["nbest"] = self.nbest
        return options

    def _encode(
        self, encoder: Encoder, sampling: dict[str, Any], batch: Batch, rng: LineRng
    ) -> Batch:
        def encode(column: Column, draws: Draws) -> Column:
            if not self.dropout and self.alpha is None:
                return encode_column(encoder, column, self.to)
            numbers = (draws.words >> np.uint64(1)).view(np.int64)
            return encode_column(encoder, column, self.to, numbers=numbers, **sampling)

        return each_field(batch, rng, encode, fields=self.fields)


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
        decode_column = partial(_decode_piece_column, encoder)
        decode_value = partial(_decode_pieces, encoder)
        if self.from_ == "ids":
            decode_column = partial(_decode_id_column, encoder)
            decode_value = partial(_decode_ids, encoder)
        call = partial(
            decode_fields,
            decode_column=decode_column,
            decode_value=decode_value,
            fields=self.fields,
        )
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
            last_ids = column.data[column.starts[filled] + sizes[filled] - 1]
            sizes[filled] -= last_ids == self.id
            columns[field] = Column(column.data, column.starts, sizes)
        return batch.with_columns(columns)


def encode_column(encoder: Encoder, column: Column, form: Form, **options: Any) -> Column:
    """Return the pieces or ids of each value. options: options of `Encoder.encode_bytes`"""
    text = column.text().tobytes()
    if form == "ids":
        encoded = encoder.encode_bytes(text, n_threads=1, **options)
        return Column.of_ids(encoded.ids, encoded.offsets)
    return Column.cut(encoder.encode_text(text, n_threads=1, **options))


def decode_fields(
    batch: Batch,
    rng: LineRng,
    *,
    decode_column: Callable[[Column], Column],
    decode_value: Callable[[str], str],
    fields: Fields | None,
) -> Batch:
    """Return a batch with decoded fields.

    Raises LineFault for lines that cannot be decoded, or whose text contains a tab or line feed.

    decode_column: decodes a whole column; if it raises an error, the values are decoded one by one
    decode_value: decodes one value
    """
    reasons = dict[int, str]()

    def decode(column: Column, draws: Draws) -> Column:
        with suppress(*_DECODING_ERRORS):
            output = decode_column(column)
            if len(output) == len(column):  # no value spells a line feed
                return output

        values = column.strings()
        for line, value in enumerate(values):
            try:
                values[line] = decode_value(value)
            except _DECODING_ERRORS as error:
                reasons.setdefault(line, f"field {draws.field} cannot be read: {error}")
        return Column.of(values)

    result = each_field(batch, rng, decode, fields=fields)
    for field in fields or BOTH_SIDES:
        column = result.column(field)
        if not column.is_ids:
            lines = np.flatnonzero(find_bytes(column, b"\t\n")).tolist()
            for line, value in zip(lines, column.take(lines).strings(), strict=True):
                reasons.setdefault(line, f"made a tab or a line feed: {value!r}")
    if reasons:
        raise LineFault(reasons)
    return result


def _decode_id_column(encoder: Encoder, column: Column) -> Column:
    if not column.is_ids:
        return Column.cut(encoder.decode_text(column.text().tobytes()))
    column = column.compact()
    offsets = np.append(column.starts, len(column.data))
    return _decode_id_array(encoder, column.data, offsets)


def _decode_piece_column(encoder: Encoder, column: Column) -> Column:
    """Decode known pieces by their ids; values with an unknown piece are decoded one by one."""
    id_of = {**encoder.vocabulary.ids, "": _EMPTY, "\n": _LINE_END}
    text = column.text().tobytes().decode()
    pieces = text.replace("\n", " \n ").split(" ")
    ids = np.fromiter(map(id_of.get, pieces, repeat(_UNKNOWN)), np.int32, len(pieces))
    is_id = ids >= 0
    is_end = ids == _LINE_END
    id_ends = np.cumsum(is_id)[is_end]  # where each value's ids end
    output = _decode_id_array(encoder, ids[is_id], np.append(0, id_ends))

    unknown_lines = np.unique(np.cumsum(is_end)[ids == _UNKNOWN])
    if not len(unknown_lines):
        return output
    values = [_decode_pieces(encoder, value) for value in column.take(unknown_lines).strings()]
    return output.replaced(unknown_lines, Column.of(values))


def _decode_id_array(encoder: Encoder, ids: Ints, offsets: Longs) -> Column:
    from volt.encode.batch_encoder import Encoded

    return Column.cut(encoder.decode_bytes(Encoded(ids, offsets)))


def _decode_pieces(encoder: Encoder, value: str) -> str:
    return encoder.decode(split_pieces(value))


def _decode_ids(encoder: Encoder, value: str) -> str:
    return encoder.decode_ids(parse_ids(value))


def split_pieces(value: str) -> list[str]:
    """Return the parts of a value between spaces.

    >>> split_pieces("lo  w ")
    ['lo', 'w']
    """
    return [piece for piece in value.split(" ") if piece]


def parse_ids(value: str) -> list[int]:
    """Return the ids in a value. Raises ValueError if a part between spaces is not a number."""
    pieces = split_pieces(value)
    for piece in pieces:
        if not _ID.fullmatch(piece):
            raise ValueError(f"{quoted(piece)} is not an id; give whole numbers")
    return list(map(int, pieces))


def read_encoder(path: Path) -> Encoder:
    from volt.encode.encoder import Encoder
    from volt.formats.registry import read_with_format

    vocabulary, _ = read_with_format(path)
    return Encoder(vocabulary)
