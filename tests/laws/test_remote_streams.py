"""Laws of streams from URLs: the lines and states are those of local files, read by ranges, and changes are named."""

import gzip
import json
from itertools import islice
from pathlib import Path

import pytest
from support.indexed_ids import packed
from support.streams import deadline
from support.web_servers import web_server

from volt.errors import StreamError
from volt.files import remote
from volt.stream import Source, Stream
from volt.stream.reading.index_cache import prune
from volt.stream.reading.open_source import open_source

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")

LINES = [f"{number} zeile\t{number} line" for number in range(1, 2_001)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


@pytest.fixture
def both(tmp_path):
    """A folder of shards and the URL of the same."""
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    files = {
        "a.tsv": TEXT,
        "b.tsv.gz": gzip.compress(TEXT[:9_000], mtime=0),
        "c.jsonl": b'{"de": "eins", "en": "one"}\n{"de": "zwei", "en": "two"}\n' * 300,
        "d.de": b"eins\nzwei\n" * 300,
        "d.en": b"one\ntwo\n" * 300,
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        memory.pipe_file(f"/shards/{name}", data)
    yield str(tmp_path), "memory://shards"
    memory.store.clear()


def run(place, cache, n=1_500, state=None, **options):
    """Lines of a stream of what lies at a place, and its state behind them."""
    texts = (f"{place}/a.tsv", f"{place}/b.tsv.gz")
    sources = (
        Source("text", texts, block_lines=300, split_lines=70),
        Source("pair", (f"{place}/d.de", f"{place}/d.en"), names=("src", "tgt")),
        Source("table", (f"{place}/c.jsonl",), 0.5, names=("src", "tgt"), keys=("de", "en")),
    )
    with deadline(30), Stream(sources, seed=5, cache=cache, **options) as stream:
        if state:
            stream.restore(state)
        lines = list(islice(stream, n))
        return lines, stream.state()


@pytest.mark.parametrize("small", [0, 1 << 20], ids=["cached", "not cached"])
def test_lines_and_states_are_those_of_local_files(both, tmp_path, monkeypatch, small):
    """A stream of URLs has the lines and states of a stream of local files; each restores the
    other's state.
    """
    monkeypatch.setattr("volt.stream.reading.text_shard.SMALL", small)
    local, far = both
    lines, state = run(local, tmp_path / "here")
    for _ in range(2):
        assert run(far, tmp_path / "there") == (lines, state)
    first, half = run(far, tmp_path / "there", n=700)
    assert run(local, tmp_path / "here", n=800, state=half) == (lines[700:], state)
    assert first == lines[:700]


def test_threads_give_the_same_lines(both, tmp_path):
    """A stream of URLs has equal lines with reading threads and without."""
    assert run(both[1], tmp_path / "there", n_workers=2)[0] == run(both[0], tmp_path / "here")[0]


def test_indexed_ids_are_the_same(tmp_path):
    """A stream reads ids in pairs of files at URLs, segment by segment, as from local files."""
    for ending, data in zip(
        (".bin", ".idx"), packed([[5, 6], [7], [], [8, 9, 10]], "u16"), strict=True
    ):
        Path(f"{tmp_path}/ids{ending}").write_bytes(data)
        fsspec.filesystem("memory").pipe_file(f"/ids{ending}", data)
    found = [
        open_source(Source("ids", (path,), split_lines=3), seed=1, cache=tmp_path / "cache")
        for path in (f"{tmp_path}/ids.bin", "memory://ids.bin", "memory://ids.idx")
    ]
    assert len({json.dumps(source.fingerprints) for source in found}) == 1
    segments = [
        [shard.read(segment)[0].strings() for shard in source.shards for segment in (0, 1)]
        for source in found
    ]
    assert segments[0] == segments[1] == segments[2]


def test_a_change_is_reported(both, tmp_path):
    """A URL whose object is replaced while a stream runs ends the stream; a new stream reads the
    new object.
    """
    source = open_source(
        Source("a", (f"{both[1]}/a.tsv",), split_lines=100), seed=1, cache=tmp_path / "cache"
    )
    source.shards[0].read(3)
    fsspec.filesystem("memory").pipe_file("/shards/a.tsv", TEXT.replace(b"zeile", b"reihe"))
    with pytest.raises(
        StreamError, match=r"^memory://shards/a.tsv: changed while the stream was running"
    ):
        source.shards[0].read(3)
    again = open_source(
        Source("a", (f"{both[1]}/a.tsv",), split_lines=100), seed=1, cache=tmp_path / "cache"
    )
    assert again.fingerprints["lines"] != source.fingerprints["lines"]


def test_a_cache_of_urls_is_kept_though_nobody_is_asked(both, tmp_path, monkeypatch):
    """Pruning the cache removes old entries of URLs without a request to the server."""
    cache = tmp_path / "cache"
    open_source(Source("b", (f"{both[1]}/b.tsv.gz",), split_lines=100), seed=1, cache=cache)
    monkeypatch.setattr(remote, "request", None)
    assert prune(cache) == 0
    assert prune(cache, days=0) > 0


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "whole"])
def test_a_web_server_gives_the_same_lines(both, tmp_path, monkeypatch, ranges):
    """A stream from a web server has the lines of local files, with range requests or a copy in the
    cache, without secrets.
    """
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    monkeypatch.setattr("volt.stream.reading.text_shard.SMALL", 0)
    cache = tmp_path / "cache"
    expected = open_source(
        Source("a", (f"{both[0]}/a.tsv",), split_lines=100), seed=1, cache=tmp_path / "here"
    )
    with web_server(files={"/a.tsv": TEXT}, ranges=ranges) as web:
        path = f"{web.url.replace('://', '://me:hunter2@')}/a.tsv?Signature=hunter2"
        source = open_source(Source("a", (path,), split_lines=100), seed=1, cache=cache)
        assert source.fingerprints == expected.fingerprints
        web.asked.clear()
        assert source.shards[0].read(7)[0].strings() == expected.shards[0].read(7)[0].strings()
        asked = [question for question in web.asked if question.startswith("GET")]
        assert len(asked) == ranges
        assert source.place_of(705) == (f"{web.url}/a.tsv", 706)
    kept = b"".join(file.read_bytes() for file in cache.iterdir())
    assert kept
    assert b"hunter2" not in kept


@pytest.mark.filterwarnings("ignore::volt.files.retries.RetryWarning")
def test_a_server_that_dies_is_reported_and_the_stream_goes_on_from_its_state(
    both, tmp_path, monkeypatch, clock
):
    """One clear error after some tries; a stream made anew, with the server back, continues where it ended."""
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    monkeypatch.setattr("volt.stream.reading.text_shard.SMALL", 0)
    with web_server(files={"/a.tsv": TEXT}) as web, deadline(30):
        source = Source("a", (f"{web.url}/a.tsv",), block_lines=300, split_lines=100)
        with Stream([source], seed=5, cache=tmp_path / "cache") as stream:
            expected = list(islice(stream, 1_500))
        with Stream([source], seed=5, cache=tmp_path / "cache") as stream:
            lines, state = [], stream.state()
            for line in islice(stream, 400):
                lines.append(line)
                state = stream.state()
            web.refusals = 10_000
            with pytest.raises(
                StreamError, match=r"/a.tsv: cannot be read: \d+ tries in 30. s failed"
            ):
                list(stream)
        web.refusals = 0
        with Stream([source], seed=5, cache=tmp_path / "cache") as stream:
            stream.restore(state)
            lines += list(islice(stream, 1_500 - len(lines)))
    assert lines == expected
