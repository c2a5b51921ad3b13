"""Tables with which compiled code encodes units: how to cut them into words, and the values of symbols."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache, cached_property

import numpy as np

from volt.encode.arrays import Bytes
from volt.encode.merge_tables import MergeTables
from volt.encode.pretokens import UnitRule, split_points_of
from volt.encode.rendering import Rendering
from volt.fork_guard import about_to_use_polars
from volt.kernels import pretokenize
from volt.kernels.encode_new_unit import ID_SIZE, UnitEncoder, numbering
from volt.kernels.pretokenize import Cutter
from volt.text.atoms import SPACE
from volt.text.byte_alphabet import ALPHABET, BYTE_TOKENS
from volt.text.white_space import WHITE_SPACE
from volt.vocabulary import Vocabulary


def unit_encoder_of(
    tables: MergeTables, rendering: Rendering | None, classes: CharacterClasses
) -> UnitEncoder:
    """Return the tables with which compiled code encodes units; `UnitEncoder.for_thread` adds memory for a thread.

    rendering: the output; None to output atoms, from which dropout encodes
    """
    vocabulary = tables.vocabulary
    encoder = numbering()
    cutter = _cutter(tables, encoder.cutter, classes)
    if rendering is None and vocabulary.fuse_unk:
        cutter = cutter._replace(
            cut=pretokenize.NEVER
        )  # only Python joins unknown characters into one atom
    encoder = encoder._replace(cutter=cutter, merges=tables.merges, rule=tables.rule)
    if rendering is None:
        return encoder._replace(sampled=True)

    values, ends = rendering.expand(np.arange(len(tables.retained), dtype=np.int32))
    starts = np.append(0, ends) * values.itemsize
    widths = np.unique(np.diff(starts))
    is_bytes = vocabulary.pretokenizer.is_bytes
    consists_of_bytes = vocabulary.byte_fallback and not is_bytes and vocabulary.marker != "suffix"
    if consists_of_bytes and rendering.dtype == np.int32:  # any unknown character
        byte_ids = np.array([vocabulary.ids[token] for token in BYTE_TOKENS], np.int32)
        encoder = encoder._replace(byte_ids=byte_ids)
    return encoder._replace(
        starts=starts,
        rendered=np.append(values.view(np.uint8), np.zeros(8, np.uint8)),
        widest=max(ID_SIZE, int(widths.max(initial=0))),
        width=int(widths[0]) if len(widths) == 1 else 0,
    )


def _cutter(tables: MergeTables, empty: Cutter, classes: CharacterClasses) -> Cutter:
    """Return the tables with which compiled code splits units into words."""
    vocabulary = tables.vocabulary
    cut = _cut(vocabulary)
    if cut >= pretokenize.BYTES:
        characters = np.array([ord(character) for character in ALPHABET])
    else:
        characters = np.arange(256)
        characters[ord(" ")] = ord(SPACE)
    user_starts = np.zeros(0, np.uint8)
    if vocabulary.special.user and cut > pretokenize.WORD:  # units are text
        user_starts = np.zeros(256, np.uint8)
        user_starts[[token.encode()[0] for token in vocabulary.special.user]] = 1

    cutter = empty._replace(
        cut=cut,
        marker=("none", "suffix", "prefix").index(vocabulary.marker),
        symbol_of=tables.symbol_of,
        user_starts=user_starts,
        byte_symbols=tables.symbol_of[np.concatenate([2 * characters, 2 * characters + 1])],
    )
    if uses_classes(cut):
        return cutter._replace(classes=classes.table)
    points = split_points_of(vocabulary)
    if points is None:
        return cutter

    own = vocabulary.pretokenizer.cutter
    assert own is not None  # only a pattern has split points
    automaton = own.splitter.tables
    return cutter._replace(
        classes=automaton.classes,
        moves=automaton.moves,
        end=automaton.end,
        splits=automaton.splits,
        kinds=points.class_effects,
        breaks=points.break_mask,
        alone=int(points.words_stand_alone),
        matches_only=int(own.matches_only),
    )


def _cut(vocabulary: Vocabulary) -> int:
    pretokenizer = vocabulary.pretokenizer
    if UnitRule.of(vocabulary).words:
        return pretokenize.WORD  # units are normalised words
    if pretokenizer.has_own_pattern:
        if pretokenizer.is_bytes:
            return pretokenize.BYTE_PATTERN
        return pretokenize.PATTERN

    name = pretokenizer.of_lines.name  # units that may contain user tokens are left to Python
    has_marker = vocabulary.marker != "none" and name != "whitespace"
    if vocabulary.normalizer.name != "none" or has_marker:
        return pretokenize.NEVER
    cuts = {
        "whitespace": pretokenize.SPLIT,
        "metaspace": pretokenize.METASPACE,
        "metaspace-runs": pretokenize.RUNS,
        "metaspace-line": pretokenize.RUNS,
        "unicode": pretokenize.UNICODE,
        "gpt2": pretokenize.GPT2,
        "bytes": pretokenize.BYTES,
    }
    return cuts.get(name, pretokenize.NEVER)


def uses_classes(cut: int) -> bool:
    return cut in (pretokenize.UNICODE, pretokenize.GPT2, pretokenize.BYTES)


_CLASS_OF_CATEGORY = {
    "L": pretokenize.LETTER,
    "N": pretokenize.NUMBER_CLASS,
    "M": pretokenize.MARK,
}
_N_KNOWN = 0x10000
# starts and ends of ranges of letters: ideographs and syllables
_LETTERS = ((0x3400, 0x4DB6), (0x4E00, 0x9FA6), (0xAC00, 0xD7A4))


class CharacterClasses:
    """The class of every character, looked up when the character first occurs."""

    # Threads share it without a lock: they write equal values, and one that reads an old NO_CLASS looks it up again.

    @cached_property
    def table(self) -> Bytes:
        """(0x110000,) uint8, the class of each character, or NO_CLASS."""
        table = np.zeros(0x110000, np.uint8)
        table[:_N_KNOWN] = known_classes()
        return table

    def classify(self, text: str) -> bool:
        """Look up the classes of a text's characters. Return whether any was new."""
        new = [code for code in map(ord, set(text)) if not self.table[code]]
        if new:
            self.table[new] = classes_of(new)
        return bool(new)


@cache
def known_classes() -> Bytes:
    """Return the characters' classes (0x10000,), read-only; 0 if changed since Unicode 3.2. Takes 10 ms."""
    category = unicodedata.category
    old_category = unicodedata.ucd_3_2_0.category
    classes = np.zeros(_N_KNOWN, np.uint8)
    start = 0
    for first, after in (*_LETTERS, (_N_KNOWN, _N_KNOWN)):
        for code in range(start, first):
            old = old_category(chr(code))
            kind = _CLASS_OF_CATEGORY.get(category(chr(code))[0], pretokenize.OTHER)
            if old not in ("Cn", "Cs") and kind == _CLASS_OF_CATEGORY.get(
                old[0], pretokenize.OTHER
            ):
                classes[code] = kind
        classes[first:after] = pretokenize.LETTER
        start = after
    classes[[ord(character) for character in WHITE_SPACE]] = pretokenize.WHITE
    classes.flags.writeable = False
    return classes


def classes_of(codes: Sequence[int]) -> Bytes:
    """Return the classes of characters, (n,)."""
    import polars as pl

    about_to_use_polars()
    characters = pl.Series(list(map(chr, codes)), dtype=pl.String)
    classes = np.full(len(codes), pretokenize.OTHER, np.uint8)
    for letter, kind in _CLASS_OF_CATEGORY.items():
        classes[characters.str.contains(rf"^\p{{{letter}}}$").to_numpy()] = kind
    classes[characters.str.contains(r"^\s$").to_numpy()] = pretokenize.WHITE
    return classes
