"""Laws of the vocabulary and its file: the same in, the same out; no fault gets past loading, or is left unnamed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from vocabularies import vocabularies

from volt.encode.encoder import Encoder
from volt.errors import ConfigError, OutputError, VocabularyError, VoltError
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

FEW = settings(deadline=None, max_examples=examples(80))
SMALL = Vocabulary(
    merges=(("l", "o"), ("lo", "w</w>"), ("e", "r</w>")),
    tokens=("l", "o", "w</w>", "e", "r</w>", "é", '"', "\\", "\u2028", "low</w>", "er</w>"),
    counts=(9, 8, 7, 6, 5, 4, 3, 2, 1, 1, 0),
    special=SpecialTokens(user=("<url>", "<é>")),
    provenance={"signature": "volt|…", "size": 11, "converged": True},
)
TOKEN, MERGE = '["é", 4],', '["lo", "w</w>"],'  # lines of its file


def message(path: Path, *parts: str) -> None:
    """Loading the file is a VocabularyError that holds all these parts."""
    with pytest.raises(VocabularyError) as caught:
        Vocabulary.load(path)
    for part in parts:
        assert part in str(caught.value)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "small.volt"
    SMALL.save(path)
    return path


def edited(path: Path, old: str, new: str) -> int:
    """Replace a line of the file, and remove its fingerprint so that only that line can be at fault; its number."""
    lines = [
        line for line in path.read_text(encoding="utf-8").split("\n") if "fingerprint" not in line
    ]
    number = lines.index(old)
    lines[number] = new
    path.write_text("\n".join(lines), encoding="utf-8")
    return number + 1


@given(vocabularies())
@FEW
def test_load_undoes_save(tmp_path_factory, vocabulary):
    """A loaded vocabulary equals the saved one in everything, provenance and fingerprint included."""
    path = tmp_path_factory.mktemp("v") / "a.volt"
    vocabulary.save(path)
    loaded = Vocabulary.load(path)
    assert loaded == vocabulary
    assert loaded.provenance == vocabulary.provenance
    assert (loaded.fingerprint, loaded.ids) == (vocabulary.fingerprint, vocabulary.ids)


@given(vocabularies())
@FEW
def test_the_same_vocabulary_gives_the_same_bytes(tmp_path_factory, vocabulary):
    """Saving, loading and saving again gives the same bytes: UTF-8, versioned first, ending with a line end."""
    folder = tmp_path_factory.mktemp("v")
    vocabulary.save(folder / "a.volt")
    Vocabulary.load(folder / "a.volt").save(str(folder / "b.volt"))
    content = (folder / "a.volt").read_bytes()
    assert content == (folder / "b.volt").read_bytes()
    assert content.startswith(b'{"volt": 1,\n' if vocabulary.is_plain else b'{"volt": 2,\n')
    assert content.endswith(b"\n")
    json.loads(content)


@given(vocabularies())
@FEW
def test_ids_number_the_pieces(vocabulary):
    """Special tokens come first, from 0; each piece has one id, each id one piece."""
    pieces = vocabulary.pieces
    assert pieces[: len(vocabulary.special.all)] == vocabulary.special.all
    assert pieces[len(pieces) - vocabulary.size :] == vocabulary.tokens
    assert len(set(pieces)) == len(pieces)
    assert vocabulary.ids == {piece: number for number, piece in enumerate(pieces)}
    assert set(BYTE_TOKENS).issubset(pieces) == vocabulary.byte_fallback


@given(vocabularies())
@FEW
def test_tokens_are_atoms_or_made(vocabulary):
    """Scaffolding is what merges make and the vocabulary does not keep; atoms are what no merge makes."""
    made, kept = {"".join(merge) for merge in vocabulary.merges}, set(vocabulary.tokens)
    assert set(vocabulary.scaffolding) == made - kept
    assert len(set(vocabulary.scaffolding)) == len(vocabulary.scaffolding)
    parts = {part for merge in vocabulary.merges for part in merge}
    assert set(vocabulary.atoms) == (kept | parts) - made


@pytest.mark.parametrize(
    "change",
    [
        {"merges": SMALL.merges[:2], "tokens": SMALL.tokens[:-1], "counts": SMALL.counts[:-1]},
        {"tokens": SMALL.tokens[::-1]},
        {"counts": ()},
        {"counts": (*SMALL.counts[:-1], 1)},
        {"normalizer": Normalizer("nfc")},
        {"pretokenizer": PreTokenizer("gpt2")},
        {"special": SpecialTokens(user=("<url>",))},
        {"special": SpecialTokens(unk="<UNK>", user=SMALL.special.user)},
        {"byte_fallback": True},
    ],
)
def test_the_fingerprint_changes_with_the_content(change):
    """Anything but the provenance changes the fingerprint and equality."""
    fields = {name: getattr(SMALL, name) for name in SMALL.__dataclass_fields__}
    other = Vocabulary(**{**fields, **change})
    assert other.fingerprint != SMALL.fingerprint
    assert other != SMALL
    same = Vocabulary(**{**fields, "provenance": {}})
    assert (same.fingerprint, same) == (SMALL.fingerprint, SMALL)


# ---- files at fault


@pytest.mark.parametrize(
    ("content", "found"),
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
        (b'{"volt": 3}', "newer VOLT"),
        (b'{"volt": 2}', "is missing"),
        (b'{"volt": 0}', "version"),
        (b'{"volt": "1"}', "version"),
        (b'{"volt": null}', "version"),
        (b'{"volt": 1, "tokens": ' + b"[" * 100_000, ""),
        (b'{"volt": ' + b"9" * 10_000 + b"}", ""),
    ],
)
def test_foreign_and_damaged_files_are_named(tmp_path, content, found):
    """A file that is no vocabulary, or of another version, is an error with its name and what it looks like."""
    path = tmp_path / "some.volt"
    path.write_bytes(content)
    message(path, str(path), found)


def test_missing_files_and_folders_are_named(tmp_path):
    """A path that cannot be read is a VocabularyError with the path."""
    for path in (tmp_path / "none.volt", tmp_path, tmp_path / "none" / "a.volt"):
        message(path, str(path), "cannot be read")


def test_a_file_cut_short_is_refused(saved):
    """Wherever a file is cut, loading is a VocabularyError that names it."""
    content = saved.read_bytes()
    for length in [*range(0, len(content) - 2, 50), *range(len(content) - 20, len(content) - 2)]:
        saved.write_bytes(content[:length])
        message(saved, str(saved))


@given(st.data())
@settings(deadline=None, max_examples=examples(150))
def test_a_damaged_byte_is_refused_or_harmless(tmp_path_factory, data):
    """Whatever byte is changed, loading is a VocabularyError, or gives what was saved (but for the provenance)."""
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
    ("old", "new", "found"),
    [
        (TOKEN, '["l", 4],', "repeats"),
        (TOKEN, '["xyz", 4],', "no merge makes 'xyz'"),
        (TOKEN, '["<s>", 4],', "special token"),
        (TOKEN, '["é", -4],', "-4"),
        (TOKEN, '["é", 4.5],', "4.5"),
        (TOKEN, '["é", "4"],', "instead of"),
        (TOKEN, '["é", true],', "instead of"),
        (TOKEN, '["é"],', "instead of"),
        (TOKEN, '["é", 4, 4],', "instead of"),
        (TOKEN, '["", 4],', "instead of"),
        (TOKEN, "[null, 4],", "instead of"),
        (TOKEN, '"é",', "instead of"),
        (TOKEN, "7,", "instead of"),
        (TOKEN, '["é" 4],', "damaged"),
        (MERGE, '["xy", "w</w>"],', "'xy' is neither"),
        (MERGE, '["lo", ""],', "instead of"),
        (MERGE, '["lo", 1],', "instead of"),
        (MERGE, '["lo"],', "instead of"),
        (MERGE, '["l", "o", "w</w>"],', "instead of"),
        (MERGE, '"lo w</w>",', "instead of"),
    ],
)
def test_a_bad_line_is_named(saved, old, new, found):
    """A bad token or merge is a VocabularyError that names the file, the line and what was found."""
    number = edited(saved, old, new)
    message(saved, f"{saved}:{number}: ", found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("marker", "infix"),
        ("marker", 1),
        ("normalizer", "nfd"),
        ("normalizer", None),
        ("pretokenizer", "regex:("),
        ("pretokenizer", "word"),
        ("byte_fallback", "yes"),
        ("byte_fallback", 1),
        ("provenance", []),
        ("tokens", {}),
        ("tokens", None),
        ("merges", "ab"),
        ("special", []),
        ("special", {}),
        ("special", {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>", "user": "x"}),
        ("special", {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<s>", "user": []}),
        ("special", {"unk": 5, "bos": "<s>", "eos": "</s>", "pad": "<pad>", "user": []}),
        ("special", {"unk": None, "bos": "<s>", "eos": "</s>", "pad": "<pad>", "user": []}),
        ("special", {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>", "user": [7]}),
        ("special", {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>", "user": [["a"]]}),
        (
            "special",
            {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>", "user": ["a\0b"]},
        ),
    ],
)
def test_a_bad_setting_is_named(saved, name, value):
    """A setting of a wrong type or with an impossible value is a VocabularyError that names the file."""
    data = json.loads(saved.read_text(encoding="utf-8"))
    del data["fingerprint"]
    message(_written(saved, {**data, name: value}), str(saved))
    del data[name]
    message(_written(saved, data), str(saved), name)


def _written(path: Path, data: object) -> Path:
    path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
    return path


def test_an_edited_file_is_noticed_and_can_be_accepted(saved):
    """A file that was edited is refused until its fingerprint line is deleted; what then counts is the content."""
    text = saved.read_text(encoding="utf-8")
    changed = text.replace('["e", 6]', '["e", 5]')
    assert changed != text
    saved.write_text(changed, encoding="utf-8")
    message(saved, f"{saved}:2: ", "fingerprint", "edited")
    saved.write_text(
        "\n".join(line for line in changed.split("\n") if "fingerprint" not in line),
        encoding="utf-8",
    )
    assert Vocabulary.load(saved).counts[3] == 5


def test_layout_does_not_matter(saved):
    """A file that another program laid out anew, or gave Windows line ends, is the same vocabulary."""
    text = saved.read_text(encoding="utf-8")
    saved.write_bytes(text.replace("\n", "\r\n").encode())
    assert Vocabulary.load(saved) == SMALL
    assert Vocabulary.load(_written(saved, json.loads(text))) == SMALL
    saved.write_text(
        json.dumps(json.loads(text), ensure_ascii=True, indent=1).replace("{\n ", "{", 1)
    )
    assert Vocabulary.load(saved) == SMALL


def test_lone_surrogates_do_not_get_in_or_do_no_harm(saved):
    """A token that is no text is a VocabularyError when it is loaded, or can at least be saved without a crash."""
    edited(saved, TOKEN, '["\\ud800", 4],')
    try:
        loaded = Vocabulary.load(saved)
    except VocabularyError:
        return
    try:
        loaded.save(saved)
    except VoltError:
        return
    assert Vocabulary.load(saved) == loaded


# ---- objects at fault


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"merges": (("a", "bc"),), "tokens": ()}, "merges, entry 1: .*'bc'"),
        ({"merges": (("ab", "c"), ("a", "b")), "tokens": ()}, "merges, entry 1: .*'ab'"),
        ({"merges": (), "tokens": ("a", "b", "a")}, "tokens, entry 3: .*repeats token 1"),
        ({"merges": (), "tokens": ("a", "ab")}, "tokens, entry 2: .*no merge makes 'ab'"),
        ({"merges": (), "tokens": ("a", "b"), "counts": (1,)}, "2 tokens but 1 counts"),
        ({"merges": (), "tokens": ("a",), "counts": (-1,)}, "tokens, entry 1: .*-1"),
        ({"merges": (("<s", ">"),), "tokens": ("<s>",)}, "merges, entry 1"),
        ({"merges": (("<", "s"), ("<s", ">")), "tokens": ("<s>",)}, "tokens, entry 1: .*special"),
        ({"merges": (), "tokens": ("</w>",)}, "no merge makes"),
        ({"merges": (), "tokens": ("",)}, "tokens, entry 1"),
        ({"merges": (), "tokens": ("a</w>",), "marker": "none"}, "tokens, entry 1"),
    ],
)
def test_inconsistent_vocabularies_are_refused(fields, found):
    """A vocabulary that contradicts itself is a VocabularyError that names list and entry."""
    with pytest.raises(VocabularyError, match=found):
        Vocabulary(**fields)


def test_an_unknown_marker_is_refused():
    """There are three markers."""
    with pytest.raises(ConfigError, match="infix"):
        Vocabulary((), (), marker="infix")


def test_an_empty_vocabulary_encodes():
    """With no tokens at all, everything is unknown, and nothing breaks."""
    made = Encoder(Vocabulary((), ()))
    assert made.encode("low") == ["l", "o", "w</w>"]
    assert made.encode_ids("low").tolist() == [0, 0, 0]


def test_saving_is_atomic(saved, tmp_path):
    """If saving fails, the old file is intact and nothing else is left."""
    before = saved.read_bytes()
    with pytest.raises(VocabularyError, match="'no JSON'"):
        Vocabulary((), (), provenance={"no JSON": object()}).save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [saved.name]


def test_places_that_cannot_be_written_to_are_named(saved):
    """A path below a file, or in a folder that is missing, is an OutputError with the path."""
    for path in (saved / "a.volt", saved.parent / "none" / "a.volt"):
        with pytest.raises(OutputError) as caught:
            SMALL.save(path)
        assert str(path) in str(caught.value)
