"""Laws of reach: text can produce exactly the tokens that brute force finds, and each text produces its token."""

from itertools import chain, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.golden import check
from support.merging_modes import vocabularies

from volt.encode.encoder import Encoder
from volt.encode.reachable import combine, complete_characters, find_characters, reach
from volt.text.normalizer import Normalizer
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
FEW = settings(max_examples=examples(10))
FEWER = settings(max_examples=3)


def length(token):
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
    distinct = list(dict.fromkeys(tokens))
    retained = draw(st.permutations(distinct))[: draw(st.integers(0, len(distinct)))]
    return Vocabulary(merges=tuple(merges), tokens=tuple(retained), **options)


def produced(vocabulary, rows):
    """Return the tokens of the vocabulary among pieces."""
    return {*chain.from_iterable(rows)} & {*vocabulary.tokens}


def assert_texts_give_their_tokens(vocabulary, result):
    rows = Encoder(vocabulary).encode_lines(result.texts.values())
    for token, pieces in zip(result.texts, rows, strict=True):
        assert token in pieces


def all_words(characters, longest):
    return ["".join(word) for n in range(longest) for word in product(characters, repeat=n + 1)]


def assert_reach_equals_brute_force(vocabulary, words):
    """Check that the tokens reached are those among the pieces of all words, and that merges prevent the others."""
    result = reach(vocabulary)
    assert set(result.texts) == produced(vocabulary, Encoder(vocabulary).encode_words(words))
    assert set(result.texts) | result.never.keys() == set(vocabulary.tokens)
    assert set(result.never.values()) <= {"merges"}
    assert not result.undecided
    assert_texts_give_their_tokens(vocabulary, result)


@FEW
@given(st.data(), st.sampled_from(["suffix", "prefix", "none"]))
def test_tokens_reached_are_those_of_brute_force(data, marker):
    """`reach` finds the tokens that all short words produce, and no others.

    The words have up to six letters, or five with "▁"; one letter is unknown.
    """
    vocabulary = data.draw(merged_vocabularies(MARKED[marker], marker=marker))
    is_prefixed = marker == "prefix"
    words = (
        all_words(f"ab▁{UNKNOWN}", LONGEST + 1)
        if is_prefixed
        else all_words(f"ab{UNKNOWN}", LONGEST + 2)
    )
    assert_reach_equals_brute_force(vocabulary, words)


@settings(max_examples=8)
@given(vocabularies(longest=4))
def test_tokens_reached_with_any_merging_are_those_of_brute_force(vocabulary):
    """For each way of merging, `reach` finds the tokens that short words and the tokens' own texts
    produce.
    """
    spelled = [token.removesuffix("</w>").removeprefix("▁") for token in vocabulary.tokens]
    words = [word for text in spelled if text for word in (text, f"x{text}", f"{text}x")]
    assert_reach_equals_brute_force(vocabulary, all_words("abcx", 5) + words)


@pytest.mark.parametrize("cut", CUT)
@FEWER
@given(st.data())
def test_tokens_reached_are_those_of_short_lines(cut, data):
    """With every pre-tokenizer and normaliser, short lines produce only tokens that `reach` found
    or left undecided.

    If none is undecided, they produce all tokens that `reach` found.
    """
    normalizer = data.draw(st.sampled_from(["none", "nfc", "lowercase"]))
    is_bytes = cut.startswith("bytes")
    marker = "none" if is_bytes else data.draw(st.sampled_from(["suffix", "none"]))
    atoms = CUT[cut] if is_bytes else [*CUT[cut], "A"]
    if marker == "suffix":
        atoms = [*atoms, *(f"{atom}</w>" for atom in CUT[cut])]
    options = {"marker": marker, "normalizer": normalizer, "pretokenizer": cut}
    vocabulary = data.draw(merged_vocabularies(atoms, longest=2, **options))
    result = reach(vocabulary)
    characters = dict.fromkeys([*"".join(CUT[cut]), *"Aé", *BESIDE, " "])
    lines = all_words("".join(characters), 4)
    tokens = produced(vocabulary, Encoder(vocabulary).encode_lines(lines))
    assert not tokens & result.never.keys()
    if not result.undecided and not is_bytes:
        assert set(result.texts) == tokens
    assert tokens <= set(result.texts) | set(result.undecided)
    assert_texts_give_their_tokens(vocabulary, result)


def test_reasons_are_distinguished():
    """`reach` names the merges, the normaliser, a user token or the pre-tokenizer as the reason for
    an unreached token.
    """
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
    assert found.undecided == ("<u>a",)  # "<U>" is in lower case only after user tokens were found
    assert "<u>a" in Encoder(lower).encode("<U>a")


def test_tokens_of_scaffolding_are_reached():
    """A token is reached if scaffolding is split back into it: "abcd" gives "abc", whose own
    characters merge otherwise.
    """
    merges = (("b", "c"), ("a", "b"), ("ab", "c"), ("abc", "d"), ("bc", "d"), ("a", "bcd"))
    vocabulary = Vocabulary(merges=merges, tokens=("a", "abc", "d"), marker="none")
    found = reach(vocabulary)
    assert (found.texts["abc"], found.never) == ("abcd", {})
    assert_texts_give_their_tokens(vocabulary, found)


def test_a_token_that_spells_the_end_of_words_is_reached_as_an_unknown_character():
    """If merges make the string "a</w>" of text, an unknown "a" at the end of a word is spelled like it."""
    merges = (("a", "<"), ("a<", "/"), ("/", "w"), ("a</", "w"), ("a</w", ">"))
    vocabulary = Vocabulary(merges=merges, tokens=tuple(map("".join, merges)))
    found = reach(vocabulary)
    assert found.texts["a</w>"] == "a"
    assert found.never == {}
    assert_texts_give_their_tokens(vocabulary, found)


def test_bytes_of_characters_are_reached():
    """`reach` finds a text for a byte that begins or ends a character, and none for a byte that
    UTF-8 never uses.
    """
    tokens = ("Ã", "©", "À", "a", "©a", "Ã©", "âĤ", "Ĥ", "â")
    merges = (("©", "a"), ("Ã", "©"), ("â", "Ĥ"))
    vocabulary = Vocabulary(merges=merges, tokens=tokens, marker="none", pretokenizer="bytes")
    found = reach(vocabulary)
    assert (found.never, found.undecided) == ({"À": "pretokenizer"}, ())
    assert_texts_give_their_tokens(vocabulary, found)


def test_whole_words_are_reached_unless_they_are_split():
    """A token that is only looked up as a whole word is reached, unless the pre-tokenizer splits
    it.
    """
    tokens = ("a", "b", "ab", "a b", "b!", "一", "一ab")
    found = reach(Vocabulary((), tokens, marker="none", pretokenizer="unicode", whole_words=True))
    assert set(found.texts) == {"a", "b", "ab", "一", "一ab"}
    assert found.never == {"a b": "pretokenizer", "b!": "pretokenizer"}
    for marker, token in (("suffix", "ab</w>"), ("prefix", "▁ab")):
        found = reach(Vocabulary((), ("ab", token), marker=marker, whole_words=True))
        assert (found.texts, found.never) == ({token: "ab"}, {"ab": "merges"})
    bytes_ = Vocabulary((), ("a", "Ã", "Ã©"), marker="none", pretokenizer="bytes", whole_words=True)
    assert (reach(bytes_).texts["Ã©"], reach(bytes_).never) == ("é", {})


def test_characters_around_bytes():
    """`find_characters` and `complete_characters` return golden texts that contain some bytes;
    `combine` at most 400.
    """
    parts = [
        (b"\xc3", True, False),
        (b"\xa9", False, True),
        (b"\xa9", False, False),
        (b"\xe4", True, False),
        (b"\xed", True, False),
        (b"\xf0\x9f", True, False),
        (b"\xb8\xad", False, True),
        (b"\x9f\x98", False, False),
        (b"\xf4", True, False),
        (b"\xc2\xa9", True, True),
    ]
    rows = {}
    for part, at_start, at_end in parts:
        key = ascii((part, int(at_start), int(at_end)))
        rows[key] = find_characters(part, at_start=at_start, at_end=at_end)
    for data in (b"\xc3", b"a\xc3", b"\xa9a", b"\xa9", b"\xa9a\xe4\xb8", b"\xff", b"ab"):
        rows[ascii(data)] = complete_characters(data)
    values = {key: ascii(f"{len(row)} {row[:3]} {row[-3:]}") for key, row in rows.items()}
    check("encode characters", values)
    assert combine([range(2), range(200)]) == list(product(range(2), range(200)))
    assert len(combine([range(401)])) == 400
    assert combine([range(3)], most=3) == [(0,), (1,), (2,)]


def test_a_token_of_a_unigram_model_is_reached_if_no_path_is_better():
    """`reach` finds a text for each token whose score is at least the sum of other tokens that
    spell it, also if the text's start or spaces are changed by the pre-tokenizer and normalizer."""
    tokens = ("▁", "l", "o", "w", "▁low", "ow", "lo")
    scores = (-3.0, -4.0, -4.0, -4.0, -2.0, -8.0, -8.5)
    normalizer = Normalizer.of_steps([["spaces"]])
    vocabulary = Vocabulary(
        (), tokens, scores=scores, marker="none", pretokenizer="metaspace", normalizer=normalizer
    )
    result = reach(vocabulary)
    assert result.never == {"lo": "scores"}
    assert result.undecided == ()
    encoder = Encoder(vocabulary)
    for token, text in result.texts.items():
        assert token in encoder.encode(text)
