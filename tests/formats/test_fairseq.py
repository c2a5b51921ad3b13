"""Laws of fairseq's dict.txt: pieces that are spelled alike, user tokens, and fillers."""

from dataclasses import replace

import pytest
from support.list_readers import fairseq_ids

from volt.errors import VocabularyError
from volt.formats.registry import read_vocabulary, write_vocabulary
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

LIKE = Vocabulary(merges=(("@", "@</w>"), ("a", "@@</w>")), tokens=("a", "a@@</w>", "@"))


def test_tokens_spelled_alike_are_flagged(tmp_path):
    """The second of two tokens with one spelling is written with the flag #fairseq:overwrite, and
    both are read back with their counts. A third row with this spelling is refused.
    """
    path = tmp_path / "dict.txt"
    notes = write_vocabulary(LIKE, path, to="fairseq")
    assert path.read_text() == "a@@ 0\na@@ 0 #fairseq:overwrite\n@@@ 0\n"
    assert any("a@@" in note and "never finds" in note for note in notes)
    LIKE.save(tmp_path / "v.volt")
    path.write_text("@@@ 2\na@@ 5\na@@ 3 #fairseq:overwrite\n")
    again = read_vocabulary(path, format="fairseq", merges=tmp_path / "v.volt")
    assert dict(zip(again.tokens, again.counts, strict=True)) == {"@": 2, "a": 5, "a@@</w>": 3}
    path.write_text(path.read_text() + "a@@ 1 #fairseq:overwrite\n")
    with pytest.raises(VocabularyError, match=r"dict\.txt:4: 'a@@' repeats line 2"):
        read_vocabulary(path, format="fairseq", merges=tmp_path / "v.volt")


def test_user_tokens_keep_their_ids(tmp_path):
    """A user token has in fairseq the id that it has in VOLT. Its spelling inside a word
    ("<url>@@") follows all other pieces, and a note says so.
    """
    vocabulary = replace(LIKE, tokens=("a", "@"), special=SpecialTokens(user=("<url>",)))
    notes = write_vocabulary(vocabulary, tmp_path / "dict.txt", to="fairseq")
    ids = fairseq_ids((tmp_path / "dict.txt").read_text())
    assert ids["<url>"] == vocabulary.ids["<url>"]
    assert ids["<url>@@"] == len(vocabulary)
    assert any("<url>@@" in note for note in notes)


def test_fillers_are_left_out(tmp_path):
    """The words madeupword0000 … of count 0, which fairseq-preprocess adds, are not read as tokens."""
    LIKE.save(tmp_path / "v.volt")
    (tmp_path / "dict.txt").write_text("a@@ 9\nmadeupword0000 0\nmadeupword0001 0\n")
    vocabulary = read_vocabulary(
        tmp_path / "dict.txt", format="fairseq", merges=tmp_path / "v.volt"
    )
    assert vocabulary.tokens == ("a",)
