"""A SentencePiece model inside the stream: fields ⇄ pieces or ids, sampled if wanted.

The library encodes all values at once if nothing is sampled. The stream samples by itself, with the random numbers of
the line (volt.stream.transforms.sentencepiece_sampling).

>>> SpmEncode(model=Path("spm.model"), alpha=0.1).sampled
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from volt import arguments
from volt.errors import ConfigError, VocabularyError, missing
from volt.files.small_files import read_bytes
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import ConfiguredTransform, Fields, check_fields, take_file
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.sentencepiece_sampling import Drawing, Sampler, sampler_of
from volt.stream.transforms.subwords import decoded, encoded_fields, ids_of, pieces_of
from volt.stream.transforms.transform import LoadedFiles, Opened

Encoding = Callable[[Column, LineRng], Column]


class _Model(NamedTuple):
    """A model as the library has loaded it, its file's bytes, and what they are known by."""

    processor: Any
    data: bytes
    fingerprint: str


@dataclass(frozen=True, slots=True)
class SpmEncode(ConfiguredTransform):
    """Encode fields with a SentencePiece model: pieces or ids with a space between two."""

    name: ClassVar[str] = "spm_encode"
    keeps_lines: ClassVar[bool] = True
    changes: ClassVar[str] = "pieces"
    model: Path
    """A SentencePiece model file."""
    fields: Fields | None = None
    """The fields to encode; by default 1 and, where a line has it, 2."""
    to: Literal["pieces", "ids"] = "pieces"
    """The form of the output."""
    alpha: float | None = None
    """Sample: for a unigram model how sharp the distribution is, for a BPE model the dropout probability."""
    nbest: int = -1
    """The number of best encodings that a unigram model samples from; −1: of all."""

    def __post_init__(self) -> None:
        take_file(self, "model")
        check_fields(self.fields)
        if self.alpha is not None and not 0 <= arguments.number(self.alpha, "alpha") < float("inf"):
            raise ConfigError(f"alpha: {self.alpha}; give 0 or more, or leave it out to encode without sampling")
        if arguments.whole(self.nbest, "nbest") < -1 or self.nbest > 512:
            raise ConfigError(f"nbest: {self.nbest}; give −1 for all, or up to 512")

    @property
    def is_compiled(self) -> bool:
        """True if threads share the work; of the n best encodings, the library looks for one line's at a time."""
        return not (self.sampled and self.nbest > 1)

    @property
    def sampled(self) -> bool:
        """True if the encoding is drawn anew each time a line comes by."""
        return self.alpha is not None and self.nbest not in (0, 1)

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        return self.opened(LoadedFiles())(batch, chance)

    def opened(self, files: LoadedFiles) -> Opened:
        """Return the transform with its model. Raises VocabularyError or MissingLibraryError if it cannot be loaded.

        Raises ConfigError if it is to sample and the model has but one encoding of a text.
        """
        model = files.load(self.model, _model)
        sampler = files.load(self.model, _sampler) if self.sampled else None
        options = {"to": self.to, "alpha": self.alpha, "nbest": self.nbest, "fields": self.fields and list(self.fields)}
        encode = partial(self._plain, model.processor) if sampler is None else partial(self._drawn, sampler)
        values = {"type": "SpmEncode", "model": model.fingerprint, "library": _library().__version__, **options}
        return Opened(self, partial(self._encoded, encode), values)

    def deterministic(self) -> SpmEncode:
        """Return the same without sampling."""
        return replace(self, alpha=None)

    def inverse(self) -> SpmDecode:
        """Return the transform that decodes the same fields."""
        return SpmDecode(self.model, self.fields, self.to)

    def _encoded(self, encode: Callable[[Batch, Column, LineRng], Column], batch: Batch, chance: LineRng) -> Batch:
        return encoded_fields(batch, chance, partial(encode, batch), fields=self.fields)

    def _plain(self, processor: Any, batch: Batch, column: Column, chance: LineRng) -> Column:
        rows = processor.encode(column.strings(), out_type=int if self.to == "ids" else str, num_threads=1)
        if self.to == "pieces":
            return Column.of([" ".join(row) for row in rows])
        offsets = np.cumsum([0, *map(len, rows)])
        return Column.of_ids(np.fromiter(chain.from_iterable(rows), np.int32, int(offsets[-1])), offsets)

    def _drawn(self, sampler: Sampler, batch: Batch, column: Column, chance: LineRng) -> Column:
        return sampler(column.strings(), chance.words(batch.origins), Drawing(self.alpha or 0.0, self.nbest, self.to))

    def signature(self) -> dict[str, Any]:
        """Return the options, with the model's fingerprint instead of its path."""
        return self.opened(LoadedFiles()).values


@dataclass(frozen=True, slots=True)
class SpmDecode(ConfiguredTransform):
    """Decode fields that hold pieces or ids of a SentencePiece model back into text."""

    name: ClassVar[str] = "spm_decode"
    is_compiled: ClassVar[bool] = True
    keeps_lines: ClassVar[bool] = True
    decodes: ClassVar[bool] = True
    model: Path
    """The model that encoded them."""
    fields: Fields | None = (1, 2)
    """The fields to decode; null stands for 1 and, where a line has it, 2."""
    from_: Literal["pieces", "ids"] = "pieces"
    """The form of the input."""

    def __post_init__(self) -> None:
        take_file(self, "model")
        check_fields(self.fields)

    def __call__(self, batch: Batch, chance: LineRng) -> Batch:
        return self.opened(LoadedFiles())(batch, chance)

    def opened(self, files: LoadedFiles) -> Opened:
        """Return the transform with its model. Raises VocabularyError or MissingLibraryError if it cannot be loaded."""
        model = files.load(self.model, _model)
        options = {"fields": self.fields and list(self.fields), "from": self.from_}
        values = {"type": "SpmDecode", "model": model.fingerprint, "library": _library().__version__, **options}
        return Opened(self, partial(self._decoded, model.processor), values)

    def _decoded(self, processor: Any, batch: Batch, chance: LineRng) -> Batch:
        def row_of(value: str) -> list[Any]:
            return _known(ids_of(value), processor.get_piece_size()) if self.from_ == "ids" else pieces_of(value)

        def whole(column: Column) -> Column:
            return Column.of(processor.decode(list(map(row_of, column.strings())), num_threads=1))

        return decoded(batch, whole, lambda value: str(processor.decode(row_of(value))), fields=self.fields)

    def signature(self) -> dict[str, Any]:
        """Return the options, with the model's fingerprint instead of its path."""
        return self.opened(LoadedFiles()).values


def _known(ids: list[int], size: int) -> list[int]:
    """Ids of a model. Raises ValueError for one that it has not. size: how many it has"""
    for number in ids:
        if not 0 <= number < size:
            raise ValueError(f"{number} is not an id of the model; give ids from 0 to {size - 1}")
    return ids


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
    """Load a model file's bytes with the library.

    Raises VocabularyError if they are not valid, MissingLibraryError if the library is missing.
    """
    try:
        return _library().SentencePieceProcessor(model_proto=data)
    except (RuntimeError, OSError):
        raise VocabularyError(f"{path}: a damaged SentencePiece model, or none; copy or train it again") from None


def _sampler(path: Path) -> Sampler:
    from volt.formats.sentencepiece.model_proto import model_class

    model = _model(path)
    return sampler_of(model.processor, model_class().FromString(model.data))
