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
from numpy.typing import NDArray

from volt.encode.merge_tables import MergeTables
from volt.encode.rendering import Rendering
from volt.encode.units import parting_of_units
from volt.text.byte_alphabet import ALPHABET
from volt.text.character_classes import CharacterClasses
from volt.text.markers import BYTE_TOKENS, SPACE
from volt.text.pretokenizer import IF_ABSENT
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.kernels.cutting import Cutter
    from volt.kernels.unit_values import UnitEncoder
    from volt.text.patterns.parting import Parting
    from volt.text.pretokenizer import PreTokenizer

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
    empty, widths = numbering(), np.diff(starts)
    return empty._replace(
        cutter=_cutter(tables, empty.cutter, classes), sampled=rendering is None, merges=tables.merges,
        rule=tables.rule, starts=starts, rendered=values,
        widest=max(ID_SIZE, int(widths.max(initial=0))),
        byte_ids=_byte_ids(tables.vocabulary) if rendering and rendering.are_ids else _NOTHING,
        width=int(widths[0]) if len(widths) and (widths == widths[0]).all() else 0,
    )  # fmt: skip


def _cutter(tables: MergeTables, empty: Cutter, classes: CharacterClasses) -> Cutter:
    """How units become words, and words atoms."""
    from volt.kernels.cutting import BYTES

    cut, marker = _cut(tables.vocabulary), ("none", "suffix", "prefix").index(tables.vocabulary.marker)
    characters = _ALPHABET if cut >= BYTES else np.where(np.arange(256) == ord(" "), ord(SPACE), np.arange(256))
    atoms = tables.symbol_of[np.concatenate([2 * characters, 2 * characters + 1])]
    cutter = empty._replace(
        cut=cut, marker=marker, symbol_of=tables.symbol_of, byte_symbols=atoms, user_starts=_user_starts(tables, cut)
    )
    if (parting := parting_of_units(tables.vocabulary)) is not None:
        return _with_pattern(cutter, tables.vocabulary.pretokenizer, parting)
    return cutter._replace(classes=classes.table) if _looks_at_classes(cut) else cutter


def _byte_ids(vocabulary: Vocabulary) -> NDArray[np.int32]:
    """The ids of the byte tokens, where each unknown character is spelled by them alone; (256,) or (0,)."""
    if not vocabulary.byte_fallback or vocabulary.pretokenizer.is_bytes or vocabulary.marker == "suffix":
        return _NOTHING
    return np.array([vocabulary.ids[token] for token in BYTE_TOKENS], np.int32)


def _with_pattern(cutter: Cutter, pretokenizer: PreTokenizer, parting: Parting) -> Cutter:
    """The same with the tables of the pattern that cuts units."""
    found = pretokenizer.cutter
    assert found is not None  # since it says how texts are parted
    tables = found.splitter.tables
    return cutter._replace(
        classes=tables.classes, moves=tables.moves, end=tables.end, splits=tables.splits, kinds=parting.kinds,
        breaks=parting.breaks, alone=int(parting.alone), matches_only=int(found.matches_only),
    )  # fmt: skip


def _user_starts(tables: MergeTables, cut: int) -> NDArray[np.uint8]:
    """The bytes that begin user tokens, where units are text: (256,), or (0,) if there is none."""
    from volt.kernels.cutting import WORD

    user = tables.vocabulary.special.user if cut > WORD else ()
    starts = np.zeros(256 if user else 0, np.uint8)
    starts[[token.encode()[0] for token in user]] = 1
    return starts


def numbering_encoder() -> UnitEncoder:
    """An encoder that gives each unit its number, in the order in which units are met."""
    from volt.kernels.unit_values import numbering

    return numbering()


def _cut(vocabulary: Vocabulary) -> int:
    """How the units of this vocabulary's texts are cut."""
    from volt.kernels import cutting

    name = vocabulary.pretokenizer.name
    if vocabulary.pretokenizer.has_own_pattern:
        if parting_of_units(vocabulary) is None:
            return cutting.WORD  # units are normalised pre-tokens
        return cutting.BYTE_PATTERN if vocabulary.pretokenizer.is_bytes else cutting.PATTERN
    if vocabulary.normalizer.name != "none" or name.endswith(IF_ABSENT):
        return cutting.NEVER
    if name == "whitespace":
        return cutting.SPLIT
    cuts = {
        "metaspace": cutting.METASPACE, "metaspace-runs": cutting.RUNS, "metaspace-line": cutting.RUNS,
        "unicode": cutting.UNICODE, "gpt2": cutting.GPT2, "bytes": cutting.BYTES,
    }  # fmt: skip
    return cuts[name] if vocabulary.marker == "none" else cutting.NEVER


def uses_classes(encoder: UnitEncoder) -> bool:
    """Whether the encoder looks at the classes of characters."""
    return _looks_at_classes(encoder.cutter.cut)


def _looks_at_classes(cut: int) -> bool:
    from volt.kernels.cutting import BYTES, GPT2, UNICODE

    return cut in (UNICODE, GPT2, BYTES)
