"""Laws of the notes on an imported tokenizer.json: each difference from `tokenizers` has one, and
no other file has it.
"""

import re
from itertools import permutations

import pytest
from formats.support import (
    LOWER,
    NFC,
    NO_FLAGS,
    PREPEND,
    SPACES,
    WHITE,
    changed,
    level,
    library_of,
    read_both,
    tokenizer_json,
)

import volt
from volt.encode.encoder import Encoder
from volt.formats import huggingface
from volt.text.byte_alphabet import ALPHABET
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

tokenizers = pytest.importorskip("tokenizers")

SMALL = ["<unk>", "a", "b", "▁", "ab"]
AB = {"merges": [("a", "b")], "unk_token": "<unk>"}
RUNS_TO_SPACE = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}
CHARS = {"cuts": [WHITE]}
BYTES = {"cuts": [level()]}
SPACED = {"normalizer": [SPACES]}


def added(*contents, **flags):
    """Return the option of `tokenizer_json` for added tokens with these flags."""
    return {"added": [{"content": content, **flags} for content in contents]}


def late(content):
    """Return the option for an added token that the library finds in normalised text."""
    return added(content, normalized=True)


def section(name, value):
    """Return the options for a tokenizer.json with this value of a section."""
    return CHARS | {"sections": {name: value}}


NOTED = [  # options of `tokenizer_json` ("others": further tokens of the model), and the note
    (SPACED | late("  "), "found in normalised"),
    (CHARS | {"normalizer": [RUNS_TO_SPACE]} | late("a b"), "found in normalised"),
    (SPACED | late("▁▁"), "found in normalised"),
    ({"normalizer": [PREPEND, SPACES]} | late("é!"), "found in normalised"),
    (
        BYTES | {"normalizer": [LOWER]} | late("é!"),
        "found in normalised text there, in raw text here: é!.",
    ),
    (CHARS | {"added": late("ab")["added"] + added("b")["added"]}, "b is found before ab there"),
    (
        BYTES | {"added": added("<m>", lstrip=True)["added"] + late("\t\t")["added"]},
        r"<m> is found before '\t\t' there",
    ),
    (
        CHARS | added("<m>", "<n>", single_word=True),
        "Some added tokens are found as whole words only there (single_word), and not here: <m>, <n>.",
    ),
    (
        CHARS | added("\n", single_word=True),
        r"as whole words only there (single_word), and not here: '\n'.",
    ),
    (BYTES | {"decoder": {"type": "Fuse"}}, "The decoder of the file is not imported"),
    (CHARS, "decoded tokens have spaces between them there"),
    (CHARS | {"normalizer": [LOWER]}, "lowered to 'ς' here"),
    (CHARS | {"dropout": 0.3}, "The dropout of the file, 0.3"),
    (CHARS | {"unk_token": None}, "Unknown characters leave nothing, but pieces"),
    (
        SPACED | added("▁▁", special=True) | {"merges": [("▁", "▁")], "others": ["▁▁"]},
        "drops ▁▁ there, and keeps its spaces here",
    ),
    (section("truncation", {"max_length": 3}), "Truncation is not imported"),
    (section("padding", {"length": 9}), "Padding is not imported"),
    (
        section("post_processor", {"type": "TemplateProcessing"}),
        "post-processor (TemplateProcessing)",
    ),
    (
        CHARS | {"others": ["zzz"]},
        "1 token that no merge makes: kept as control tokens, such as 'zzz'",
    ),
    (CHARS | {"others": ["z z"]}, "1 token that no merge makes: left out, such as 'z z'"),
]


@pytest.mark.parametrize(("options", "note"), NOTED)
def test_each_difference_has_a_note(options, note, tmp_path):
    """A file with this difference from `tokenizers` has the note once, and a plain file does not
    have the note.
    """
    options = AB | options
    path = tokenizer_json(tmp_path, [*SMALL, *options.pop("others", ())], **options)
    assert sum(note in each for each in huggingface.read(path).notes) == 1
    plain = tokenizer_json(tmp_path, SMALL, **BYTES, decoder=level(), **AB)
    assert not any(note in each for each in huggingface.read(plain).notes)


def test_white_space_that_a_token_takes_has_a_note_if_ends_of_words_are_marked(
    tmp_path,
):
    """If "</w>" ends words, an added token with lstrip does not take white space in VOLT, and a
    note says so.
    """
    words = Vocabulary((), ("a", "a</w>"), special=SpecialTokens(None, None, None, None))
    huggingface.write(words, tmp_path / "a.json")
    row = NO_FLAGS | {"id": 2, "content": "<m>", "lstrip": True}
    vocabulary = huggingface.read(changed(tmp_path / "a.json", added_tokens=[row]))
    assert vocabulary.special.lstrip == ()
    note = "take the white space before them there (lstrip), and not here: <m>."
    assert any(note in each for each in vocabulary.notes)


def test_unknown_words_in_a_row_have_a_note(tmp_path):
    """If "▁" is not a token, and fuse_unk is true, a note says that unknown words in a row are one
    token in the library.
    """
    path = tokenizer_json(
        tmp_path, ["<unk>", "a"], normalizer=[SPACES], unk_token="<unk>", fuse_unk=True
    )
    assert any(
        "Unknown words in a row are one <unk> there" in note
        for note in huggingface.read(path).notes
    )


@pytest.mark.parametrize("steps", [[NFC, LOWER], [LOWER, NFC], [NFC, LOWER, NFC], [LOWER], [NFC]])
def test_marks_of_small_letters_have_a_note_if_they_differ(steps, tmp_path):
    """W and U+030A compose only after W is lowered. Their ids in VOLT are the library's, unless NFC
    precedes Lowercase; then a note says that they differ.
    """
    path = tokenizer_json(tmp_path, ALPHABET, normalizer=steps, cuts=[level()])
    vocabulary, theirs = read_both(path)
    ours = Encoder(vocabulary)
    differs = ours.encode_ids("W\u030a").tolist() != theirs.encode("W\u030a").ids
    assert (
        any("A mark that combines with the small letter only" in note for note in vocabulary.notes)
        == differs
    )
    assert differs == (steps == [NFC, LOWER])
    assert ours.encode_ids("Wow").tolist() == theirs.encode("Wow").ids


@pytest.mark.parametrize("added", list(permutations([("a", 0), ("<x>", 3), ("<y>", 4)])))
def test_an_id_that_the_library_changes_has_a_note(added, tmp_path):
    """If the library gives an added token another id than its row, a note names the first such
    token, and both ids.
    """
    rows = [{"content": token, "id": number} for token, number in added]
    path = tokenizer_json(tmp_path, "abc", added=rows, cuts=[WHITE])
    vocabulary, library = read_both(path)
    assert {token: vocabulary.ids[token] for token, _ in added} == dict(added)
    expected = [(token, str(library.token_to_id(token)), str(number)) for token, number in added]
    notes = [note for note in vocabulary.notes if "which model.vocab lacks" in note]
    found = [
        re.findall(r"token (\S+), .* the id (\d+) there, (\d+) here", note)[0] for note in notes
    ]
    assert found == [row for row in expected if row[1] != row[2]][:1]


@pytest.mark.parametrize("token", ["<é>", "¡¿", "Ġx", "<x>", "<中>", "<à la>"])
def test_tokens_in_letters_of_bytes_have_a_note(token, tmp_path):
    """If the library decodes an added token as bytes, because its characters are ByteLevel's
    letters, import and export have a note; otherwise they do not.
    """
    path = tokenizer_json(
        tmp_path, ALPHABET, added=[{"content": token}], cuts=[level()], decoder=level()
    )
    vocabulary = huggingface.read(path)
    ids = [vocabulary.ids[piece] for piece in ("a", token, "b")]
    assert Encoder(vocabulary).decode_ids(ids) == f"a{token}b"
    differs = library_of(path).decode(ids) != f"a{token}b"
    assert differs == (token in ("<é>", "¡¿", "Ġx"))
    exported = volt.write_vocabulary(vocabulary, tmp_path / "a.json", to="huggingface")
    start = f"tokenizers decodes {token} as the bytes"
    for notes in (vocabulary.notes, exported, huggingface.read(tmp_path / "a.json").notes):
        assert any(note.startswith(start) for note in notes) == differs
