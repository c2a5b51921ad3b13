"""Vocabularies inside the stream: fields ⇄ pieces or ids, the same each time or sampled anew in every epoch.

`Encode` and `Decode` take a VOLT vocabulary (or any file that `volt import` reads); sampling is BPE-dropout.
volt.stream.transforms.sentencepiece does the same with a SentencePiece model.

>>> import numpy as np, tempfile
>>> from volt.vocabulary import Vocabulary
>>> with tempfile.NamedTemporaryFile(suffix=".volt") as file:
...     Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>")).save(file.name)
...     Encode(vocabulary=Path(file.name))(Batch.of(["low low\\tlo"]), np.random.default_rng(0)).lines
['lo w</w> lo w</w>\\tl o</w>']
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from volt import arguments
from volt.errors import ConfigError, VocabularyError
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.columns import map_text
from volt.stream.transforms.fields import Fields, check_values, indices_of, joined, rows_of
from volt.stream.transforms.opening import LoadedFiles, Opened
from volt.stream.transforms.options import ConfiguredTransform, check_fields, take_file
from volt.stream.transforms.transform import LineFault

if TYPE_CHECKING:
    from volt.encode.encoder import Encoder

Form = Literal["pieces", "ids"]


@dataclass(frozen=True, slots=True)
class Encode(ConfiguredTransform):
    """Encode fields with a VOLT vocabulary: pieces or ids with a space between two."""

    name: ClassVar[str] = "encode"
    vocabulary: Path
    """A vocabulary file, VOLT's or another's (subword-nmt, sentencepiece, Hugging Face, tiktoken)."""
    fields: Fields | None = None
    """The fields to encode; by default 1 and, where a line has it, 2."""
    to: Form = "pieces"
    """What to write."""
    dropout: float = 0.0
    """BPE-dropout: the probability of passing over a merge, drawn anew each time a line comes by."""

    def __post_init__(self) -> None:
        take_file(self, "vocabulary")
        check_fields(self.fields)
        arguments.choice(self.to, "to", get_args(Form))
        if not 0 <= arguments.number(self.dropout, "dropout") <= 1:
            raise ConfigError(f"dropout: {self.dropout}; give a probability from 0 to 1")

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        return self.opened(LoadedFiles())(batch, rng)

    def opened(self, files: LoadedFiles) -> Opened:
        """The transform with its vocabulary. Raises VocabularyError or CorpusError if it cannot be loaded."""
        encoder = files.load(self.vocabulary, _encoder)
        options = {"fields": self.fields and list(self.fields), "to": self.to, "dropout": self.dropout}
        told = {"type": "Encode", "vocabulary": encoder.vocabulary.fingerprint, **options}
        return Opened(self, partial(self._encoded, encoder), told)

    def _encoded(self, encoder: Encoder, batch: Batch, rng: np.random.Generator) -> Batch:
        seed = int(rng.integers(1 << 63)) if self.dropout else None

        def encode(text: bytes) -> bytes:
            return encoder.encode_text(text, form=self.to, dropout=self.dropout, seed=seed, n_threads=1)

        return map_text(batch, encode, fields=self.fields)

    def signature(self) -> dict[str, Any]:
        """The options, with the vocabulary's fingerprint instead of its path."""
        return self.opened(LoadedFiles()).told


@dataclass(frozen=True, slots=True)
class Decode(ConfiguredTransform):
    """Decode fields that hold pieces or ids of a VOLT vocabulary back into text."""

    name: ClassVar[str] = "decode"
    vocabulary: Path
    """The vocabulary that encoded them."""
    fields: Fields = (1, 2)
    """The fields to decode."""
    from_: Form = "pieces"
    """What the fields hold."""

    def __post_init__(self) -> None:
        take_file(self, "vocabulary")
        arguments.choice(self.from_, "from_", get_args(Form))
        check_fields(self.fields)

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        return self.opened(LoadedFiles())(batch, rng)

    def opened(self, files: LoadedFiles) -> Opened:
        """The transform with its vocabulary. Raises VocabularyError or CorpusError if it cannot be loaded."""
        encoder = files.load(self.vocabulary, _encoder)
        options = {"fields": list(self.fields), "from": self.from_}
        told = {"type": "Decode", "vocabulary": encoder.vocabulary.fingerprint, **options}
        return Opened(self, partial(self._decoded, encoder), told)

    def _decoded(self, encoder: Encoder, batch: Batch, rng: np.random.Generator) -> Batch:
        def decode(value: str) -> str:
            pieces = [piece for piece in value.split(" ") if piece]
            return encoder.decode(pieces) if self.from_ == "pieces" else encoder.decode_ids(map(int, pieces))

        return decoded(batch, decode, fields=self.fields)

    def signature(self) -> dict[str, Any]:
        """The options, with the vocabulary's fingerprint instead of its path."""
        return self.opened(LoadedFiles()).told


def decoded(batch: Batch, decode: Callable[[str], str], *, fields: Fields) -> Batch:
    """Each field through `decode`. Raises LineFault for what it refuses, and for text that would break a line.

    >>> decoded(Batch.of(["6 1"]), lambda value: str(int(value)), fields=(1,))
    Traceback (most recent call last):
        ...
    volt.stream.transforms.transform.LineFault: 1 unfit lines, the first at index 0:
    field 1 cannot be read: invalid literal for int()
    with base 10: '6 1'
    """
    rows, bad, indices = rows_of(batch, fields=fields), dict[int, str](), indices_of(fields)
    for number, row in enumerate(rows):
        for field, index in zip(fields, indices, strict=True):
            try:
                row[index] = decode(row[index])
            except (ValueError, IndexError, VocabularyError) as error:
                bad.setdefault(number, f"field {field} cannot be read: {error}")
    if bad:
        raise LineFault(bad)
    check_values([[row[index] for index in indices] for row in rows])
    return batch.with_lines(joined(rows))


def _encoder(path: Path) -> Encoder:
    from volt.encode.encoder import Encoder
    from volt.formats.registry import read_vocabulary

    return Encoder(read_vocabulary(path))
