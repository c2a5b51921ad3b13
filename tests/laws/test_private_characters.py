"""Laws of private characters, U+10C000 to U+10FFFD: in a text they are text, although they stand for user tokens."""

from collections import Counter
from dataclasses import replace
from functools import cache, partial
from itertools import chain, pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.batches import ENCODERS, HARD, ids_of
from support.drawn import examples

from volt.count.corpus import count_words
from volt.encode.encoder import Encoder
from volt.text.byte_alphabet import ALPHABET, to_bytes, to_characters
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN, SpecialTokens
from volt.vocabulary import Vocabulary

USER = ("<url>", "<ur", "12é")
N_HIDDEN = LAST_HIDDEN - FIRST_HIDDEN + 1
OWN = (
    chr(FIRST_HIDDEN),
    chr(FIRST_HIDDEN + 1),
    chr(FIRST_HIDDEN + 7),
    chr(LAST_HIDDEN - 1),
    chr(LAST_HIDDEN),
)
OTHERS = "\U00100000\U0010efff\U000f0000\ue000"  # some of them are placeholders
DECLARED = (
    r"split: ?[a-z]+",
    r"split:.",
    r"bytes+split: ?\p{L}+|\p{N}{1,3}",
    r"bytes+split:\p{Co}\s?",
    "matches:[a-z]+|[^a-z ]",
    "bytes+matches:[a-z]+|[^a-z ]+",
)
COUNTED = [f"a{one} {one} lo{one}\ufffdw" for one in OWN]
FEW = settings(max_examples=examples(30))


def declared(name, normalizer="none"):
    """Return a small vocabulary of a declared pattern; if the pattern drops text, with the marker of CLIP."""
    cut, end = PreTokenizer(name), "</w>" * ("matches" in name)
    first, second, *_ = to_characters(OWN[0].encode()) if cut.is_bytes else (OWN[0], "é")
    merges = [
        ("l", "o"),
        ("lo", "w"),
        ("a", "b"),
        (first, second),
        ("!", first),
        ("e", second + end),
    ]
    atoms = ALPHABET if cut.is_bytes else (*"abelow!t1▁é", OWN[0], OWN[3])
    tokens = dict.fromkeys((*atoms, *(atom + end for atom in atoms), *map("".join, merges)))
    return Vocabulary(
        tuple(merges),
        tuple(tokens),
        marker="suffix" if end else "none",
        pretokenizer=cut,
        normalizer=Normalizer.parse(normalizer),
        special=SpecialTokens(user=USER),
    )


def without_users(vocabulary):
    """Return a vocabulary with these pieces and without user tokens."""
    special = vocabulary.special
    return replace(
        vocabulary, special=replace(special, user=(), control=special.control + special.user)
    )


VOCABULARIES = [
    *(replace(one.vocabulary, special=SpecialTokens(user=USER)) for one in ENCODERS),
    *map(declared, DECLARED),
    *(declared(name, "nfkc+lowercase") for name in DECLARED[::2]),
    *(replace(declared(name), merging="ranks", whole_words=True) for name in DECLARED[:4]),
]
ISOLATING = [
    n
    for n, one in enumerate(VOCABULARIES)
    if one.pretokenizer.is_bytes or one.pretokenizer.name in DECLARED
]
fragments = st.sampled_from([*HARD, *OWN, *OWN, *OTHERS, "<ur", "l>", "12é"])
lines_ = st.lists(st.lists(fragments, max_size=10).map("".join), min_size=1, max_size=4)
which_ = st.integers(0, len(VOCABULARIES) - 1)


@cache
def encoder_with(which):
    """Return the encoder of a vocabulary with user tokens."""
    return Encoder(VOCABULARIES[which])


@cache
def twin_of(which):
    """Return the encoder of the same pieces without user tokens."""
    return Encoder(without_users(VOCABULARIES[which]))


def segments(line):
    """Return a line, split at user tokens, which have odd places."""
    ends = [0, *chain.from_iterable(SpecialTokens(user=USER).spans(line)), len(line)]
    return [line[start:end] for start, end in pairwise(ends)]


def expected(which, line):
    """Return the pieces of a line by the twin, with user tokens between them."""
    pieces = []
    for place, part in enumerate(segments(line)):
        pieces += [part] if place % 2 else twin_of(which).encode(part)
    return pieces


def assert_every_call(encoder, lines, pieces):
    """Check that every call has these pieces: single lines, offsets, batches with new and known units, text."""
    ids = [encoder.ids(row).tolist() for row in pieces]
    for line, row, numbers in zip(lines, pieces, ids, strict=True):
        assert encoder.encode(line) == row
        assert encoder.encode_ids(line).tolist() == numbers
        assert [piece for piece, *_ in encoder.encode_offsets(line)] == row
    assert encoder.encode_lines(lines) == pieces
    for batch in (lines, lines + lines[::-1]):
        assert ids_of(encoder.encode_batch(batch, n_threads=1)) == (ids + ids[::-1])[: len(batch)]
    flat = [line.replace("\n", " ") for line in lines]
    text = "\n".join(flat).encode()
    as_text = [" ".join(row) for row in encoder.encode_lines(flat)]
    assert encoder.encode_text(text).decode().split("\n")[: len(flat)] == as_text


@given(which_, lines_)
@FEW
def test_lines_without_user_tokens_are_encoded_as_without_any(which, lines):
    """For lines without user tokens, every call equals that of an encoder whose vocabulary has
    none.
    """
    encoder, twin = encoder_with(which), twin_of(which)
    lines = [line for line in lines if not VOCABULARIES[which].special.spans(line)]
    assert_every_call(encoder, lines, twin.encode_lines(lines))
    for line in lines:
        assert encoder.encode_offsets(line) == twin.encode_offsets(line)
    drawn = twin.encode_lines(lines, dropout=0.5, seed=3)
    assert encoder.encode_lines(lines, dropout=0.5, seed=3) == drawn
    batch = encoder.encode_batch(lines, dropout=0.5, seed=3, n_threads=1)
    assert ids_of(batch) == [encoder.ids(row).tolist() for row in drawn]


@given(st.sampled_from(ISOLATING), lines_)
@example(
    next(n for n, one in enumerate(VOCABULARIES) if OWN[0] in one.tokens), [f"a<url> {OWN[0]}"]
)
@FEW
def test_text_between_user_tokens_is_encoded_alone(which, lines):
    """If user tokens are words of their own, the text between two of them is encoded like a line."""
    assert_every_call(encoder_with(which), lines, [expected(which, line) for line in lines])


@given(which_, lines_, st.permutations(OWN))
@FEW
def test_private_characters_are_interchangeable(which, lines, others):
    """If private characters of a text are replaced by others, pieces contain the others and are
    else equal.
    """
    vocabulary = VOCABULARIES[which]
    if (
        vocabulary.pretokenizer.is_bytes
        or vocabulary.byte_fallback
        or vocabulary.pretokenizer.name in DECLARED
    ):
        return  # the vocabulary knows the character, or its bytes
    renamed = str.maketrans(dict(zip(OWN, others, strict=True)))
    encoder, there = encoder_with(which), [line.translate(renamed) for line in lines]
    pieces = [[piece.translate(renamed) for piece in row] for row in encoder.encode_lines(lines)]
    assert_every_call(encoder, there, pieces)


@given(which_, lines_)
@FEW
def test_private_characters_decode_to_themselves(which, lines):
    """A text decodes with private characters as it does with other unknown characters."""
    vocabulary, encoder = VOCABULARIES[which], encoder_with(which)
    if "matches" in vocabulary.pretokenizer.name or "regex" in vocabulary.pretokenizer.name:
        return  # these drop text
    others = dict(zip(OWN, map(chr, range(0x10A000, 0x10B000)), strict=False))
    there = [line.translate(str.maketrans(others)) for line in lines]
    back = str.maketrans({other: own for own, other in others.items()})
    decoded = [encoder.decode(row).translate(back) for row in encoder.encode_lines(there)]
    assert [encoder.decode(row) for row in encoder.encode_lines(lines)] == decoded


@given(which_, st.lists(st.lists(fragments, min_size=1, max_size=4).map("".join), max_size=3))
@FEW
def test_encode_words_finds_no_user_tokens(which, words):
    """`encode_words` encodes words that spell user tokens as text."""
    assert encoder_with(which).encode_words(words) == twin_of(which).encode_words(words)


@pytest.mark.parametrize("name", ["whitespace", "metaspace", "gpt2"])
def test_counts_are_as_without_user_tokens(name):
    """Words with private characters have equal counts whether the vocabulary has user tokens or
    not.
    """
    plain = count_words(texts=COUNTED, pretokenizer=name)
    hiding = count_words(texts=COUNTED, pretokenizer=name, special=SpecialTokens(user=USER))
    assert sorted(hiding.table.rows()) == sorted(plain.table.rows())


@pytest.mark.parametrize("name", ["bytes", "split: ?[a-z]+"])
def test_private_characters_are_counted_as_text(name):
    """Without user tokens, private characters are counted as the text that patterns split."""
    counts = count_words(texts=COUNTED, pretokenizer=name)
    split = partial(PreTokenizer(name).split, hidden=False)
    assert dict(counts.table.rows()) == Counter(chain(*map(split, COUNTED)))


def test_a_text_of_all_characters_is_encoded():
    """Lines may contain any number of private characters; a line with all of them has U+FFFD for some."""
    names = [one.pretokenizer.name for one in VOCABULARIES]
    which = names.index("bytes+split: ?\\p{L}+|\\p{N}{1,3}")
    codes = [*range(0xF0000, 0xFFFFE), *range(0x100000, 0x10FFFE)]
    text = "".join(map(chr, codes))
    lines = [text[start : start + 500] for start in range(0, len(codes), 5_000)]
    assert encoder_with(which).encode_lines(lines) == twin_of(which).encode_lines(lines)
    pieces = "".join(encoder_with(which).encode(text))
    assert to_bytes(pieces).decode() == text[:-N_HIDDEN] + "\ufffd" * N_HIDDEN
