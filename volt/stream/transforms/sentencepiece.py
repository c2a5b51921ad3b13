"""A SentencePiece model inside the stream: fields ⇄ pieces or ids, sampled if wanted.

The library keeps one generator for all; each block starts it from the block's own, under a lock, so what is drawn
depends on neither neighbours nor workers.

>>> SpmEncode(model=Path("spm.model"), alpha=0.1).sampled
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Literal

import numpy as np

from volt.errors import ConfigError, MissingLibraryError, VocabularyError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.fields import Fields, Step, check_fields, map_fields
from volt.stream.transforms.subwords import decoded

_GENERATOR = Lock()


@dataclass(frozen=True, slots=True)
class SpmEncode(Step):
    """Encode fields with a SentencePiece model: pieces or ids with a space between two."""

    name: ClassVar[str] = "spm_encode"
    model: Path
    """A SentencePiece model file."""
    fields: Fields | None = None
    """The fields to encode; by default 0 and, where a line has it, 1."""
    to: Literal["pieces", "ids"] = "pieces"
    """What to write."""
    alpha: float | None = None
    """Sample: for a unigram model how sharp the distribution is, for a BPE model the dropout probability."""
    nbest: int = -1
    """Of how many best encodings a unigram model samples; −1: of all."""

    def __post_init__(self) -> None:
        check_fields(self.fields)
        if self.alpha is not None and not 0 <= self.alpha < float("inf"):
            raise ConfigError(f"alpha: {self.alpha}; give 0 or more, or leave it out to encode without sampling")
        if self.nbest < -1 or self.nbest > 512:
            raise ConfigError(f"nbest: {self.nbest}; give −1 for all, or up to 512")

    @property
    def sampled(self) -> bool:
        """Whether the encoding is drawn anew each time a line comes by."""
        return self.alpha is not None and self.nbest not in (0, 1)

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        processor, kind = _processor(str(self.model)), int if self.to == "ids" else str

        def encode(values: Sequence[str]) -> list[str]:
            if not self.sampled:
                rows = processor.encode(list(values), out_type=kind, num_threads=1)
            else:
                rows = self._sampled(processor, values, int(rng.integers(1 << 32)))
            return [" ".join(map(str, row)) for row in rows]

        return map_fields(batch, encode, fields=self.fields)

    def _sampled(self, processor: Any, values: Sequence[str], seed: int) -> Any:
        kind = int if self.to == "ids" else str
        options = {"alpha": self.alpha, "nbest_size": self.nbest, "num_threads": 1}
        with _GENERATOR:
            _library().set_random_generator_seed(seed)
            return processor.encode(list(values), out_type=kind, enable_sampling=True, **options)

    def prepare(self) -> None:
        """Load the model now. Raises VocabularyError or MissingLibraryError if it cannot be."""
        _processor(str(self.model))

    def signature(self) -> dict[str, Any]:
        """The options, with the model's fingerprint for its place."""
        options = {"to": self.to, "alpha": self.alpha, "nbest": self.nbest, "fields": self.fields and list(self.fields)}
        return {"type": "SpmEncode", "model": _fingerprint(self.model), **options}


@dataclass(frozen=True, slots=True)
class SpmDecode(Step):
    """Decode fields that hold pieces or ids of a SentencePiece model back into text."""

    name: ClassVar[str] = "spm_decode"
    model: Path
    """The model that encoded them."""
    fields: Fields = (0, 1)
    """The fields to decode."""
    from_: Literal["pieces", "ids"] = "pieces"
    """What the fields hold."""

    def __post_init__(self) -> None:
        check_fields(self.fields)

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        processor = _processor(str(self.model))

        def decode(value: str) -> str:
            pieces = [piece for piece in value.split(" ") if piece]
            return str(processor.decode(list(map(int, pieces)) if self.from_ == "ids" else pieces))

        return decoded(batch, decode, fields=self.fields)

    def prepare(self) -> None:
        """Load the model now. Raises VocabularyError or MissingLibraryError if it cannot be."""
        _processor(str(self.model))

    def signature(self) -> dict[str, Any]:
        """The options, with the model's fingerprint for its place."""
        return {
            "type": "SpmDecode", "model": _fingerprint(self.model), "fields": list(self.fields), "from": self.from_,
        }  # fmt: skip


def _library() -> Any:
    try:
        import sentencepiece
    except ImportError:
        raise MissingLibraryError("spm_encode and spm_decode need: pip install 'volt-vocab[interop]'") from None
    return sentencepiece


@lru_cache(maxsize=8)
def _processor(path: str) -> Any:
    try:
        return _library().SentencePieceProcessor(model_proto=_read(Path(path)))
    except (RuntimeError, OSError):
        raise VocabularyError(f"{path}: a damaged SentencePiece model, or none; copy or train it again") from None


@lru_cache(maxsize=8)
def _fingerprint(path: Path) -> str:
    return blake2b(_read(path), digest_size=8).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise VocabularyError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
