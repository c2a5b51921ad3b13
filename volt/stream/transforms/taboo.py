"""Transforms for taboo segmentation: two segmentations of a text, as source and target, with no long piece in common.

A system that is trained to turn one into the other cannot copy pieces, so it learns how words are spelled and what
belongs together (Grönroos et al. 2020). Which two a word may get, volt.stream.transforms.alternatives says.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
...     _ = file.write("8\\tlo\\n8\\tw\\n8\\tow\\n8\\tl\\n1\\to\\n") and file.flush()
...     MorfessorEmTaboo(Path(file.name), theta=float("inf"))(Batch.of(["low low"]), Chance(1, 2)).lines
['l ow l ow\\tlo w lo w']
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from volt import arguments
from volt.errors import ConfigError
from volt.stream.transforms import sampled_segmenters as others
from volt.stream.transforms.alternatives import disjoint
from volt.stream.transforms.batch import Batch
from volt.stream.transforms.chance import Chance
from volt.stream.transforms.column import Column
from volt.stream.transforms.fields import with_fields
from volt.stream.transforms.opening import LoadedFiles
from volt.stream.transforms.segmentations import SOURCE, TARGET, JoinPieces, Segmenting, known, marked
from volt.stream.transforms.segmenters import Segmenter, read_model, read_table
from volt.stream.transforms.sentencepiece import SpmDecode
from volt.stream.transforms.subwords import Decode
from volt.stream.transforms.transform import Transform
from volt.stream.transforms.word_types import Choices, WordTypes

Kind = Literal["morfessor", "sentencepiece", "vocabulary", "table"]


@dataclass(frozen=True, slots=True)
class MorfessorEmTaboo(Segmenting):
    """Write field 1 as source and as target, each word in two segmentations that share no piece of several characters.

    The marker ▁ is no character of a piece. A word whose best segmentations hold no such two has its characters as the
    second. For autoencoders: no piece can be copied (Grönroos et al. 2020).
    """

    name: ClassVar[str] = "morfessor_em_taboo"

    def _choices(self) -> Callable[..., list[Choices]]:
        return disjoint

    def _segmented(self, types: WordTypes, batch: Batch, chance: Chance) -> Batch:
        return _both_of_one(types, self.model, batch, chance)


@dataclass(frozen=True, slots=True)
class MorfessorEmTabooReordered(MorfessorEmTaboo):
    """Cut the words of source and target, the same in perhaps another order, into pieces that both sides do not share.

    Both sides draw alike for each word type of a line; otherwise this is `morfessor_em_taboo`. To go behind `reorder`.
    """

    name: ClassVar[str] = "morfessor_em_taboo_reordered"

    def _segmented(self, types: WordTypes, batch: Batch, chance: Chance) -> Batch:
        return _each_of_its_own(types, self.model, batch, chance)


@dataclass(frozen=True, slots=True)
class Taboo(MorfessorEmTaboo):
    """Do what `morfessor_em_taboo` does, with any segmenter, or what `morfessor_em_taboo_reordered` does."""

    name: ClassVar[str] = "taboo"
    model: Path
    """The segmenter's file: a model, a vocabulary or a table."""
    segmenter: Kind = "morfessor"
    """What the file is: a model as `morfessor_em` takes it, a SentencePiece unigram model, a vocabulary as `encode`
    takes it, or a table as `deterministic_segmentation` takes it."""
    reordered: bool = False
    """Whether the lines have both sides, with the same words in perhaps another order."""
    dropout: float = 0.1
    """Of a vocabulary: the probability of passing over a merge. n_samples says how many samples are drawn of a word."""

    def __post_init__(self) -> None:
        Segmenting.__post_init__(self)
        arguments.choice(self.segmenter, "segmenter", get_args(Kind))
        if not 0 <= arguments.number(self.dropout, "dropout") <= 1:
            raise ConfigError(f"dropout: {self.dropout}; give a probability from 0 to 1")
        if self.marks not in ("auto", "given") and self.segmenter in ("sentencepiece", "vocabulary"):
            raise ConfigError(f"marks: {self.marks!r}; a {self.segmenter} marks words itself; leave it out")

    def _options(self) -> dict[str, Any]:
        own = {"segmenter": self.segmenter, "reordered": self.reordered, "dropout": self.dropout}
        return {**Segmenting._options(self), **own}

    def _segmenter(self, files: LoadedFiles) -> Segmenter:
        if self.segmenter == "vocabulary":
            return others.DropoutSegmenter(files.load(self.model, others.read_encoder), self.dropout)
        readers: dict[str, Callable[[Path], Segmenter]] = {
            "morfessor": read_model, "table": read_table, "sentencepiece": others.read_sentencepiece_segmenter,
        }  # fmt: skip
        return marked(files.load(self.model, readers[self.segmenter]), self.marks)

    def _segmented(self, types: WordTypes, batch: Batch, chance: Chance) -> Batch:
        cut = _each_of_its_own if self.reordered else _both_of_one
        return cut(types, self.model, batch, chance)

    def undone(self) -> Transform:
        """What decodes both sides as the segmenter's file has it."""
        if self.segmenter == "vocabulary":
            return Decode(self.model, None)
        return SpmDecode(self.model, None) if self.segmenter == "sentencepiece" else JoinPieces()


def _both_of_one(types: WordTypes, model: Path, batch: Batch, chance: Chance) -> Batch:
    """Source and target, both of the words of field 1. Raises LineFault for words that the model lacks."""
    batch, _ = with_fields(batch, (SOURCE,))
    found = known(types.find(batch.column(SOURCE)), model)
    drawn = found.drawn(chance.words(batch.origins))
    return batch.with_columns({side: found.written(drawn, side=side) for side in (SOURCE, TARGET)})


def _each_of_its_own(types: WordTypes, model: Path, batch: Batch, chance: Chance) -> Batch:
    """Source and target, each of its own words; a word type of a line is drawn once for both."""
    batch, sides = with_fields(batch, None)
    words = chance.words(batch.origins)

    def cut(column: Column, side: int) -> Column:
        found = known(types.find(column), model)
        made = found.written(found.drawn(words, by_type=True), side=side)
        return Column(made.data, made.starts, np.where(column.present, made.sizes, -1))

    return batch.with_columns({side: cut(batch.column(side), side) for side in sides})
