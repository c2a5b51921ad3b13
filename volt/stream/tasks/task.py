"""What a task is: inputs that are treated in the same way, their languages and their transforms.

Training mixes the tasks of the split `train` by weight. A task of the split `valid` is read by itself, without noise.

>>> task = Task("de_en", "para", (Input("multi30k", (("src", "train.de"), ("tgt", "train.en"))),))
>>> task.sides, task.inputs[0].paths
(('src', 'tgt'), ('train.de', 'train.en'))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from volt.stream.mixing.schedule import Schedule
from volt.stream.transforms.transform import Transform

Kind = Literal["para", "mono"]
Split = Literal["train", "valid"]
SIDES: dict[str, tuple[str, ...]] = {"para": ("src", "tgt"), "mono": ("mono",)}


@dataclass(frozen=True, slots=True)
class Input:
    """One corpus of a task.

    name: how errors and manifests call it.
    files: (side, path) pairs: `src` and `tgt` of parallel lines, or `mono`.
    """

    name: str
    files: tuple[tuple[str, str], ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths, side by side."""
        return tuple(path for _, path in self.files)


@dataclass(frozen=True, slots=True)
class Task:
    """Inputs that are treated in the same way.

    name: also that of its source in the stream.
    kind: "para" for lines with a source and a target side, "mono" for lines with one.
    inputs: its corpora; none if it shares those of another task.
    split: "train" or "valid".
    weight: its share of the mixture.
    transforms: applied to its lines, in this order.
    src_lang, tgt_lang, extra_prefix: of its language tags.
    n_shards: how many shards `volt shard` makes of it; None leaves that to the number of lines.
    shares: the task whose inputs, and shards, it reads.
    """

    name: str
    kind: Kind
    inputs: tuple[Input, ...]
    split: Split = "train"
    weight: float | Schedule = 1.0
    transforms: tuple[Transform, ...] = ()
    src_lang: str | None = None
    tgt_lang: str | None = None
    extra_prefix: str | None = None
    n_shards: int | None = None
    shares: str | None = None

    @property
    def sides(self) -> tuple[str, ...]:
        """The names of its files' sides."""
        return SIDES[self.kind]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the fields, as a `Source` of pairs takes them; () where there is one side."""
        return names_of(self.sides)


def names_of(sides: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the fields of lines with these sides; lines with one side have no named fields.

    >>> names_of(("src", "tgt")), names_of(("mono",))
    (('src', 'tgt'), ())
    """
    return sides if len(sides) > 1 else ()
