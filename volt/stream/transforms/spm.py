"""Encode and decode fields with a SentencePiece model, with sampling by the random numbers of the
line."""

from __future__ import annotations

import unicodedata
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError, VoltError
from volt.files.small_files import read_bytes
from volt.formats.sentencepiece.charsmap import load_library, model_class, unpack
from volt.formats.sentencepiece.merges import NORMAL
from volt.formats.sentencepiece.model_file import vocabulary_of
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import Draws, each_field
from volt.stream.transforms.options import Amount, Fields, File, whole_between
from volt.stream.transforms.sentencepiece_sampling import Form, Sampler, column_of_rows, sampler_of
from volt.stream.transforms.subwords import decoded, encode_column, ids_of, pieces_of
from volt.stream.transforms.transform import (
    Changes,
    FileTransform,
    LineTransform,
    Loaded,
    LoadedFiles,
)
from volt.text.atoms import PREFIX
from volt.text.normalizer import Normalizer

NBest = Annotated[int, partial(whole_between, low=-1, high=512)]
_ASCII = bytes(range(128)).decode()
_NORMALIZATIONS = ("identity", "nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf")
_JAMO = frozenset(map(chr, range(0x1100, 0x1200)))  # Korean letters, which form syllables


class OwnEncoder(NamedTuple):
    """VOLT's encoder of a BPE model, several times as fast as the library.

    plain: the characters of the texts that both encode alike
    """

    encoder: Encoder
    plain: frozenset[str]

    def unlike(self, column: Column) -> list[int]:
        """Return the numbers of the values with other characters."""
        plain = "".join(self.plain.intersection(_ASCII)).encode() + b"\n"
        rest = column.text().tobytes().translate(None, plain)  # faster than a set of all characters
        if self.plain.issuperset(rest.decode("utf-8", "surrogatepass")):
            return []
        values = enumerate(column.strings())
        return [number for number, value in values if not self.plain.issuperset(value)]


@dataclass(frozen=True)
class SentencePieceModel:
    processor: Any
    data: bytes

    @property
    def fingerprint(self) -> str:
        return blake2b(self.data, digest_size=8).hexdigest()

    @property
    def fingerprints(self) -> dict[str, str]:
        return {"model": self.fingerprint, "library": load_library().__version__}

    @cached_property
    def proto(self) -> Any:
        return model_class().FromString(self.data)

    @cached_property
    def own_encoder(self) -> OwnEncoder | None:
        """VOLT's encoder of a BPE model; None if it would encode ordinary text in another way."""
        spec = self.proto.normalizer_spec
        if spec.name not in _NORMALIZATIONS:
            return None
        with suppress(VoltError):
            vocabulary = vocabulary_of(self.proto)
            if vocabulary.marker == "prefix" or not spec.remove_extra_whitespaces:
                vocabulary = replace(vocabulary, normalizer=Normalizer())
                return OwnEncoder(Encoder(vocabulary), self._plain_characters())
        return None

    def _plain_characters(self) -> frozenset[str]:
        """Return the characters of pieces that normalisation leaves as they are, in whatever
        order."""
        pieces = [piece.piece for piece in self.proto.pieces if piece.type == NORMAL]
        single = {piece for piece in pieces if len(piece) == 1}
        changed = unpack(self.proto.normalizer_spec.precompiled_charsmap, only=single)
        accents = {piece for piece in single if unicodedata.category(piece)[0] == "M"}
        return frozenset(single - accents - _JAMO - changed.keys() - {PREFIX} | {" "})

    @cached_property
    def sampler(self) -> Sampler:
        return sampler_of(self.processor, self.proto)


@dataclass(frozen=True, slots=True)
class SpmEncode(FileTransform):
    """Encode fields with a SentencePiece model, as pieces or ids separated by spaces."""

    keeps_lines: ClassVar[bool] = True
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
    def is_compiled(self) -> bool:
        """False if the SentencePiece library computes n best encodings, one line at a time."""
        return not (self.sampled and self.nbest > 1)

    @property
    def sampled(self) -> bool:
        return self.alpha is not None and self.nbest not in (0, 1)

    def load(self, files: LoadedFiles) -> Loaded:
        model = files.load(self.model, read_model)
        encode = partial(self._encoded, model)
        if self.sampled:
            encode = partial(self._sampled, model.sampler)
        return partial(each_field, function=encode, fields=self.fields), model.fingerprints

    def deterministic(self) -> SpmEncode:
        return replace(self, alpha=None)

    def inverse(self) -> SpmDecode:
        return SpmDecode(self.model, self.fields, self.to)

    def _sampled(self, sampler: Sampler, column: Column, draws: Draws) -> Column:
        return sampler(column.strings(), draws.words, self.alpha or 0.0, self.nbest, self.to)

    def _encoded(self, model: SentencePieceModel, column: Column, draws: Draws) -> Column:
        own = model.own_encoder
        if own is None:
            return self._by_library(model, column)
        result = encode_column(own.encoder, column, self.to)
        others = own.unlike(column)
        if others:
            result = result.replaced(others, self._by_library(model, column.take(others)))
        return result

    def _by_library(self, model: SentencePieceModel, column: Column) -> Column:
        kind = int if self.to == "ids" else str
        rows = model.processor.encode(column.strings(), out_type=kind, num_threads=1)
        return column_of_rows(rows, self.to)


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
        whole = partial(self._whole, model.processor)
        one = partial(self._one, model.processor)
        return partial(decoded, whole=whole, one=one, fields=self.fields), model.fingerprints

    def _whole(self, processor: Any, column: Column) -> Column:
        rows = [self._row_of(processor, value) for value in column.strings()]
        return Column.of(processor.decode(rows, num_threads=1))

    def _one(self, processor: Any, value: str) -> str:
        return str(processor.decode(self._row_of(processor, value)))

    def _row_of(self, processor: Any, value: str) -> list[Any]:
        if self.from_ == "pieces":
            return pieces_of(value)
        size = processor.get_piece_size()
        ids = ids_of(value)
        for number in ids:
            if not 0 <= number < size:
                raise ValueError(
                    f"{number} is not an id of the model; give ids from 0 to {size - 1}"
                )
        return ids


def read_model(path: Path) -> SentencePieceModel:
    data = read_bytes(path, kind=VocabularyError)
    return SentencePieceModel(processor_of(path, data), data)


def processor_of(path: Path, data: bytes) -> Any:
    try:
        return load_library().SentencePieceProcessor(model_proto=data)
    except (RuntimeError, OSError):
        raise VocabularyError(
            f"{path}: not a SentencePiece model, or damaged; copy or train it again"
        ) from None
