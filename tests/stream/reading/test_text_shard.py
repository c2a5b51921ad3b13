"""`open_text`: files become segments that have every line once, read as columns."""

import gzip

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.golden import check
from support.shard_lines import LINES, PACKERS, TEXT, all_lines, column_lines, read_lines

from volt.stream.reading import text_shard
from volt.stream.reading.open_shard import open_shard
from volt.stream.reading.text_shard import lines_of, split_lines


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("segment", [1, 7, 100, 1000, None])
def test_segments_have_the_lines_of_a_file(tmp_path, packer, segment):
    """open_text reads a file's lines in any compression, which does not change the digest."""
    path = tmp_path / "a.tsv"
    path.write_bytes(PACKERS[packer](TEXT))
    shard = open_shard(str(path), split_lines=segment, cache=tmp_path / "cache")
    assert [line.decode() for line in all_lines(shard)] == LINES
    assert set(shard.counts[:-1]) <= {segment}
    (tmp_path / "b.tsv").write_bytes(TEXT)
    assert shard.facts.digest == open_shard(str(tmp_path / "b.tsv"), split_lines=3).facts.digest


@settings(
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.integers(0, 30), max_size=40), st.integers(1, 9), st.integers(1, 100), st.booleans()
)
def test_read_sizes_do_not_change_segments(
    tmp_path,
    monkeypatch,
    lengths,
    segment,
    size,
    ends,
):
    """All segments but the last have the requested number of lines, for any read size."""
    lines = [*(b"x" * length for length in lengths), b"last"]
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\n".join(lines) + b"\n" * ends)
    monkeypatch.setattr("volt.stream.reading.text_shard._READ_BYTES", size)
    shard = open_shard(str(path), split_lines=segment)
    expected = [lines[start : start + segment] for start in range(0, len(lines), segment)]
    found = [read_lines(shard, number) for number in range(len(shard.counts))]
    assert found == expected


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\rb\x0bc\x0cd\x85e\n", [b"a\rb\x0bc\x0cd\x85e"]),
        ("a\u2028b\u2029c\x1cd\n".encode(), ["a\u2028b\u2029c\x1cd".encode()]),
        (b"\n\n", [b"", b""]),
        (b"a\r", [b"a"]),
        (b"a\r\r\nb\r\r\n", [b"a\r", b"b\r"]),
        (b"a\r\r", [b"a\r"]),
        (b"\r\n\r", [b"", b""]),
    ],
)
def test_only_line_feeds_end_lines(data, lines):
    """open_text ends lines only at "\\n", and drops one "\\r" before it; other separators of
    Unicode are text."""
    column = lines_of(data, is_first=False)
    assert split_lines(data) == lines == column_lines(column)


@settings(
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\t", b"\xef\xbb\xbf"]), max_size=30),
    st.integers(1, 5),
)
def test_segment_sizes_do_not_change_lines(tmp_path, parts, segment):
    """A file has the same lines for any segment size, equal to a naive split without a byte order
    mark."""
    data = b"".join(parts)
    path = tmp_path / "a.tsv"
    path.write_bytes(data)
    whole, cut = (open_shard(str(path), split_lines=size) for size in (None, segment))
    text = data.removeprefix(b"\xef\xbb\xbf")
    assert all_lines(whole) == all_lines(cut) == (split_lines(text) if text else [])
    assert whole.facts.digest == cut.facts.digest


TEXTS = (
    b"a\tb\nlonger line\n\xff\n",
    b"\xef\xbb\xbfab\r\nc",
    b"a\n\n\tb\xc3\xa9\n",
    b"",
    b"\n",
    b"\r\n\xff\t\xff",
)


@pytest.mark.parametrize("split", [1, 2, None])
def test_facts_of_texts(tmp_path, split):
    """The facts of a text file have its bytes, longest line, first tab and UTF-8, for plain and
    compressed text."""
    result = []
    for number, text in enumerate(TEXTS):
        for pack in (bytes, gzip.compress):
            path = tmp_path / f"{number}.{pack.__name__}"
            path.write_bytes(pack(text))
            shard = open_shard(str(path), split_lines=split, cache=tmp_path / "cache")
            facts = shard.facts
            result.append(
                f"{shard.counts} {facts.n_bytes} {facts.longest} {facts.first_tab} {facts.is_utf8}"
            )
            assert result[-1] == result[-1 - (pack is not bytes)]
            assert b"".join(map(shard.files[0].read, range(len(shard.counts)))) == text
            for n in range(1, shard.n_lines + 1):
                (tmp_path / "first").write_bytes(b"\n".join(text.split(b"\n")[:n]) + b"\n")
                first = open_shard(str(tmp_path / "first"), split_lines=None).facts.digest
                assert first in shard.digests_of(n) or n == shard.n_lines
    check(f"stream facts {split}", result[::2])


def test_lines_are_cut_across_blocks():
    """LineCutter.cut takes lines across blocks, and returns the number of missing lines at the
    end."""
    lines = text_shard.LineCutter(iter([b"a\nb\n", b"c\n", b"d\ne"]))
    missing = []

    def taken(n):
        cut = lines.cut(n)
        result = []
        try:
            while True:
                result.append(next(cut))
        except StopIteration as end:
            missing.append(end.value)
            return result

    assert [taken(1), taken(0), taken(2), taken(4), taken(1)] == [
        [b"a\n"],
        [],
        [b"b\n", b"c\n"],
        [b"d\ne"],
        [],
    ]
    assert missing == [0, 0, 0, 2, 1]


MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("split_lines", [1, None])
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_byte_order_mark_alone_is_no_line(tmp_path, split_lines, is_packed):
    """A file of only a byte order mark has no line; with a line end after the mark, it has one."""
    for data, n_lines in (
        (MARK, 0),
        (b"", 0),
        (MARK + b"\n", 1),
        (MARK + b"a", 1),
        (MARK + b"\r", 1),
    ):
        path = tmp_path / f"{len(data)}.tsv"
        path.write_bytes(gzip.compress(data) if is_packed else data)
        shard = open_shard(str(path), split_lines=split_lines, cache=tmp_path / "cache")
        assert (
            sum(len(shard.read(segment)[0]) for segment in range(len(shard.counts)))
            == shard.n_lines
            == n_lines
        )
    assert len(lines_of(MARK, is_first=False)) == 1, "elsewhere the same bytes are text"
