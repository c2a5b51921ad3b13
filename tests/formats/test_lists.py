"""Laws of the token lists: what is written is read back, by us and by readers of others; faults have places."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from list_readers import READERS, fairseq_ids, marian_ids, opennmt_ids
from vocabularies import vocabularies

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats.marian import quoted, unquoted
from volt.formats.protocol import HEAD_SIZE
from volt.formats.registry import format_of, listed_pieces, read_vocabulary, write_vocabulary
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

LISTS = ("fairseq", "marian", "opennmt", "tokens")
COUNTED = ("fairseq", "opennmt")
SMALL = Vocabulary(
    merges=(("l", "o"), ("lo", "w</w>"), ("e", "r</w>")),
    tokens=("l", "o", "w</w>", "e", "r</w>", "é", "low</w>", "er</w>"),
    counts=(9, 8, 7, 6, 5, 4, 3, 2),
)
TRICKY = [
    "yes",
    "~",
    " a",
    "a: b",
    "- a",
    "#",
    "'",
    '"',
    "\\",
    "null",
    "1.5",
    "{",
    "\x85",
    "",
    "\ufeff",
]
CODES = "#version: 0.2\nl o\nlo w</w>\ne r</w>\n"


def theirs(vocabulary: Vocabulary, piece: str, name: str) -> str:
    """A piece as subword-nmt spells it, where a list does so."""
    reserved = set(vocabulary.pieces) - set(vocabulary.tokens)
    if name == "tokens" or vocabulary.marker != "suffix" or piece in reserved:
        return piece
    return piece[:-4] if piece.endswith("</w>") and piece != "</w>" else f"{piece}@@"


@pytest.mark.parametrize("name", LISTS)
@given(vocabulary=vocabularies())
@settings(deadline=None, max_examples=examples(80))
def test_write_then_read_loses_nothing_but_what_is_reported(name, vocabulary):
    """Any vocabulary: read(write(v), merges=v) has its fingerprint; or it is refused by token, with nothing written."""
    with TemporaryDirectory() as folder:
        path, merges = Path(folder, "list"), Path(folder, "v.volt")
        vocabulary.save(merges)
        try:
            notes = write_vocabulary(vocabulary, path, to=name)
            found = read_vocabulary(path, format=name, merges=merges)
        except VocabularyError:
            written = path.exists()
        else:
            written = False
            kept = found if any(vocabulary.counts) else replace(found, counts=vocabulary.counts)
            assert notes
            assert kept.fingerprint == vocabulary.fingerprint
    assert not written or not vocabulary.tokens


@pytest.mark.parametrize("name", LISTS)
@given(vocabulary=vocabularies())
@settings(deadline=None, max_examples=examples(80))
def test_other_readers_find_every_piece_at_its_id(name, vocabulary):
    """A reader that follows the library gives every piece its place among ours, shifted by what the notes say."""
    reader, shift = READERS[name]
    with TemporaryDirectory() as folder:
        path = Path(folder, "list")
        try:
            write_vocabulary(vocabulary, path, to=name)
        except VocabularyError:
            return
        ids = reader(path.read_bytes().decode())
    roles = set(vocabulary.special.roles.values()) - set(vocabulary.special.user)
    spelled = [theirs(vocabulary, piece, name) for piece in vocabulary.pieces if piece not in roles]
    for number, piece in enumerate(spelled):
        if spelled.count(piece) == 1:
            assert ids[piece] == number + shift


@given(st.text(max_size=8) | st.sampled_from(TRICKY))
@settings(deadline=None, max_examples=examples(400))
def test_every_string_is_yaml(text):
    """PyYAML and our reader get back any string that we quote, as a key on one line."""
    assert unquoted(quoted(text)) == text
    assert marian_ids(f"{quoted(text)}: 7\n") == {text: 7}


def test_what_yaml_writers_write_is_read(tmp_path: Path) -> None:
    """Plain, single-quoted and double-quoted keys of PyYAML's own files are read alike."""
    yaml = pytest.importorskip("yaml")
    keys = ["l@@", "'@@", '"', "\\@@", "yes", "é", "1", ":", "~"]
    ids = {piece: number for number, piece in enumerate(["</s>", "<unk>", *keys])}
    (tmp_path / "v.yml").write_text(
        yaml.safe_dump(ids, allow_unicode=True), encoding="utf-8", newline="\n"
    )
    Vocabulary(merges=(("y", "e"), ("ye", "s</w>")), tokens=("l",)).save(tmp_path / "base.volt")
    found = read_vocabulary(tmp_path / "v.yml", format="marian", merges=tmp_path / "base.volt")
    assert [theirs(found, token, "marian") for token in found.tokens] == keys


@pytest.mark.parametrize("name", LISTS)
def test_pieces_of_text_have_our_ids(name, tmp_path: Path, subword_nmt) -> None:
    """Text that subword-nmt cuts by the same merges has, through the list, the ids that we give it."""
    write_vocabulary(SMALL, tmp_path / "list", to=name)
    reader, shift = READERS[name]
    ids, encoder = reader((tmp_path / "list").read_text(encoding="utf-8")), Encoder(SMALL)
    line = "low er ler olow élow"
    pieces = subword_nmt.pieces(subword_nmt.bpe(SMALL.merges), line)
    ours = [number - 4 for number in encoder.encode_ids(line).tolist()]
    assert [ids[theirs(SMALL, piece, name)] - shift for piece in pieces] == ours


@pytest.mark.parametrize("name", LISTS)
def test_codes_serve_as_merges(name, tmp_path: Path) -> None:
    """With subword-nmt codes the tokens, merges and (where the list has them) counts come back."""
    (tmp_path / "codes").write_text(CODES, encoding="utf-8")
    pruned = replace(SMALL, tokens=SMALL.tokens[:-1], counts=SMALL.counts[:-1])
    for vocabulary in (SMALL, pruned):
        write_vocabulary(vocabulary, tmp_path / "list", to=name)
        found = read_vocabulary(tmp_path / "list", format=name, merges=tmp_path / "codes")
        assert found == replace(vocabulary, counts=vocabulary.counts if name in COUNTED else ())
    assert found.scaffolding == ("lo", "er</w>")


@pytest.mark.parametrize(
    ("end", "unk"), list(product(("</s>", "eos", "'</s>'"), ("<unk>", "UNK", '"<unk>"')))
)
def test_only_at_its_own_id_is_a_name_marian_s(end, unk, tmp_path: Path) -> None:
    """</s> and <unk> have the ids 0 and 1, older files call them eos and UNK; with other ids these are words."""
    (tmp_path / "codes").write_text(
        "#version: 0.2\ne o\neo s</w>\nU N\nUN K</w>\n", encoding="utf-8"
    )
    (tmp_path / "list").write_text(f"{end}: 0\n{unk}: 1\no@@: 2\n", encoding="utf-8")
    words = [word for word in ("eos", "UNK") if word not in (end, unk)]
    with (tmp_path / "list").open("a") as file:
        file.writelines(f"{word}: {number}\n" for number, word in enumerate(words, 3))
    found = read_vocabulary(tmp_path / "list", merges=tmp_path / "codes")
    assert found.tokens == ("o", *(f"{word}</w>" for word in words))
    assert listed_pieces(tmp_path / "list") == ["o@@", *words]


@pytest.mark.parametrize("size", range(HEAD_SIZE - 2, HEAD_SIZE + 4))
def test_a_list_of_any_size_is_recognised(size, tmp_path: Path) -> None:
    """A character or a line may end before, at or after the last byte that is examined."""
    (tmp_path / "list").write_text("é\n" * (size // 3) + "ab"[: size % 3], encoding="utf-8")
    assert format_of(tmp_path / "list") == "tokens"


def test_opennmt_is_read_either_way_round(tmp_path: Path) -> None:
    """piece<TAB>count, as OpenNMT-py has it, and count<TAB>piece give the same vocabulary; digits are pieces too, and
    where all are, pieces come first, as OpenNMT-py has it."""
    (tmp_path / "codes").write_text(CODES, encoding="utf-8")
    (tmp_path / "a").write_text("l@@\t9\n1\t5\n", encoding="utf-8")
    (tmp_path / "b").write_text("9\tl@@\n5\t1\n", encoding="utf-8")
    a, b = (
        read_vocabulary(tmp_path / name, format="opennmt", merges=tmp_path / "codes")
        for name in "ab"
    )
    assert a == b == replace(SMALL, tokens=("l", "1</w>"), counts=(9, 5))
    (tmp_path / "c").write_text("5\t1\n", encoding="utf-8")
    c = read_vocabulary(tmp_path / "c", format="opennmt", merges=tmp_path / "codes")
    assert (c.tokens, c.counts) == (("5</w>",), (1,))
    assert opennmt_ids("5\t1\n") == {"5": 0}


def test_opennmt_finds_pieces_by_their_counts(tmp_path: Path) -> None:
    """OpenNMT-py takes the second field for the count; a note tells what a minimum does to pieces that have none."""
    notes = write_vocabulary(SMALL, tmp_path / "list", to="opennmt")
    text = (tmp_path / "list").read_text(encoding="utf-8")
    assert list(opennmt_ids(text, min_count=8)) == ["l@@", "o@@"]
    assert not any("min_frequency" in note for note in notes)
    notes = write_vocabulary(replace(SMALL, counts=()), tmp_path / "none", to="opennmt")
    assert opennmt_ids((tmp_path / "none").read_text(encoding="utf-8"), min_count=1) == {}
    assert any("min_frequency" in note for note in notes)


def test_fairseq_tells_like_spellings_apart(tmp_path: Path) -> None:
    """Two tokens that subword-nmt spells alike: fairseq's flag, our ids and a note; Marian and OpenNMT refuse."""
    vocabulary = Vocabulary(merges=(("@", "@</w>"), ("a", "@@</w>")), tokens=("a", "a@@</w>", "@"))
    notes = write_vocabulary(vocabulary, tmp_path / "dict.txt", to="fairseq")
    assert (tmp_path / "dict.txt").read_text() == "a@@ 0\na@@ 0 #fairseq:overwrite\n@@@ 0\n"
    assert any("a@@" in note and "never finds" in note for note in notes)
    vocabulary.save(tmp_path / "v.volt")
    assert (
        read_vocabulary(tmp_path / "dict.txt", format="fairseq", merges=tmp_path / "v.volt").tokens
        == vocabulary.tokens
    )
    for name in ("marian", "opennmt"):
        with pytest.raises(VocabularyError, match="both be spelled 'a@@'"):
            write_vocabulary(vocabulary, tmp_path / name, to=name)
        assert not (tmp_path / name).exists()


LIKE = Vocabulary(merges=(("@", "@</w>"), ("a", "@@</w>")), tokens=("a", "a@@</w>", "@"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fairseq", "@@@ 2\na@@ 5\na@@ 3\n"),
        ("opennmt", "2\t@@@\n5\ta@@\n3\ta@@\n"),
        ("marian", '"</s>": 0\n"<unk>": 1\n"a@@": 2\n"a@@": 3\n'),
    ],
)
def test_a_spelling_is_listed_twice_only_where_its_list_says_so(name, text, tmp_path: Path) -> None:
    """A spelling of two tokens that is listed twice is refused by place; with fairseq's flag it is both tokens, once
    each, and a third time it is refused too."""
    LIKE.save(tmp_path / "v.volt")
    (tmp_path / "list").write_text(text, encoding="utf-8")
    with pytest.raises(VocabularyError, match=r"list:\d: 'a@@' repeats line \d; remove one"):
        read_vocabulary(tmp_path / "list", format=name, merges=tmp_path / "v.volt")
    if name == "fairseq":
        flagged = text.replace("a@@ 3", "a@@ 3 #fairseq:overwrite")
        (tmp_path / "list").write_text(flagged, encoding="utf-8")
        found = read_vocabulary(tmp_path / "list", format=name, merges=tmp_path / "v.volt")
        assert dict(zip(found.tokens, found.counts, strict=True)) == {"@": 2, "a": 5, "a@@</w>": 3}
        (tmp_path / "list").write_text(flagged + "a@@ 1 #fairseq:overwrite\n", encoding="utf-8")
        with pytest.raises(VocabularyError, match="list:4: 'a@@' repeats line 2"):
            read_vocabulary(tmp_path / "list", format=name, merges=tmp_path / "v.volt")


def test_fairseq_lists_user_tokens_as_subword_nmt_spells_them(tmp_path: Path) -> None:
    """A user token keeps its id where it ends a word; its glued spelling comes last, and a note says so."""
    vocabulary = replace(SMALL, special=SpecialTokens(user=("<url>",)))
    notes = write_vocabulary(vocabulary, tmp_path / "dict.txt", to="fairseq")
    ids = fairseq_ids((tmp_path / "dict.txt").read_text(encoding="utf-8"))
    assert ids["<url>"] == vocabulary.ids["<url>"]
    assert ids["<url>@@"] == len(vocabulary.pieces)
    assert any("<url>@@" in note for note in notes)


def test_fairseq_fillers_are_no_tokens(tmp_path: Path) -> None:
    """The madeupwords with which fairseq-preprocess rounds up are left out; one with a count is a word of the text."""
    (tmp_path / "codes").write_text(CODES, encoding="utf-8")
    (tmp_path / "dict.txt").write_text(
        "l@@ 9\nmadeupword0000 0\nmadeupword0001 0\n", encoding="utf-8"
    )
    assert read_vocabulary(
        tmp_path / "dict.txt", format="fairseq", merges=tmp_path / "codes"
    ).tokens == ("l",)
    (tmp_path / "dict.txt").write_text("l@@ 9\nmadeupword0000 3\n", encoding="utf-8")
    with pytest.raises(VocabularyError, match=r"dict\.txt:2: no merge makes 'madeupword0000'"):
        read_vocabulary(tmp_path / "dict.txt", format="fairseq", merges=tmp_path / "codes")


DAMAGED = [
    ("fairseq", b"l@@ 9\no@@", 2, "expected 'piece count'"),
    ("fairseq", b"l@@ 9\no@@ -1\n", 2, "is not a count"),
    ("fairseq", b"l@@ 9\no@@ x\n", 2, "is not a count"),
    ("fairseq", b"l@@ 9\no@@ " + b"9" * 5000, 2, "is not a count"),
    ("fairseq", b"l@@ 9\no@@ 1\nl@@ 3\n", 3, "repeats line 1"),
    ("fairseq", b"l@@ 9\n\xff 3\n", 2, "not UTF-8"),
    ("fairseq", b"l@@ 9\nlow 2\nhigh 3\n", 3, "no merge makes 'high'"),
    ("marian", b'"</s>": 0\n"<unk>": 1\n"l@@": 2\n"o@', 4, "expected 'piece: id'"),
    ("marian", b'"</s>": 0\n"<unk>": 1\n"l@@": -2\n', 3, "not an id"),
    ("marian", b'"</s>": 0\n"<unk>": 1\n"l@@": 2\n"o@@": 2\n', 4, "id 2 repeats line 3"),
    ("marian", b'"</s>": 0\n"<unk>": 1\n"l@@": 2\n"l@@": 3\n', 4, "repeats line 3"),
    ("marian", b'"</s>": 0\n"<unk>": 1\n"\\q": 2\n', 3, "is not a YAML string"),
    ("marian", b'"</s>": 0\n"<unk>": 1\n"l@@": ' + b"9" * 5000, 3, "is not an id"),
    ("marian", b'"</s>": 0\n"<unk>": 1\n"high": 2\n', 3, "no merge makes"),
    ("opennmt", b"9\tl@@\no@@\n", 2, "a tab"),
    ("opennmt", b"9\tl@@\n-3\to@@\n", 2, "is not a count"),
    ("opennmt", b"l@@\t9\nl@@\t3\n", 2, "repeats line 1"),
    ("tokens", b"l\no\nl\n", 3, "repeats line 1"),
    ("tokens", b"l\n\no\n", 2, "empty line"),
    ("tokens", "lé\n".encode("latin-1"), 1, "not UTF-8"),
    ("tokens", b"l\nlo\nlowe\n", 3, "no merge makes"),
]


@pytest.mark.parametrize(("name", "data", "line", "said"), DAMAGED)
def test_damaged_lists_are_reported_by_file_and_line(
    name, data, line, said, tmp_path: Path
) -> None:
    """Truncated, misencoded, repeated, negative or unmakeable: VocabularyError with file:line and what is wrong."""
    (tmp_path / "codes").write_text(CODES, encoding="utf-8")
    (tmp_path / "list").write_bytes(data)
    with pytest.raises(VocabularyError) as caught:
        read_vocabulary(tmp_path / "list", format=name, merges=tmp_path / "codes")
    assert f"list:{line}: " in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_alone_asks_for_merges(name, tmp_path: Path) -> None:
    """A list without merges, an empty list and a missing one are VocabularyErrors that say what to do."""
    write_vocabulary(SMALL, tmp_path / "list", to=name)
    with pytest.raises(VocabularyError, match="merges='FILE'"):
        read_vocabulary(tmp_path / "list", format=name)
    (tmp_path / "codes").write_text(CODES, encoding="utf-8")
    (tmp_path / "empty").write_bytes(b"")
    for missing in ("empty", "none"):
        with pytest.raises(VocabularyError, match=rf"{missing}: (empty|cannot be read)"):
            read_vocabulary(tmp_path / missing, format=name, merges=tmp_path / "codes")


@pytest.mark.parametrize("name", LISTS)
def test_tokens_that_would_break_a_line_are_refused(name, tmp_path: Path) -> None:
    """A token with a line end is refused by name, with nothing written; YAML alone holds it."""
    vocabulary = Vocabulary(merges=(), tokens=("a", "\n"))
    if name == "marian":
        write_vocabulary(vocabulary, tmp_path / "list", to=name)
        assert marian_ids((tmp_path / "list").read_text(encoding="utf-8"))["\n@@"] == 3
        return
    with pytest.raises(VocabularyError, match="marian or huggingface"):
        write_vocabulary(vocabulary, tmp_path / "list", to=name)
    assert not list(tmp_path.iterdir())
