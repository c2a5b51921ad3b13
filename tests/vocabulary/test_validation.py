"""Laws of ids that a vocabulary numbers itself: every piece has one, some are unused, text is cut as before."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from encoders import encoder
from hypothesis import given
from hypothesis import strategies as st
from vocabularies import vocabularies

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.text.special_tokens import ROLES, SpecialTokens
from volt.vocabulary import Vocabulary

TEXTS = ["low lower <url> newest", "a — ü😀\t█", "", "<unk> <s>x</s> <url>"]
PLAIN = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo"), marker="none")


@st.composite
def orders(draw, vocabulary):
    """Any order of a vocabulary's pieces in which tokens stay in theirs, with unused ids between."""
    n_free = draw(st.integers(0, 5))
    others = [
        *(piece for piece in vocabulary.pieces if piece not in set(vocabulary.tokens)),
        *[""] * n_free,
    ]
    places = sorted(draw(st.permutations(range(len(others) + vocabulary.size)))[: vocabulary.size])
    order, rest = [""] * (len(others) + vocabulary.size), iter(draw(st.permutations(others)))
    for place, token in zip(places, vocabulary.tokens, strict=True):
        order[place] = token
    taken = set(places)
    return tuple(order[place] if place in taken else next(rest) for place in range(len(order)))


@given(st.data(), vocabularies())
def test_a_file_holds_every_id(data, vocabulary):
    """Saving and loading changes no id, and a file of a vocabulary that numbers itself says which is which."""
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
    """Pieces are those of the same vocabulary without an order, ids are theirs, and ids spell the same text."""
    plain = encoder(
        pretokenizer=pretokenizer, marker=marker, byte_fallback=byte_fallback, user=("<url>",)
    )
    numbered = Encoder(replace(plain.vocabulary, order=data.draw(orders(plain.vocabulary))))
    old, new = plain.encode_batch(TEXTS), numbered.encode_batch(TEXTS)
    names = numbered.vocabulary.pieces
    assert [names[number] for number in new.ids] == [
        plain.vocabulary.pieces[number] for number in old.ids
    ]
    assert numbered.encode_lines(TEXTS) == plain.encode_lines(TEXTS)
    assert [*map(list, map(numbered.encode_ids, TEXTS))] == [*map(list, new)]
    assert (
        numbered.decode_batch(new)
        == plain.decode_batch(old)
        == [numbered.decode_ids(line) for line in new]
    )


def test_without_unk_unknown_characters_leave_no_id():
    """Where no token stands for the unknown, it is among pieces and not among ids, in every form."""
    found = Encoder(replace(PLAIN, special=SpecialTokens(None, None, "</s>", None)))
    assert found.vocabulary.unk_id is None
    assert found.encode("lox lo") == ["lo", "x", "lo"]
    assert (
        found.encode_ids("lox lo").tolist() == found.encode_batch(["lox lo"]).ids.tolist() == [3, 3]
    )
    assert found.encode_text(b"lox lo\n", form="ids") == b"3 3\n"
    assert found.ids(["lo", "x"]).tolist() == [3]


def test_roles_may_share_a_token_and_be_found_in_text():
    """One token may be bos, eos and unk; a user token with a role is found in text, other roles are plain text."""
    end = "<|end|>"
    special = SpecialTokens(unk=end, bos=end, eos=end, pad=None, user=(end,), control=("[INST]",))
    found = replace(PLAIN, special=special, order=("l", "o", "[INST]", "lo", end))
    assert found.kinds == ("token", "token", "control", "token", "user")
    assert Encoder(found).encode_ids(f"lo{end}o").tolist() == [3, 4, 1]
    assert 2 not in Encoder(found).encode_ids("[INST] lo").tolist()


def test_a_token_of_several_roles_is_of_the_first_kind():
    """Whichever of unk, bos, eos and pad share a token, the first of these roles is its kind."""
    for names in product(("<a>", "<b>", None), repeat=4):
        found = replace(PLAIN, special=SpecialTokens(*names))
        kinds = [
            role
            for role, name in zip(ROLES, names, strict=True)
            if name and role == ROLES[names.index(name)]
        ]
        assert found.kinds == (*kinds, "token", "token", "token")
        assert found.unk_id == found.ids.get(names[0])


def test_closed_keeps_ids_that_were_given():
    """Scaffolding gets ids behind all others."""
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
def test_an_order_that_is_none_is_refused(order, message):
    """Strange, repeated, missing and disordered pieces."""
    with pytest.raises(VocabularyError, match=message):
        replace(PLAIN, order=order)


def test_damaged_pieces_are_reported_with_their_line(tmp_path):
    """A file whose list of pieces has an unknown kind, a lost row, or no order."""
    path = tmp_path / "numbered.volt"
    replace(PLAIN, special=SpecialTokens(pad=None), counts=(3, 2, 1)).save(path)
    text = path.read_text()
    for found, put, message in [
        ('"token", 3]', '"tokens", 3]', ":16: found"),
        ('["l", "token", 3],\n', "", "the fingerprint does not match"),
        ('"bos"]', '"boss"]', ":14: unknown kind 'boss'"),
        ('"merging": "pairs"', '"merging": "triples"', "triples"),
        ('"whole_words": false', '"whole_words": 0', "whole_words"),
    ]:
        assert found in text
        path.write_text(text.replace(found, put))
        with pytest.raises(VocabularyError, match=message):
            Vocabulary.load(path)


def test_ids_are_int32_when_none_is_known():
    """No id at all is an array, too."""
    assert (
        Encoder(replace(PLAIN, special=SpecialTokens(None, None, None, None))).encode_ids("x").dtype
        == np.int32
    )
