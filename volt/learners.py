"""Vocabulary and rendering → what the compiled loop needs to learn new units by itself (see volt.kernels.unit_values).

>>> from volt.tables import Tables
>>> from volt.rendering import as_ids
>>> from volt.vocabulary import Vocabulary
>>> tables = Tables.of(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "w</w>", "lo")))
>>> learner = learner_of(tables, as_ids(tables))
>>> learner.widest, learner.sampled
(4, False)
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt.bytelevel import ALPHABET
from volt.rendering import Rendering
from volt.tables import Tables
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.kernels.unit_values import Learner

N_CHARACTERS = 0x110000
_IDEOGRAPHS_AND_SYLLABLES = (0x3400, 0x4DB6), (0x4E00, 0x9FA6), (0xAC00, 0xD7A4)  # starts and ends, all letters
_WHITE = (*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
_NOTHING = np.zeros(0, np.int32)
_ALPHABET = np.array([ord(character) for character in ALPHABET], np.int32)


def learner_of(tables: Tables, rendering: Rendering | None) -> Learner:
    """What a table of units needs. rendering: of symbols; without one, atoms are wanted, for dropout.

    Its memory to work in belongs to one thread: see `Learner.for_thread`.
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


def numbering_learner() -> Learner:
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


def uses_classes(learner: Learner) -> bool:
    """Whether the learner looks at the classes of characters."""
    from volt.kernels.cutting import BYTES, GPT2, UNICODE

    return learner.cutter.cut in (UNICODE, GPT2, BYTES)


@cache
def character_classes() -> NDArray[np.uint8]:
    """(0x110000,) class of each character, NO_CLASS until somebody has asked; shared by all who ask.

    Those of the first 65,536 which have been what they are since Unicode 3.2 are known without asking.

    >>> character_classes()[[ord("a"), ord("4"), ord("!"), ord("é")]].tolist()
    [2, 3, 1, 2]
    """
    from volt.kernels.cutting import LETTER, OTHER, WHITE

    kinds, classes = _class_of_category(), np.zeros(N_CHARACTERS, np.uint8)
    category, old_category = unicodedata.category, unicodedata.ucd_3_2_0.category
    start = 0
    for end, behind in (*_IDEOGRAPHS_AND_SYLLABLES, (0x10000, 0x10000)):
        for code in range(start, end):
            old, kind = old_category(chr(code)), kinds.get(category(chr(code))[0], OTHER)
            if old not in ("Cn", "Cs") and kind == kinds.get(old[0], OTHER):
                classes[code] = kind
        classes[end:behind], start = LETTER, behind
    classes[list(_WHITE)] = WHITE
    return classes


def _class_of_category() -> dict[str, int]:
    from volt.kernels.cutting import LETTER, MARK, NUMBER_CLASS

    return {"L": LETTER, "N": NUMBER_CLASS, "M": MARK}


def classify(text: str) -> bool:
    """Find out the classes of the characters of a text, as the engine that runs the patterns has them; whether any
    were new."""
    classes = character_classes()
    new = [code for code in map(ord, set(text)) if not classes[code]]
    if new:
        classes[new] = classes_of(new)
    return bool(new)


def classes_of(codes: Sequence[int]) -> NDArray[np.uint8]:
    """The classes of characters, (n,), as the engine that runs the patterns has them.

    >>> classes_of([ord("中"), ord("\u2003")]).tolist()
    [2, 5]
    """
    import polars as pl

    from volt.kernels.cutting import OTHER, WHITE

    characters = pl.Series(list(map(chr, codes)), dtype=pl.String)
    found = np.full(len(codes), OTHER, np.uint8)
    for letter, kind in _class_of_category().items():
        found[characters.str.contains(rf"^\p{{{letter}}}$").to_numpy()] = kind
    found[characters.str.contains(r"^\s$").to_numpy()] = WHITE
    return found
