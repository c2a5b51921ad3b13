"""Laws of atoms: words become the symbols that merging starts from, and each atom has its own code."""

from itertools import pairwise

import naive
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.errors import ConfigError
from volt.text.atoms import atom_code, atom_codes, atom_text, check_marker, token_lengths

FEW = settings(deadline=None, max_examples=examples(100))
words_ = st.lists(
    st.text(st.sampled_from("ab▁é😀</w>\0\U0010ffff"), min_size=1, max_size=8), max_size=6
)
markers = st.sampled_from(["suffix", "prefix", "none"])


@given(words_, markers)
@FEW
def test_codes_spell_the_atoms(words, marker):
    """`atom_codes` returns the codes of the naive implementation's atoms, word after word."""
    codes, ends = atom_codes(words, marker=marker)
    assert ends.shape == (len(words),)
    atoms = [atom_text(code) for code in codes.tolist()]
    assert [atoms[start:end] for start, end in pairwise([0, *ends.tolist()])] == [
        naive.atoms(word, marker) for word in words
    ]


@given(words_, markers)
@FEW
def test_codes_and_texts_are_inverse(words, marker):
    """`atom_text(atom_code(atom))` is the atom, for every atom of a word."""
    for word in words:
        for atom in naive.atoms(word, marker):
            code = atom_code(atom, marker=marker)
            assert code is not None
            assert atom_text(code) == atom


@pytest.mark.parametrize(
    ("text", "marker"),
    [
        ("", "suffix"),
        ("ab", "none"),
        ("</w>", "suffix"),
        ("ab</w>", "suffix"),
        ("a</w>", "none"),
        ("▁a", "prefix"),
    ],
)
def test_other_strings_are_not_atoms(text, marker):
    """`atom_code` returns None for the empty text, two characters, and the marker alone."""
    assert atom_code(text, marker=marker) is None


@given(words_, markers)
@FEW
def test_lengths_count_characters_but_not_markers(words, marker):
    """`token_lengths` counts the characters of a token without its marker, and at least 1."""
    tokens = [*words, *(atom for word in words for atom in naive.atoms(word, marker))]
    found = token_lengths(tokens, marker=marker)
    assert found.tolist() == [naive.token_length(token, marker) for token in tokens]
    assert found.min(initial=1) >= 1


def test_unknown_markers_are_refused():
    """`check_marker` refuses a marker other than suffix, prefix and none."""
    with pytest.raises(ConfigError, match="infix"):
        check_marker("infix")
