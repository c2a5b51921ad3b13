"""`cached_index` and `prune`: indices are made once, made again when damaged, and removed when
unused."""

import gzip
import json
import os
import time
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.shard_lines import TEXT, all_lines

from volt.errors import CorpusError, StreamError
from volt.stream.reading import index_cache, text_shard
from volt.stream.reading.index_cache import VERSION, cache_size, locked, prune
from volt.stream.reading.open_shard import open_shard
from volt.stream.reading.text_shard import open_text, split_lines


@pytest.fixture
def open_packed(tmp_path):
    """A function that opens the text, compressed, with an index in tmp_path / "cache"."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(TEXT))

    def open_file():
        return open_text(str(tmp_path / "a.gz"), split_lines=10, cache=tmp_path / "cache")

    return open_file


def test_an_index_is_read_from_the_cache(tmp_path, monkeypatch, open_packed):
    """Opening a file again reads its index from the cache, and not the file; a changed file is
    indexed again."""
    first = open_packed()
    monkeypatch.setattr("volt.stream.reading.text_shard.read_raw", None)  # what reads the file
    assert open_packed() == first
    monkeypatch.undo()
    (tmp_path / "a.gz").write_bytes(gzip.compress(TEXT + b"more\n"))
    assert open_packed().n_lines == 101


def test_truncated_copies_and_indices_are_made_again(tmp_path, open_packed):
    """cached_index makes a truncated copy or index again."""
    copy = Path(open_packed().segments.data_path)
    for path in (copy, next((tmp_path / "cache").glob("*.json"))):
        os.truncate(path, path.stat().st_size // 2)
        assert all_lines(open_packed()) == split_lines(TEXT)


@pytest.mark.parametrize(("version", "is_right"), [(0, True), (VERSION, False)])
def test_an_index_of_another_version_is_made_again(tmp_path, version, is_right, open_packed):
    """cached_index does not use an index of another version, or with a wrong checksum."""
    first = open_packed()
    [index] = (tmp_path / "cache").glob("*.json")
    stored = json.loads(index.read_text())
    stored["version"] = version
    stored["record"]["facts"]["digest"] = "other"
    if is_right:
        record = json.dumps(stored["record"]).encode()
        stored["check"] = blake2b(record, digest_size=8).hexdigest()
    index.write_text(json.dumps(stored))
    assert open_packed().facts.digest == first.facts.digest


def test_a_failed_split_leaves_no_files(tmp_path, open_packed):
    """A truncated gzip file leaves no copy and no index in the cache, and the error says where the
    file ends."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(TEXT)[:-20])
    message = r"a\.gz: truncated after line \d+; copy or compress it again"
    with pytest.raises(StreamError, match=message):
        open_packed()
    assert not [path for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"]


def test_a_cache_that_cannot_be_written_is_reported(tmp_path, open_packed):
    """If the index cannot be stored, the error names the problem and the remedy."""
    (tmp_path / "cache").write_bytes(b"")
    message = r"its index cannot be stored .*; name another cache folder"
    with pytest.raises(StreamError, match=message):
        open_packed()


def test_a_damaged_copy_is_reported_and_made_again(open_packed):
    """Reading a copy with a damaged byte names the file; opening the shard again makes a new
    copy."""
    shard = open_packed()
    copy = Path(shard.segments.data_path)
    data = bytearray(copy.read_bytes())
    data[-10] ^= 1
    copy.write_bytes(data)
    os.utime(copy, ns=(0, shard.segments.stamp[1]))
    message = r"a\.gz: its copy .* is damaged in segment 9 .* was deleted; start the"
    with pytest.raises(StreamError, match=message):
        all_lines(shard)
    assert all_lines(open_packed()) == split_lines(TEXT)


@settings(
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_a_damaged_index_is_made_again(tmp_path, open_packed, data):
    """Whichever byte of an index is damaged, open_text returns a shard with the same facts and lines."""
    first = open_packed()
    [index] = (tmp_path / "cache").glob("*.json")
    damaged = bytearray(index.read_bytes())
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    index.write_bytes(damaged)
    again = open_packed()
    assert (again.counts, again.facts.digest) == (first.counts, first.facts.digest)
    assert again.facts.n_bytes == first.facts.n_bytes
    assert all_lines(again) == split_lines(TEXT)


def fill_cache(folder):
    """Return a cache with the entries of three files, the files, and the bytes of each entry."""
    cache = folder / "cache"
    sizes = []
    paths = [folder / name for name in ("a.gz", "b.gz", "c.gz")]
    for path in paths:
        path.write_bytes(gzip.compress(TEXT + path.name.encode()))
        open_shard(str(path), split_lines=10, cache=cache)
        sizes.append(cache_size(cache) - sum(sizes))
    (cache / "notes.json").write_text("{}")
    return cache, paths, sizes


def test_prune_removes_unused_entries(tmp_path):
    """prune removes an entry if neither its index nor its copy was used for the given number of
    days."""
    cache, paths, sizes = fill_cache(tmp_path)
    assert prune(cache, days=30) == 0
    shard = open_text(str(paths[1]), split_lines=10, cache=cache)
    made = {path: path.stat().st_mtime_ns for path in cache.glob("*.lz4")}
    for path in cache.iterdir():
        os.utime(path, ns=(path.stat().st_atime_ns - 40 * 86_400 * 10**9, made.get(path, 0)))
    open_shard(str(paths[0]), split_lines=10, cache=cache)
    copy = Path(shard.segments.data_path)
    os.utime(copy, ns=(time.time_ns(), made[copy]))
    assert prune(cache, days=30) == sizes[2]
    assert cache_size(cache) == sizes[0] + sizes[1]
    assert all_lines(shard)[:100] == split_lines(TEXT)
    assert prune(cache, days=0) == sizes[0] + sizes[1]
    assert [path.name for path in cache.iterdir()] == ["notes.json"]


def test_prune_removes_outdated_entries(tmp_path):
    """prune removes entries of missing or changed files, damaged indices, and unfinished files of
    ended processes."""
    cache, paths, sizes = fill_cache(tmp_path)
    paths[0].unlink()
    paths[1].write_bytes(gzip.compress(TEXT))
    (cache / ".0123456789abcdef01234567.json.00000000.part").write_text("{")
    assert prune(cache) == sizes[0] + sizes[1]
    (index,) = cache.glob("?" * 24 + ".json")
    index.write_text("{")
    left = cache_size(cache)
    assert left < sizes[2]
    assert prune(cache) == left
    assert [path.name for path in cache.iterdir()] == ["notes.json"]


def test_prune_keeps_locked_entries(tmp_path):
    """prune does not remove an entry while another process makes it."""
    cache, paths, _ = fill_cache(tmp_path)
    paths[0].unlink()
    locks = sorted(cache.glob("*.lock"))
    with ExitStack() as held:
        for lock in locks:
            assert held.enter_context(locked(lock))
        assert prune(cache, days=0) == 0
        with locked(locks[0], waits=False) as is_ours:
            assert not is_ours
    assert prune(cache, days=0) > 0


def test_a_lock_does_not_empty_the_target_of_a_link(tmp_path):
    """Locking a path that another user has replaced by a link does not change the link's target."""
    target = tmp_path / "target"
    lock = tmp_path / "a.lock"
    target.write_text("content")
    lock.symlink_to(target)
    with locked(lock) as is_ours:
        assert is_ours
    assert target.read_text() == "content"


@pytest.mark.parametrize(("size", "entries"), [(text_shard.SMALL - 1, 0), (text_shard.SMALL, 1)])
def test_only_large_plain_files_are_cached(tmp_path, size, entries):
    """open_text caches the index of a plain file only if it has at least 2**20 bytes."""
    (tmp_path / "a").write_bytes(b"x" * (size - 1) + b"\n")
    shard = open_shard(str(tmp_path / "a"), split_lines=1, cache=tmp_path / "c")
    assert (shard.facts.n_bytes, shard.files[0].data_path) == (size, str(tmp_path / "a"))
    assert len(list((tmp_path / "c").glob("*.json"))) == entries


def test_entries_depend_on_segment_size_path_and_time(tmp_path):
    """Another segment size, path or modification time is another entry of the cache; another line
    limit is not."""
    path = tmp_path / "a.gz"
    cache = tmp_path / "c"
    path.write_bytes(gzip.compress(b"abc\nde\n"))
    for split, n in ((1, 1), (2, 2), (None, 3), (1, 3)):
        open_shard(str(path), split_lines=split, cache=cache)
        assert len(list(cache.glob("*.json"))) == n
    for most in (3, None):
        assert open_shard(str(path), split_lines=1, cache=cache, max_line=most).n_lines == 2
    with pytest.raises((StreamError, CorpusError), match="more than 2 bytes"):
        open_shard(str(path), split_lines=1, cache=cache, max_line=2)
    (tmp_path / "b.gz").write_bytes(path.read_bytes())
    open_shard(str(tmp_path / "b.gz"), split_lines=1, cache=cache)
    assert len(list(cache.glob("*.json"))) == 4
    used = index_cache.cache_size(cache)
    assert used == sum(one.stat().st_size for one in cache.iterdir())
    assert index_cache.prune(cache) == 0
    assert index_cache.cache_size(tmp_path / "nowhere") == 0
