"""A SentencePiece model inside the stream: fields ⇄ pieces or ids, sampled if wanted.

The library keeps one generator for all; each block starts it from the block's own, under a lock, so what is drawn
depends on neither neighbours nor workers. Since version 0.2.2 the library draws otherwise in every process, whatever
the seed, so it samples here up to 0.2.1 only.

>>> SpmEncode(model=Path("spm.model"), alpha=0.1).sampled
True
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from volt import arguments
from volt.errors import ConfigError, VocabularyError, missing
from volt.files.whole import read_bytes
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.fields import Fields, map_fields
from volt.stream.transforms.opening import LoadedFiles, Opened
from volt.stream.transforms.options import ConfiguredTransform, check_fields, take_file
from volt.stream.transforms.subwords import decoded

_GENERATOR = Lock()  # global as the generator is that it guards
_FIRST_UNSEEDED = (0, 2, 2)  # the version from which on a seed does not decide what is drawn


class _Model(NamedTuple):
    """A model as the library has loaded it, and what its file's bytes are known by."""

    processor: Any
    fingerprint: str


@dataclass(frozen=True, slots=True)
class SpmEncode(ConfiguredTransform):
    """Encode fields with a SentencePiece model: pieces or ids with a space between two."""

    name: ClassVar[str] = "spm_encode"
    model: Path
    """A SentencePiece model file."""
    fields: Fields | None = None
    """The fields to encode; by default 1 and, where a line has it, 2."""
    to: Literal["pieces", "ids"] = "pieces"
    """What to write."""
    alpha: float | None = None
    """Sample: for a unigram model how sharp the distribution is, for a BPE model the dropout probability."""
    nbest: int = -1
    """Of how many best encodings a unigram model samples; −1: of all."""

    def __post_init__(self) -> None:
        take_file(self, "model")
        check_fields(self.fields)
        if self.alpha is not None and not 0 <= arguments.number(self.alpha, "alpha") < float("inf"):
            raise ConfigError(f"alpha: {self.alpha}; give 0 or more, or leave it out to encode without sampling")
        if arguments.whole(self.nbest, "nbest") < -1 or self.nbest > 512:
            raise ConfigError(f"nbest: {self.nbest}; give −1 for all, or up to 512")

    @property
    def sampled(self) -> bool:
        """Whether the encoding is drawn anew each time a line comes by."""
        return self.alpha is not None and self.nbest not in (0, 1)

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        return self.opened(LoadedFiles())(batch, rng)

    def opened(self, files: LoadedFiles) -> Opened:
        """The transform with its model. Raises VocabularyError or MissingLibraryError if it cannot be loaded.

        Raises ConfigError if it is to sample and the library would draw otherwise in every process.
        """
        if self.sampled:
            _check_seeded(_library().__version__)
        model = files.load(self.model, _model)
        options = {"to": self.to, "alpha": self.alpha, "nbest": self.nbest, "fields": self.fields and list(self.fields)}
        told = {"type": "SpmEncode", "model": model.fingerprint, **options}
        return Opened(self, partial(self._encoded, model.processor), told)

    def _encoded(self, processor: Any, batch: Batch, rng: np.random.Generator) -> Batch:
        kind = int if self.to == "ids" else str

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

    def signature(self) -> dict[str, Any]:
        """The options, with the model's fingerprint instead of its path."""
        return self.opened(LoadedFiles()).told


@dataclass(frozen=True, slots=True)
class SpmDecode(ConfiguredTransform):
    """Decode fields that hold pieces or ids of a SentencePiece model back into text."""

    name: ClassVar[str] = "spm_decode"
    model: Path
    """The model that encoded them."""
    fields: Fields = (1, 2)
    """The fields to decode."""
    from_: Literal["pieces", "ids"] = "pieces"
    """What the fields hold."""

    def __post_init__(self) -> None:
        take_file(self, "model")
        check_fields(self.fields)

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        return self.opened(LoadedFiles())(batch, rng)

    def opened(self, files: LoadedFiles) -> Opened:
        """The transform with its model. Raises VocabularyError or MissingLibraryError if it cannot be loaded."""
        model = files.load(self.model, _model)
        options = {"fields": list(self.fields), "from": self.from_}
        told = {"type": "SpmDecode", "model": model.fingerprint, **options}
        return Opened(self, partial(self._decoded, model.processor), told)

    def _decoded(self, processor: Any, batch: Batch, rng: np.random.Generator) -> Batch:
        def decode(value: str) -> str:
            pieces = [piece for piece in value.split(" ") if piece]
            return str(processor.decode(list(map(int, pieces)) if self.from_ == "ids" else pieces))

        return decoded(batch, decode, fields=self.fields)

    def signature(self) -> dict[str, Any]:
        """The options, with the model's fingerprint instead of its path."""
        return self.opened(LoadedFiles()).told


def _check_seeded(version: str) -> None:
    """Raise ConfigError if this version of the library draws otherwise in every process.

    >>> _check_seeded("0.2.1")
    >>> _check_seeded("0.2.3")
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: alpha: sentencepiece 0.2.3 samples otherwise in every process, whatever the seed, so the
    stream would not repeat; pip install sentencepiece==0.2.1, leave alpha out, or encode with a VOLT vocabulary and
    dropout
    """
    if tuple(map(int, re.findall(r"\d+", version)[:3])) >= _FIRST_UNSEEDED:
        raise ConfigError(
            f"alpha: sentencepiece {version} samples otherwise in every process, whatever the seed, so the stream "
            "would not repeat; pip install sentencepiece==0.2.1, leave alpha out, or encode with a VOLT vocabulary and "
            "dropout"
        )


def _library() -> Any:
    try:
        import sentencepiece
    except ImportError:
        raise missing("sentencepiece") from None
    return sentencepiece


def _model(path: Path) -> _Model:
    data = read_bytes(path, kind=VocabularyError)
    try:
        processor = _library().SentencePieceProcessor(model_proto=data)
    except (RuntimeError, OSError):
        raise VocabularyError(f"{path}: a damaged SentencePiece model, or none; copy or train it again") from None
    return _Model(processor, blake2b(data, digest_size=8).hexdigest())
