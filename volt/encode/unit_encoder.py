"""A vocabulary → `UnitEncoder`, the tables with which compiled code encodes one unit of text.

    b"low,"  --cutter-->  words "low" and ","  --merges-->  symbols  --starts, rendered-->  ids or
    text

The fields of `UnitEncoder` are described in volt.kernels.encode_new_unit, those of `Cutter`, which
splits a unit into words, in volt.kernels.pretokenize. Compiled code returns units that it cannot
split to Python.
"""

from __future__ import annotations

import numpy as np

from volt.encode.character_classes import CharacterClasses
from volt.encode.merge_tables import MergeTables
from volt.encode.rendering import Rendering
from volt.encode.units import UnitRule, split_points_of
from volt.kernels import pretokenize
from volt.kernels.encode_new_unit import ID_SIZE, UnitEncoder, numbering
from volt.kernels.pretokenize import Cutter
from volt.text.atoms import SPACE
from volt.text.byte_alphabet import ALPHABET, BYTE_TOKENS
from volt.vocabulary import Vocabulary

_MARKERS = ("none", "suffix", "prefix")  # the index of a marker is its number in compiled code
_CUT_OF_NAME = {  # name of a pre-tokenizer without a pattern of its own → how units are cut
    "whitespace": pretokenize.SPLIT,
    "metaspace": pretokenize.METASPACE,
    "metaspace-runs": pretokenize.RUNS,
    "metaspace-line": pretokenize.RUNS,
    "unicode": pretokenize.UNICODE,
    "gpt2": pretokenize.GPT2,
    "bytes": pretokenize.BYTES,
}


def build_unit_encoder(
    tables: MergeTables, rendering: Rendering | None, classes: CharacterClasses
) -> UnitEncoder:
    """Return a vocabulary's tables. Each thread uses its own copy: `UnitEncoder.for_thread`.

    rendering: the output; None to output atoms, from which dropout encodes
    classes: the classes of characters, which the tables share
    """
    vocabulary = tables.vocabulary
    encoder = numbering()  # an encoder with empty tables
    cutter = _build_cutter(tables, encoder.cutter, classes)
    encoder = encoder._replace(cutter=cutter, merges=tables.merges, rule=tables.rule)
    if rendering is None:
        if vocabulary.fuse_unk:  # only Python joins unknown characters into one atom
            encoder = encoder._replace(cutter=cutter._replace(cut=pretokenize.NEVER))
        return encoder._replace(sampled=True)

    symbols = np.arange(len(tables.retained), dtype=np.int32)
    values, ends = rendering.expand(symbols)
    starts = np.append(0, ends) * values.itemsize
    widths = np.unique(np.diff(starts))
    is_bytes = vocabulary.pretokenizer.is_bytes
    spells_unknown_as_bytes = vocabulary.byte_fallback and not is_bytes
    if spells_unknown_as_bytes and vocabulary.marker != "suffix" and rendering.dtype == np.int32:
        byte_ids = np.array([vocabulary.ids[token] for token in BYTE_TOKENS], np.int32)
        encoder = encoder._replace(byte_ids=byte_ids)
    return encoder._replace(
        starts=starts,
        rendered=np.append(values.view(np.uint8), np.zeros(8, np.uint8)),
        widest=max(ID_SIZE, int(widths.max(initial=0))),
        width=int(widths[0]) if len(widths) == 1 else 0,
    )


def _build_cutter(tables: MergeTables, empty: Cutter, classes: CharacterClasses) -> Cutter:
    vocabulary = tables.vocabulary
    cut = _choose_cut(vocabulary)
    if cut >= pretokenize.BYTES:
        atoms_of_bytes = np.array(list(map(ord, ALPHABET)))
    else:
        atoms_of_bytes = np.arange(256)
        atoms_of_bytes[ord(" ")] = ord(SPACE)
    user_starts = np.zeros(0, np.uint8)
    if vocabulary.special.user and cut > pretokenize.WORD:  # units are text
        user_starts = np.zeros(256, np.uint8)
        user_starts[[token.encode()[0] for token in vocabulary.special.user]] = 1

    codes_inside = 2 * atoms_of_bytes
    codes_at_word_end = codes_inside + 1
    cutter = empty._replace(
        cut=cut,
        marker=_MARKERS.index(vocabulary.marker),
        symbol_of=tables.symbol_of,
        user_starts=user_starts,
        byte_symbols=tables.symbol_of[np.concatenate([codes_inside, codes_at_word_end])],
    )
    if uses_classes(cut):
        return cutter._replace(classes=classes.table)
    points = split_points_of(vocabulary)
    if points is None:
        return cutter

    word_cutter = vocabulary.pretokenizer.cutter
    assert word_cutter is not None  # only its pattern has split points
    automaton = word_cutter.splitter.tables
    return cutter._replace(
        classes=automaton.classes,
        moves=automaton.moves,
        end=automaton.end,
        splits=automaton.splits,
        kinds=points.class_effects,
        breaks=points.break_mask,
        alone=int(points.words_stand_alone),
        matches_only=int(word_cutter.matches_only),
    )


def _choose_cut(vocabulary: Vocabulary) -> int:
    """Return how compiled code cuts units: a constant of volt.kernels.pretokenize."""
    pretokenizer = vocabulary.pretokenizer
    if UnitRule.of(vocabulary).units_are_words:
        return pretokenize.WORD
    if pretokenizer.has_own_pattern:
        if pretokenizer.is_bytes:
            return pretokenize.BYTE_PATTERN
        return pretokenize.PATTERN

    name = pretokenizer.of_lines.name  # Python cuts units that may contain user tokens
    has_marker = vocabulary.marker != "none" and name != "whitespace"
    if vocabulary.normalizer.name != "none" or has_marker:
        return pretokenize.NEVER
    return _CUT_OF_NAME.get(name, pretokenize.NEVER)


def uses_classes(cut: int) -> bool:
    """Check whether a cut depends on the classes of volt.encode.character_classes."""
    return cut in (pretokenize.UNICODE, pretokenize.GPT2, pretokenize.BYTES)
