"""Golden values of patterns, limits and private characters."""

import numpy as np
from support.golden import check
from support.limits import least, refused

from volt.text.byte_alphabet import readable
from volt.text.normalizer import Normalizer
from volt.text.patterns import automaton, regex_parser, regex_tree
from volt.text.patterns.automaton import determinize, is_linear
from volt.text.patterns.cut_tokens import cut_tokens, leaves_gaps, n_cut
from volt.text.patterns.published import NAMED, declared, name_of
from volt.text.patterns.regex_parser import parse, sets_of
from volt.text.patterns.split_points import find_split_points
from volt.text.patterns.splitter import Split, Splitter, cut_alike
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import (
    FIRST_HIDDEN,
    LAST_HIDDEN,
    LONGEST,
    MOST_USER,
    SpecialTokens,
    marked,
    stand_ins,
)
from volt.text.white_space import shorten_class

PATTERNS = (
    "a*b|a",
    r"[^ ]+| ",
    r"\w+|\s",
    r" ?\w+",
    r"[a-z]+$|[^ ]| ",
    r"a(?! )|.+",
    r"\s+|\S+\n*",
    r"\S+\n*|\s+(?!\S)|\s",
    r"\S+[\r\n]*| \S+|\s",
    "(?:ab)+|a",
    "a{1,20}b|a",
    r"\s*[\r\n]+|\s+(?!\S)|\s+|\S+",
    "a{2,3}+b|ab*+",
    r"[^\s\S]+",
    r"\S[\r\n]?|\s",
    r"(?i:[a-k]+)(?=[^k])|\s",
    " +[a-z]*|[a-z]+ ?|[^ a-z]",
    r"a\n*b|\S\n?|\s",
)
TOKENS = [
    "ab",
    "a b",
    "",
    " a",
    "a ",
    "ab1",
    "12",
    "1234",
    "\n\n",
    " \n a",
    "'s",
    "it's",
    "é",
    "!!",
    "!!\u0301",
]
PARTS = [
    b"\xa9a",
    b"a\xc3",
    b"1\xc3",
    b"\xa91",
    b"\xff",
    b"a\xff",
    b"\xa9",
    b"\xa9 1\xc3",
    b"\xa9\xe4\xb8",
]


def shape(*splits):
    """Return states, classes, laws, and split points, of all text and of matches alone."""
    splitter = Splitter.of(*splits)
    points = [find_split_points(splitter.tables)]
    if len(splits) == 1 and not splits[0].from_end:
        points.append(find_split_points(splitter.tables, matches_only=True))
    n_states = sum(len(one.moves) - 1 for one in splitter.automata)
    parts = [n_states, splitter.tables.end, splitter.is_linear, leaves_gaps(splits[0])]
    for point in points:
        parts.append(
            point
            and (
                point.break_mask,
                point.clinging_mask,
                bytes(point.class_effects + 48).decode(),
                point.words_stand_alone,
            )
        )
    return " ".join(map(str, parts))


def test_patterns_have_their_shapes():
    """Published patterns equal golden spellings; all patterns have golden automata and split
    points.
    """
    check("text patterns", {name: name_of(splits) for name, splits in NAMED.items()})
    check("text shapes", {name: shape(*splits) for name, splits in NAMED.items()})
    shapes = {one: f"{shape(Split(one))} < {shape(Split(one, from_end=True))}" for one in PATTERNS}
    check("text shapes of regexes", shapes)


def test_tokens_that_patterns_split():
    """`cut_tokens` returns golden tokens, some of which begin or end inside a character; `n_cut`
    counts them.
    """
    tokens = [*map(str.encode, TOKENS), *PARTS]
    patterns = (
        NAMED
        | {one: (Split(one),) for one in PATTERNS}
        | {f"{one} <": (Split(one, True),) for one in PATTERNS}
    )
    cut = {name: cut_tokens(tokens, splits) for name, splits in patterns.items()}
    check("text cut tokens", {name: " | ".join(map(ascii, result)) for name, result in cut.items()})
    assert n_cut(tokens, patterns) == {name: len(result) for name, result in cut.items()}
    assert [cut_alike(Split("a|b"), Split(other)) for other in ("[ab]", "a|c", "(?:b|a)")] == [
        True,
        False,
        True,
    ]


def test_each_limit_is_the_most_that_passes():
    """For each limit of patterns and special tokens, input at the limit is accepted, and one more
    is refused.
    """
    tree = parse("(?:a|b)*a(?:a|b){2}c")
    alphabet = regex_tree.Alphabet.of(sets_of(tree))
    one = determinize(tree, alphabet)
    found = [
        least(automaton, "MOST_STATES", lambda: determinize(tree, alphabet)),
        least(automaton, "MOST_INSTRUCTIONS", lambda: determinize(tree, alphabet)),
        least(automaton, "MOST_PAIRS", lambda: is_linear(one)),
        least(regex_tree, "MOST_CLASSES", lambda: regex_tree.Alphabet.of(sets_of(tree))),
        *(
            least(regex_parser, "DEEPEST", lambda text=text: parse(text))
            for text in ("((a)|(b))(c)", "[[a][b]]", "a")
        ),
        *(
            least(regex_parser, "MOST_TIMES", lambda text=text: parse(text))
            for text in ("a{3}", "a{2,3}", "a{3,}")
        ),
    ]
    check(
        "text limits",
        " ".join(map(str, [*found, regex_tree.MOST_CLASSES, automaton.MOST_PAIRS, LONGEST])),
    )
    user = tuple(f"<{number}>" for number in range(MOST_USER))
    special = SpecialTokens(user=user)
    hidden = special.hide_text("".join(user))
    assert len(set(hidden)) == len(hidden)
    assert [special.revealed(ord(char)) for char in hidden] == list(user)
    assert [
        special.revealed(FIRST_HIDDEN + place) for place in (-1, 0, MOST_USER - 1, MOST_USER)
    ] == [
        None,
        "<0>",
        user[-1],
        None,
    ]
    assert refused(lambda: SpecialTokens(user=(*user, "<u>"))).startswith(
        "16,382 user tokens, but the limit is 16,381"
    )
    assert not refused(lambda: SpecialTokens(user=("u" * LONGEST, "é"), control=("c",), unk="<>"))
    assert "more than 1,000" in refused(lambda: SpecialTokens(user=("u" * (LONGEST + 1),)))
    assert "'é' is one character" in refused(lambda: SpecialTokens(unk="é"))


def test_roles_may_be_shared_or_missing():
    """`has_four_roles` is True only if four tokens have roles and all other tokens are user tokens."""
    changes = (
        {},
        {"user": ("<u>", "<v>")},
        {"control": ("<c>",)},
        {"pad": None},
        {"eos": "<s>"},
        {"user": ("<s>",)},
        {"pad": None, "user": ("<u>",)},
    )
    assert [SpecialTokens(**change).has_four_roles for change in changes] == [
        True,
        True,
        False,
        False,
        False,
        False,
        False,
    ]


def test_placeholders_are_the_first_free_private_characters():
    """`stand_ins` takes unused characters from U+100000, then from U+F0000, and then U+FFFD."""
    first, last = chr(FIRST_HIDDEN), chr(LAST_HIDDEN)
    texts = [f"b{last}{first}\U00100000", "a", first]
    assert stand_ins(texts).of_text == {
        0: {FIRST_HIDDEN: 0x100001, LAST_HIDDEN: 0x100002},
        2: {FIRST_HIDDEN: 0x100000},
    }
    assert stand_ins(["a\U000f0000", "\U00100000"]).of_text == {}
    others = [*range(0x100000, FIRST_HIDDEN), *range(0xF0000, 0xFFFFE)]
    for missing in ((), (0x10BFFF, 0xF0000, 0xFFFFD)):
        text = "".join(map(chr, set(others) - set(missing))) + "".join(
            map(chr, range(FIRST_HIDDEN, FIRST_HIDDEN + 4))
        )
        assert list(stand_ins([text]).of_text[0].values()) == [
            *missing,
            *[0xFFFD] * (4 - len(missing)),
        ]
    places = stand_ins(texts)
    words = [[word] for word in places.put(texts)]
    mark = last
    assert places.restored(words) == [
        [f"b{mark}{last}{mark}{first}\U00100000"],
        ["a"],
        [mark + first],
    ]
    codes = np.array(list(map(ord, f"a{mark}{mark}{mark}b{mark}{first}")))
    assert marked(codes).tolist() == [1, 3, 5]


def properties():
    """Yield names of pre-tokenizers, and their declared properties."""
    for name in (
        "whitespace",
        "unicode",
        "gpt2",
        "bytes",
        "metaspace",
        "metaspace-runs",
        "metaspace-line",
        "metaspace-if-absent",
        "metaspace-line-if-absent",
        "metaspace-per-segment",
        "metaspace-runs-if-absent-per-segment",
        r"regex:\S+",
        "regex:(?s).",
        "split: ?a",
        "matches:a",
        "matches:a| ",
        "bytes+split:a",
        "bytes+matches:a",
        "bytes+matches: ",
        'splits:["a", "b"]',
    ):
        cut = PreTokenizer(name)
        flags = ("keeps_spaces", "is_bytes", "dummy_prefix", "isolates_users", "has_own_pattern")
        facts = [flag for flag in flags if getattr(cut, flag)] + ["cutter"] * (
            cut.cutter is not None
        )
        dummies = "".join(str(len(cut.dummy_places(text))) for text in ("", "a", " a", "▁a"))
        text = "it's  a\u2003b ▁12\U0010c000\U0010f001! b\U0010c000  c"
        words = ["·".join(cut.split(text, hidden=hidden)) for hidden in (True, False)]
        yield (
            name,
            ascii(
                [
                    len(cut.splits),
                    dummies,
                    *facts,
                    words[0],
                    words[1] if words[1] != words[0] else "alike",
                ]
            ),
        )


def test_pretokenizers_say_what_they_do():
    """The properties and words of each kind of pre-tokenizer equal golden values, with hidden user
    tokens or without.
    """
    check("text pretokenizers", dict(properties()))
    names = {
        (pattern, level): declared(pattern, is_bytes=level == "bytes")
        for pattern in ("gpt2", "digits", "a+", ".", "-", "...")
        for level in ("characters", "bytes")
    }
    for (pattern, level), name in names.items():
        assert PreTokenizer.of_pattern(pattern, level=level).name == name
        assert level == "bytes" or PreTokenizer.of_pattern(pattern).name == name
    for pattern, hint in (
        ("CL100", "did you mean cl100k? The"),
        ("gpt4", "did you mean gpt2"),
        ("xyz", "choose from"),
    ):
        assert hint in refused(lambda pattern=pattern: declared(pattern))


def test_small_tables():
    """`readable`, `shorten_class` and `Normalizer.name` return the expected texts."""
    assert (readable("ĠÃ©Ċ"), readable("Ãÿ"), readable("中")) == (" é\n", "<0xC3><0xFF>", "中")
    assert [shorten_class(text) for text in ("", "a", "ab", "abc", "abcdx", "ac")] == [
        "",
        "a",
        "ab",
        "a-c",
        "a-dx",
        "ac",
    ]
    names = [
        Normalizer(form, lower).name for form in ("none", "nfc", "nfkc") for lower in (False, True)
    ]
    assert names == ["none", "lowercase", "nfc", "nfc+lowercase", "nfkc", "nfkc+lowercase"]
    forms = {name: Normalizer.parse(name.upper()).normalize("ＶE\u0301½ΑΣ İ") for name in names}
    check("text normal forms", {name: ascii(text) for name, text in forms.items()})
