"""Encode and decode fields with a SentencePiece model.

VOLT's own encoder, several times as fast as the library, encodes the values that both encode alike:
all values, with a unigram model. The library encodes the others. A sampler draws segmentations of BPE
models with the stream's random numbers.
"""

from __future__ import annotations

import unicodedata
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError, VoltError
from volt.files.small_files import read_bytes
from volt.formats.sentencepiece.charsmap import load_library, model_class, unpack
from volt.formats.sentencepiece.merges import NORMAL
from volt.formats.sentencepiece.model_file import vocabulary_of
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import Draws, each_field
from volt.stream.transforms.options import Amount, Fields, File, whole_between
from volt.stream.transforms.sentencepiece_sampling import (
    UNIGRAM,
    BpeSampler,
    Form,
    make_sampler,
    write_rows,
)
from volt.stream.transforms.subwords import (
    SEED,
    decode_fields,
    encode_column,
    parse_ids,
    split_pieces,
)
from volt.stream.transforms.transform import (
    Changes,
    FileTransform,
    LineTransform,
    Loaded,
    LoadedFiles,
    fingerprint_of,
)
from volt.text.atoms import PREFIX
from volt.text.normalizer import Normalizer
from volt.vocabulary import Vocabulary
from volt.vocabulary.cached_vocabulary import cached_vocabulary

NBest = Annotated[int, partial(whole_between, low=-1, high=512)]
_ASCII = bytes(range(128)).decode()
# Normalisations in which only accents and Jamo change together with their neighbours
_NORMALIZATIONS = ("identity", "nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf")
_JAMO = frozenset(map(chr, range(0x1100, 0x1200)))  # Korean letters, which form syllables


class OwnEncoder(NamedTuple):
    """VOLT's encoder of a model.

    plain_characters: texts of these characters are encoded as by the library; None if all texts are
    """

    encoder: Encoder
    plain_characters: frozenset[str] | None

    def find_other_values(self, column: Column) -> list[int]:
        """Return the indices of the values with a character that is not plain."""
        if self.plain_characters is None:
            return []
        plain_bytes = "".join(self.plain_characters.intersection(_ASCII)).encode() + b"\n"
        others = column.text().tobytes().translate(None, plain_bytes)  # faster than a set of all
        if self.plain_characters.issuperset(others.decode("utf-8", "surrogatepass")):
            return []
        values = enumerate(column.strings())
        return [index for index, value in values if not self.plain_characters.issuperset(value)]


@dataclass(frozen=True)
class SentencePieceModel:
    """A model of the library. data: the content of the model's file"""

    processor: Any
    data: bytes
    path: Path

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.data)

    @property
    def fingerprints(self) -> dict[str, str]:
        return {"model": self.fingerprint, "library": load_library().__version__}

    @cached_property
    def proto(self) -> Any:
        """The model as a protocol buffer."""
        return model_class().FromString(self.data)

    @property
    def is_unigram(self) -> bool:
        return bool(self.proto.trainer_spec.model_type == UNIGRAM)

    @cached_property
    def unigram_encoder(self) -> Encoder:
        """VOLT's encoder of a unigram model. Raises VocabularyError if VOLT cannot read the model."""

        def read() -> Vocabulary:
            return vocabulary_of(self.proto)

        return Encoder(cached_vocabulary(Vocabulary, [self.path], read, self.fingerprint))

    @cached_property
    def own_encoder(self) -> OwnEncoder | None:
        """VOLT's encoder of the model; None if it would encode ordinary text in another way."""
        if self.is_unigram:
            with suppress(VocabularyError):
                return OwnEncoder(self.unigram_encoder, None)
            return None
        spec = self.proto.normalizer_spec
        if spec.name not in _NORMALIZATIONS:
            return None
        with suppress(VoltError):
            vocabulary = vocabulary_of(self.proto)
            if vocabulary.marker == "prefix" or not spec.remove_extra_whitespaces:
                vocabulary = replace(vocabulary, normalizer=Normalizer())
                return OwnEncoder(Encoder(vocabulary), self._find_plain_characters())
        return None

    def _find_plain_characters(self) -> frozenset[str]:
        """Return the characters of pieces that normalisation does not change, next to any other."""
        pieces = [piece.piece for piece in self.proto.pieces if piece.type == NORMAL]
        characters = {piece for piece in pieces if len(piece) == 1}
        changed = unpack(self.proto.normalizer_spec.precompiled_charsmap, only=characters)
        accents = {piece for piece in characters if unicodedata.category(piece)[0] == "M"}
        return frozenset(characters - accents - _JAMO - changed.keys() - {PREFIX} | {" "})

    @cached_property
    def sampler(self) -> BpeSampler:
        return make_sampler(self.processor, self.proto)


@dataclass(frozen=True, slots=True)
class SpmEncode(FileTransform):
    """Encode fields with a SentencePiece model, as pieces or ids separated by spaces."""

    keeps_lines: ClassVar[bool] = True
    is_compiled: ClassVar[bool] = True
    changes: ClassVar[Changes] = "pieces"
    model: File
    """A SentencePiece model file."""
    fields: Fields | None = None
    """The fields to encode; by default 1 and, if the line has it, 2."""
    to: Form = "pieces"
    """The form of the output."""
    alpha: Amount | None = None
    """Sample encodings: the sharpness of a unigram model's distribution, or a BPE model's dropout
    probability."""
    nbest: NBest = -1
    """How many best encodings a unigram model samples from; −1 samples from all."""

    @property
    def is_sampled(self) -> bool:
        return self.alpha is not None and self.nbest not in (0, 1)

    def load(self, files: LoadedFiles) -> Loaded:
        model = files.load(self.model, read_model)
        encode = partial(self._encode, model)
        if self.is_sampled and model.is_unigram:
            encode = partial(self._draw_paths, model.unigram_encoder)
        elif self.is_sampled:
            encode = partial(self._sample, model.sampler)
        return partial(each_field, function=encode, fields=self.fields), model.fingerprints

    def deterministic(self) -> SpmEncode:
        return replace(self, alpha=None)

    def inverse(self) -> SpmDecode:
        return SpmDecode(self.model, self.fields, self.to)

    def _draw_paths(self, encoder: Encoder, column: Column, draws: Draws) -> Column:
        numbers = (draws.words >> np.uint64(1)).view(np.int64)
        options = {"alpha": self.alpha, "nbest": self.nbest, "seed": SEED, "numbers": numbers}
        return encode_column(encoder, column, self.to, **options)

    def _sample(self, sampler: BpeSampler, column: Column, draws: Draws) -> Column:
        return sampler.sample(
            column.strings(),
            draws.words,
            alpha=self.alpha or 0.0,
            form=self.to,
        )

    def _encode(self, model: SentencePieceModel, column: Column, draws: Draws) -> Column:
        own = model.own_encoder
        if own is None:
            return self._encode_by_library(model, column)
        result = encode_column(own.encoder, column, self.to)
        others = own.find_other_values(column)
        if others:
            result = result.replaced(others, self._encode_by_library(model, column.take(others)))
        return result

    def _encode_by_library(self, model: SentencePieceModel, column: Column) -> Column:
        out_type = int if self.to == "ids" else str
        rows = model.processor.encode(column.strings(), out_type=out_type, num_threads=1)
        return write_rows(rows, self.to)


@dataclass(frozen=True, slots=True)
class SpmDecode(FileTransform, LineTransform):
    """Decode fields of pieces or ids of a SentencePiece model into text."""

    decodes: ClassVar[bool] = True
    model: File
    """The model that encoded the fields."""
    fields: Fields | None = (1, 2)
    """The fields to decode; null means 1 and, if a line has it, 2."""
    from_: Form = "pieces"
    """The form of the input."""

    def load(self, files: LoadedFiles) -> Loaded:
        model = files.load(self.model, read_model)
        call = partial(
            decode_fields,
            decode_column=partial(self._decode_column, model.processor),
            decode_value=partial(self._decode_value, model.processor),
            fields=self.fields,
        )
        return call, model.fingerprints

    def _decode_column(self, processor: Any, column: Column) -> Column:
        rows = [self._parse(processor, value) for value in column.strings()]
        return Column.of(processor.decode(rows, num_threads=1))

    def _decode_value(self, processor: Any, value: str) -> str:
        return str(processor.decode(self._parse(processor, value)))

    def _parse(self, processor: Any, value: str) -> list[Any]:
        """Return the pieces or ids of a value. Raises ValueError if one is not an id of the model."""
        if self.from_ == "pieces":
            return split_pieces(value)
        size = processor.get_piece_size()
        ids = parse_ids(value)
        for number in ids:
            if not 0 <= number < size:
                raise ValueError(
                    f"{number} is not an id of the model; give ids from 0 to {size - 1}"
                )
        return ids


def read_model(path: Path) -> SentencePieceModel:
    data = read_bytes(path, kind=VocabularyError)
    return SentencePieceModel(make_processor(path, data), data, path)


def make_processor(path: Path, data: bytes) -> Any:
    """Return the library's processor of a model. path: the model's file, for errors"""
    try:
        return load_library().SentencePieceProcessor(model_proto=data)
    except (RuntimeError, OSError):
        raise VocabularyError(
            f"{path}: not a SentencePiece model, or damaged; copy or train it again"
        ) from None
