"""Laws of token lists and the text that goes with them: every piece that "@@" text may hold has an id in the list."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from drawn import examples
from exports import LINES, learn, texts
from hypothesis import given, settings
from hypothesis import strategies as st
from list_readers import READERS

from volt.encode.encoder import Encoder
from volt.formats.registry import read_vocabulary, write_vocabulary
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

NAMES = ("fairseq", "marian", "opennmt")
SUFFIX = learn(LINES[1:4], "suffix", "whitespace", user=("<url>", "[NUM]"), byte_fallback=True)
TEXT = st.lists(
    texts | st.sampled_from(["<url>", "<url>x", "x[NUM]", "é<url>[NUM]", "</w>"]), max_size=5
).map(" ".join)


@pytest.fixture(scope="module", params=NAMES)
def ids(request, tmp_path_factory) -> dict[str, int]:
    """What a reader that follows the library makes of the list."""
    path = tmp_path_factory.mktemp("lists") / "list"
    write_vocabulary(SUFFIX, path, to=request.param)
    return READERS[request.param][0](path.read_bytes().decode())


@given(TEXT)
@settings(deadline=None, max_examples=examples(40))
def test_every_piece_of_cut_text_has_an_id(ids, text):
    """Byte tokens and user tokens stand in "@@" text alone and with more of their word behind them; lists hold both,
    and no piece is unknown, whatever the text is."""
    line = text.replace("\n", " ").replace("\r", " ")
    cut = Encoder(SUFFIX).encode_text(line.encode(), separator="@@").decode()
    assert [piece for piece in cut.split() if piece not in ids] == []


def test_pieces_have_other_ids_where_words_go_on(ids):
    """A byte token that ends its word has VOLT's place in the list; the same with more behind it has one of its own,
    behind all of VOLT's."""
    first = min(ids[piece + "@@"] for piece in ("<url>", "[NUM]", "<0x00>", "<0xFF>"))
    assert first > max(ids[piece] for piece in ("<url>", "<0x00>", "<0xFF>", "</w>"))
    assert ids["<0xFF>"] - ids["<0x00>"] == 255


@pytest.mark.parametrize("name", [*NAMES, "tokens"])
def test_lists_leave_out_what_has_a_role_and_no_text(name, tmp_path: Path):
    """Ids that a vocabulary numbers itself: pieces stay in the order of ids, roles and unused ids are left out, a role
    that is a user token stays, and with the vocabulary as merges the same comes back."""
    special = SpecialTokens(
        "<|end|>", "<|end|>", "<|end|>", None, user=("<|end|>",), control=("[A]",)
    )
    order = ("b", "", "[A]", "a", "ab", "<|end|>")
    vocabulary = Vocabulary(
        (("a", "b"),), ("b", "a", "ab"), marker="none", special=special, order=order
    )
    notes = write_vocabulary(vocabulary, tmp_path / "list", to=name)
    ids, _ = READERS[name]
    found = ids((tmp_path / "list").read_bytes().decode())
    assert sorted(set(order) & set(found), key=found.__getitem__) == [
        "b",
        "[A]",
        "a",
        "ab",
        "<|end|>",
    ]
    assert "ids differ from VOLT's" in notes[0] or name == "opennmt"
    vocabulary.save(tmp_path / "v.volt")
    assert read_vocabulary(tmp_path / "list", format=name, merges=tmp_path / "v.volt") == vocabulary


@pytest.mark.parametrize("name", NAMES)
def test_what_a_list_does_not_hold_has_no_id(name, tmp_path: Path):
    """Read with the merges of a vocabulary that numbers its pieces itself, a token that the list lacks leaves its id
    unused, so that the others keep theirs."""
    order = ("b", "<unk>", "a", "ab", "<s>", "</s>", "<pad>")
    full = Vocabulary((("a", "b"),), ("b", "a", "ab"), marker="none", order=order)
    full.save(tmp_path / "v.volt")
    write_vocabulary(replace(full, tokens=("b", "ab"), order=()), tmp_path / "list", to=name)
    found = read_vocabulary(tmp_path / "list", format=name, merges=tmp_path / "v.volt")
    assert found.order == ("b", "<unk>", "", "ab", "<s>", "</s>", "<pad>")
