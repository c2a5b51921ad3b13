"""Vocabulary and rendering → what the compiled loop needs to learn new units by itself (see volt.kernels.learning).

>>> from volt.tables import Tables
>>> from volt.rendering import as_ids
>>> from volt.vocabulary import Vocabulary
>>> tables = Tables.of(Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "w</w>", "lo")))
>>> learner = learner_of(tables, as_ids(tables))
>>> learner.widest, learner.sampled
(4, False)
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volt.bytelevel import ALPHABET
from volt.rendering import Rendering
from volt.tables import Tables
from volt.vocabulary import Vocabulary

if TYPE_CHECKING:
    from volt.kernels.learning import Learner

N_CHARACTERS = 0x110000
_COMMON = range(0x80, 0x530)  # Latin, Greek, Cyrillic: asked about at once
_NOTHING = np.zeros(0, np.int32)
_ALPHABET = np.array([ord(character) for character in ALPHABET], np.int32)


def learner_of(tables: Tables, rendering: Rendering | None) -> Learner:
    """What a table of units needs. rendering: of symbols; without one, atoms are wanted, for dropout.

    Its memory to work in belongs to one thread: see `Learner.for_thread`.
    """
    from volt.kernels.learning import ID_SIZE, numbering

    starts, values = rendering.known_rows(len(tables.kept)) if rendering else (np.zeros(1, np.int64), _NOTHING)
    starts, values = starts * values.itemsize, values.view(np.uint8)
    empty = numbering(character_classes())
    marker = ("none", "suffix", "prefix").index(tables.vocabulary.marker)
    cutter = empty.cutter._replace(
        cut=_cut(tables.vocabulary), marker=marker, symbol_of=tables.symbol_of, alphabet=_ALPHABET
    )
    return empty._replace(
        cutter=cutter, sampled=rendering is None, merges=tables.merges, kept=tables.kept, parts=tables.parts,
        starts=starts, rendered=values, widest=max(ID_SIZE, int(np.diff(starts).max(initial=0))),
    )  # fmt: skip


def numbering_learner() -> Learner:
    """A learner for which each unit stands for its number, in the order in which units are met."""
    from volt.kernels.learning import numbering

    return numbering(character_classes())


def _cut(vocabulary: Vocabulary) -> int:
    from volt.kernels import learning

    name = vocabulary.pretokenizer.name
    if name.startswith("regex:"):
        return learning.WORD  # units are normalised pre-tokens
    if vocabulary.normalizer.name != "none" or vocabulary.special.user:
        return learning.NEVER
    if name == "whitespace":
        return learning.SPLIT
    cuts = {
        "metaspace": learning.METASPACE, "unicode": learning.UNICODE, "gpt2": learning.GPT2, "bytes": learning.BYTES,
    }  # fmt: skip
    return cuts[name] if vocabulary.marker == "none" else learning.NEVER


def uses_classes(learner: Learner) -> bool:
    """Whether the learner looks at the classes of characters."""
    from volt.kernels.learning import BYTES, GPT2, UNICODE

    return learner.cutter.cut in (UNICODE, GPT2, BYTES)


@cache
def character_classes() -> NDArray[np.uint8]:
    """(0x110000,) class of each character, NO_CLASS until somebody has asked; shared by all who ask.

    >>> character_classes()[[ord("a"), ord("4"), ord("!")]].tolist()
    [2, 3, 1]
    """
    from volt.kernels.learning import LETTER, NUMBER_CLASS, OTHER, WHITE

    classes = np.zeros(N_CHARACTERS, np.uint8)
    for code in range(0x80):
        character = chr(code)
        is_white = character in "\t\n\v\f\r "
        classes[code] = (
            WHITE if is_white else LETTER if character.isalpha() else NUMBER_CLASS if character.isdigit() else OTHER
        )
    return classes


def classify(text: str) -> None:
    """Find out the classes of the characters of a text, as the engine that runs the patterns has them."""
    import polars as pl

    from volt.kernels.learning import LETTER, MARK, NUMBER_CLASS, OTHER, WHITE

    classes = character_classes()
    met = {*map(ord, set(text)), *(_COMMON if not classes[_COMMON[0]] else ())}
    if not (new := [code for code in met if not classes[code]]):
        return
    characters = pl.Series(list(map(chr, new)), dtype=pl.String)
    found = np.full(len(new), OTHER, np.uint8)
    for kind, pattern in ((LETTER, r"^\p{L}$"), (NUMBER_CLASS, r"^\p{N}$"), (MARK, r"^\p{M}$"), (WHITE, r"^\s$")):
        found[characters.str.contains(pattern).to_numpy()] = kind
    classes[new] = found
