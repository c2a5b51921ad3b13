"""Laws of an order of ids: each piece has one id, some ids are unused, and pieces of text do not
depend on the order.
"""

from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.batches import ids_of
from support.encoders import encoder
from support.vocabularies import vocabularies

from volt.encode.encoder import Encoder
from volt.errors import ConfigError, VocabularyError
from volt.text.special_tokens import ROLES, SpecialTokens
from volt.vocabulary import Vocabulary

TEXTS = ["low lower <url> newest", "a — ü😀\t█", "", "<unk> <s>x</s> <url>"]
PLAIN = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo"), marker="none")


@st.composite
def orders(draw, vocabulary):
    """Draw an order of a vocabulary's pieces, with unused ids, in which tokens keep their order."""
    others = [piece for piece in vocabulary.pieces if piece not in {*vocabulary.tokens}]
    others += [""] * draw(st.integers(0, 5))
    is_token = [True] * vocabulary.size + [False] * len(others)
    tokens = iter(vocabulary.tokens)
    rest = iter(draw(st.permutations(others)))
    return tuple(next(tokens if one else rest) for one in draw(st.permutations(is_token)))


@given(st.data(), vocabularies())
def test_a_file_stores_every_id(data, vocabulary):
    """Saving and loading a vocabulary with any order changes no id and no kind of piece."""
    numbered = replace(vocabulary, order=data.draw(orders(vocabulary)))
    with TemporaryDirectory() as folder:
        numbered.save(Path(folder, "numbered.volt"))
        found = Vocabulary.load(Path(folder, "numbered.volt"))
    assert (found, found.pieces, found.kinds) == (numbered, numbered.pieces, numbered.kinds)
    assert found.fingerprint == numbered.fingerprint != vocabulary.fingerprint
    assert found.kinds.count("unused") == found.pieces.count("")


@given(
    st.data(),
    st.sampled_from(["suffix", "prefix", "none"]),
    st.booleans(),
    st.sampled_from(["whitespace", "metaspace"]),
)
def test_ids_are_only_renamed(data, marker, byte_fallback, pretokenizer):
    """With any order, pieces and decoded texts equal those of the vocabulary without an order."""
    plain = encoder(
        pretokenizer=pretokenizer, marker=marker, byte_fallback=byte_fallback, user=("<url>",)
    )
    numbered = Encoder(replace(plain.vocabulary, order=data.draw(orders(plain.vocabulary))))
    old = plain.encode_batch(TEXTS)
    new = numbered.encode_batch(TEXTS)
    pieces = [numbered.vocabulary.pieces[number] for number in new.ids]
    assert pieces == [plain.vocabulary.pieces[number] for number in old.ids]
    assert numbered.encode_lines(TEXTS) == plain.encode_lines(TEXTS)
    assert [numbered.encode_ids(text).tolist() for text in TEXTS] == ids_of(new)
    decoded = plain.decode_batch(old)
    assert numbered.decode_batch(new) == list(map(numbered.decode_ids, new)) == decoded


def test_without_unk_unknown_characters_leave_no_id():
    """Without unk, every call that encodes returns unknown characters as pieces, and returns no id
    for them.
    """
    encoder = Encoder(replace(PLAIN, special=SpecialTokens(None, None, "</s>", None)))
    assert encoder.vocabulary.unk_id is None
    assert encoder.encode("lox lo") == ["lo", "x", "lo"]
    assert encoder.encode_ids("lox lo").tolist() == [3, 3]
    assert encoder.encode_batch(["lox lo"]).ids.tolist() == [3, 3]
    assert encoder.encode_text(b"lox lo\n", form="ids") == b"3 3\n"
    assert encoder.ids(["lo", "x"]).tolist() == [3]
    assert encoder.encode_ids("x").dtype == np.int32


def test_roles_may_share_a_token_and_be_found_in_text():
    """One token may be bos, eos and unk. It is found in text if it is a user token; control tokens
    are not found.
    """
    end = "<|end|>"
    special = SpecialTokens(unk=end, bos=end, eos=end, pad=None, user=(end,), control=("[INST]",))
    found = replace(PLAIN, special=special, order=("l", "o", "[INST]", "lo", end))
    assert found.kinds == ("token", "token", "control", "token", "user")
    assert Encoder(found).encode_ids(f"lo{end}o").tolist() == [3, 4, 1]
    assert 2 not in Encoder(found).encode_ids("[INST] lo").tolist()


def test_a_token_of_several_roles_is_of_the_first_kind():
    """The kind of a token with several roles is the first of unk, bos, eos and pad."""
    for names in product(("<a>", "<b>", None), repeat=4):
        found = replace(PLAIN, special=SpecialTokens(*names))
        kinds = [
            role
            for role, name in zip(ROLES, names, strict=True)
            if name and role == ROLES[names.index(name)]
        ]
        assert found.kinds == (*kinds, "token", "token", "token")
        assert found.unk_id == found.ids.get(names[0])


def test_closed_retains_ids():
    """`closed` gives scaffolding the last ids, or new ids in the order of merges."""
    pruned = Vocabulary(
        merges=(("l", "o"),),
        tokens=("l", "o"),
        order=("l", "<s>", "<unk>", "", "o", "<pad>", "</s>"),
    )
    assert pruned.closed().pieces == (*pruned.pieces, "lo")
    assert pruned.closed(order="merges").pieces == ("<unk>", "<s>", "</s>", "<pad>", "l", "o", "lo")


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (("l", "o", "lo", "x"), "id 3 belongs to 'x', which is not a piece"),
        (("l", "o", "lo", "l"), "'l' has the ids 0 and 3"),
        (("l", "o", "lo"), "no id for '<unk>'"),
        (("<unk>", "<s>", "</s>", "<pad>", "o", "l", "lo"), "'o' follows tokens of higher ids"),
    ],
)
def test_wrong_orders_are_refused(order, message):
    """An order with an unknown, repeated, missing or misplaced piece is refused."""
    with pytest.raises(VocabularyError, match=message):
        replace(PLAIN, order=order)


def test_damaged_pieces_are_reported_with_their_line(tmp_path):
    """A file of version 2 with an unknown kind, a missing row, or an invalid setting is refused.
    The error names the line of a row.
    """
    path = tmp_path / "numbered.volt"
    replace(PLAIN, special=SpecialTokens(pad=None), counts=(3, 2, 1)).save(path)
    text = path.read_text()
    for old, new, message in [
        ('"token", 3]', '"tokens", 3]', ":16: found"),
        ('["l", "token", 3],\n', "", "the fingerprint does not match"),
        ('"bos"]', '"boss"]', ":14: unknown kind 'boss'"),
        ('"merging": "pairs"', '"merging": "triples"', "triples"),
        ('"whole_words": false', '"whole_words": 0', "whole_words"),
    ]:
        assert old in text
        path.write_text(text.replace(old, new))
        with pytest.raises(VocabularyError, match=message):
            Vocabulary.load(path)


@pytest.mark.parametrize("order", ["ids", "merges"])
def test_a_closed_vocabulary_keeps_the_counts_of_its_tokens(order):
    """`closed` adds the results of merges that are not tokens with the count 0; all other tokens keep
    their counts."""
    pruned = Vocabulary((("l", "o"), ("lo", "w")), ("l", "o", "w", "low"), (9, 8, 7, 6))
    closed = pruned.closed(order=order)
    counts = dict(zip(closed.tokens, closed.counts, strict=True))
    assert counts == {"l": 9, "o": 8, "w": 7, "low": 6, "lo": 0}


def test_an_unknown_order_is_refused():
    """`closed` refuses an unknown order and names the two orders."""
    with pytest.raises(ConfigError, match="choose from ids, merges"):
        Vocabulary((), ("l",)).closed(order="rank")
