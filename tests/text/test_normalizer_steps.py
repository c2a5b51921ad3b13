"""Laws of the steps of other libraries' normalizers: they do what the libraries do."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.errors import ConfigError, VocabularyError
from volt.text.charsmap import build_rules, line_replacement
from volt.text.normalizer import Normalizer
from volt.text.normalizer_steps import pack_table

# Letters, marks, Hangul, wide and narrow forms, control characters, and all kinds of spaces
CHARACTERS = (
    "abcABC 09.,<>éßſŠＡｂﬁ½㎏ﷺ\u0300\u0301\u0327\u0345\u05b4\u064b\u0e33ᄀ\u1161\u11a8가각ㄱﾡｶﾞ\u3099は"
    "\t\r\x00\x01\x1f\x7f\x85\x9f\xa0\u1680\u2003\u200b\u200c\u200d\u2028\u202f\u3000\ufeff\ufffd▁"
    "иЙё\u0306ςΣσİ中ا\u0653क़\u093c\u094d😀🇩🇪©ⅷÅẛ\u0600\U0002f800"
)
TEXTS = st.text(st.sampled_from(CHARACTERS), max_size=12)
LINES = st.lists(TEXTS, min_size=1, max_size=4)
RULES = {"a": "b", "ab": "  x  ", "abc": " ", "c": "", "é": "e\u0301 ", "e\u0301": "É", "  ": " "}
RULES |= {"中": "ab  c", "<\u0301": "▁ ", "\r\n": "\n", "bcbc": "▁▁", " \u0301": "+"}
PROTECTED = ["a", "Ａ", "ab▁", "e\u0301", "\t", "<>", "\u0301", "  b", "BB"]
BUILT_IN = ["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"]


def table_of(name):
    """Return a table of sentencepiece, or one of our own."""
    library = pytest.importorskip("sentencepiece")
    pytest.importorskip("google.protobuf")
    from volt.formats.sentencepiece.charsmap import model_class, pack

    if name == "own":
        return pack(RULES)
    model = library.SentencePieceNormalizer(rule_name=name).serialized_model_proto()
    return model_class().FromString(model).normalizer_spec.precompiled_charsmap


def sentencepiece_of(table, *, folds, protected):
    """Return a model of sentencepiece that normalises by a table."""
    from volt.formats.sentencepiece.charsmap import load_library, model_class

    model = model_class()()
    pieces = [("<unk>", 2), ("<s>", 3), ("</s>", 3), ("q", 1), *((text, 4) for text in protected)]
    for text, kind in pieces:
        piece = model.pieces.add()
        piece.piece = text
        piece.type = kind
    model.normalizer_spec.precompiled_charsmap = table
    model.normalizer_spec.add_dummy_prefix = False
    model.normalizer_spec.remove_extra_whitespaces = folds
    return load_library().SentencePieceProcessor(model_proto=model.SerializeToString())


@pytest.mark.parametrize("folds", [True, False])
@pytest.mark.parametrize("protected", [[], PROTECTED])
@pytest.mark.parametrize("name", [*BUILT_IN, "own"])
def test_a_charsmap_normalises_as_sentencepiece_does(name, protected, folds):
    """The steps charsmap and spaces give sentencepiece's text, whatever the line and its
    neighbours."""
    table = table_of(name)
    library = sentencepiece_of(table, folds=folds, protected=protected)
    rows = [["charsmap", pack_table(table), "longest", protected]]
    normalizer = Normalizer.of_steps(rows + [["spaces"]] * folds)

    @given(LINES)
    @settings(max_examples=examples(400))
    @example(["<\u0301", "B\u0307"])  # a protected string starts with the letter
    def check(lines):
        expected = [library.normalize(line).replace("▁", " ") for line in lines]
        data = "".join(f"{line}\n" for line in lines).encode()
        result = normalizer.normalize_lines(data, ord("\n")).decode().replace("▁", " ")
        assert result == "".join(f"{line}\n" for line in expected)
        series = normalizer.apply_series(pl.Series([*lines, None]))
        assert [line.replace("▁", " ") for line in series[:-1]] == expected
        assert series[-1] is None

    check()


EXAMPLES = [
    ["spaces"],
    ["replace", "a{2,}|$1", "$1\\", "regex"],
    ["replace", "a{2,}", "$1", "literal"],
    ["strip", True, False],
    ["nfd"],
    ["lowercase"],
    ["accents"],
    ["nmt"],
    ["prepend", "▁$"],
]


def test_the_name_of_steps_is_read_again():
    """`parse` reads the name of steps; the result is equal, has the same hash, and prints the names
    of its steps."""
    rows = [["charsmap", pack_table(b""), "graphemes"], *EXAMPLES]
    normalizer = Normalizer.of_steps(rows)
    assert json.loads(normalizer.name.removeprefix("steps:")) == rows
    assert Normalizer.parse(normalizer.name) == normalizer
    assert hash(Normalizer.parse(normalizer.name)) == hash(normalizer)
    assert normalizer != Normalizer.of_steps(EXAMPLES)
    names = "charsmap+spaces+replace+replace+strip+nfd+lowercase+accents+nmt+prepend"
    assert (normalizer.label, repr(normalizer)) == (names, f"<Normalizer: {names}>")


@pytest.mark.parametrize("steps", [[row] for row in EXAMPLES] + [EXAMPLES])
@given(LINES)
@settings(max_examples=examples(30))
def test_lines_and_series_are_normalised_alike(steps, lines):
    """`normalize_lines` does with each line what `normalize` does with a text."""
    normalizer = Normalizer.of_steps(steps)
    data = b"".join(line.encode() + b"\xff" for line in lines)
    result = normalizer.normalize_lines(data, 0xFF)
    assert result.decode(errors="surrogateescape").split("\udcff")[:-1] == [
        normalizer.normalize(line) for line in lines
    ]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("", "the steps of the normalizer are"),
        ("{}", "the steps of the normalizer are '{}'; give a list, such as"),
        ("[]", "the steps of the normalizer are '\\[\\]'; give"),
        ("[" * 100_000, "the steps of the normalizer are"),
        ('["nfc"]', "first word of step 1 of the normalizer"),
        ('[["nfc"], ["nfq"]]', "first word of step 2 of the normalizer"),
        ('[["nfc", 1]]', 'step 1 of the normalizer is \\["nfc", 1\\]; give a list such as'),
        ('[["strip", 1, true]]', "step 1 of the normalizer"),
        ('[["replace", "a", "b"]]', "step 1 of the normalizer"),
        ('[["replace", "a", "b", "glob"]]', "literal"),
        ('[["replace", "", "b", "literal"]]', "empty"),
        ('[["replace", "(", "b", "regex"]]', "invalid regex '\\('"),
        ('[["charsmap", "", "shortest"]]', "longest"),
        (f'[["charsmap", "{pack_table(b"")}", "longest", [1]]]', "protected string"),
        (f'[["charsmap", "{pack_table(b"")}", "longest", [""]]]', "empty"),
    ],
)
def test_invalid_steps_are_refused(steps, message):
    """A step that is unknown, or has other arguments than its own, is an error that says which."""
    with pytest.raises(ConfigError, match=message):
        Normalizer.parse(f"steps:{steps}")


@pytest.mark.parametrize("table", ["", "a", "é", "a,b", pack_table(b"\1"), pack_table(bytes(99))])
def test_a_damaged_table_is_refused(table):
    """Text that is not base 85, not compressed, or not a table of replacements is an error."""
    with pytest.raises(VocabularyError, match="table of replacements is damaged"):
        Normalizer.of_steps([["charsmap", table, "longest"]])


def test_a_line_end_that_a_step_writes_is_an_error():
    """`normalize_lines` refuses to turn one line into two."""
    normalizer = Normalizer.of_steps([["replace", "a", "\n", "literal"]])
    assert normalizer.normalize_lines(b"bab\xff", 0xFF) == b"b\nb\xff"
    with pytest.raises(VocabularyError, match="the normalizer replace writes line ends into lines"):
        normalizer.normalize_lines(b"bab\n", 10)


def test_a_beginning_without_an_end_replaces_nothing():
    """In a damaged table, a node may have no children. The text that leads there stays as it is."""
    units = np.zeros(1024, "<u4")
    units[0] = 256 << 10  # the root's children start at unit 256
    units[256 ^ ord("a")] = ord("a")
    rules = build_rules(units.nbytes.to_bytes(4, "little") + units.tobytes() + b"b\0")
    assert line_replacement(rules, 10)(b"aab\n", False)[0] == b"aab\n"


@given(st.binary(max_size=2000), st.data())
@settings(max_examples=examples(300))
def test_a_loop_stays_inside_a_damaged_table(content, data):
    """A table that passes the checks is safe: whatever its units are, and whatever the text is,
    lines stay lines."""
    from volt.text.charsmap import check_charsmap

    units = bytearray(1024 * 4)
    for _ in range(data.draw(st.integers(0, 40))):
        place = data.draw(st.integers(0, 1023))
        units[4 * place : 4 * place + 4] = data.draw(st.binary(min_size=4, max_size=4))
    table = len(units).to_bytes(4, "little") + bytes(units) + b"ab\0c\0"
    try:
        check_charsmap(table)
    except VocabularyError:
        return
    for takes_longest in (True, False):
        rules = build_rules(table, takes_longest=takes_longest)
        lines = content.replace(b"\n", b"") + b"\n"
        normal, sources = line_replacement(rules, 10)(lines, True)
        assert normal.count(b"\n") >= 1
        assert len(sources) == len(normal)
        assert not len(sources) or 0 <= sources.min() <= sources.max() < len(lines)


def tokenizers_of(row):
    """Return the normalizer of tokenizers that does what a step does."""
    library = pytest.importorskip("tokenizers")
    name, *options = row
    if name == "replace" and options[2] == "regex":
        options[0] = library.Regex(options[0])
    names = {"replace": "Replace", "strip": "Strip", "nfd": "NFD", "lowercase": "Lowercase"}
    names |= {"accents": "StripAccents", "nmt": "Nmt", "prepend": "Prepend"}
    return getattr(library.normalizers, names[name])(*options[:2])


@pytest.mark.parametrize("row", EXAMPLES[1:], ids=lambda row: row[0])
@given(text=TEXTS)
@settings(max_examples=examples(200))
def test_a_step_does_what_tokenizers_does(row, text):
    """Steps give the text of the library's normalizers."""
    if "|" not in str(row):  # the engines differ in empty matches
        assert Normalizer.of_steps([row]).normalize(text) == tokenizers_of(row).normalize_str(text)


@pytest.mark.parametrize("name", ["nmt_nfkc", "nmt_nfkc_cf", "own"])
def test_a_charsmap_of_graphemes_normalises_as_tokenizers_does(name):
    """A charsmap replaces clusters as the library's Precompiled does, alone and between lines."""
    library = pytest.importorskip("tokenizers")
    table = table_of(name)
    precompiled = library.normalizers.Precompiled(table)
    normalizer = Normalizer.of_steps([["charsmap", pack_table(table), "graphemes"]])

    @given(LINES)
    @settings(max_examples=examples(400))
    def check(lines):
        expected = "".join(f"{precompiled.normalize_str(line)}\0" for line in lines)
        data = b"".join(line.encode() + b"\xff" for line in lines)
        assert normalizer.normalize_lines(data, 0xFF).replace(b"\xff", b"\0") == expected.encode()

    check()
