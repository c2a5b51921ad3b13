"""The subwords of a stream: counted as naive code does, with every special token, as a file that other parts read."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import Make, write_lines

from volt.errors import ConfigError
from volt.formats.registry import guess_format, listed_pieces, read_vocabulary, write_vocabulary
from volt.stream import Source, Stream
from volt.stream.checking.joint_vocabulary import count_subwords
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.documents import Documents
from volt.stream.transforms.subwords import Encode
from volt.stream.transforms.tags import LangPrefixBoth, Tag
from volt.stream.transforms.transform import Transform
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

TEXT = st.text(st.sampled_from("ab \té\u00a0\u3000▁"), max_size=12)


def one_epoch(path: Path, *transforms: Transform) -> Stream:
    """A stream of a file's lines, each once."""
    return Stream([Source("lines", (str(path),), 1.0, transforms, epochs=1, shuffle="none")])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where lines are written."""
    return tmp_path_factory.mktemp("subwords") / "lines.tsv"


@settings(max_examples=examples(40))
@given(lines=st.lists(TEXT, min_size=1, max_size=8))
def test_tokens_are_counted_as_naive_code_does(path: Path, lines: list[str]) -> None:
    """What stands between spaces in the first two fields, most frequent first, then in the order of code points."""
    write_lines(path, lines)
    with one_epoch(path) as stream:
        found = count_subwords(stream)
    counts = Counter(
        token
        for line in lines
        for field in line.split("\t")[:2]
        for token in field.split(" ")
        if token
    )
    expected = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    assert found.table.rows() == expected
    assert found.to_bytes().decode() == "".join(f"{count}\t{token}\n" for token, count in expected)
    assert found.n_lines == len(lines)


def test_the_same_file_comes_of_any_number_of_workers(make: Make) -> None:
    """So many lines of the mixture, those that the stream gives next; another number of workers changes nothing."""
    with make() as stream:
        lines = [*islice(stream, 20, 320)]
    expected = Counter(
        token for line in lines for token in " ".join(line.split("\t")[:2]).split(" ")
    )
    for n_workers in (0, 1):
        with make(n_workers=n_workers) as stream:
            assert stream.skip(20) == 20
            found = count_subwords(stream, n_lines=300, progress=(done := list[int]()).append)
        assert (dict(found.table.rows()), found.n_lines) == (expected, 300)
        assert (done[-1], done) == (300, sorted(done))


def test_no_special_token_is_missing(path: Path) -> None:
    """Tags, languages and separators are there, once at least, be they in a variant that no line has come to."""
    write_lines(path, ["a b\tc"] * 3)
    rare = Choice((Variant(1.0), Variant(0.0, (Tag(text="[BT] [X]"),))))
    steps = (
        rare,
        LangPrefixBoth("de", "en", "<BT>"),
        Documents(id_field=2, separator="<sep>", max_lines=1),
    )
    with one_epoch(path, *steps) as stream:
        found = count_subwords(stream)
    counts = dict(found.table.rows())
    assert counts == {
        "a": 3,
        "b": 3,
        "c": 3,
        "<FROM_de>": 3,
        "<TO_en>": 3,
        "<BT>": 3,
        "[BT]": 1,
        "[X]": 1,
        "<sep>": 1,
    }
    assert set(found.special) == {"[BT]", "[X]", "<FROM_de>", "<TO_en>", "<BT>", "<sep>"}
    assert found.top(7).table["word"].to_list() == [
        "<BT>",
        "<FROM_de>",
        "<TO_en>",
        "a",
        "<sep>",
        "[BT]",
        "[X]",
    ]
    assert found.top(1).table.height == 6
    assert found.top(99).table.equals(found.table)
    with pytest.raises(ConfigError, match="n is 0"):
        found.top(0)


def test_an_empty_stream_has_its_special_tokens_alone(path: Path) -> None:
    """What has no tokens is no fault."""
    write_lines(path, [" ", "\t"])
    for steps, expected in (
        ((), b""),
        ((Choice((Variant(1), Variant(0, (Tag(text="<a>"),)))),), b"1\t<a>\n"),
    ):
        with one_epoch(path, *steps) as stream:
            assert count_subwords(stream).to_bytes() == expected


@pytest.mark.parametrize("marker", ["suffix", "prefix"])
def test_what_is_written_is_read_again(tmp_path: Path, marker: str) -> None:
    """The file is recognised; with the merges that cut the text it becomes a vocabulary of the same tokens and counts,
    and so does what that is exported to.
    """
    words = ("low</w>", "lo", "w</w>", "l") if marker == "suffix" else ("▁low", "▁lo", "w", "l")
    pairs = (
        (("l", "o"), ("lo", "w</w>"))
        if marker == "suffix"
        else (("▁", "l"), ("▁l", "o"), ("▁lo", "w"))
    )
    special = SpecialTokens(user=("<FROM_de>", "<TO_en>"))
    base = Vocabulary(pairs, words, marker=marker, special=special)  # type: ignore[arg-type]
    base.save(tmp_path / "base.volt")
    text = write_lines(tmp_path / "a.txt", ["low lo w", "low l"])
    steps = Encode(tmp_path / "base.volt"), LangPrefixBoth("de", "en")
    with one_epoch(Path(text), *steps) as stream:
        found = count_subwords(stream)
    written = tmp_path / "subwords.tsv"
    written.write_bytes(found.to_bytes())
    assert guess_format(written, written.read_bytes()[:100]) == "opennmt"
    assert listed_pieces(written) == found.table["word"].to_list()
    again = read_vocabulary(written, merges=tmp_path / "base.volt")
    counted = {token: count for token, count in found.table.rows() if token not in special.user}
    assert dict(zip(again.tokens, again.counts, strict=True)) == counted
    write_vocabulary(again, tmp_path / "again.txt", to="opennmt")
    assert (
        read_vocabulary(tmp_path / "again.txt", merges=tmp_path / "base.volt").tokens
        == again.tokens
    )


def test_fractions_become_the_next_whole_number(tmp_path: Path) -> None:
    """As in the files of Morfessor EM+Prune, so that no count is 0."""
    Vocabulary((("l", "o"),), ("l", "o</w>"), marker="suffix").save(tmp_path / "base.volt")
    (tmp_path / "floats.tsv").write_text("3.7\tl\n0.2\to</w>\n2\tlo\n")
    found = read_vocabulary(tmp_path / "floats.tsv", merges=tmp_path / "base.volt")
    assert dict(zip(found.tokens, found.counts, strict=True)) == {"l": 4, "o</w>": 1, "lo": 2}
