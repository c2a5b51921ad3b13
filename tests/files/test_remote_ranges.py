"""Laws of ranges of URLs: they count what the whole file counts, and never mix two versions."""

import gzip
import random
from itertools import product

import pytest
from support.drawn import in_turns
from support.web_servers import web_server

from volt import count_words
from volt.count.corpus import in_ranges, shards_of
from volt.errors import CorpusError
from volt.files import ranges
from volt.files.ranges import divide_file, read_range, with_line_numbers

pytest.importorskip("aiohttp", reason="aiohttp is not installed")

LINES = [b"low lower newest %d\n" % number for number in range(900)]
TEXT = b"".join(LINES)
FILES = {
    "plain": TEXT,
    "crlf": TEXT.replace(b"\n", b"\r\n"),
    "mark": b"\xef\xbb\xbf" + TEXT,
    "open end": TEXT + b"last",
    "long line": TEXT + b"newest " * 3_000 + b"\n" + TEXT,
    "empty lines": b"\n" * 2_000 + TEXT + b"\n" * 2_000,
    "one line": b"low" * 4_000,
}


@pytest.fixture
def web(clock):
    """A server of these files."""
    with web_server(
        files={f"/{name.replace(' ', '-')}.txt": data for name, data in FILES.items()}
    ) as server:
        yield server


@pytest.mark.parametrize(
    ("name", "size"), in_turns(product(FILES, [1_000, 4_096, 5_000, len(LINES[0]) * 100]), 2)
)
def test_ranges_count_what_the_file_counts(web, tmp_path, name, size):
    """Words, lines and bytes that are counted in ranges of a URL equal those of the local file,
    whatever the size of ranges."""
    (tmp_path / "a.txt").write_bytes(FILES[name])
    url = f"{web.url}/{name.replace(' ', '-')}.txt?key=hunter2"
    local = str(tmp_path / "a.txt")
    expected = count_words(local)
    assert len(shards_of([url], size=size)) == len(shards_of([local], size=size)) > 1
    assert count_words(url, map=in_ranges(map, size=size)) == expected
    found, there = (
        [[bytes(block.data) for block in read_range(part)] for part in divide_file(path, size=size)]
        for path in (url, local)
    )
    assert found == there


def test_ranges_are_read_from_a_server_that_refuses_many_requests(web):
    """If a server refuses or cuts half of the requests, ranges of a URL still give the counts of
    the file."""
    draw = random.Random(5)
    web.faults = iter(
        lambda: draw.choice(["503", "429", "cut"]) if draw.random() < 0.5 else "", None
    )
    url = f"{web.url}/plain.txt"
    assert count_words(url, map=in_ranges(map, size=3_000)).total == 4 * len(LINES)


def test_an_error_names_the_line_of_the_file(web, tmp_path):
    """The error for a range of a URL names the line in the whole file, and the URL without its
    key."""
    data = TEXT + b"low \xff\n" + TEXT
    web.files["/bad.txt"] = data
    (tmp_path / "bad.txt").write_bytes(data)
    with pytest.raises(CorpusError) as here:
        count_words(str(tmp_path / "bad.txt"), map=in_ranges(map, size=2_000))
    with pytest.raises(CorpusError) as there:
        count_words(f"{web.url}/bad.txt?key=hunter2", map=in_ranges(map, size=2_000))
    assert str(there.value) == str(here.value).replace(str(tmp_path), web.url)


@pytest.mark.parametrize("fault", ["no ranges", "no version", "packed", "small", "missing"])
def test_urls_that_cannot_be_divided_are_counted_whole(web, monkeypatch, fault):
    """A URL is not divided if the server has no ranges or no version, or if the file is compressed,
    small or missing."""
    url = f"{web.url}/plain.txt"
    if fault == "no ranges":
        web.ranges = False
    elif fault == "no version":
        web.has_version = False
    elif fault == "packed":
        web.files["/plain.txt"] = gzip.compress(
            bytes(random.Random(5).choices(range(97, 123), k=20_000))
        )
    elif fault == "small":
        web.files["/plain.txt"] = TEXT[:1_000]
    else:
        web.files.clear()
    assert shards_of([url], size=1_000) == [url]
    if fault == "missing":
        with pytest.raises(CorpusError, match="no such file"):
            count_words(url, map=in_ranges(map, size=1_000))
    else:
        assert count_words(url, map=in_ranges(map, size=1_000)) == count_words(url)


@pytest.mark.parametrize(
    "change", [TEXT.replace(b"newest", b"oldest"), TEXT + b"low\n", TEXT[:9_000], b"", None]
)
def test_a_file_that_changes_is_reported_and_never_mixed(web, change):
    """`read_range` raises an error if the file of a URL has changed or was removed, before the
    range is read and between two of its pieces."""
    url = f"{web.url}/plain.txt"
    parts = divide_file(url, size=8_000)
    assert len(list(read_range(parts[0]))) == 1
    blocks = read_range(parts[1], block_size=3_000)
    next(blocks)
    if change is None:
        web.files.clear()
    else:
        web.files["/plain.txt"] = change
    with pytest.raises(
        CorpusError, match=r"plain\.txt: (cannot be read: (changed|no such)|became shorter)"
    ):
        list(blocks)
    with pytest.raises(
        CorpusError, match=r"plain\.txt: (cannot be read: (changed|no such)|became shorter)"
    ):
        list(read_range(parts[0]))


def test_a_range_needs_few_requests(web):
    """`read_range` of a URL sends six requests at most: one for the text, and a few to find the
    ends and check the version."""
    web.files["/plain.txt"] = TEXT * 50
    part = divide_file(f"{web.url}/plain.txt", size=500_000)[1]
    web.asked.clear()
    assert len(list(read_range(part))) == 1
    assert len(web.asked) <= 6
    assert with_line_numbers(part, lambda part: part.first_line) == ranges._PLACEHOLDER
