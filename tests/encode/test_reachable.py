"""Laws of what text can produce: exactly the tokens that brute force finds, and each text shown gives its token."""

from __future__ import annotations

from itertools import product

import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.encode.encoder import Encoder
from volt.encode.reachable import Reach, reach
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

LONGEST = 4  # characters of a token, so that words of two more show whether it is produced
UNKNOWN = "x"
MARKED = {"suffix": ["a", "b", "a</w>", "b</w>"], "prefix": ["a", "b", "▁"], "none": ["a", "b"]}
CUT = {  # pre-tokeniser: the atoms of its tokens, and what else stands in texts, unknown to the vocabulary
    "whitespace": ["a", "1", "▁", "ß"],
    "metaspace": ["a", "1", "▁", "!"],
    "unicode": ["a", "1", "▁", "!"],
    "gpt2": ["a", "s", "▁", "'", "1"],
    "bytes": ["a", "Ġ", "Ã", "©", "'"],
    "regex:[a-c]+|[ ]": ["a", "b", "c", "▁"],
    r"split:'(?i:s)|[a-z]?\d+| ?\p{L}+|\s+(?!\S)|\s": ["a", "s", "▁", "'"],
    r"bytes+split: ?\p{L}+|\s+(?!\S)|\s": ["a", "Ġ", "Ã", "©"],
}
BESIDE = "x2?\t"
FEW, FEWER = (
    settings(deadline=None, max_examples=examples(10)),
    settings(deadline=None, max_examples=3),
)


def length(token: str) -> int:
    return len(token.removesuffix("</w>"))


@st.composite
def merged_vocabularies(draw, atoms, *, longest=LONGEST, **options):
    """Merges that nobody learned, unreachable ones and several that make the same, and some of their tokens."""
    tokens, merges = list(atoms), []
    for _ in range(draw(st.integers(0, 12))):
        left = draw(st.sampled_from([token for token in tokens if not token.endswith("</w>")]))
        right = draw(st.sampled_from(tokens))
        if length(left) + length(right) <= longest:
            merges.append((left, right))
            tokens.append(left + right)
    made = list(dict.fromkeys(tokens))
    kept = draw(st.permutations(made))[: draw(st.integers(0, len(made)))]
    return Vocabulary(merges=tuple(merges), tokens=tuple(kept), **options)


def seen(vocabulary: Vocabulary, words) -> set[str]:
    """The tokens that some of these words produce."""
    return {piece for pieces in Encoder(vocabulary).encode_words(words) for piece in pieces} & set(
        vocabulary.tokens
    )


def assert_texts_give_their_tokens(vocabulary: Vocabulary, found: Reach) -> None:
    """Each text is encoded, and its token is among the pieces."""
    pieces = Encoder(vocabulary).encode_lines(found.texts.values())
    assert [
        token for token, line in zip(found.texts, pieces, strict=True) if token not in line
    ] == []


WORDS = [
    "".join(letters) for n in range(1, LONGEST + 3) for letters in product(f"ab{UNKNOWN}", repeat=n)
]
MARKED_WORDS = [
    word for n in range(1, LONGEST + 2) for word in map("".join, product(f"ab▁{UNKNOWN}", repeat=n))
]


@FEW
@given(st.data(), st.sampled_from(["suffix", "prefix", "none"]))
def test_tokens_that_brute_force_finds_are_those_that_text_can_produce(data, marker):
    """Of all words of up to six letters, one of them unknown, the pieces are exactly the tokens said to be reached."""
    vocabulary = data.draw(merged_vocabularies(MARKED[marker], marker=marker))
    found = reach(vocabulary)
    assert set(found.texts) == seen(vocabulary, MARKED_WORDS if marker == "prefix" else WORDS)
    assert set(found.texts) | found.never.keys() == set(vocabulary.tokens)
    assert set(found.never.values()) <= {"merges"}
    assert not found.undecided
    assert_texts_give_their_tokens(vocabulary, found)


def texts_of(vocabulary: Vocabulary, characters: str) -> set[str]:
    """The tokens that some line of up to four of these characters, or others, produces."""
    letters = dict.fromkeys([*characters, *BESIDE, " "])
    lines = ["".join(line) for n in range(1, 5) for line in product(letters, repeat=n)]
    return {piece for pieces in Encoder(vocabulary).encode_lines(lines) for piece in pieces} & set(
        vocabulary.tokens
    )


@pytest.mark.parametrize("cut", CUT)
@FEWER
@given(st.data())
def test_tokens_that_lines_hold_are_those_that_text_can_produce(cut, data):
    """With every pre-tokeniser and normaliser: of all short lines, the pieces are exactly the tokens said to be
    reached; where a search may miss some, none that is found is said never to occur."""
    normalizer = data.draw(st.sampled_from(["none", "nfc", "lowercase"]))
    is_bytes = cut.startswith("bytes")
    marker = data.draw(st.sampled_from(["suffix", "none"])) if not is_bytes else "none"
    atoms = [
        *CUT[cut],
        *("A" * (not is_bytes)),
        *(f"{atom}</w>" for atom in CUT[cut] * (marker == "suffix")),
    ]
    vocabulary = data.draw(
        merged_vocabularies(
            atoms, longest=2, marker=marker, normalizer=normalizer, pretokenizer=cut
        )
    )
    found = reach(vocabulary)
    lines = texts_of(vocabulary, "".join(CUT[cut]) + "Aé")
    assert not lines & found.never.keys()
    if not found.undecided and not is_bytes:
        assert set(found.texts) == lines
    assert lines <= set(found.texts) | set(found.undecided)
    assert_texts_give_their_tokens(vocabulary, found)


def test_reasons_are_distinguished() -> None:
    """A token may be lost in merging, to the normaliser, to a user token, or to the pre-tokeniser; what is not made of
    characters, or holds the end-of-word mark as text, is looked at like others."""
    merges = (
        ("b", "c"),
        ("a", "b"),
        ("ab", "c"),
        ("A", "b"),
        ("a", " "),
        ("<", "u"),
        ("<u", ">"),
        ("<u>", "a"),
    )
    tokens = ("a", "abc", "ab", "Ab", "a ", "<u>a", "u", "bc")
    special = SpecialTokens(user=("<u>",))
    found = reach(Vocabulary(merges=merges, tokens=tokens, marker="none", special=special))
    assert found.never == {"abc": "merges", "a ": "pretokenizer", "<u>a": "user tokens"}
    lower = Vocabulary(
        merges=merges, tokens=tokens, marker="none", special=special, normalizer="lowercase"
    )
    found = reach(lower)
    assert found.never == {"abc": "merges", "Ab": "normalizer", "a ": "pretokenizer"}
    assert found.undecided == (
        "<u>a",
    )  # text of "<U>" gives it: lower case comes behind user tokens
    assert "<u>a" in Encoder(lower).encode("<U>a")


def test_what_only_splitting_back_yields_is_reached() -> None:
    """Merges break "abc" itself; it comes out of "abcd", which is made otherwise and split back into it."""
    merges = (("b", "c"), ("a", "b"), ("ab", "c"), ("abc", "d"), ("bc", "d"), ("a", "bcd"))
    vocabulary = Vocabulary(merges=merges, tokens=("a", "abc", "d"), marker="none")
    found = reach(vocabulary)
    assert (found.texts["abc"], found.never) == ("abcd", {})
    assert_texts_give_their_tokens(vocabulary, found)


def test_a_token_that_spells_the_end_of_words_is_reached_as_an_unknown_character() -> None:
    """Where merges make the string "a</w>" of text, an unknown "a" at the end of a word is spelled alike."""
    merges = (("a", "<"), ("a<", "/"), ("/", "w"), ("a</", "w"), ("a</w", ">"))
    vocabulary = Vocabulary(merges=merges, tokens=tuple(map("".join, merges)))
    found = reach(vocabulary)
    assert found.texts["a</w>"] == "a"
    assert found.never == {}
    assert_texts_give_their_tokens(vocabulary, found)


def test_bytes_come_out_inside_characters() -> None:
    """A byte that begins or ends a character is found in a text; one that is in no UTF-8 is said to be in none."""
    tokens = ("Ã", "©", "À", "a", "©a", "Ã©", "âĤ", "Ĥ", "â")
    merges = (("©", "a"), ("Ã", "©"), ("â", "Ĥ"))
    vocabulary = Vocabulary(merges=merges, tokens=tokens, marker="none", pretokenizer="bytes")
    found = reach(vocabulary)
    assert (found.never, found.undecided) == ({"À": "pretokenizer"}, ())
    assert_texts_give_their_tokens(vocabulary, found)
