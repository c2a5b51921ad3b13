"""Laws of vocabulary files: load undoes save; damaged, foreign and hostile files are refused in a
short message.
"""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.vocabularies import vocabularies

from volt.encode.encoder import Encoder
from volt.errors import ConfigError, OutputError, VocabularyError, VoltError
from volt.text.special_tokens import LONGEST, MOST_USER, SpecialTokens
from volt.vocabulary import Vocabulary
from volt.vocabulary.file_format import dump

FEW = settings(max_examples=examples(80))
TOKENS = ("l", "o", "w</w>", "e", "r</w>", "é", '"', "\\", "\u2028", "low</w>", "er</w>")
SMALL = Vocabulary(
    merges=(("l", "o"), ("lo", "w</w>"), ("e", "r</w>")),
    tokens=TOKENS,
    counts=(9, 8, 7, 6, 5, 4, 3, 2, 1, 1, 0),
    special=SpecialTokens(user=("<url>", "<é>")),
    provenance={"signature": "volt|…", "size": 11, "converged": True},
)
# lines of its file
TOKEN = '["é", 4],'
MERGE = '["lo", "w</w>"],'


def assert_refused(path, *parts):
    """Check that the error of loading a file contains these parts."""
    with pytest.raises(VocabularyError) as caught:
        Vocabulary.load(path)
    for part in parts:
        assert part in str(caught.value)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "small.volt"
    SMALL.save(path)
    return path


def without_fingerprint(text):
    return [line for line in text.split("\n") if "fingerprint" not in line]


def edited(path, old, new):
    """Replace a line of a file, remove the fingerprint, and return the number of the line."""
    lines = without_fingerprint(path.read_text(encoding="utf-8"))
    number = lines.index(old)
    lines[number] = new
    path.write_text("\n".join(lines), encoding="utf-8")
    return number + 1


@given(vocabularies())
@FEW
def test_load_undoes_save(tmp_path_factory, vocabulary):
    """A loaded vocabulary equals the saved one, with provenance and fingerprint, and is saved to
    the same bytes: UTF-8 with the version first and a line end last.
    """
    folder = tmp_path_factory.mktemp("v")
    vocabulary.save(folder / "a.volt")
    loaded = Vocabulary.load(folder / "a.volt")
    loaded.save(str(folder / "b.volt"))
    content = (folder / "a.volt").read_bytes()
    assert loaded == vocabulary
    for name in ("provenance", "fingerprint", "ids"):
        assert getattr(loaded, name) == getattr(vocabulary, name)
    assert content == (folder / "b.volt").read_bytes()
    assert content.startswith(b'{"volt": 1,\n' if vocabulary.is_plain else b'{"volt": 2,\n')
    assert content.endswith(b"\n")
    json.loads(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "an empty file"),
        (b" \n\n", "an empty file"),
        (b"#version: 0.2\nt h\n", "subword-nmt codes"),
        (b'{"version": "1.0", "model": {"type": "BPE"}}', "JSON of another program"),
        (b"<unk>\t0\n<s>\t0\n", "sentencepiece .vocab"),
        (b"the 123\nof 45\n", "not a VOLT vocabulary"),
        (b"[1, 2]", "not a VOLT vocabulary"),
        (b"\x0a\x0e\x0a\x05<unk>\xff\xfe", "not UTF-8"),
        (b"ok\nok\n\xff", ":3: not UTF-8"),
        (b"\x1f\x8b\x08\x00", "truncated after line 0"),
        (b'{"volt": 1', "damaged or cut short"),
        (b'{"volt": 1}', "is missing"),
        (b'{"volt"}', "damaged"),
        (b'{"volt": 1} trailing', "damaged"),
        (b'{"volt": 4}', "newer VOLT"),
        (b'{"volt": 2}', "is missing"),
        (b'{"volt": 0}', "version"),
        (b'{"volt": "1"}', "version"),
        (b'{"volt": null}', "version"),
    ],
)
def test_foreign_and_damaged_files_are_refused(tmp_path, content, message):
    """The error for a file that is not a VOLT vocabulary names the file, and says what it looks
    like.
    """
    path = tmp_path / "some.volt"
    path.write_bytes(content)
    assert_refused(path, str(path), message)


def test_missing_files_and_folders_are_refused(tmp_path):
    """The error for a path that cannot be read names the path."""
    for path in (tmp_path / "none.volt", tmp_path, tmp_path / "none" / "a.volt"):
        assert_refused(path, str(path), "cannot be read")


def test_a_file_that_is_cut_short_is_refused(saved):
    """Wherever a file is cut, loading it raises an error that names it."""
    content = saved.read_bytes()
    for length in [*range(0, len(content) - 2, 50), *range(len(content) - 20, len(content) - 2)]:
        saved.write_bytes(content[:length])
        assert_refused(saved, str(saved))


@given(st.data())
@settings(max_examples=examples(150))
def test_a_damaged_byte_is_refused_or_harmless(tmp_path_factory, data):
    """If any byte of a file changes, loading it raises an error, or returns the saved vocabulary
    except for its provenance.
    """
    path = tmp_path_factory.getbasetemp() / "damaged.volt"
    SMALL.save(path)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        loaded = Vocabulary.load(path)
    except VocabularyError:
        return
    assert loaded == SMALL or b'"fingerprint"' not in content


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (TOKEN, '["l", 4],', "repeats"),
        (TOKEN, '["xyz", 4],', "no merge makes 'xyz'"),
        (TOKEN, '["<s>", 4],', "special token"),
        (TOKEN, '["é", -4],', "-4"),
        (TOKEN, '["é", 4.5],', "4.5"),
        (TOKEN, '["é" 4],', "damaged"),
        *((TOKEN, f"{row},", "instead of") for row in ('["é", "4"]', '["é", true]', '["é"]')),
        *((TOKEN, f"{row},", "instead of") for row in ('["é", 4, 4]', '["", 4]', "[null, 4]")),
        *((TOKEN, f"{row},", "instead of") for row in ('"é"', "7")),
        (MERGE, '["xy", "w</w>"],', "'xy' is neither"),
        *((MERGE, f"{row},", "instead of") for row in ('["lo", ""]', '["lo", 1]', '["lo"]')),
        *((MERGE, f"{row},", "instead of") for row in ('["l", "o", "w</w>"]', '"lo w</w>"')),
    ],
)
def test_a_damaged_line_is_refused(saved, old, new, message):
    """The error for a damaged token or merge names the file and the line."""
    number = edited(saved, old, new)
    assert_refused(saved, f"{saved}:{number}: ", message)


ROLES = {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>", "user": []}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("marker", value) for value in ("infix", 1)),
        *(("normalizer", value) for value in ("nfd", None)),
        *(("pretokenizer", value) for value in ("regex:(", "word")),
        *(("byte_fallback", value) for value in ("yes", 1)),
        ("provenance", []),
        *(("tokens", value) for value in ({}, None)),
        ("merges", "ab"),
        *(("special", value) for value in ([], {})),
        *(("special", ROLES | {"user": value}) for value in ("x", [7], [["a"]], ["a\0b"])),
        *(("special", ROLES | {"unk": value}) for value in (5, None)),
        ("special", ROLES | {"pad": "<s>"}),
    ],
)
def test_a_damaged_setting_is_refused(saved, name, value):
    """The error for a setting that is missing, or has a wrong type or value, names the file."""
    data = json.loads(saved.read_text(encoding="utf-8"))
    del data["fingerprint"]
    assert_refused(written(saved, {**data, name: value}), str(saved))
    del data[name]
    assert_refused(written(saved, data), str(saved), name)


def written(path, data):
    path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    return path


def test_an_edited_file_is_refused_until_its_fingerprint_is_deleted(saved):
    """An edited file is refused because of its fingerprint. Without the line of the fingerprint,
    its content is loaded.
    """
    text = saved.read_text(encoding="utf-8").replace('["e", 6]', '["e", 5]')
    saved.write_text(text, encoding="utf-8")
    assert_refused(saved, f"{saved}:2: ", "fingerprint", "edited")
    saved.write_text("\n".join(without_fingerprint(text)), encoding="utf-8")
    assert Vocabulary.load(saved).counts[3] == 5


def test_layout_does_not_matter(saved):
    """A file with Windows line ends, on one line, or with indents loads to an equal vocabulary."""
    text = saved.read_text(encoding="utf-8")
    data = json.loads(text)
    indented = json.dumps(data, ensure_ascii=True, indent=1).replace("{\n ", "{", 1)
    for layout in (text.replace("\n", "\r\n"), json.dumps(data, ensure_ascii=False), indented):
        saved.write_bytes(layout.encode())
        assert Vocabulary.load(saved) == SMALL


def test_lone_surrogates_are_refused_or_harmless(saved):
    """A token with a lone surrogate is refused, or the vocabulary can be saved and loaded."""
    edited(saved, TOKEN, '["\\ud800", 4],')
    try:
        loaded = Vocabulary.load(saved)
        loaded.save(saved)
    except VoltError:
        return
    assert Vocabulary.load(saved) == loaded


def test_saving_is_atomic(saved, tmp_path):
    """If saving fails, the old file is intact, and there is no other file."""
    before = saved.read_bytes()
    with pytest.raises(VocabularyError, match="'no JSON'"):
        Vocabulary((), (), provenance={"no JSON": object()}).save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [saved.name]


def test_paths_that_cannot_be_written_are_refused(saved):
    """The error for a path below a file, or in a missing folder, names the path."""
    for path in (saved / "a.volt", saved.parent / "none" / "a.volt"):
        with pytest.raises(OutputError) as caught:
            SMALL.save(path)
        assert str(path) in str(caught.value)


DEEP = []
for _ in range(5_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("provenance", "message"),
    [
        ({"a": {1}}, "provenance['a'] is a set"),
        ({"a": [np.int64(3)]}, "provenance['a'][0] is 3 (int64)"),
        ({"a": {"b": Path("x")}}, "provenance['a']['b'] is a "),
        ({(1, 2): 2}, "a key of provenance is a tuple; give texts as keys"),
        ({1: 2, "1": 3}, "a key of provenance is 1 (int)"),
        ({"a": float("nan")}, "provenance['a'] is nan, which is not a number in JSON"),
        ({"a": 10**5_000}, "provenance['a'] has more than 1,024 bits"),
        ({"a": DEEP}, "nests more than 100 lists"),
        ({"a": "\ud800"}, "the provenance contains a lone surrogate"),
    ],
)
def test_provenance_that_is_not_json_is_refused(provenance, message, tmp_path):
    """The error for a provenance that JSON cannot store names the value, and no file is written."""
    with pytest.raises(VocabularyError) as caught:
        Vocabulary(merges=(), tokens=("a",), provenance=provenance).save(tmp_path / "a.volt")
    assert message in str(caught.value)
    assert not list(tmp_path.iterdir())


# ---- hostile files


def text_of(tokens=(("a",),), merges=(), user=(), **head):
    """Return the text of a vocabulary file with these parts, without a fingerprint."""
    settings = {
        "marker": "suffix",
        "normalizer": "none",
        "pretokenizer": "whitespace",
        "special": ROLES | {"user": list(user)},
        "byte_fallback": False,
        "provenance": {},
    }
    return dump(settings | head, tokens=tokens, merges=merges)


DOUBLED = [("a" * 2**i, "a" * 2 ** (i + 1)) for i in range(12)]
LONG = "x" * 1_000_000
HOSTILE = {
    "a long token": (
        text_of([("a",), (LONG,)]),
        r":\d+: no merge makes 'x+'… \(1,000,000 characters\); ",
    ),
    "a long part": (
        text_of(merges=[(LONG, "a")]),
        r":\d+: 'x+'….* is neither a character nor made by an earlier merge",
    ),
    "a long row": (
        text_of([[LONG, "z"]]),
        r":\d+: found \[\"x+… \(1,000,009 characters\) instead of \[str, int\]",
    ),
    "escapes": (
        text_of([("a",), ("\x1b]0;x\x07\u202e",)]),
        r"no merge makes '\\x1b\]0;x\\x07\\u202e'",
    ),
    "a long special token": (
        text_of(user=["u" * 1_001]),
        r"'u{60}'… \(1,001 characters\) has more than 1,000",
    ),
    "many special tokens": (
        text_of(user=[f"<{i}>" for i in range(MOST_USER + 1)]),
        "16,382 user tokens, but the limit is 16,381",
    ),
    "an unknown normaliser": (text_of(normalizer="\x1b[2J" * 100_000), "unknown normalizer"),
    "a regex": (text_of(pretokenizer="regex:(a{1000}){1000}"), "invalid pre-tokenizer regex"),
    "nested": ('{"volt": 1, "x": ' + "[" * 100_000 + "}", "damaged or cut short here"),
    "a huge number": (text_of([("a", 7)]).replace("7", "9" * 5_000), "damaged or cut short here"),
    "a huge version": (
        '{"volt": ' + "9" * 4_000 + "}",
        r"only a newer VOLT reads format 9{60}… \(4,000 characters\)",
    ),
    "keys twice": (
        text_of().replace('"marker"', '"tokens": [], "marker"'),
        "here .key 'tokens' occurs twice",
    ),
    "NaN": (
        text_of([("a", 7)]).replace("7", "NaN"),
        r"found \[\"a\", NaN\] instead of \[str, int\]",
    ),
    "a doubling chain": (text_of(merges=DOUBLED), "'aa' is neither a character nor made by an"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_in_a_short_message(tmp_path, name):
    """The error for a hostile file has less than 2,100 characters, all of which can be printed."""
    content, pattern = HOSTILE[name]
    path = tmp_path / "a\x1b[31m\n.volt"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(VocabularyError, match=pattern) as caught:
        Vocabulary.load(path)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 2_100
    assert r"a\x1b[31m\n.volt" in message
    assert str(pickle.loads(pickle.dumps(caught.value))) == message


@pytest.mark.parametrize(
    ("limit", "content", "message"),
    [
        (
            "MOST_BYTES",
            text_of([("a",)] * 50),
            "more than 400 bytes, too many for such a file; check the path",
        ),
        (
            "_MOST_SEPARATORS",
            '{"volt": 1, "x": [' + "[]," * 400 + "0]}",
            "more than 1,048,576 tokens or merges",
        ),
    ],
)
def test_files_are_measured_before_they_are_parsed(tmp_path, monkeypatch, limit, content, message):
    """Too many bytes or values are reported before JSON is parsed."""
    path = tmp_path / "a.volt"
    path.write_text(content)
    monkeypatch.setattr(f"volt.vocabulary.file_format.{limit}", 400)
    monkeypatch.setattr(json, "loads", None)
    with pytest.raises(VocabularyError, match=f"a.volt: {message}"):
        Vocabulary.load(path)


def test_a_file_that_could_not_be_read_is_not_written(tmp_path, monkeypatch):
    """Saving a vocabulary with more tokens than can be read is refused, and no file is written."""
    monkeypatch.setattr("volt.vocabulary.file_format.MOST_ROWS", 2)
    Vocabulary((), ("a", "b")).save(tmp_path / "a")
    with pytest.raises(VocabularyError, match="3 tokens: at most 2 can be saved"):
        Vocabulary((), ("a", "b", "c")).save(tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_the_most_and_the_longest_user_tokens_are_found():
    """`SpecialTokens` accepts the maximum number of user tokens, one of the maximum length, and
    finds them in text; more are refused.
    """
    user = (*(f"<{i}>" for i in range(MOST_USER - 1)), "x" * LONGEST)
    special = SpecialTokens(user=user)
    hidden = special.hide_text("a<7>" + user[-1])
    assert [special.revealed(ord(char)) for char in hidden] == [None, "<7>", user[-1]]
    with pytest.raises(ConfigError, match="1,000,000 user tokens, but the limit is 16,381"):
        SpecialTokens(user=("x",) * 1_000_000)


def test_nul_is_a_character(tmp_path):
    """A vocabulary with NUL in tokens and merges is loaded, and encodes and decodes text with NUL
    exactly.
    """
    tokens = ("a", "\0", "b</w>", "a\0b</w>", "\0</w>")
    vocabulary = Vocabulary((("a", "\0"), ("a\0", "b</w>")), tokens)
    vocabulary.save(tmp_path / "a.volt")
    loaded = Vocabulary.load(tmp_path / "a.volt")
    encoder = Encoder(loaded)
    assert loaded == vocabulary
    assert encoder.encode("a\0b \0") == ["a\0b</w>", "\0</w>"]
    text = b"a\0b \0\n\0\na\0b\n"
    (tmp_path / "text").write_bytes(text)
    for errors in ("strict", "replace"):
        encoded = encoder.encode_file(tmp_path / "text", errors=errors)
        assert encoder.decode_bytes(encoded) == text


# ---- unigram models

UNIGRAM = Vocabulary(
    (),
    ("a", "▁", "ab\u2028"),
    (3, 2, 1),
    marker="none",
    scores=(-1.0, -0.1, 5e-324),
    score_sums="lines",
    pretokenizer="metaspace",
    fuse_unk=True,
)
SCORED = '["a", "token", -1.0, 3],'


def test_load_undoes_save_of_unigram_models(tmp_path):
    """A unigram model has format 3, and is loaded with equal scores, to the last bit."""
    path = tmp_path / "a.volt"
    for vocabulary in (UNIGRAM, Vocabulary((), ("a",), scores=(0.1 + 0.2,), marker="none")):
        vocabulary.save(path)
        assert path.read_bytes().startswith(b'{"volt": 3,\n')
        assert Vocabulary.load(path) == vocabulary
        assert Vocabulary.load(path).fingerprint == vocabulary.fingerprint


@pytest.mark.parametrize(
    ("new", "message"),
    [
        *((f"{row},", "instead of") for row in ('["a", "token"]', '["a", "token", "-1.0", 3]')),
        *((f"{row},", "instead of") for row in ('["a", "token", -1, 3]', '["a", "token", 3]')),
        ('["a", "token", NaN, 3],', "score nan"),
        ('["a", "token", -Infinity, 3],', "score -inf"),
        ('["▁", "token", -1.0, 3],', "repeats"),
    ],
)
def test_a_damaged_score_is_refused(tmp_path, new, message):
    """The error for a score that is missing, or is not a finite number, names the file and the line."""
    path = tmp_path / "a.volt"
    UNIGRAM.save(path)
    edited(path, SCORED, new)
    assert_refused(path, f"{path}:", message)
