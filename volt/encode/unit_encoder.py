"""A vocabulary → `UnitEncoder`, the tables with which compiled code encodes one unit of text.

    b"low,"  --cutter-->  words "low" and ","  --merges-->  symbols  --rendered-->  ids or text

The fields of `UnitEncoder` are described in volt.kernels.encode_new_unit, those of `Cutter`, which
splits a unit into words, in volt.kernels.pretokenize. Compiled code returns units that it cannot
split to Python.

`CharacterClasses` says which characters are letters, numbers, marks, white space or others: GPT-2's
pattern and the pre-tokenizer "unicode" split by these classes. The engine of VOLT's patterns, Rust's
regex in Polars, decides. Most characters are classified without it, because importing Polars takes
longer than encoding a short text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np

from volt.array_types import Bytes, Longs
from volt.encode.rendering import Rendering
from volt.encode.units import UnitRule, follows_lines, normalizes_lines, split_points_of
from volt.encode.word_tables import WordTables
from volt.fork_guard import about_to_use_polars
from volt.kernels import pretokenize
from volt.kernels.encode_new_unit import ID_SIZE, UnitEncoder, numbering
from volt.kernels.pretokenize import Cutter
from volt.kernels.superwords import ENDS_UNIT_WORD
from volt.kernels.unit_scan import ALWAYS_GLUES
from volt.text.atoms import SPACE
from volt.text.byte_alphabet import ALPHABET, BYTE_TOKENS
from volt.text.patterns.split_points import white_last_bytes
from volt.text.pretokenizer import UNMARKED_LINE
from volt.text.special_tokens import SpecialTokens
from volt.text.white_space import WHITE_SPACE
from volt.vocabulary import Vocabulary

_MARKERS = ("none", "suffix", "prefix")  # the index of a marker is its number in compiled code
_CUT_OF_NAME = {  # name of a pre-tokenizer → how units are cut; a pattern cuts the others
    "whitespace": pretokenize.SPLIT,
    "metaspace": pretokenize.METASPACE,
    "metaspace-runs": pretokenize.RUNS,
    "metaspace-line": pretokenize.LINE,
    UNMARKED_LINE: pretokenize.LINE,
    "unicode": pretokenize.UNICODE,
    "gpt2": pretokenize.GPT2,
    "bytes": pretokenize.BYTES,
}
_CLASS_OF_CATEGORY = {
    "L": pretokenize.LETTER,
    "N": pretokenize.NUMBER_CLASS,
    "M": pretokenize.MARK,
}  # by the first letter
_N_KNOWN = 0x10000  # code points that `known_classes` considers
# Ranges of letters, ideographs and syllables, that need not be checked one by one.
_LETTERS = ((0x3400, 0x4DB6), (0x4E00, 0x9FA6), (0xAC00, 0xD7A4))


def build_unit_encoder(
    tables: WordTables, rendering: Rendering | None, classes: CharacterClasses
) -> UnitEncoder:
    """Return a vocabulary's tables. Each thread uses its own copy: `UnitEncoder.for_thread`.

    rendering: the output; None to output atoms, from which dropout encodes
    classes: the classes of characters, which the tables share
    """
    vocabulary = tables.vocabulary
    encoder = numbering()  # an encoder with empty tables
    cutter = _build_cutter(tables, encoder.cutter, classes)
    encoder = encoder._replace(cutter=cutter, **tables.compiled)
    if rendering is None:
        if vocabulary.fuse_unk:  # only Python joins unknown characters into one atom
            encoder = encoder._replace(cutter=cutter._replace(cut=pretokenize.NEVER))
        return encoder._replace(sampled=True)
    if follows_lines(vocabulary):
        return encoder._replace(sums_lines=True, word_bits=rendering.word_bits)

    starts, values = rendering.rows_of_symbols()
    starts = starts * values.itemsize
    widths = np.diff(starts)
    widest = int(widths.max(initial=0))
    are_alike = len(widths) and widest == widths.min()
    is_bytes = vocabulary.pretokenizer.is_bytes
    gives_numbers = rendering.dtype == np.int32 and not rendering.gives_symbols
    spells_unknown_as_bytes = vocabulary.byte_fallback and not is_bytes
    if spells_unknown_as_bytes and vocabulary.marker != "suffix" and gives_numbers:
        id_of = vocabulary.reserved_ids
        byte_ids = np.array([id_of[token] for token in BYTE_TOKENS], np.int32)
        encoder = encoder._replace(byte_ids=byte_ids)
    elif vocabulary.fuse_unk and vocabulary.unk_id is not None and rendering.gives_ids:
        unk_ids = np.array([vocabulary.unk_id], np.int32)
        encoder = encoder._replace(unk_ids=unk_ids, seen=rendering.seen)
    encoder = encoder._replace(word_bits=rendering.word_bits)
    if rendering.gives_symbols:
        encoder = _find_stretches(encoder)
    return encoder._replace(
        starts=starts,
        rendered=np.append(values.view(np.uint8), np.zeros(8, np.uint8)),
        widest=max(ID_SIZE, widest),
        width=widest if are_alike else 0,
    )


def _find_stretches(encoder: UnitEncoder) -> UnitEncoder:
    """Return an encoder whose values say where stretches end, if the text of a unit tells.

    The last split of a pattern ends units; splits before it end stretches, at their matches.
    """
    cutter = encoder.cutter._replace(alone=0)
    splits = cutter.splits[:0]
    if cutter.cut in (pretokenize.PATTERN, pretokenize.BYTE_PATTERN):
        splits = cutter.splits[:-1]
    is_forward = len(splits) == 1 and not splits[0] & 1
    if cutter.cut == pretokenize.WORD or (len(splits) and not is_forward):
        return encoder
    return encoder._replace(cutter=cutter, word_bits=ENDS_UNIT_WORD, marks_stretches=is_forward)


def _build_cutter(tables: WordTables, empty: Cutter, classes: CharacterClasses) -> Cutter:
    vocabulary = tables.vocabulary
    cut = _choose_cut(vocabulary)
    if cut >= pretokenize.BYTES:
        atoms_of_bytes = np.array(list(map(ord, ALPHABET)))
    else:
        atoms_of_bytes = np.arange(256)
        atoms_of_bytes[ord(" ")] = ord(SPACE)
    if vocabulary.special.user and cut > pretokenize.WORD:  # units are text
        empty = add_user_tokens(vocabulary.special.user, empty)

    codes_inside = 2 * atoms_of_bytes
    codes_at_word_end = codes_inside + 1
    cutter = empty._replace(
        cut=cut,
        marker=_MARKERS.index(vocabulary.marker),
        symbol_of=tables.symbol_of,
        lasts=_find_gluing_bytes(vocabulary),
        firsts=_find_line_starts(vocabulary.special),
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
    character_classes = automaton.classes
    if word_cutter.reads_mark_as_space:
        character_classes = character_classes.copy()
        character_classes[ord(SPACE)] = character_classes[ord(" ")]
    return cutter._replace(
        classes=character_classes,
        moves=automaton.moves,
        end=automaton.end,
        splits=automaton.splits,
        kinds=points.class_effects,
        alone=int(points.words_stand_alone),
        matches_only=int(word_cutter.matches_only),
    )


def _find_gluing_bytes(vocabulary: Vocabulary) -> Bytes:
    """Return (256,), which last bytes of units glue: `Effects.lasts` of volt.kernels.unit_scan."""
    rule = UnitRule.of(vocabulary)
    if not rule.keeps_breaks:
        return np.zeros(256, np.uint8)
    pretokenizer = vocabulary.pretokenizer
    special = vocabulary.special
    result = white_last_bytes(rule.breaks, glues_mark=not pretokenizer.is_bytes)
    users = special.rstrip
    if pretokenizer.of_lines != pretokenizer:  # a "▁" is put after each user token
        users = special.user
    result[[token.encode()[-1] for token in users]] = ALWAYS_GLUES
    return result


def _find_line_starts(special: SpecialTokens) -> Bytes:
    """Return (256,): `Effects.firsts` of volt.kernels.unit_scan."""
    result = np.zeros(256, np.uint8)
    result[[token.encode()[0] for token in special.user]] = 1
    if special.stripping != ("", ""):
        result[:] = 2
    return result


def add_user_tokens(users: Sequence[str], cutter: Cutter) -> Cutter:
    """Return a cutter that leaves units with one of these tokens to Python."""
    shortest = list[bytes]()  # without tokens that begin with another one
    for token in sorted(map(str.encode, users)):
        if not shortest or not token.startswith(shortest[-1]):
            shortest.append(token)
    starts = np.zeros(256, np.uint8)
    starts[[token[0] for token in shortest]] = 1
    return cutter._replace(
        user_starts=starts,
        user_bytes=np.frombuffer(b"".join(shortest), np.uint8).copy(),
        user_bounds=np.cumsum([0, *map(len, shortest)]),
    )


def _choose_cut(vocabulary: Vocabulary) -> int:
    """Return how compiled code cuts units: a constant of volt.kernels.pretokenize."""
    pretokenizer = vocabulary.pretokenizer
    if UnitRule.of(vocabulary).units_are_words:
        return pretokenize.WORD
    if vocabulary.is_unigram and pretokenizer.is_bytes:  # the trie has characters of the alphabet
        return pretokenize.NEVER
    name = pretokenizer.of_lines.name
    if pretokenizer.has_own_pattern and name not in _CUT_OF_NAME:
        if pretokenizer.is_bytes:
            return pretokenize.BYTE_PATTERN
        return pretokenize.PATTERN
    # Python cuts units that may contain user tokens
    has_marker = vocabulary.marker != "none" and name != "whitespace"
    is_normalized = vocabulary.normalizer.name == "none" or normalizes_lines(vocabulary)
    if has_marker or not is_normalized:
        return pretokenize.NEVER
    return _CUT_OF_NAME.get(name, pretokenize.NEVER)


def uses_classes(cut: int) -> bool:
    """Check whether a cut depends on `CharacterClasses`."""
    return cut in (pretokenize.UNICODE, pretokenize.GPT2, pretokenize.BYTES)


class CharacterClasses:
    """The class of every character, looked up when the character first occurs."""

    # Threads share the table without a lock: they write equal values, and a thread that still reads
    # NO_CLASS (0) looks the class up again.

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
            self.table[new] = look_up_classes(new)
        return bool(new)


@cache
def known_classes() -> Bytes:
    """Return (0x10000,) uint8, read-only, the classes known without the engine; else NO_CLASS.

    If a character has the same class in Unicode 3.2 and in Python's version, it has this class in
    the engine's version.
    """
    classes = np.full(_N_KNOWN, pretokenize.NO_CLASS, np.uint8)
    for first, after in _LETTERS:
        classes[first:after] = pretokenize.LETTER
    codes = np.flatnonzero(classes == pretokenize.NO_CLASS)
    categories = _look_up_categories(codes, unicodedata)
    old_categories = _look_up_categories(codes, unicodedata.ucd_3_2_0)

    class_of = np.full(128, pretokenize.OTHER, np.uint8)
    for category, class_index in _CLASS_OF_CATEGORY.items():
        class_of[ord(category)] = class_index
    new_classes = class_of[categories[:, 0]]
    has_changed = class_of[old_categories[:, 0]] != new_classes
    is_no_character = np.isin(old_categories.view("S2")[:, 0], [b"Cn", b"Cs"])
    new_classes[has_changed | is_no_character] = pretokenize.NO_CLASS
    classes[codes] = new_classes
    classes[list(map(ord, WHITE_SPACE))] = pretokenize.WHITE
    classes.flags.writeable = False
    return classes


def _look_up_categories(codes: Longs, database: Any) -> Bytes:
    """Return the general category of code points, (n, 2), as two letters of ASCII."""
    categories = map(database.category, map(chr, codes.tolist()))
    letters = np.frombuffer("".join(categories).encode(), np.uint8)
    return letters.reshape(-1, 2)


def look_up_classes(codes: Sequence[int]) -> Bytes:
    """Return the engine's classes of code points, (n,) uint8."""
    import polars as pl

    about_to_use_polars()
    characters = pl.Series(list(map(chr, codes)), dtype=pl.String)
    classes = np.full(len(codes), pretokenize.OTHER, np.uint8)
    for category, class_index in _CLASS_OF_CATEGORY.items():
        classes[characters.str.contains(rf"^\p{{{category}}}$").to_numpy()] = class_index
    classes[characters.str.contains(r"^\s$").to_numpy()] = pretokenize.WHITE
    return classes
