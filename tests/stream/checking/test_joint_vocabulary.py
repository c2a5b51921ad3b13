"""Subwords of a stream are counted with every special token, as a file that other programs read."""

from collections import Counter
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.streams import write_lines

from volt.errors import ConfigError
from volt.formats.registry import guess_format, listed_pieces, read_vocabulary, write_vocabulary
from volt.stream import Source, Stream
from volt.stream.checking.joint_vocabulary import count_subwords
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.documents import Documents
from volt.stream.transforms.subwords import Encode
from volt.stream.transforms.tags import LangPrefixBoth, Tag
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

TEXT = st.text(st.sampled_from("ab \té\u00a0\u3000▁"), max_size=12)


def count_lines(path, lines, *transforms):
    """Return the counts of the subwords of these lines."""
    write_lines(path, lines)
    source = Source("lines", (str(path),), 1.0, transforms, epochs=1, shuffle="none")
    with Stream([source]) as stream:
        return count_subwords(stream)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("subwords") / "lines.tsv"


@settings(max_examples=examples(40))
@given(lines=st.lists(TEXT, min_size=1, max_size=8))
def test_counts_equal_a_naive_count(path, lines):
    """count_subwords counts tokens between spaces in the first two fields, sorted by count, then by
    bytes."""
    naive = Counter()
    for line in lines:
        tokens = " ".join(line.split("\t")[:2]).split(" ")
        naive.update(token for token in tokens if token)
    counts = count_lines(path, lines)
    expected = sorted(naive.items(), key=lambda row: (-row[1], row[0]))
    assert counts.table.rows() == expected
    text = "".join(f"{count}\t{token}\n" for token, count in expected)
    assert counts.to_bytes().decode() == text
    assert counts.n_lines == len(lines)


@pytest.mark.parametrize("n_workers", [0, 1])
def test_the_next_lines_of_a_stream_are_counted(make, n_workers):
    """count_subwords counts the lines that the stream yields next, with any number of workers."""
    with make() as stream:
        lines = list(islice(stream, 20, 320))
    naive = Counter(token for line in lines for token in " ".join(line.split("\t")[:2]).split(" "))
    steps = []
    with make(n_workers=n_workers) as stream:
        assert stream.skip(20) == 20
        counts = count_subwords(stream, n_lines=300, progress=steps.append)
    assert (dict(counts.table.rows()), counts.n_lines) == (naive, 300)
    assert (steps[-1], steps) == (300, sorted(steps))


def test_special_tokens_are_counted_at_least_once(path):
    """count_subwords lists all tags, languages and separators, also of a variant that is never
    drawn."""
    rare = Choice((Variant(1.0), Variant(0.0, (Tag(text="[BT] [X]"),))))
    documents = Documents(id_field=2, separator="<sep>", max_lines=1)
    prefix = LangPrefixBoth("de", "en", "<BT>")
    counts = count_lines(path, ["a b\tc"] * 3, rare, prefix, documents)
    languages = ("<FROM_de>", "<TO_en>", "<BT>")
    unused = ("[BT]", "[X]", "<sep>")
    expected = dict.fromkeys(("a", "b", "c", *languages), 3) | dict.fromkeys(unused, 1)
    assert dict(counts.table.rows()) == expected
    assert set(counts.special) == {*languages, *unused}
    tokens = ["<BT>", "<FROM_de>", "<TO_en>", "a", "<sep>", "[BT]", "[X]"]
    assert counts.top(7).table["word"].to_list() == tokens
    assert counts.top(1).table.height == 6
    assert counts.top(99).table.equals(counts.table)
    with pytest.raises(ConfigError, match="n is 0"):
        counts.top(0)


def test_lines_without_tokens_give_only_special_tokens(path):
    """count_subwords of lines without tokens returns the special tokens."""
    assert count_lines(path, [" ", "\t"]).to_bytes() == b""
    tagged = Choice((Variant(1), Variant(0, (Tag(text="<a>"),))))
    assert count_lines(path, [" ", "\t"], tagged).to_bytes() == b"1\t<a>\n"


BASES = {
    "suffix": ((("l", "o"), ("lo", "w</w>")), ("low</w>", "lo", "w</w>", "l")),
    "prefix": ((("▁", "l"), ("▁l", "o"), ("▁lo", "w")), ("▁low", "▁lo", "w", "l")),
}


@pytest.mark.parametrize("marker", BASES)
def test_the_file_of_counts_is_a_vocabulary(tmp_path, marker):
    """The file of SubwordCounts is recognised as a vocabulary file; with merges, it gives a
    vocabulary with the same counts."""
    special = SpecialTokens(user=("<FROM_de>", "<TO_en>"))
    base = tmp_path / "base.volt"
    Vocabulary(*BASES[marker], marker=marker, special=special).save(base)
    steps = (Encode(base), LangPrefixBoth("de", "en"))
    counts = count_lines(tmp_path / "a.txt", ["low lo w", "low l"], *steps)
    path = tmp_path / "subwords.tsv"
    path.write_bytes(counts.to_bytes())
    assert guess_format(path, path.read_bytes()[:100]) == "opennmt"
    assert listed_pieces(path) == counts.table["word"].to_list()
    vocabulary = read_vocabulary(path, merges=base)
    expected = {token: count for token, count in counts.table.rows() if token not in special.user}
    assert dict(zip(vocabulary.tokens, vocabulary.counts, strict=True)) == expected
    write_vocabulary(vocabulary, tmp_path / "again.txt", to="opennmt")
    again = read_vocabulary(tmp_path / "again.txt", merges=base)
    assert again.tokens == vocabulary.tokens


def test_fractional_counts_are_rounded_up(tmp_path):
    """Counts below 1 in a file of Morfessor EM+Prune are read as 1."""
    Vocabulary((("l", "o"),), ("l", "o</w>"), marker="suffix").save(tmp_path / "base.volt")
    (tmp_path / "floats.tsv").write_text("3.7\tl\n0.2\to</w>\n2\tlo\n")
    vocabulary = read_vocabulary(tmp_path / "floats.tsv", merges=tmp_path / "base.volt")
    counts = dict(zip(vocabulary.tokens, vocabulary.counts, strict=True))
    assert counts == {"l": 4, "o</w>": 1, "lo": 2}
