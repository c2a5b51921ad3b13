"""The supported syntax of patterns, what classes contain, and how other syntax is refused."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.errors import ConfigError
from volt.text.patterns import Split, Splitter
from volt.text.patterns.regex_parser import (
    PatternReader,
    parse,
    parse_character,
    parse_class,
    sets_of,
)
from volt.text.patterns.regex_tree import Alphabet, CharacterSet, find_matched_set

SOME = [0, 1, 96, 97, 98, 99, 100, 122, 0xD7FF, 0xE000, 0x3400, 0x4DB5, 0x10FFFE, 0x10FFFF]
sets = st.lists(
    st.tuples(st.sampled_from(SOME), st.sampled_from(SOME)).map(sorted), max_size=4
).map(lambda bounds: {code for low, high in bounds for code in SOME if low <= code <= high})
CLASSES = {
    "[a-c]": "abc",
    r"[^\x00-ac-\x{10FFFF}]": "b",
    "[]a]": "]a",
    "[^]a]": None,
    "[a-]": "a-",
    "[-a]": "-a",
    r"[\]\-\[^]": "]-[^",
    r"\n": "\n",
    r"\u4E00": "一",
    r"\x{1F642}": "🙂",
    r"\U0001F642": "🙂",
    r"\.": ".",
    "[a-d&&[^b]]": "acd",
    "[a-c&&b-d]": "bc",
    "[^a&&b]": None,
    "[[a-b]d]": "abd",
    "[&a]": "&a",
    r"\t": "\t",
}
REFUSED = {  # the fault → patterns with it, and the character at which it is found
    r"'\+\?' is a lazy quantifier": {"a+?": 2},
    "a back-reference": {r"(a)\1": 4},
    "look-behind": {"(?<=a)b": 1, "(?<!a)b": 1},
    "looks ahead at more than one character": {r"a(?!bc)": 2, r"a(?=b+)": 2},
    "an atomic group": {"(?>a)": 1},
    "a possessive quantifier after more than one character": {"(?:ab)++": 7},
    "a flag other": {"(?m)a": 1},
    "a named group": {"(?P<x>a)": 1, "(?<x>a)": 1},
    "a comment": {"(?#x)a": 1},
    "a verb of backtracking": {"(*SKIP)a": 1},
    "an anchor at a start": {"^a": 1, r"\Aa": 1},
    "a word boundary": {r"a\b": 2},
    "last line end": {r"a\Z": 2},
    "few engines know": {r"\Xa": 1},
    r"\\h has no meaning here": {r"\ha": 1},
    "repeats what may be empty": {"(?:a*)*": 7, "(?:a|b?){2}": 9, "(?!a)*b": 6},
    "a quantifier of a quantifier": {"a**": 3},
    "a quantifier after nothing": {"*a": 1, "a|+": 3},
    "is not a supported number of repetitions": {"a{2,1}": 2, "a{0}": 2, "a{1,1001}": 2},
    "begins no quantifier": {"a{x}": 2},
    r"has no \)": {"(a": 1},
    r"closes no group": {"a)": 2},
    "this class has no end": {"[a": 1, "[]": 1},
    "ends too early": {"a\\": 3},
    "not a range": {"[z-a]": 2, r"[a-\s]": 2},
    "engines read differently": {"[a--b]": 3, "[a~~b]": 3, "[[:alpha:]]": 2},
    "'Klingon' is not a known property": {r"\p{Klingon}": 1},
    "no property after": {r"\p": 1},
    r"U\+D800 is not a character": {r"\uD800": 1},
    "more than 50 groups": {"(" * 60 + "a" + ")" * 60: 52},
    "more than 50 classes": {"[" * 60: 52},
}
TOO_LARGE = {
    "(?:a{900}){900}": "more than 5,000 parts",
    "(?:a|b)*a(?:a|b){14}c|" + "a" * 3: "more than 2,000 states",
    "|".join(
        chr(0x4E00 + i) for i in range(300)
    ): "more classes of characters|300 classes of characters|301 classes",
    "a*": "could match the empty text",
    "a|": "could match the empty text",
    r"(?!\S)": "could match the empty text",
}


def as_set(codes):
    """Return the union of sets of one character."""
    found = CharacterSet()
    for code in codes:
        found |= CharacterSet.of(chr(code))
    return found


@settings(max_examples=examples(40))
@given(one=sets, other=sets)
def test_sets_behave_like_sets_of_python(one, other):
    """Union, intersection and complement of `CharacterSet` agree with sets of Python."""
    a = as_set(one)
    b = as_set(other)
    for found, expected in (
        (a | b, one | other),
        (a & b, one & other),
        (~a, set(SOME) - one),
        (~~a, one),
    ):
        assert {code for code in SOME if found.holds(code)} == expected
    assert (a == b) == (one == other)


@pytest.mark.parametrize(
    "name", [r"\p{Lo}", r"\s", r"\p{N}", r"\p{Cn}", r"\p{Han}", r"\p{Co}", r"\p{Age=6.0}", r"\w"]
)
def test_properties_match_the_engine(name):
    """`find_matched_set` agrees with the engine on every 13th character, and around each plane."""
    codes = [
        *range(0, 0x110000, 13),
        *(code + i for code in range(0, 0x110000, 0x10000) for i in (0, 1, 0xFFFD, 0xFFFE)),
    ]
    codes = [code for code in codes if not 0xD800 <= code < 0xE000]
    found = find_matched_set(name).holds(pl.Series(codes).to_numpy())
    assert found.tolist() == pl.Series(map(chr, codes)).str.contains(f"^(?s:{name})$").to_list()


@pytest.mark.parametrize("written", CLASSES)
def test_classes_contain_their_characters(written):
    """`parse_class` and `parse_character` return the expected characters and no others."""
    cursor = PatternReader(written)
    expected = CLASSES[written]
    found = parse_class(cursor) if written.startswith("[") else parse_character(cursor)
    assert cursor.is_at_end
    if expected is None:
        expected = "".join(chr(code) for code in range(256) if chr(code) not in "]a")
        found &= CharacterSet.between("\x00", "\xff")
        if "&&" in written:
            expected = "".join(map(chr, range(256)))
    assert found == as_set(set(map(ord, expected)))


ALIKE = [  # spellings of one class
    [
        r"\p{L}",
        r"\pL",
        r"\p{Letter}",
        r"\P{^L}",
        r"[\p{L}]",
        r"[^\P{L}]",
        r"[^\p{^L}]",
        r"[\p{L}&&\p{L}]",
    ],
    [r"\P{L}", r"\PL", r"\p{^L}", r"[^\p{L}]", r"[\P{L}]", r"[\p{^L}]", r"[^\P{^L}]"],
    [r"\p{Lu}", r"\P{^Lu}", r"[\p{L}&&\p{Lu}]", r"[\p{Lu}&&[^\P{L}]]"],
    [r"\S", r"[^\s]", r"[\S]", r"[\S&&[^\s]]"],
    [
        "é",
        r"\xe9",
        r"\xE9",
        r"\x{E9}",
        r"\x{000000E9}",
        r"\u00e9",
        r"\u{E9}",
        r"\U000000E9",
        r"\U{e9}",
        "[é-é]",
    ],
    ["\n", r"\n", r"\x0a", r"[\n]", r"\u{A}"],
]


@pytest.mark.parametrize("spellings", ALIKE, ids=[spellings[0].strip() for spellings in ALIKE])
def test_spellings_of_one_class_are_one_set(spellings):
    """Spellings of one class give equal sets, which equal those of the module `regex`."""
    module = pytest.importorskip("regex")
    read = [
        sets_of(parse(f"{sign}{written})"))[0] for written in spellings for sign in ("(?:", "(?i:")
    ]
    assert set(read[::2]) == {read[0]}
    assert set(read[1::2]) == {read[1]}
    for character in "aAéÉ1² \n\x1c_-中😀\u0301\U0010ffff":
        for sign, found in zip(("", "(?i)"), read, strict=False):
            assert found.holds(ord(character)) == bool(
                module.fullmatch(sign + spellings[0], character, module.V1)
            ), character


def test_case_is_ignored_inside_its_group_only():
    """Inside (?i:…) only, a class is case-folded, before it is negated."""
    splitter = Splitter.of(Split("x(?i:[a-c]|[^k\\P{L}]|é)x"))
    matches = ["xAx", "xÉx", "xZx"]
    for text in [*matches, "xKx", "x\u212ax", "XaX"]:
        assert (splitter.split(text + "!") == [text, "!"]) == (text in matches)


@settings(max_examples=examples(40))
@given(one=sets, other=sets)
def test_an_alphabet_tells_its_sets_apart_and_nothing_more(one, other):
    """Characters have one class if and only if they are in the same sets; a set is the mask of its classes."""
    alphabet = Alphabet.of([as_set(one), as_set(other)])
    assert alphabet.n_classes == len(
        {(code in one, code in other) for code in SOME + [code + 1 for code in SOME[:-1]]}
    )
    names = pl.arange(alphabet.n_classes, dtype=pl.UInt8, eager=True).to_numpy()
    table = alphabet.table(names)
    for codes in (one, other):
        columns = alphabet.columns(as_set(codes))
        assert {code for code in SOME if columns >> int(table[code]) & 1} == codes


@pytest.mark.parametrize("fault", REFUSED)
def test_unsupported_syntax_is_refused(fault):
    """`parse` refuses unsupported syntax with the pattern, the place, the fault and the remedy."""
    for pattern, place in REFUSED[fault].items():
        with pytest.raises(ConfigError, match=f"^pattern '.*, character {place}: .*{fault}.*; "):
            Splitter.of(Split(pattern))


@pytest.mark.parametrize("pattern", TOO_LARGE, ids=range(len(TOO_LARGE)))
def test_unusable_patterns_are_refused(pattern):
    """Patterns that are too large, or that could match the empty text, are refused."""
    with pytest.raises(ConfigError, match=TOO_LARGE[pattern]):
        Splitter.of(Split(pattern))
