"""A SentencePiece model inside the stream: fields ⇄ pieces or ids, sampled with the random numbers of the line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from volt import arguments
from volt.errors import VocabularyError, missing
from volt.files.small_files import read_bytes
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import Draws, each_field
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.options import Amount, Fields, File, FileTransform, LineTransform
from volt.stream.transforms.sentencepiece_sampling import Drawing, Sampler, sampler_of
from volt.stream.transforms.subwords import decoded, ids_of, pieces_of
from volt.stream.transforms.transform import Call, LoadedFiles

NBest = Annotated[int, partial(arguments.whole, low=-1, high=512)]


class _Model(NamedTuple):
    processor: Any
    data: bytes
    fingerprint: str


@dataclass(frozen=True, slots=True)
class SpmEncode(FileTransform):
    """Encode fields with a SentencePiece model, as pieces or ids separated by spaces."""

    keeps_lines: ClassVar[bool] = True
    changes: ClassVar[str] = "pieces"
    model: File
    """A SentencePiece model file."""
    fields: Fields | None = None
    """The fields to encode; by default 1 and, where a line has it, 2."""
    to: Literal["pieces", "ids"] = "pieces"
    """The form of the output."""
    alpha: Amount | None = None
    """Sample: for a unigram model how sharp the distribution is, for a BPE model the dropout probability."""
    nbest: NBest = -1
    """The number of best encodings that a unigram model samples from; −1: of all."""

    @property
    def is_compiled(self) -> bool:
        """False if the library finds the n best encodings, line by line."""
        return not (self.sampled and self.nbest > 1)

    @property
    def sampled(self) -> bool:
        return self.alpha is not None and self.nbest not in (0, 1)

    def load(self, files: LoadedFiles) -> tuple[Call, dict[str, str]]:
        model = files.load(self.model, _model)
        sampler = files.load(self.model, _sampler) if self.sampled else None
        encode = partial(self._encoded, model.processor, sampler)
        return encode, {"model": model.fingerprint, "library": _library().__version__}

    def deterministic(self) -> SpmEncode:
        return replace(self, alpha=None)

    def inverse(self) -> SpmDecode:
        return SpmDecode(self.model, self.fields, self.to)

    def _encoded(self, processor: Any, sampler: Sampler | None, batch: Batch, rng: LineRng) -> Batch:
        def plain(column: Column, draws: Draws) -> Column:
            rows = processor.encode(column.strings(), out_type=int if self.to == "ids" else str, num_threads=1)
            if self.to == "pieces":
                return Column.of([" ".join(row) for row in rows])
            offsets = np.cumsum([0, *map(len, rows)])
            return Column.of_ids(np.fromiter(chain.from_iterable(rows), np.int32, int(offsets[-1])), offsets)

        def drawn(column: Column, draws: Draws) -> Column:
            assert sampler is not None
            return sampler(column.strings(), draws.words, Drawing(self.alpha or 0.0, self.nbest, self.to))

        return each_field(batch, rng, plain if sampler is None else drawn, fields=self.fields)


@dataclass(frozen=True, slots=True)
class SpmDecode(FileTransform, LineTransform):
    """Decode fields of pieces or ids of a SentencePiece model into text."""

    decodes: ClassVar[bool] = True
    model: File
    """The model that encoded them."""
    fields: Fields | None = (1, 2)
    """The fields to decode; null means 1 and, if a line has it, 2."""
    from_: Literal["pieces", "ids"] = "pieces"
    """The form of the input."""

    def load(self, files: LoadedFiles) -> tuple[Call, dict[str, str]]:
        model = files.load(self.model, _model)
        fingerprints = {"model": model.fingerprint, "library": _library().__version__}
        return partial(self._decoded, model.processor), fingerprints

    def _decoded(self, processor: Any, batch: Batch, rng: LineRng) -> Batch:
        size = processor.get_piece_size()

        def row_of(value: str) -> list[Any]:
            if self.from_ == "pieces":
                return pieces_of(value)
            ids = ids_of(value)
            for number in ids:
                if not 0 <= number < size:
                    raise ValueError(f"{number} is not an id of the model; give ids from 0 to {size - 1}")
            return ids

        def whole(column: Column) -> Column:
            return Column.of(processor.decode(list(map(row_of, column.strings())), num_threads=1))

        return decoded(batch, whole, lambda value: str(processor.decode(row_of(value))), fields=self.fields)


def _library() -> Any:
    try:
        import sentencepiece
    except ImportError:
        raise missing("sentencepiece") from None
    return sentencepiece


def _model(path: Path) -> _Model:
    data = read_bytes(path, kind=VocabularyError)
    return _Model(processor_of(path, data), data, blake2b(data, digest_size=8).hexdigest())


def processor_of(path: Path, data: bytes) -> Any:
    try:
        return _library().SentencePieceProcessor(model_proto=data)
    except (RuntimeError, OSError):
        raise VocabularyError(f"{path}: not a SentencePiece model, or damaged; copy or train it again") from None


def _sampler(path: Path) -> Sampler:
    from volt.formats.sentencepiece.charsmap import model_class

    model = _model(path)
    return sampler_of(model.processor, model_class().FromString(model.data))
