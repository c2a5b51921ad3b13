"""Reading at its limits: exactly as much as is allowed, one byte less and more, and what is passed on to readers."""

from __future__ import annotations

import errno
import gzip
import os
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from indexed_ids import packed

from volt.errors import ConfigError, CorpusError, VocabularyError, VoltError
from volt.files import indexed_dataset, ranges, remote, small_files, text_checks, threads
from volt.files.blocks import Block, read_blocks, read_raw, smaller_blocks
from volt.files.indexed_dataset import check_dtype, dtype_for, open_ids, write_ids
from volt.files.loop_memory import PaddedMemory, aligned, longer
from volt.files.paths import (
    check_readable,
    exists,
    is_file,
    mark_of,
    size_of,
    stands_for_several,
    total_size,
)
from volt.files.ranges import (
    Descriptor,
    FileRange,
    FileSpan,
    file_spans,
    numbered,
    ranges_of,
    read_range,
)
from volt.files.retries import ServerError
from volt.files.small_files import is_compressed, is_pipe, read_bytes, read_head, read_start
from volt.files.temporary import _name
from volt.files.text_checks import first_fault, foreign, is_utf8, is_utf8_array, overlong
from volt.files.threads import (
    ThreadTask,
    can_wait,
    in_order,
    next_in_thread,
    patiently,
    prefetch,
    run_watched,
)
from volt.kernels.intrinsics import PADDING

TEXT = b"low\nnew lower\n\nend"


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "a.txt").write_bytes(TEXT)
    return str(tmp_path / "a.txt")


def facts(block: Block) -> tuple[object, ...]:
    return block.first_line, block.n_lines, block.data, block.n_raw_bytes


def test_blocks_of_any_size(path: str) -> None:
    """Blocks end at the first line end from so many bytes on; bytes are counted as they are read."""
    first, second = (1, 1, b"low\n", 8), (2, 1, b"new lower\n", 14)
    sizes = {
        1: [first, second, (3, 1, b"\n", 15), (4, 1, b"end", 18)],
        4: [first, (2, 2, b"new lower\n\n", 16), (4, 1, b"end", 18)],
        14: [(1, 2, b"low\nnew lower\n", 14), (3, 2, b"\nend", 18)],
        18: [(1, 3, b"low\nnew lower\n\n", 18), (4, 1, b"end", 18)],
        19: [(1, 4, TEXT, 18)],
    }
    for size, expected in sizes.items():
        assert [facts(block) for block in read_blocks(path, block_size=size)] == expected, size
        assert list(read_raw(path, block_size=size)) == [row[2] for row in expected]
    assert [facts(part) for part in smaller_blocks(Block(path, 5, 4, TEXT, 18), 3)] == [
        (5, 1, b"low\n", 18),
        (6, 1, b"new lower\n", 18),
        (7, 1, b"\n", 18),
        (8, 1, b"end", 18),
    ]
    assert [part.data for part in smaller_blocks(Block(path, 1, 9, b"a\nb\nc\n" * 3, 18), 4)] == [
        b"a\nb\n",
        b"c\na\n",
        b"b\nc\n",
    ] * 1 + [b"a\nb\n", b"c\n"]
    for block in (Block(path, 1, 4, TEXT, 18), Block(path, 1, 5, TEXT, 18, bad_lines=(2,))):
        assert list(smaller_blocks(block, 4)) == [block]
    bad = Block("a", 3, 6, b"", 0, bad_lines=(3, 5, 6), dropped=True)
    assert [bad.place(index) for index in range(3)] == ["a:4", "a:7", "a:8"]
    assert Block("a", 3, 6, b"", 0, bad_lines=(3, 5, 6)).place(1) == "a:4"


def test_spans_and_ranges_of_any_size(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans end at the line end from so many bytes on, ranges anywhere; lines are counted from the file's start."""
    spans = {
        1: [(0, 4), (4, 10), (14, 1), (15, 3)],
        4: [(0, 4), (4, 10), (14, 4)],
        5: [(0, 14), (14, 4)],
        18: [(0, 18)],
    }
    for step in (1, 5, 4096):
        monkeypatch.setattr(ranges, "_SPAN_STEP", step)
        monkeypatch.setattr(ranges, "_COUNT_STEP", step)
        for size, expected in spans.items():
            assert [(span.start, len(span)) for span in file_spans(path, size=size)] == expected, (
                size
            )
        file = Descriptor(path)
        assert [file.line_at(place) for place in (0, 4, 14, 15)] == [1, 2, 3, 4]
        assert [file.line_end(place, 18) for place in (1, 3, 4, 5, 14, 15, 16)] == [
            4,
            4,
            4,
            14,
            14,
            15,
            18,
        ]
        assert file.line_end(5, 9) == 9
        block = FileSpan(file, 4, 10).block()
        assert (facts(block), block.path) == ((2, 0, b"new lower\n", 14), path)
        cuts = [
            FileRange(path, start, stop, 18, first_line=7)
            for start, stop in ((0, 5), (5, 14), (14, 18))
        ]
        assert [[facts(one) for one in read_range(cut)] for cut in cuts] == [
            [(1, 2, b"low\nnew lower\n", 14)],
            [],
            [(7, 2, b"\nend", 18)],
        ]
    assert [(one.start, one.stop, one.size) for one in ranges_of(path, size=17)] == [
        (0, 17, 18),
        (17, 18, 18),
    ]
    assert (ranges_of(path, size=18), ranges_of(f"file://{path}", size=17)) == (
        [],
        ranges_of(path, size=17),
    )
    heard = list[int]()

    def refuse(cut: FileRange) -> None:
        heard.append(cut.first_line)
        raise ConfigError("x") if cut.start else CorpusError("x")

    for cut in cuts:
        with pytest.raises(VoltError):
            numbered(cut, refuse)
    assert heard == [7, 7, 3, 7, 3]


def test_memory_for_loops_is_aligned_and_padded(path: str) -> None:
    """Zeros start at a cache line, or at a page of 2 MB if they fill one; a text gets a last line end and padding."""
    for n, step in ((1, 64), (100, 64), ((1 << 18) - 1, 64), (1 << 18, 1 << 21)):
        array = aligned(n)
        assert (len(array), array.ctypes.data % step, int(array.sum()), array.dtype) == (
            n,
            0,
            0,
            np.uint64,
        )
    assert longer(np.array([1, 2], np.int32), 3).tolist() == [1, 2, 0]
    memory = PaddedMemory()
    for text, data in (
        (b"a\nb", b"a\nb\n"),
        (b"b\n", b"b\n"),
        (memoryview(b"c"), b"c\n"),
        (b"", b""),
        (FileSpan(Descriptor(path), 4, 10), b"new lower\n"),
    ):
        found = memory.read(text, separator=10)
        assert (
            found.data[: found.size].tobytes(),
            found.separator,
            found.data.flags.writeable,
        ) == (data, 10, False)
        assert len(found.data) == found.size + PADDING
    whole = b"x\n" + bytes(PADDING)
    ready = memory.read(whole, separator=10, padded=True)
    assert (ready.size, np.shares_memory(ready.data, np.frombuffer(whole, np.uint8))) == (
        len(whole),
        True,
    )


def test_small_files_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of exactly the most bytes is read, as stored or unpacked; a byte more is refused."""
    plain, packed_, damaged = tmp_path / "a", tmp_path / "a.gz", tmp_path / "b.gz"
    plain.write_bytes(b"x" * 90)
    packed_.write_bytes(gzip.compress(b"x" * 90))
    damaged.write_bytes(gzip.compress(b"x" * 90)[:-4])
    for place in (plain, packed_):
        assert (
            read_bytes(place, kind=CorpusError, most=90)
            == b"x" * 90
            == read_bytes(place, kind=CorpusError)
        )
        with pytest.raises(
            VocabularyError, match="more than 89 bytes, too many for such a file; check the path"
        ):
            read_bytes(place, kind=VocabularyError, most=89)
        assert read_head(place, 7, kind=CorpusError) == b"x" * 7
    with pytest.raises(VocabularyError, match=r"b\.gz: truncated after line 0"):
        read_bytes(damaged, kind=VocabularyError)
    monkeypatch.setattr(small_files, "_MOST_UNPACKED", 89)
    assert len(read_bytes(plain, kind=CorpusError)) == 90
    with pytest.raises(CorpusError, match="more than 89 bytes"):
        read_bytes(packed_, kind=CorpusError)
    plain.write_bytes(b"BZx")
    assert read_bytes(plain, kind=CorpusError) == b"BZx" == read_start(plain, -1)
    assert (read_start(plain, 2), is_compressed(plain), is_compressed(packed_)) == (
        b"BZ",
        False,
        True,
    )
    os.mkfifo(tmp_path / "pipe")
    assert [is_pipe(tmp_path / name) for name in ("pipe", "a", "none", "a\0b")] == [
        True,
        False,
        False,
        False,
    ]


def test_sizes_and_marks_of_paths(path: str, tmp_path: Path) -> None:
    """The size of a file, with its time of change as a mark; None where it is unknown."""
    (tmp_path / "b[1].txt").write_bytes(b"xy")
    places = [path, f"file://{path}", str(tmp_path), str(tmp_path / "none"), "a\0b"]
    assert [size_of(place) for place in places] == [18, 18, None, None, None]
    assert [mark_of(place) for place in places[:2]] == [(18, os.stat(path).st_mtime_ns)] * 2
    assert mark_of(tmp_path) == (0, tmp_path.stat().st_mtime_ns)
    assert mark_of(places[3]) is None
    assert [exists(place) for place in places[:4]] == [True, True, True, False]
    assert [is_file(place) for place in (*places[:4], "s3://bucket/a")] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert [
        total_size(some) for some in ([path, str(tmp_path / "b[1].txt")], [path, places[3]], [])
    ] == [20, None, 0]
    assert [stands_for_several(str(tmp_path / name)) for name in ("b[1].txt", "*.txt", "c")] == [
        False,
        True,
        False,
    ]
    assert [stands_for_several(url) for url in ("s3://b/a?", "https://h/a?b", "https://h/*")] == [
        True,
        False,
        True,
    ]
    check_readable(path, kind=CorpusError)
    for place in places[3:]:
        with pytest.raises(ConfigError, match="cannot be read"):
            check_readable(place, kind=ConfigError)


def test_a_long_name_has_a_short_temporary_one() -> None:
    """Names up to 240 bytes are in the temporary name, longer ones by a digest; each fits a file system."""
    names = [
        Path(_name(Path("d", "ö" * 120), 17)).name,
        Path(_name(Path("d", "x" * 241), 0)).name,
        Path(_name(Path("d", "x" * 255), 0)).name,
    ]
    assert names[:2] == [
        f".{'ö' * 120}.00000011.part",
        ".af201a5d8178d8b51488bc8258328e1d.00000000.part",
    ]
    assert names[1] != names[2]


def test_where_bytes_are_no_text() -> None:
    """The first bad byte, the first line beyond the limit, and the sizes at which shares of control bytes count."""
    assert [first_fault(data) for data in (b"", b"ab", b"a\xff", "é".encode()[:1])] == [0, 2, 1, 0]
    lines = b"abc\nab\n\nabcd"
    assert [overlong(lines, most) for most in (1, 2, 3, 4, 5)] == [0, 0, 8, -1, -1]
    assert [overlong(b"ab\nabc\n", most) for most in (2, 3)] == [3, -1]
    for size in (3, text_checks._FEW, text_checks._FEW + 1):
        for end, is_text in (
            (b"x", True),
            (b"\xff", False),
            ("é".encode(), True),
            (b"\xc3", False),
        ):
            data = b"x" * (size - len(end)) + end
            assert (is_utf8(data), is_utf8_array(np.frombuffer(data, np.uint8))) == (
                is_text,
                is_text,
            )
    wide = {n: foreign(("ab" * n).encode("utf-16-le")[: 2 * n]) is None for n in (1, 2)}
    assert wide == {1: True, 2: False}
    assert foreign(b"a\0b\0c") is None
    assert foreign(b"a\0" * 9 + b"ab") is not None
    assert foreign(b"a\0" * 8 + b"ab") is None
    assert foreign(b"x" * 63 + b"\x01" * 0 + bytes(19)) is None
    assert foreign(b"x" * 44 + bytes(19)) is None
    assert foreign(b"x" * 44 + bytes(20)) is not None


def test_threads_work_a_little_ahead() -> None:
    """One thread asks for an item when its result is due; several ask for up to 2 n + 1; a result ends the wait."""
    for n_threads, n_ahead in ((1, 1), (2, 5), (3, 7)):
        taken = list[int]()
        results = in_order(str, (taken.append(n) or n for n in range(30)), n_threads=n_threads)
        assert next(results) == "0"
        assert len(taken) == n_ahead
        assert list(results) == [str(n) for n in range(1, 30)]
    with pytest.raises(ZeroDivisionError):
        list(in_order(lambda n: 1 // n, [0], n_threads=3))


def test_a_watched_loop_reports_and_can_be_stopped() -> None:
    """The work done is reported while the loop runs; whoever is interrupted stops it and waits for its end."""
    heard = list[int]()
    go = threading.Event()

    def kernel(progress: Any) -> str:
        progress[0] = 5
        assert go.wait(10)
        return f"{progress.dtype} {len(progress)}"

    assert run_watched(kernel, report=lambda n: (heard.append(n), go.set())) == "int64 2"
    assert set(heard) == {5}
    assert run_watched(lambda progress: int(progress.sum())) == 0
    ended = list[bool]()

    def endless(progress: Any) -> None:
        while not progress[1]:
            pass
        ended.append(True)

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_watched(endless, report=interrupt)
    assert ended == [True]


def test_tasks_and_futures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled task makes no call; an error, even a timeout, reaches who waits; a fork waits for nothing."""
    calls, task = list[int](), ThreadTask(lambda: calls.append(1))
    task.cancel()
    task.run()
    assert calls == []
    with pytest.raises(CancelledError):
        patiently(task)
    failed: Future[int] = Future()
    failed.set_exception(TimeoutError("late"))
    with pytest.raises(TimeoutError, match="late"):
        patiently(failed)
    assert patiently(next_in_thread(iter([7]))) == 7
    assert patiently(next_in_thread(iter([]))) is None
    assert (can_wait(os.getpid()), can_wait(os.getpid() + 1)) == (True, False)
    waiting = ThreadTask(int)
    waiting.pid += 1
    with pytest.raises(ConfigError, match="another process computes this"):
        patiently(waiting)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert threads.available_cores() == 1
    closed = threading.Event()

    def items() -> Iterator[int]:
        try:
            yield from range(9)
        finally:
            closed.set()

    ahead = prefetch(items())
    assert next(ahead) == 0
    ahead.close()
    assert closed.wait(10)


def test_failures_of_servers_are_final_or_tried_again() -> None:
    """Refused, missing and wrong requests are final, whatever object carries the status; others are tried again."""

    def error(place: str, status: Any) -> Exception:
        fault = OSError("why")
        if place == "status":
            fault.status = status  # type: ignore[attr-defined]
        elif place == "response":
            fault.response = SimpleNamespace(status_code=status)  # type: ignore[attr-defined]
        else:
            fault.response = {"ResponseMetadata": {"HTTPStatusCode": status}}  # type: ignore[attr-defined]
        return fault

    kinds = {
        401: remote.RefusedError,
        403: remote.RefusedError,
        404: FileNotFoundError,
        410: FileNotFoundError,
        400: ServerError,
        499: ServerError,
        402: ServerError,
    }
    for place in ("status", "response", "head"):
        for status, kind in kinds.items():
            assert type(remote.failure(error(place, status))) is kind
        assert [
            remote.failure(error(place, status))
            for status in (0, 399, 408, 425, 429, 500, 503, "x")
        ] == [None] * 8
    hidden = FileNotFoundError("as fsspec says")
    hidden.__cause__ = error("status", 500)
    assert remote.failure(hidden) is None
    others = {
        PermissionError(): errno.EACCES,
        IsADirectoryError(): errno.EISDIR,
        NotImplementedError("x"): errno.EIO,
        FileNotFoundError(): errno.ENOENT,
        type("NoCredentialsError", (Exception,), {})(): errno.EACCES,
    }
    assert [final.errno for final in map(remote.failure, others) if final] == list(others.values())
    assert (remote.message_of(KeyError()), remote.message_of(OSError("x"))) == ("KeyError", "x")
    with pytest.raises(remote.RefusedError, match="keys in a URL"):
        remote.look("s3://key:secret@bucket/a")


def test_versions_options_and_patterns_of_urls() -> None:
    """A version is a digest of the first mark that a server gives; patterns match as those of paths do."""
    options = remote._options("http")
    timeout = options["client_kwargs"]["timeout"]
    assert (timeout.total, timeout.sock_connect, timeout.sock_read) == (None, 15, 20)
    assert (options["headers"], options["client_kwargs"]["trust_env"]) == (
        {"Accept-Encoding": "identity"},
        True,
    )
    assert remote._options("gs")["requests_timeout"] == timeout
    waits = {"connect_timeout": 15, "read_timeout": 20, "retries": {"total_max_attempts": 1}}
    assert remote._options("s3") == {"use_listings_cache": False, "config_kwargs": waits}
    assert (
        remote._options("memory")
        == {"use_listings_cache": False}
        == {"use_listings_cache": remote._options("gs")["use_listings_cache"]}
    )
    assert remote.RemoteStat(None, 3, is_folder=True).stamp == (0, 3)
    assert remote.look("https://h/a/?b") == (None, 0, True)
    assert [
        remote.has_magic(url)
        for url in ("s3://b/a?", "https://h/a?b", "https://h/[ab]", "s3://b/a")
    ] == [
        True,
        False,
        True,
        False,
    ]
    assert list(map(remote._expression, ("**", "a?", "*.txt"))) == [
        "(?:/[^/]*)*?",
        "/a.",
        r"/[^/]*\.txt",
    ]


def test_pages_are_asked_for_no_deeper_than_a_pattern_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A star stands for one level of links, two for all; links with a query, or to the page itself, are left out."""
    pages = {
        "http://h/": ["http://h/a/", "http://h/x.txt", "http://h/"],
        "http://h/a/b/": ["http://h/a/b/z.txt"],
        "http://h/a/": ["http://h/a/b/", "http://h/a/y.txt", "http://h/a/y.txt?q"],
    }
    asked = list[str]()
    monkeypatch.setattr(remote, "ask", lambda url, _: asked.append(url) or pages[url])
    found = [remote.files_at(f"http://h/{pattern}") for pattern in ("*", "*/*", "**", "a/*.txt")]
    assert found[:2] + found[3:] == [["http://h/x.txt"], ["http://h/a/y.txt"], ["http://h/a/y.txt"]]
    assert found[2] == [f"http://h/{name}.txt" for name in ("a/b/z", "a/y", "x")]
    assert len(asked) == 1 + 2 + 3 + 1


def test_ids_are_written_and_checked_in_spans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many sentences are written or checked at a time, the index is the same; a type holds its largest id."""
    monkeypatch.setattr(indexed_dataset, "_SPAN", 2)
    sentences = [[1, 2], [3], [], [4, 5, 6], [7]]
    with write_ids(tmp_path / "a", dtype="u16") as writer:
        writer.add(np.array([1, 2, 3]), np.array([2, 1]))
        writer.add(np.array([4, 5, 6, 7]), np.array([0, 3, 1]))
    data, index = packed(sentences, "u16")
    assert ((tmp_path / "a.bin").read_bytes(), (tmp_path / "a.idx").read_bytes()) == (data, index)
    open_ids(tmp_path / "a").check()
    damaged = bytearray(index)
    damaged[26 + 4 * 5 + 8 * 3] += 2
    (tmp_path / "a.idx").write_bytes(damaged)
    with pytest.raises(CorpusError, match="sentence 4 starts at byte 8, but"):
        open_ids(tmp_path / "a").check()
    assert [dtype_for(n) for n in (1, 65_499, 65_500)] == ["u16", "u16", "i32"]
    for dtype, most in (("u8", 256), ("i8", 128), ("u16", 65_536)):
        check_dtype(dtype, most)
        with pytest.raises(
            ConfigError,
            match=f"dtype '{dtype}' allows ids up to {most - 1:,}, but the largest id is {most:,}",
        ):
            check_dtype(dtype, most + 1)
