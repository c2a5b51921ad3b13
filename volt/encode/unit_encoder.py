"""Vocabulary and rendering → what the compiled loop needs to encode new units itself (see volt.kernels.unit_values).

>>> from volt.encode.merge_tables import MergeTables
>>> from volt.encode.rendering import as_ids
>>> from volt.vocabulary import Vocabulary
>>> tables = MergeTables.of(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "w</w>", "lo")))
>>> encoder = unit_encoder_of(tables, as_ids(tables), CharacterClasses())
>>> encoder.widest, encoder.sampled
(4, False)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volt.encode.merge_tables import MergeTables
from volt.encode.rendering import Rendering
from volt.text.byte_alphabet import ALPHABET
from volt.text.character_classes import CharacterClasses
from volt.text.markers import SPACE
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.kernels.cutting import Cutter
    from volt.kernels.unit_values import UnitEncoder

_NOTHING = np.zeros(0, np.int32)
_ALPHABET = np.array([ord(character) for character in ALPHABET], np.int32)


def unit_encoder_of(tables: MergeTables, rendering: Rendering | None, classes: CharacterClasses) -> UnitEncoder:
    """How a unit's bytes become values. Its memory to work in belongs to one thread: see `UnitEncoder.for_thread`.

    rendering: what symbols become; without one, values are atoms, for dropout
    classes: the classes of characters, for those cuts that look at them
    """
    from volt.kernels.unit_values import ID_SIZE, numbering

    starts, values = rendering.known_rows(len(tables.kept)) if rendering else (np.zeros(1, np.int64), _NOTHING)
    starts, values = starts * values.itemsize, np.concatenate([values.view(np.uint8), np.zeros(8, np.uint8)])
    empty = numbering()
    return empty._replace(
        cutter=_cutter(tables, empty.cutter, classes), sampled=rendering is None, merges=tables.merges,
        kept=tables.kept, parts=tables.parts, starts=starts, rendered=values,
        widest=max(ID_SIZE, int(np.diff(starts).max(initial=0))),
    )  # fmt: skip


def _cutter(tables: MergeTables, empty: Cutter, classes: CharacterClasses) -> Cutter:
    """How units become words, and words atoms."""
    from volt.kernels.cutting import BYTES

    cut, marker = _cut(tables.vocabulary), ("none", "suffix", "prefix").index(tables.vocabulary.marker)
    characters = _ALPHABET if cut == BYTES else np.where(np.arange(256) == ord(" "), ord(SPACE), np.arange(256))
    atoms = tables.symbol_of[2 * characters]
    cutter = empty._replace(cut=cut, marker=marker, symbol_of=tables.symbol_of, byte_symbols=atoms)
    return cutter._replace(classes=classes.table) if _looks_at_classes(cut) else cutter


def numbering_encoder() -> UnitEncoder:
    """An encoder that gives each unit its number, in the order in which units are met."""
    from volt.kernels.unit_values import numbering

    return numbering()


def _cut(vocabulary: Vocabulary) -> int:
    """How the units of this vocabulary's texts are cut."""
    from volt.kernels import cutting

    name = vocabulary.pretokenizer.name
    if vocabulary.pretokenizer.has_own_pattern:
        return cutting.WORD  # units are normalised pre-tokens
    if vocabulary.normalizer.name != "none" or vocabulary.special.user:
        return cutting.NEVER
    if name == "whitespace":
        return cutting.SPLIT
    cuts = {
        "metaspace": cutting.METASPACE, "unicode": cutting.UNICODE, "gpt2": cutting.GPT2, "bytes": cutting.BYTES,
    }  # fmt: skip
    return cuts[name] if vocabulary.marker == "none" else cutting.NEVER


def uses_classes(encoder: UnitEncoder) -> bool:
    """Whether the encoder looks at the classes of characters."""
    return _looks_at_classes(encoder.cutter.cut)


def _looks_at_classes(cut: int) -> bool:
    from volt.kernels.cutting import BYTES, GPT2, UNICODE

    return cut in (UNICODE, GPT2, BYTES)
