"""Laws of OpenNMT-py's lists: either order of the two fields, and counts with fractions."""

import pytest
from support.list_readers import opennmt_ids

from volt.formats.opennmt import read_rows
from volt.formats.registry import read_vocabulary, write_vocabulary
from volt.vocabulary import Vocabulary

SMALL = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo"), marker="none")


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("l\t9\n1\t5\n", [("l", 9), ("1", 5)]),
        ("9\tl\n5\t1\n", [("l", 9), ("1", 5)]),
        ("5\t1\n", [("5", 1)]),
        ("12.7\tlo\n3\to\n0.004\tl\n1.5e+03\t1\n", [("lo", 13), ("o", 3), ("l", 1), ("1", 1501)]),
    ],
)
def test_fields_are_read_in_either_order(text, entries, tmp_path):
    """The piece is the first field if that order fits at least as many lines as the other. A count
    with a fraction is rounded up.
    """
    path = tmp_path / "list"
    path.write_text(text)
    assert [(row.piece, row.count) for row in read_rows(path)] == entries
    SMALL.save(tmp_path / "a.volt")
    vocabulary = read_vocabulary(path, format="opennmt", merges=tmp_path / "a.volt")
    assert list(zip(vocabulary.tokens, vocabulary.counts, strict=True)) == entries


@pytest.mark.parametrize(("counts", "pieces"), [((9, 8, 7), ["l", "o"]), ((), [])])
def test_a_minimum_drops_pieces_without_counts(counts, pieces, tmp_path):
    """OpenNMT-py reads the counts that VOLT writes, and drops rarer pieces. If the vocabulary has
    no counts, a note warns that a minimum drops all pieces.
    """
    vocabulary = Vocabulary(SMALL.merges, SMALL.tokens, counts, marker="none")
    notes = write_vocabulary(vocabulary, tmp_path / "list", to="opennmt")
    text = (tmp_path / "list").read_text()
    assert list(opennmt_ids(text, min_count=8)) == pieces
    assert any("min_frequency" in note for note in notes) == (not counts)
