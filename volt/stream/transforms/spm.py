"""Encode and decode fields with a SentencePiece model, with sampling by the random numbers of the line."""

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
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.options import Amount, Fields, File, whole_between
from volt.stream.transforms.sentencepiece_sampling import Form, Sampler, column_of_rows, sampler_of
from volt.stream.transforms.subwords import decoded, encode_column, ids_of, pieces_of
from volt.stream.transforms.transform import Call, FileTransform, LineTransform, LoadedFiles
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
        return [
            number
            for number, value in enumerate(column.strings())
            if not self.plain.issuperset(value)
        ]


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
        with suppress(VoltError):
            vocabulary = vocabulary_of(self.proto)
            keeps_spaces = not spec.remove_extra_whitespaces
            if spec.name in _NORMALIZATIONS and (vocabulary.marker == "prefix" or keeps_spaces):
                return OwnEncoder(
                    Encoder(replace(vocabulary, normalizer=Normalizer())), self._plain_characters()
                )
        return None

    def _plain_characters(self) -> frozenset[str]:
        """Return the characters of pieces that normalisation leaves as they are, in whatever order."""
        pieces = {
            piece.piece
            for piece in self.proto.pieces
            if piece.type == NORMAL and len(piece.piece) == 1
        }
        changed = unpack(self.proto.normalizer_spec.precompiled_charsmap, only=pieces)
        plain = {one for one in pieces if unicodedata.category(one)[0] != "M" and one not in _JAMO}
        return frozenset(plain - changed.keys() - {PREFIX} | {" "})

    @cached_property
    def sampler(self) -> Sampler:
        return sampler_of(self.processor, self.proto)


@dataclass(frozen=True, slots=True)
class SpmEncode(FileTransform):
    """Encode fields with a SentencePiece model, as pieces or ids separated by spaces."""

    keeps_lines: ClassVar[bool] = True
    changes: ClassVar[str] = "pieces"
    model: File
    """A SentencePiece model file."""
    fields: Fields | None = None
    """The fields to encode; by default 1 and, if the line has it, 2."""
    to: Form = "pieces"
    """The form of the output."""
    alpha: Amount | None = None
    """Sample encodings: the sharpness of a unigram model's distribution, or a BPE model's dropout probability."""
    nbest: NBest = -1
    """How many best encodings a unigram model samples from; −1 samples from all."""

    @property
    def is_compiled(self) -> bool:
        """False if the SentencePiece library computes n best encodings, one line at a time."""
        return not (self.sampled and self.nbest > 1)

    @property
    def sampled(self) -> bool:
        return self.alpha is not None and self.nbest not in (0, 1)

    def load(self, files: LoadedFiles) -> tuple[Call, dict[str, str]]:
        model = files.load(self.model, read_model)
        encode = (
            partial(self._sampled, model.sampler) if self.sampled else partial(self._encoded, model)
        )
        return partial(each_field, function=encode, fields=self.fields), model.fingerprints

    def deterministic(self) -> SpmEncode:
        return replace(self, alpha=None)

    def inverse(self) -> SpmDecode:
        return SpmDecode(self.model, self.fields, self.to)

    def _sampled(self, sampler: Sampler, column: Column, draws: Draws) -> Column:
        return sampler(column.strings(), draws.words, self.alpha or 0.0, self.nbest, self.to)

    def _encoded(self, model: SentencePieceModel, column: Column, draws: Draws) -> Column:
        if not model.own_encoder:
            return self._by_library(model, column)
        result = encode_column(model.own_encoder.encoder, column, self.to)
        others = model.own_encoder.unlike(column)
        return (
            result.replaced(others, self._by_library(model, column.take(others)))
            if others
            else result
        )

    def _by_library(self, model: SentencePieceModel, column: Column) -> Column:
        kind = int if self.to == "ids" else str
        return column_of_rows(
            model.processor.encode(column.strings(), out_type=kind, num_threads=1), self.to
        )


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

    def load(self, files: LoadedFiles) -> tuple[Call, dict[str, str]]:
        model = files.load(self.model, read_model)
        return partial(self._decoded, model.processor), model.fingerprints

    def _decoded(self, processor: Any, batch: Batch, rng: LineRng) -> Batch:
        size = processor.get_piece_size()

        def row_of(value: str) -> list[Any]:
            if self.from_ == "pieces":
                return pieces_of(value)
            ids = ids_of(value)
            for number in ids:
                if not 0 <= number < size:
                    raise ValueError(
                        f"{number} is not an id of the model; give ids from 0 to {size - 1}"
                    )
            return ids

        def whole(column: Column) -> Column:
            return Column.of(processor.decode(list(map(row_of, column.strings())), num_threads=1))

        return decoded(
            batch,
            rng,
            whole,
            lambda value: str(processor.decode(row_of(value))),
            fields=self.fields,
        )


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
