"""Laws of Marian's .yml: every string is a key, and files of other YAML writers are read."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.list_readers import marian_ids

from volt.formats.marian import quote, unquote
from volt.formats.registry import listed_pieces, read_vocabulary
from volt.vocabulary import Vocabulary

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


@given(st.text(max_size=8) | st.sampled_from(TRICKY))
@settings(deadline=None, max_examples=examples(400))
def test_every_string_can_be_a_key(text):
    """Any string is read back from the key that `quote` writes, by `unquote` and by PyYAML."""
    assert unquote(quote(text)) == text
    assert marian_ids(f"{quote(text)}: 7\n") == {text: 7}


def test_files_of_yaml_writers_are_read(tmp_path):
    """The plain, single-quoted and double-quoted keys that PyYAML writes are read as pieces."""
    yaml = pytest.importorskip("yaml")
    keys = ["l@@", "'@@", '"', "\\@@", "yes", "é", "1", ":", "~"]
    ids = {piece: number for number, piece in enumerate(["</s>", "<unk>", *keys])}
    path = tmp_path / "v.yml"
    path.write_text(yaml.safe_dump(ids, allow_unicode=True), encoding="utf-8", newline="\n")
    assert listed_pieces(path) == keys
    Vocabulary(merges=(("y", "e"), ("ye", "s</w>")), tokens=("l",)).save(tmp_path / "base.volt")
    vocabulary = read_vocabulary(path, format="marian", merges=tmp_path / "base.volt")
    assert vocabulary.tokens[:5] == ("l", "'", '"</w>', "\\", "yes</w>")


@pytest.mark.parametrize("end", ["</s>", "eos", "'</s>'"])
@pytest.mark.parametrize("unk", ["<unk>", "UNK", '"<unk>"'])
def test_names_are_marians_only_at_their_own_ids(end, unk, tmp_path):
    """A row is Marian's own special token if it is </s> or <unk>, or has the old name eos at id 0
    or UNK at id 1. At another id, eos and UNK are words.
    """
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\ne o\neo s</w>\nU N\nUN K</w>\n")
    words = [word for word in ("eos", "UNK") if word not in (end, unk)]
    rows = [end, unk, "o@@", *words]
    path = tmp_path / "list"
    path.write_text("".join(f"{row}: {number}\n" for number, row in enumerate(rows)))
    assert read_vocabulary(path, merges=codes).tokens == ("o", *(f"{word}</w>" for word in words))
    assert listed_pieces(path) == ["o@@", *words]
