"""Vocabulary and rendering → what the compiled loop needs to learn new units by itself (see volt.kernels.unit_values).

>>> from volt.encode.merge_tables import MergeTables
>>> from volt.encode.rendering import as_ids
>>> from volt.vocabulary import Vocabulary
>>> tables = MergeTables.of(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "w</w>", "lo")))
>>> learner = learner_of(tables, as_ids(tables))
>>> learner.widest, learner.sampled
(4, False)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volt.encode.merge_tables import MergeTables
from volt.encode.rendering import Rendering
from volt.text.byte_alphabet import ALPHABET
from volt.text.character_classes import character_classes
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.kernels.unit_values import UnitEncoder

_NOTHING = np.zeros(0, np.int32)
_ALPHABET = np.array([ord(character) for character in ALPHABET], np.int32)


def learner_of(tables: MergeTables, rendering: Rendering | None) -> UnitEncoder:
    """What a table of units needs. rendering: of symbols; without one, atoms are wanted, for dropout.

    Its memory to work in belongs to one thread: see `UnitEncoder.for_thread`.
    """
    from volt.kernels.cutting import BYTES, GPT2, UNICODE
    from volt.kernels.unit_values import ID_SIZE, numbering

    starts, values = rendering.known_rows(len(tables.kept)) if rendering else (np.zeros(1, np.int64), _NOTHING)
    starts, values = starts * values.itemsize, np.concatenate([values.view(np.uint8), np.zeros(8, np.uint8)])
    empty = numbering()
    marker = ("none", "suffix", "prefix").index(tables.vocabulary.marker)
    cut = _cut(tables.vocabulary)
    characters = _ALPHABET if cut == BYTES else np.where(np.arange(256) == ord(" "), ord("▁"), np.arange(256))
    cutter = empty.cutter._replace(
        cut=cut, marker=marker, symbol_of=tables.symbol_of, byte_symbols=tables.symbol_of[2 * characters]
    )
    if cut in (UNICODE, GPT2, BYTES):
        cutter = cutter._replace(classes=character_classes())
    return empty._replace(
        cutter=cutter, sampled=rendering is None, merges=tables.merges, kept=tables.kept, parts=tables.parts,
        starts=starts, rendered=values, widest=max(ID_SIZE, int(np.diff(starts).max(initial=0))),
    )  # fmt: skip


def numbering_learner() -> UnitEncoder:
    """A learner for which each unit stands for its number, in the order in which units are met."""
    from volt.kernels.unit_values import numbering

    return numbering()


def _cut(vocabulary: Vocabulary) -> int:
    from volt.kernels import cutting

    name = vocabulary.pretokenizer.name
    if name.startswith("regex:"):
        return cutting.WORD  # units are normalised pre-tokens
    if vocabulary.normalizer.name != "none" or vocabulary.special.user:
        return cutting.NEVER
    if name == "whitespace":
        return cutting.SPLIT
    cuts = {
        "metaspace": cutting.METASPACE, "unicode": cutting.UNICODE, "gpt2": cutting.GPT2, "bytes": cutting.BYTES,
    }  # fmt: skip
    return cuts[name] if vocabulary.marker == "none" else cutting.NEVER


def uses_classes(learner: UnitEncoder) -> bool:
    """Whether the learner looks at the classes of characters."""
    from volt.kernels.cutting import BYTES, GPT2, UNICODE

    return learner.cutter.cut in (UNICODE, GPT2, BYTES)
