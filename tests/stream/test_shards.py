"""Files become shards: pieces that hold every line once, read as columns; what they were indexed as is what is read."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import pickle
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from streams import deadline, write_lines

from volt.errors import ConfigError, StreamError
from volt.files.blocks import read_raw
from volt.stream.reading.faults import Policy
from volt.stream.reading.pair_shard import PairShard, open_pair
from volt.stream.reading.probable_pairs import probable_pairs
from volt.stream.reading.shard import Shard, shifting_lines
from volt.stream.reading.shard_cache import VERSION, cache_size, locked, prune
from volt.stream.reading.shards import open_shard
from volt.stream.reading.shares import Part
from volt.stream.reading.source import Source, open_source
from volt.stream.reading.text_shard import SMALL, TextShard, lines_of, open_text, split_lines
from volt.stream.running.blocks import compute_block
from volt.stream.running.chunks import Address
from volt.stream.transforms.column import Column

LINES = [f"line {i}\tZeile {i}" for i in range(100)]
TEXT = "".join(line + "\n" for line in LINES).encode()
PACKERS = {"plain": bytes, "gz": gzip.compress, "xz": lzma.compress, "zst": zstandard.ZstdCompressor().compress}


def read_lines(shard: Shard, piece: int) -> list[bytes]:
    """The lines of a piece of a text shard."""
    (column,) = shard.read(piece)
    return column_lines(column)


def column_lines(column: Column) -> list[bytes]:
    """The values of a column as they are in its buffer."""
    spans = zip(column.starts.tolist(), column.sizes.tolist(), strict=True)
    return [column.data[start : start + size].tobytes() for start, size in spans]


def all_lines(shard: Shard) -> list[bytes]:
    """The lines of a text shard."""
    return [line for piece in range(len(shard.counts)) for line in read_lines(shard, piece)]


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("piece", [1, 7, 100, 1000, None])
def test_pieces_hold_the_lines_of_a_file(tmp_path: Path, packer: str, piece: int | None) -> None:
    """However a file is packed and cut, its pieces joined are its lines, and its digest is that of the lines."""
    path = tmp_path / "a.tsv"
    path.write_bytes(PACKERS[packer](TEXT))
    shard = open_shard(str(path), split_lines=piece, cache=tmp_path / "cache")
    assert [line.decode() for line in all_lines(shard)] == LINES
    assert set(shard.counts[:-1]) <= {piece}
    (tmp_path / "b.tsv").write_bytes(TEXT)
    assert shard.digest == open_shard(str(tmp_path / "b.tsv"), split_lines=3).digest


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 9), st.integers(1, 100), st.booleans())
def test_pieces_do_not_depend_on_how_much_is_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lengths: list[int], piece: int, size: int, ends: bool
) -> None:
    """All pieces but the last have as many lines as asked for, wherever a read ended."""
    lines, path = [*(b"x" * length for length in lengths), b"last"], tmp_path / "a.tsv"
    path.write_bytes(b"\n".join(lines) + b"\n" * ends)
    monkeypatch.setattr("volt.stream.reading.text_shard._READ_SIZE", size)
    shard = open_shard(str(path), split_lines=piece)
    expected = [lines[start : start + piece] for start in range(0, len(lines), piece)]
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
def test_lines_end_at_line_feeds_alone(data: bytes, lines: list[bytes]) -> None:
    r"""Only "\n" ends a line, and one "\r" before it goes; no other separator of Unicode or Python does."""
    column = lines_of(data, is_first=False)
    assert split_lines(data) == lines == column_lines(column)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\t", b"\xef\xbb\xbf"]), max_size=30), st.integers(1, 5))
def test_lines_do_not_depend_on_how_a_file_is_cut(tmp_path: Path, parts: list[bytes], piece: int) -> None:
    """Cut anywhere, a file has the lines that it has whole: those of the naive twin, less a byte order mark."""
    data, path = b"".join(parts), tmp_path / "a.tsv"
    path.write_bytes(data)
    whole, cut = (open_shard(str(path), split_lines=size) for size in (None, piece))
    text = data.removeprefix(b"\xef\xbb\xbf")
    assert all_lines(whole) == all_lines(cut) == (split_lines(text) if text else [])
    assert whole.digest == cut.digest


def test_an_index_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second opening reads the index from the cache and not the file; a changed file is indexed anew."""
    path, cache = tmp_path / "a.tsv.gz", tmp_path / "cache"
    path.write_bytes(gzip.compress(TEXT))
    first = open_shard(str(path), split_lines=10, cache=cache)
    monkeypatch.setattr("volt.stream.reading.text_shard.read_raw", None)  # what reads the file
    assert open_shard(str(path), split_lines=10, cache=cache) == first
    monkeypatch.undo()
    path.write_bytes(gzip.compress(TEXT + b"more\n"))
    assert open_shard(str(path), split_lines=10, cache=cache).n_lines == 101


def test_a_cut_off_copy_is_never_used(tmp_path: Path) -> None:
    """A split copy that lost its end, or an index that did, is made again."""
    path, cache = tmp_path / "a.tsv.gz", tmp_path / "cache"
    path.write_bytes(gzip.compress(TEXT))
    first = open_text(str(path), split_lines=10, cache=cache)
    for found in (Path(first.pieces.data_path), next(cache.glob("*.json"))):
        os.truncate(found, found.stat().st_size // 2)
        again = open_shard(str(path), split_lines=10, cache=cache)
        assert all_lines(again) == split_lines(TEXT)


@pytest.mark.parametrize(("version", "is_right"), [(0, True), (VERSION, False)])
def test_an_index_of_another_version_is_made_again(tmp_path: Path, version: int, is_right: bool) -> None:
    """What another version wrote is not read, whatever it says, and neither is what its checksum does not fit."""
    path, cache = tmp_path / "a.tsv.gz", tmp_path / "cache"
    path.write_bytes(gzip.compress(TEXT))
    first = open_shard(str(path), split_lines=10, cache=cache)
    [index] = cache.glob("*.json")
    stored = json.loads(index.read_text())
    stored["record"]["facts"]["digest"] = "other"
    check = blake2b(json.dumps(stored["record"]).encode(), digest_size=8).hexdigest()
    index.write_text(json.dumps({**stored, "version": version, **({"check": check} if is_right else {})}))
    assert open_shard(str(path), split_lines=10, cache=cache).digest == first.digest


def test_nothing_is_left_of_a_split_that_failed(tmp_path: Path) -> None:
    """A truncated gzip file leaves no copy and no index in the cache, and the error says where it ends."""
    path, cache = tmp_path / "a.tsv.gz", tmp_path / "cache"
    path.write_bytes(gzip.compress(TEXT)[:-20])
    with pytest.raises(StreamError, match=r"a\.tsv\.gz: truncated after line \d+; copy or compress it again"):
        open_shard(str(path), split_lines=10, cache=cache)
    assert not [found for found in cache.iterdir() if found.suffix != ".lock"]


def test_a_large_plain_file_is_indexed_in_the_cache(tmp_path: Path) -> None:
    """Plain files are never copied; the index of a large one is kept."""
    path = write_lines(tmp_path / "a.tsv", ["x" * 99] * (SMALL // 100 + 1))
    shard = open_text(path, split_lines=1000, cache=tmp_path / "cache")
    assert shard.pieces.data_path == path
    assert open_shard(path, split_lines=1000, cache=tmp_path / "cache") == shard
    assert len(list((tmp_path / "cache").glob("*.json"))) == 1


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Where no index can be kept the error says so and what to do."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(TEXT))
    (tmp_path / "cache").write_bytes(b"")
    with pytest.raises(StreamError, match=r"no index can be kept .*; name another cache folder"):
        open_shard(str(tmp_path / "a.gz"), split_lines=10, cache=tmp_path / "cache")


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("piece", [5, None])
def test_a_file_that_changes_is_an_error(tmp_path: Path, packer: str, piece: int | None) -> None:
    """A data file that changes after it was indexed is told, not read."""
    path = tmp_path / "a.tsv"
    path.write_bytes(PACKERS[packer](TEXT))
    shard = open_text(str(path), split_lines=piece, cache=tmp_path / "cache")
    with open(shard.pieces.data_path, "ab") as file:
        file.write(b"more\n")
    with pytest.raises(StreamError, match="changed while the stream was running; start the stream anew"):
        read_lines(shard, 0)
    os.unlink(shard.pieces.data_path)
    with pytest.raises(StreamError, match=r"cannot be read: .* when it was indexed: restore it"):
        read_lines(shard, 0)


def test_a_file_that_changes_within_its_lines_is_an_error(tmp_path: Path) -> None:
    """Also when as many bytes and lines are there as before: it is the time of change that tells."""
    path = tmp_path / "a.tsv"
    path.write_bytes(TEXT)
    shard = open_text(str(path), split_lines=5)
    shard.check_unchanged()
    path.write_bytes(TEXT.replace(b"Zeile", b"zeile"))
    os.utime(path, ns=(0, shard.pieces.stamp[1] + 1))
    for look in (TextShard.check_unchanged, lambda shard: shard.read(0)):
        with pytest.raises(StreamError, match="changed while the stream was running"):
            look(shard)


@pytest.mark.parametrize("packer", PACKERS)
def test_a_file_that_changes_while_it_is_indexed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packer: str
) -> None:
    """A file that is still being written when it is indexed is told, and no index of it is kept."""
    path, cache = tmp_path / "a.tsv", tmp_path / "cache"
    path.write_bytes(PACKERS[packer](TEXT))

    def grows(name: str, **options: int) -> Iterator[bytes]:
        yield from read_raw(name, **options)
        with path.open("ab") as file:
            file.write(b"more\n")

    monkeypatch.setattr("volt.stream.reading.text_shard.read_raw", grows)
    monkeypatch.setattr("volt.stream.reading.text_shard.SMALL", 0)
    with pytest.raises(StreamError, match="changed while it was being indexed; wait until it is complete"):
        open_shard(str(path), split_lines=5, cache=cache)
    assert not list(cache.glob("*.json"))


@pytest.mark.parametrize("packer", ["plain", "gz"])
def test_an_edit_that_hides_is_noticed(tmp_path: Path, packer: str) -> None:
    """As many bytes and the old time of change do not hide an edit: the piece that was edited is told, others are
    read, and whoever opens the file anew gets its lines."""
    path, edited, cache = tmp_path / "a.tsv", TEXT.replace(b"line 57\t", b"linE 57\t"), tmp_path / "cache"
    split = 10 if packer == "plain" else None
    pack = (lambda text: gzip.compress(text, 0, mtime=0)) if packer == "gz" else bytes
    path.write_bytes(pack(TEXT))
    shard = open_text(str(path), split_lines=split, cache=cache)
    path.write_bytes(pack(edited))
    os.utime(path, ns=(0, shard.pieces.stamp[1]))
    shard.check_unchanged()
    bad = len(shard.counts) // 2
    told = "lines 51 to 60" if split else "lines 1 to 100"
    with pytest.raises(StreamError, match=rf"a\.tsv: {told} are not what was indexed, .*; touch the file, and start"):
        shard.read(bad)
    if split:
        assert read_lines(shard, 0) == split_lines(TEXT)[:10]
    assert all_lines(open_shard(str(path), split_lines=split, cache=cache)) == split_lines(edited)


def test_a_damaged_copy_is_made_again(tmp_path: Path) -> None:
    """A byte of a copy that turned is told with the file and what was done; the next opening copies anew."""
    path, cache = tmp_path / "a.tsv.gz", tmp_path / "cache"
    path.write_bytes(gzip.compress(TEXT))
    shard = open_text(str(path), split_lines=10, cache=cache)
    copy, stamp = Path(shard.pieces.data_path), shard.pieces.stamp
    data = bytearray(copy.read_bytes())
    data[-10] ^= 1
    copy.write_bytes(data)
    os.utime(copy, ns=(0, stamp[1]))
    with pytest.raises(StreamError, match=r"a\.tsv\.gz: its copy .* is damaged in piece 9 .* was deleted; start the"):
        all_lines(shard)
    assert all_lines(open_text(str(path), split_lines=10, cache=cache)) == split_lines(TEXT)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_garbled_index_is_made_again(tmp_path: Path, data: st.DataObject) -> None:
    """Whichever byte of an index turns, what is opened is as if the index were whole, or not there."""
    path, cache = tmp_path / "a.tsv.gz", tmp_path / "cache"
    if not path.exists():
        path.write_bytes(gzip.compress(TEXT))
    first = open_shard(str(path), split_lines=30, cache=cache)
    [index] = cache.glob("*.json")
    garbled = bytearray(index.read_bytes())
    garbled[data.draw(st.integers(0, len(garbled) - 1))] = data.draw(st.integers(0, 255))
    index.write_bytes(garbled)
    again = open_shard(str(path), split_lines=30, cache=cache)
    assert (again.counts, again.digest, again.n_bytes) == (first.counts, first.digest, first.n_bytes)
    assert all_lines(again) == split_lines(TEXT)


@pytest.mark.parametrize("make", ["pipe", "socket", "device", "folder"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, make: str) -> None:
    """A pipe without a writer is not waited for; the error says what is there and what to do."""
    path = tmp_path / "a.tsv"
    with socket.socket(socket.AF_UNIX) as end, deadline(5):
        if make == "pipe":
            os.mkfifo(path)
        elif make == "socket":
            end.bind(str(path))
        elif make == "folder":
            path.mkdir()
        else:
            path = Path("/dev/zero")
        with pytest.raises(
            StreamError, match=rf"{path}: is a {make}(, which cannot .* write its text|; name the files)"
        ):
            open_shard(str(path), split_lines=5)


def test_standard_input_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be read from it a second time; a file of its name can."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StreamError, match=r"^-: is standard input, which cannot be read again and again; write its"):
        open_shard("-", split_lines=5)


def test_shards_go_to_other_processes(tmp_path: Path) -> None:
    """A shard that was pickled is equal to itself and reads the same lines."""
    path, cache = write_lines(tmp_path / "a.tsv", ["{}"] * 7), tmp_path / "cache"
    shards = [
        open_shard(path, split_lines=3),
        open_pair({"src": path, "tgt": path}, split_lines=3),
        open_shard(path, fields={"src": "a"}, split_lines=3, cache=cache),
    ]
    for shard in shards:
        again = pickle.loads(pickle.dumps(shard))
        assert (again, again.names, again.digest) == (shard, shard.names, shard.digest)
        assert list(map(column_lines, again.read(1))) == list(map(column_lines, shard.read(1)))


texts = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r"), max_size=5)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(texts, texts), max_size=15), st.lists(texts, max_size=1), st.integers(1, 7),
    st.sampled_from(list(PACKERS)), st.booleans(),
)  # fmt: skip
def test_a_pair_is_its_files_side_by_side(
    tmp_path: Path, both: list[tuple[str, str]], more: list[str], piece: int, packer: str, ends: bool
) -> None:
    """Line i of a pair is line i of each file, however they are packed; files of other lengths are refused by both."""
    some, others = [a for a, _ in both], [b for _, b in both] + more
    paths = {"src": tmp_path / "a.de", "tgt": tmp_path / "a.en"}
    paths["src"].write_bytes("".join(line + "\n" for line in some).encode())
    whole = "".join(line + "\r\n" for line in others).encode()
    paths["tgt"].write_bytes(PACKERS[packer](whole if ends or others[-1:] == [""] else whole.removesuffix(b"\r\n")))
    pair = {name: str(path) for name, path in paths.items()}
    if len(some) != len(others):
        told = rf"a\.de has {len(some)} lines?, .*a\.en has {len(others)} lines?; files of a pair need equally many"
        with pytest.raises(StreamError, match=told):
            open_pair(pair, split_lines=piece, cache=tmp_path / "cache")
        return
    shard = open_pair(pair, split_lines=piece, cache=tmp_path / "cache")
    rows = [
        row for number in range(len(shard.counts)) for row in zip(*map(column_lines, shard.read(number)), strict=True)
    ]
    assert [(a.decode(), b.decode()) for a, b in rows] == list(zip(some, others, strict=True))
    assert shard.digest == open_pair(pair, split_lines=None, cache=tmp_path / "cache").digest
    assert (shard.names, shard.n_lines) == (("src", "tgt"), len(some))


def test_a_pair_is_all_its_files(tmp_path: Path) -> None:
    """Its digest depends on the lines of each file and on the names; a change in any file is told; places are those
    of the first."""
    pair = {name: write_lines(tmp_path / f"a.{name}", [f"{name} {i}" for i in range(9)]) for name in ("de", "en")}
    shard, turned = open_pair(pair, split_lines=4), open_pair(dict(reversed(pair.items())), split_lines=4)
    renamed = open_pair({"src": pair["de"], "tgt": pair["en"]}, split_lines=4)
    write_lines(tmp_path / "a.en", [f"EN {i}" for i in range(9)])
    edited = open_pair(pair, split_lines=4)
    assert len({shard.digest, turned.digest, renamed.digest, edited.digest}) == 4
    assert (shard.place(1, 3), shard.paths) == ((pair["de"], 8), tuple(pair.values()))
    for look in (PairShard.check_unchanged, lambda shard: shard.read(0)):
        with pytest.raises(StreamError, match=r"a\.en: changed while the stream was running"):
            look(shard)


def test_a_pair_tells_its_tabs_and_has_two_files(tmp_path: Path) -> None:
    """A tab in any file is found when its line is read, and the shard knows that there is one; one file is no pair."""
    pair = {name: write_lines(tmp_path / f"a.{name}", [f"{i}" for i in range(9)]) for name in ("de", "en")}
    assert open_pair(pair, split_lines=2).is_clean
    write_lines(tmp_path / "a.en", ["0", "1", "2", "3", "4", "5", "6\t6", "7", "8"])
    shard = open_pair(pair, split_lines=2)
    assert not shard.is_clean
    found = [shifting_lines(shard.read(piece)) for piece in range(5)]
    assert found == [{}, {}, {}, {0: "fields: field 2 holds a tab"}, {}]
    with pytest.raises(ConfigError, match="pair: 1 file; name two or more"):
        open_pair({"src": pair["de"]}, split_lines=2)


def fill(folder: Path) -> tuple[Path, list[Path], list[int]]:
    """A cache with the entries of three files, the files, and the bytes that each entry takes."""
    cache, sizes = folder / "cache", list[int]()
    paths = [folder / name for name in ("a.gz", "b.gz", "c.gz")]
    for path in paths:
        path.write_bytes(gzip.compress(TEXT + path.name.encode()))
        open_shard(str(path), split_lines=10, cache=cache)
        sizes.append(cache_size(cache) - sum(sizes))
    (cache / "notes.json").write_text("{}")
    return cache, paths, sizes


def test_what_is_used_stays_in_the_cache(tmp_path: Path) -> None:
    """An entry goes when neither its index was opened nor its copy read for so many days; what it took is free then."""
    cache, paths, sizes = fill(tmp_path)
    assert prune(cache, days=30) == 0
    shard = open_text(str(paths[1]), split_lines=10, cache=cache)
    made = {path: path.stat().st_mtime_ns for path in cache.glob("*.lz4")}
    for path in cache.iterdir():
        os.utime(path, ns=(path.stat().st_atime_ns - 40 * 86_400 * 10**9, made.get(path, 0)))
    open_shard(str(paths[0]), split_lines=10, cache=cache)
    copy = Path(shard.pieces.data_path)
    os.utime(copy, ns=(time.time_ns(), made[copy]))
    assert prune(cache, days=30) == sizes[2]
    assert cache_size(cache) == sizes[0] + sizes[1]
    assert all_lines(shard)[:100] == split_lines(TEXT)
    assert prune(cache, days=0) == sizes[0] + sizes[1]
    assert [path.name for path in cache.iterdir()] == ["notes.json"]


def test_what_leads_nowhere_goes_from_the_cache(tmp_path: Path) -> None:
    """An entry goes when its file is gone or has changed, or its index is damaged; parts of the dead go too."""
    cache, paths, sizes = fill(tmp_path)
    paths[0].unlink()
    paths[1].write_bytes(gzip.compress(TEXT))
    (cache / ".0123456789abcdef01234567.json.00000000.part").write_text("{")
    (cache / "0123456789abcdef01234567.lines.zst").write_text("of an old version")
    assert prune(cache) == sizes[0] + sizes[1] + len("of an old version")
    (index,) = cache.glob("?" * 24 + ".json")
    index.write_text("{")
    left = cache_size(cache)
    assert left < sizes[2]
    assert prune(cache) == left
    assert [path.name for path in cache.iterdir()] == ["notes.json"]


def test_what_is_being_made_stays_in_the_cache(tmp_path: Path) -> None:
    """An entry that another process makes is left alone; whoever waited for a lock that was swept takes a new one."""
    cache, paths, _ = fill(tmp_path)
    paths[0].unlink()
    locks = sorted(cache.glob("*.lock"))
    with ExitStack() as held:
        for lock in locks:
            assert held.enter_context(locked(lock))
        assert prune(cache, days=0) == 0
        with locked(locks[0], waits=False) as is_held:
            assert not is_held
    assert prune(cache, days=0) > 0


@given(st.permutations(["a.en", "a.de.gz", "b-fr.txt", "b-sl.txt.xz", "en/c", "deu_Latn/c", "d.txt", "d.log", "e.de"]))
def test_probable_pairs_are_found_in_any_order(paths: list[str]) -> None:
    """Two paths that differ in a language code alone, the earlier first; names that differ otherwise are no pair."""
    expected = {
        frozenset(("a.en", "a.de.gz")),
        frozenset(("b-fr.txt", "b-sl.txt.xz")),
        frozenset(("en/c", "deu_Latn/c")),
    }
    found = probable_pairs(paths)
    assert set(map(frozenset, found)) == expected
    assert all(paths.index(one) < paths.index(other) for one, other in found)


def test_a_stream_leaves_out_lines_that_would_shift(tmp_path: Path) -> None:
    """The policy decides about a tab in a pair or a line feed in a table, as about any unfit line."""
    pair = tuple(write_lines(tmp_path / f"a.{name}", [f"{name} {i}" for i in range(5)]) for name in ("de", "en"))
    write_lines(tmp_path / "a.en", ["en 0", "en\t1", "en 2", "en 3", "en 4"])
    table = write_lines(
        tmp_path / "a.jsonl", [json.dumps({"a": f"x{i}" + "\n" * (i == 3), "b": "y"}) for i in range(5)]
    )
    names = ("src", "tgt")
    sources = {
        "a.de:2 fields: field 2 holds a tab": Source("a", pair, names=names, shuffle="none"),
        "a.jsonl:4 fields: field 1 holds a line feed": Source(
            "a", (table,), names=names, keys=("a", "b"), shuffle="none"
        ),
    }
    for told, declared in sources.items():
        source = open_source(declared, seed=1, cache=tmp_path / "cache")
        block = compute_block(source, Address(Part(0, 0, 5), 0), Policy("skip"))
        assert [f"{Path(fault.path).name}:{fault.line} {fault.reason}" for fault in block.faults] == [told]
        assert (block.n_lines, bytes(block.data).count(b"\t"), bytes(block.data).count(b"\n")) == (4, 4, 4)
