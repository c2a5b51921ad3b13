"""Laws of `volt.formats.check`: it counts lines that a library encodes as VOLT does, and shows
differences.
"""

import sys
from itertools import product

import pytest
from formats.fitting import LIBRARIES, fitting, written

from volt.encode.encoder import Encoder
from volt.errors import ConfigError, MissingLibraryError
from volt.formats import check
from volt.formats.check import Agreement, probe_lines
from volt.formats.protocol import Peer
from volt.formats.registry import peer_loader, write_vocabulary
from volt.text.byte_alphabet import ALPHABET
from volt.vocabulary import Vocabulary


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_library_agrees_on_probe_lines(name, tmp_path):
    """For each format with a library, `check` finds no difference on `probe_lines`, or
    `write_vocabulary` returned notes.
    """
    vocabulary, path, notes = written(tmp_path, name)
    agreement = check.check(vocabulary, path, name, probe_lines(vocabulary))
    assert agreement.is_complete or notes, agreement.differences[:1]
    assert agreement.n_lines > 50


TWICE = (
    ("a", "b"),
    ("b", "c"),
    ("ab", "c"),
    ("c", "d"),
    ("a", "bc"),
)  # "abc" before and after "cd"
WORDS = list(map("".join, product("abcd", repeat=4)))


@pytest.mark.parametrize(
    ("name", "marker", "cut"),
    [
        ("huggingface", "none", "metaspace"),
        ("sentencepiece", "none", "metaspace"),
        ("sentencepiece", "prefix", "whitespace"),
        ("subword-nmt", "suffix", "whitespace"),
        ("tiktoken", "none", "bytes"),
    ],
)
@pytest.mark.parametrize("in_merge_order", [True, False])
def test_a_token_that_two_merges_make_has_the_first_rank(
    name, marker, cut, in_merge_order, tmp_path
):
    """Merges make "abc" before and after "cd". Each library joins "abc" before "cd", as VOLT does,
    whether or not ids follow the order of merges.
    """
    atoms = (*(ALPHABET if cut == "bytes" else "▁abcd"),)
    if marker == "suffix":
        atoms += tuple(f"{letter}</w>" for letter in "abcd")
    options = {"marker": marker, "pretokenizer": cut}
    vocabulary = Vocabulary(TWICE, (*atoms, "cd", "abc", "bc", "ab"), **options)
    if in_merge_order:
        vocabulary = Vocabulary(TWICE, atoms, **options).closed(order="merges")
        assert vocabulary.tokens == (*atoms, "ab", "bc", "abc", "cd")
    write_vocabulary(vocabulary, tmp_path / "t.model", to=name)
    load = peer_loader(name)
    assert load is not None
    ours = Encoder(vocabulary).encode_lines(WORDS)
    assert load(tmp_path / "t.model", vocabulary).pieces(WORDS) == ours
    assert ours[WORDS.index("abcd")][-2] == "abc"


def test_differences_have_lines_and_both_sides(monkeypatch):
    """`check` counts lines with equal pieces and lines with equal ids. It shows VOLT's and the
    library's pieces of a line that differs, or their ids if the pieces are equal.
    """
    vocabulary = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "o</w>"))
    rows = [["lo", "o</w>"], ["l", "o", "o</w>"], ["lo", "o</w>"]]
    peer = Peer("someone", lambda lines: rows, lambda lines: [[6, 7], [4, 5, 7], [6, 5]])
    monkeypatch.setattr(check, "peer_loader", lambda format: lambda path, vocabulary: peer)
    agreement = check.check(vocabulary, "x", "subword-nmt", ["loo"] * 3)
    counts = (agreement.n_equal_pieces, agreement.n_equal_ids, agreement.is_complete)
    assert counts == (2, 1, False)
    assert [(row.line, row.ours, row.theirs) for row in agreement.differences] == [
        (2, ["lo", "o</w>"], ["l", "o", "o</w>"]),
        (3, ["6", "7"], ["6", "5"]),
    ]
    assert Agreement("someone", 3, 3, None, ()).is_complete


def test_lists_have_no_library(tmp_path):
    """`check` refuses a format that only lists tokens. The error names the formats that can be
    checked.
    """
    with pytest.raises(ConfigError, match="subword-nmt, sentencepiece, huggingface, tiktoken"):
        check.check(fitting("tokens"), tmp_path / "x", "tokens", ["a"])


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_missing_library_gives_the_pip_command(name, tmp_path, monkeypatch):
    """If the library of a format is not installed, the error of `check` contains a pip command."""
    vocabulary, path, _ = written(tmp_path, name)
    for library in LIBRARIES[name]:
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingLibraryError, match="pip install"):
        check.check(vocabulary, path, name, [])
