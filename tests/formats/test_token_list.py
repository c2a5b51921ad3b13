"""Laws of all formats that list tokens: lists read back, other readers find VOLT's ids, errors name
the line.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.exports import LINES, learn, texts
from support.list_readers import READERS
from support.vocabularies import vocabularies

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats.protocol import HEAD_SIZE
from volt.formats.registry import format_of, listed_pieces, read_vocabulary, write_vocabulary
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

LISTS = ("fairseq", "marian", "opennmt", "tokens")
SPELLED = LISTS[:3]  # in subword-nmt's spelling
SMALL = Vocabulary(
    merges=(("l", "o"), ("lo", "w</w>"), ("e", "r</w>")),
    tokens=("l", "o", "w</w>", "e", "r</w>", "é", "low</w>", "er</w>"),
    counts=(9, 8, 7, 6, 5, 4, 3, 2),
)
CODES = "#version: 0.2\nl o\nlo w</w>\ne r</w>\n"
USERS = learn(LINES[1:4], "suffix", "whitespace", user=("<url>", "[NUM]"), byte_fallback=True)


@pytest.fixture
def codes(tmp_path):
    """Write the merges of `SMALL` as codes of subword-nmt, and return the path."""
    path = tmp_path / "codes"
    path.write_text(CODES, encoding="utf-8")
    return path


def spelled(vocabulary, piece, name):
    """Return a piece in the spelling of the format."""
    reserved = set(vocabulary.ids).difference(vocabulary.tokens)
    if name == "tokens" or vocabulary.marker != "suffix" or piece in reserved:
        return piece
    return piece[:-4] if piece.endswith("</w>") and piece != "</w>" else f"{piece}@@"


def written(vocabulary, path, name):
    """Write a list, and return piece → id as the format's other reader reads it."""
    write_vocabulary(vocabulary, path, to=name)
    return READERS[name][0](path.read_bytes().decode())


@pytest.mark.parametrize("name", LISTS)
@given(vocabulary=vocabularies())
@settings(deadline=None, max_examples=examples(80))
def test_a_list_reads_back_with_its_vocabulary_as_merges(name, vocabulary):
    """For any vocabulary, a list that is read with the vocabulary as its merges gives the same
    fingerprint, except for counts; or `write_vocabulary` refuses the vocabulary and writes no file.
    """
    with TemporaryDirectory() as folder:
        path, merges = Path(folder, "list"), Path(folder, "v.volt")
        vocabulary.save(merges)
        try:
            assert write_vocabulary(vocabulary, path, to=name)
        except VocabularyError:
            assert not path.exists()
            return
        if vocabulary.tokens:
            again = read_vocabulary(path, format=name, merges=merges)
            if not any(vocabulary.counts):
                again = replace(again, counts=vocabulary.counts)
            assert again.fingerprint == vocabulary.fingerprint


@pytest.mark.parametrize("name", LISTS)
@given(vocabulary=vocabularies())
@settings(deadline=None, max_examples=examples(80))
def test_other_readers_find_every_piece_at_its_id(name, vocabulary):
    """A reader that follows the source of the library gives each listed piece its id in VOLT,
    shifted by the number that the format's note states.
    """
    with TemporaryDirectory() as folder:
        try:
            ids = written(vocabulary, Path(folder, "list"), name)
        except VocabularyError:
            return
    special = vocabulary.special
    roles = set(special.roles.values()) - set(special.user)
    pieces = [spelled(vocabulary, piece, name) for piece in vocabulary.pieces if piece not in roles]
    for number, piece in enumerate(pieces):
        assert pieces.count(piece) > 1 or ids[piece] == number + READERS[name][1]


@pytest.mark.parametrize("name", LISTS)
def test_text_of_subword_nmt_has_our_ids(name, tmp_path, subword_nmt):
    """If subword-nmt encodes a line by the same merges, its pieces have in the list the ids that
    VOLT gives the line.
    """
    ids = written(SMALL, tmp_path / "list", name)
    line = "low er ler olow élow"
    pieces = subword_nmt.pieces(subword_nmt.bpe(SMALL.merges), line)
    ours = [number - 4 for number in Encoder(SMALL).encode_ids(line).tolist()]
    assert [ids[spelled(SMALL, piece, name)] - READERS[name][1] for piece in pieces] == ours


@pytest.fixture(scope="module", params=SPELLED)
def user_ids(request, tmp_path_factory):
    """Write a list with user and byte tokens, and return piece → id as the other reader reads it."""
    return written(USERS, tmp_path_factory.mktemp("lists") / "list", request.param)


@given(
    st.lists(
        texts | st.sampled_from(["<url>", "<url>x", "x[NUM]", "é<url>[NUM]", "</w>"]), max_size=5
    ).map(" ".join)
)
@settings(deadline=None, max_examples=examples(40))
def test_every_piece_of_encoded_text_is_listed(user_ids, text):
    """A list in subword-nmt's spelling contains every piece of any text that VOLT encodes with the
    separator @@, user and byte tokens included.
    """
    line = text.replace("\n", " ").replace("\r", " ")
    pieces = Encoder(USERS).encode_text(line.encode(), separator="@@").decode().split()
    assert [piece for piece in pieces if piece not in user_ids] == []


def test_pieces_inside_words_follow_all_others(user_ids):
    """User and byte tokens with "@@" have ids after all other pieces; without "@@", they have
    VOLT's order.
    """
    first = min(user_ids[f"{piece}@@"] for piece in ("<url>", "[NUM]", "<0x00>", "<0xFF>"))
    assert first > max(user_ids[piece] for piece in ("<url>", "<0x00>", "<0xFF>", "</w>"))
    assert user_ids["<0xFF>"] - user_ids["<0x00>"] == 255


@pytest.mark.parametrize("name", LISTS)
def test_codes_serve_as_merges(name, tmp_path, codes):
    """A list that is read with codes of subword-nmt gives the written merges and tokens, and the
    counts if the format has them.
    """
    for n_tokens in (len(SMALL.tokens), len(SMALL.tokens) - 1):
        vocabulary = replace(SMALL, tokens=SMALL.tokens[:n_tokens], counts=SMALL.counts[:n_tokens])
        write_vocabulary(vocabulary, tmp_path / "list", to=name)
        again = read_vocabulary(tmp_path / "list", format=name, merges=codes)
        has_counts = name in ("fairseq", "opennmt")
        assert again == replace(vocabulary, counts=vocabulary.counts if has_counts else ())
    assert again.scaffolding == ("lo", "er</w>")


@pytest.mark.parametrize("name", LISTS)
def test_roles_and_unused_ids_are_not_listed(name, tmp_path):
    """A list has the pieces in the order of their ids, without unused ids and tokens that only have
    a role; it reads back to an equal vocabulary.
    """
    special = SpecialTokens("<e>", "<e>", "<e>", None, user=("<e>",), control=("[A]",))
    order = ("b", "", "[A]", "a", "ab", "<e>")
    vocabulary = Vocabulary(
        (("a", "b"),), ("b", "a", "ab"), marker="none", special=special, order=order
    )
    ids = written(vocabulary, tmp_path / "list", name)
    assert sorted(set(order) & set(ids), key=ids.__getitem__) == ["b", "[A]", "a", "ab", "<e>"]
    notes = write_vocabulary(vocabulary, tmp_path / "list", to=name)
    assert "ids differ from VOLT's" in notes[0] or name == "opennmt"
    vocabulary.save(tmp_path / "v.volt")
    assert read_vocabulary(tmp_path / "list", format=name, merges=tmp_path / "v.volt") == vocabulary


@pytest.mark.parametrize("name", SPELLED)
def test_the_id_of_a_token_that_is_not_listed_is_unused(name, tmp_path):
    """If a vocabulary file gives the merges of a list, and the list lacks one of its tokens, this
    token's id becomes unused. All other pieces keep their ids."""
    order = ("b", "<unk>", "a", "ab", "<s>", "</s>", "<pad>")
    full = Vocabulary((("a", "b"),), ("b", "a", "ab"), marker="none", order=order)
    full.save(tmp_path / "v.volt")
    write_vocabulary(replace(full, tokens=("b", "ab"), order=()), tmp_path / "list", to=name)
    again = read_vocabulary(tmp_path / "list", format=name, merges=tmp_path / "v.volt")
    assert again.order == ("b", "<unk>", "", "ab", "<s>", "</s>", "<pad>")


@pytest.mark.parametrize("size", range(HEAD_SIZE - 2, HEAD_SIZE + 4))
def test_a_list_of_any_size_is_recognised(size, tmp_path):
    """`format_of` recognises a list whose characters or lines end before, at or after the last byte
    that it examines.
    """
    path = tmp_path / "list"
    path.write_text("é\n" * (size // 3) + "ab"[: size % 3], encoding="utf-8")
    assert format_of(path) == "tokens"


LIKE = Vocabulary(merges=(("@", "@</w>"), ("a", "@@</w>")), tokens=("a", "a@@</w>", "@"))
TWICE = {
    "fairseq": "@@@ 2\na@@ 5\na@@ 3\n",
    "opennmt": "2\t@@@\n5\ta@@\n3\ta@@\n",
    "marian": '"</s>": 0\n"<unk>": 1\n"a@@": 2\n"a@@": 3\n',
}


@pytest.mark.parametrize("name", TWICE)
def test_a_repeated_spelling_is_refused(name, tmp_path):
    """Reading refuses two rows with one spelling, and names both lines. Only fairseq's format can
    write two tokens with one spelling.
    """
    LIKE.save(tmp_path / "v.volt")
    (tmp_path / "list").write_text(TWICE[name], encoding="utf-8")
    with pytest.raises(VocabularyError, match=r"list:\d: 'a@@' repeats line \d; remove one"):
        read_vocabulary(tmp_path / "list", format=name, merges=tmp_path / "v.volt")
    if name != "fairseq":
        with pytest.raises(VocabularyError, match="both be spelled 'a@@'"):
            write_vocabulary(LIKE, tmp_path / "new", to=name)
        assert not (tmp_path / "new").exists()


MARIAN = b'"</s>": 0\n"<unk>": 1\n'
DAMAGED = [
    ("fairseq", b"l@@ 9\no@@", 2, "expected 'piece count'"),
    ("fairseq", b"l@@ 9\no@@ -1\n", 2, "is not a count"),
    ("fairseq", b"l@@ 9\no@@ " + b"9" * 5000, 2, "is not a count"),
    ("fairseq", b"l@@ 9\no@@ 1\nl@@ 3\n", 3, "repeats line 1"),
    ("fairseq", b"l@@ 9\n\xff 3\n", 2, "not UTF-8"),
    ("fairseq", b"l@@ 9\nlow 2\nhigh 3\n", 3, "no merge makes 'high'"),
    ("fairseq", b"l@@ 9\nmadeupword0000 3\n", 2, "no merge makes 'madeupword0000'"),
    ("marian", MARIAN + b'"l@@": 2\n"o@', 4, "expected 'piece: id'"),
    ("marian", MARIAN + b'"l@@": -2\n', 3, "not an id"),
    ("marian", MARIAN + b'"l@@": 2\n"o@@": 2\n', 4, "id 2 repeats line 3"),
    ("marian", MARIAN + b'"l@@": 2\n"l@@": 3\n', 4, "repeats line 3"),
    ("marian", MARIAN + b'"\\q": 2\n', 3, "is not a YAML string"),
    ("marian", MARIAN + b'"l@@": ' + b"9" * 5000, 3, "is not an id"),
    ("marian", MARIAN + b'"high": 2\n', 3, "no merge makes"),
    ("opennmt", b"9\tl@@\no@@\n", 2, "a tab"),
    ("opennmt", b"9\tl@@\n-3\to@@\n", 2, "is not a count"),
    ("opennmt", b"l@@\t9\nl@@\t3\n", 2, "repeats line 1"),
    ("opennmt", b"9\tl@@\nnan\to@@\n", 2, "'nan' is not a count"),
    ("opennmt", b"9\tl@@\n1.5.2\to@@\n", 2, "'1.5.2' is not a count"),
    ("opennmt", b"9\tl@@\n1e999\to@@\n", 2, "the count 1e999 is above 1e"),
    ("tokens", b"l\no\nl\n", 3, "repeats line 1"),
    ("tokens", b"l\n\no\n", 2, "empty line"),
    ("tokens", "lé\n".encode("latin-1"), 1, "not UTF-8"),
    ("tokens", b"l\nlo\nlowe\n", 3, "no merge makes"),
]


@pytest.mark.parametrize(("name", "data", "line", "message"), DAMAGED)
def test_damage_is_reported_by_file_and_line(name, data, line, message, tmp_path, codes):
    """Truncated, misencoded, repeated, negative and impossible rows are refused. The error names
    the file and the line.
    """
    (tmp_path / "list").write_bytes(data)
    with pytest.raises(VocabularyError, match=rf"list:{line}: .*{message}"):
        read_vocabulary(tmp_path / "list", format=name, merges=codes)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_alone_is_refused(name, tmp_path, codes):
    """Without merges, reading a list raises an error with the remedy merges='FILE'. An empty or
    missing list is refused, too.
    """
    write_vocabulary(SMALL, tmp_path / "list", to=name)
    with pytest.raises(VocabularyError, match="merges='FILE'"):
        read_vocabulary(tmp_path / "list", format=name)
    (tmp_path / "empty").write_bytes(b"")
    for missing in ("empty", "none"):
        with pytest.raises(VocabularyError, match=rf"{missing}: (empty|cannot be read)"):
            read_vocabulary(tmp_path / missing, format=name, merges=codes)


@pytest.mark.parametrize("name", LISTS)
def test_tokens_with_line_ends_are_refused(name, tmp_path):
    """A token with a line end is refused, and no file is written, except in Marian's YAML, which
    can store it.
    """
    vocabulary = Vocabulary(merges=(), tokens=("a", "\n"))
    if name == "marian":
        assert written(vocabulary, tmp_path / "list", name)["\n@@"] == 3
        return
    with pytest.raises(VocabularyError, match="marian or huggingface"):
        write_vocabulary(vocabulary, tmp_path / "list", to=name)
    assert not list(tmp_path.iterdir())


def test_a_file_with_merges_is_not_a_list(tmp_path, codes):
    """`listed_pieces` returns None for a VOLT file and for codes."""
    SMALL.save(tmp_path / "a.volt")
    assert listed_pieces(tmp_path / "a.volt") is None
    assert listed_pieces(codes) is None
