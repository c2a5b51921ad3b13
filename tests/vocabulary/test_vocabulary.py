"""Laws of `Vocabulary`: ids, atoms, scaffolding and fingerprint; inconsistent vocabularies are
refused.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from support.drawn import examples
from support.vocabularies import vocabularies

from volt.encode.encoder import Encoder
from volt.errors import ArgumentError, ConfigError, VocabularyError
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

FEW = settings(max_examples=examples(80))
SMALL = Vocabulary(
    merges=(("l", "o"), ("lo", "w</w>"), ("e", "r</w>")),
    tokens=("l", "o", "w</w>", "e", "r</w>", "é", "low</w>", "er</w>"),
    counts=(9, 8, 7, 6, 5, 4, 1, 0),
    special=SpecialTokens(user=("<url>", "<é>")),
    provenance={"signature": "volt|…", "size": 11, "converged": True},
)


@given(vocabularies())
@FEW
def test_ids_number_the_pieces(vocabulary):
    """Special tokens have the first ids, and tokens the last ones; each piece has one id, and each
    id one piece.
    """
    pieces = vocabulary.pieces
    assert pieces[: len(vocabulary.special.all)] == vocabulary.special.all
    assert pieces[len(pieces) - vocabulary.size :] == vocabulary.tokens
    assert len(set(pieces)) == len(pieces)
    assert vocabulary.ids == {piece: number for number, piece in enumerate(pieces)}
    assert set(BYTE_TOKENS).issubset(pieces) == vocabulary.byte_fallback


@given(vocabularies())
@FEW
def test_tokens_are_atoms_or_results(vocabulary):
    """`scaffolding` is the results of merges that are not tokens. `atoms` is the tokens and parts
    of merges that no merge makes.
    """
    results = {"".join(merge) for merge in vocabulary.merges}
    parts = {part for merge in vocabulary.merges for part in merge}
    tokens = set(vocabulary.tokens)
    assert set(vocabulary.scaffolding) == results - tokens
    assert len(set(vocabulary.scaffolding)) == len(vocabulary.scaffolding)
    assert set(vocabulary.atoms) == (tokens | parts) - results


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
def test_the_fingerprint_depends_on_the_content(change):
    """A change of any field except the provenance changes the fingerprint and equality."""
    fields = {name: getattr(SMALL, name) for name in SMALL.__dataclass_fields__}
    other = Vocabulary(**{**fields, **change})
    assert other.fingerprint != SMALL.fingerprint
    assert other != SMALL
    without_provenance = Vocabulary(**{**fields, "provenance": {}})
    assert without_provenance.fingerprint == SMALL.fingerprint
    assert without_provenance == SMALL


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"merges": (("a", "bc"),), "tokens": ()}, "merges, entry 1: .*'bc'"),
        ({"merges": (("ab", "c"), ("a", "b")), "tokens": ()}, "merges, entry 1: .*'ab'"),
        ({"tokens": ("a", "b", "a")}, "tokens, entry 3: .*repeats token 1"),
        ({"tokens": ("a", "ab")}, "tokens, entry 2: .*no merge makes 'ab'"),
        ({"tokens": ("a", "b"), "counts": (1,)}, "2 tokens but 1 counts"),
        ({"tokens": ("a",), "counts": (-1,)}, "tokens, entry 1: .*-1"),
        ({"merges": (("<s", ">"),), "tokens": ("<s>",)}, "merges, entry 1"),
        ({"merges": (("<", "s"), ("<s", ">")), "tokens": ("<s>",)}, "tokens, entry 1: .*special"),
        ({"tokens": ("</w>",)}, "no merge makes"),
        ({"tokens": ("",)}, "tokens, entry 1"),
        ({"tokens": ("a</w>",), "marker": "none"}, "tokens, entry 1"),
    ],
)
def test_inconsistent_vocabularies_are_refused(fields, message):
    """The error for an inconsistent vocabulary names the list and the entry that contradicts
    another.
    """
    with pytest.raises(VocabularyError, match=message):
        Vocabulary(**{"merges": (), **fields})


def test_an_unknown_marker_is_refused():
    """A marker other than suffix, prefix and none is refused."""
    with pytest.raises(ConfigError, match="infix"):
        Vocabulary((), (), marker="infix")


@pytest.mark.parametrize(
    "value", [0, 1, 2, -1, None, "no", 1.5, 10**30, np.int64(1), np.array([True])]
)
@pytest.mark.parametrize("name", ["byte_fallback", "whole_words"])
def test_only_true_and_false_are_flags(name, value):
    """byte_fallback and whole_words accept only True and False; numbers and texts are refused,
    although they have a truth value.
    """
    with pytest.raises(ArgumentError, match=f"{name} is .*; give True or False"):
        Vocabulary(merges=(), tokens=("a",), **{name: value})


def test_flags_of_numpy_are_flags(tmp_path):
    """NumPy's True and False are accepted as flags, also in a saved file."""
    flags = {"byte_fallback": np.True_, "whole_words": np.False_}
    vocabulary = Vocabulary(merges=(), tokens=("a",), **flags)
    vocabulary.save(tmp_path / "a.volt")
    assert (vocabulary.byte_fallback, vocabulary.whole_words) == (True, False)
    assert Vocabulary.load(tmp_path / "a.volt") == vocabulary


def test_an_empty_vocabulary_encodes():
    """With a vocabulary without tokens, every character is unknown."""
    encoder = Encoder(Vocabulary((), ()))
    assert encoder.encode("low") == ["l", "o", "w</w>"]
    assert encoder.encode_ids("low").tolist() == [0, 0, 0]
