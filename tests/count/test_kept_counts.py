"""Laws of `keep`, which stores counts: they do not change, and a second run counts only the
rest.
"""

import gzip
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from itertools import chain
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest
from support.commands import status_of
from support.places import ROOT
from support.streams import deadline
from support.web_servers import web_server

from volt import SpecialTokens, count_words
from volt.count import corpus as counting
from volt.count.corpus import group_shards, in_ranges, look_up_sizes, shards_of
from volt.count.counting import ShardCounter
from volt.count.kept_counts import _ENDING as ENDING
from volt.count.kept_counts import KeptCounts, path_of
from volt.errors import ConfigError, CorpusError, OutputError
from volt.files.paths import expand
from volt.text.pretokenizer import PreTokenizer

SIZE = 1 << 12  # bytes of a group in these tests


@pytest.fixture
def counted(monkeypatch):
    """Return a list to which the name of each file is added when it is counted."""
    paths = []
    count = ShardCounter._count_shards

    def recorded(self, shards):
        paths.extend(Path(path_of(shard)).name for shard in shards)
        return count(self, shards)

    monkeypatch.setattr(ShardCounter, "_count_shards", recorded)
    monkeypatch.setattr(counting, "RANGE_SIZE", SIZE)
    return paths


@pytest.fixture
def folder(tmp_path):
    """Small files, a compressed one, an empty one, and one of several ranges with a line that is
    not UTF-8.
    """
    result = tmp_path / "corpus"
    result.mkdir()
    for number in range(60):
        (result / f"{number:02}.txt").write_text(
            f"für Low lower\t{'new' * (number % 7)}est {number}\n" * (number % 9)
        )
    (result / "b.txt.gz").write_bytes(gzip.compress(b"packed low\tx\n" * 99))
    (result / "c.txt").write_bytes(
        b"newest low\twidest\n" * 1_000 + b"\xff\ty\n" + b"low\tlow\n" * 99
    )
    return result


def names(kept):
    return {path.name for path in kept.iterdir()}


@pytest.mark.parametrize("most", [1, 64, 999, 10**9])
def test_groups_are_consecutive_and_of_about_one_size(most):
    """`group_shards` yields each shard once, in order; only a single shard may exceed the size."""
    draw = random.Random(most)
    sizes = {f"{number}": draw.choice([0, 1, 40, 100, 5_000, None]) for number in range(300)}
    groups = list(group_shards([*sizes], sizes, max_bytes=most))
    assert [shard for group in groups for shard, _ in group] == [*sizes]
    assert all(group for group in groups)
    for group in groups:
        assert sum(most if sizes[str(shard)] is None else size for shard, size in group[1:]) <= most
    unknown = {"a": None, "b": None, "c": None}
    assert len(list(group_shards([*unknown], unknown, max_bytes=most))) == 3


def test_a_new_or_longer_file_changes_few_groups():
    """If one of 20,000 small files is new or longer, `group_shards` changes few groups, or none if a
    longer file still fits into its group.

    Groups have half of the size or more on average."""
    sizes = {f"{number:05}": 10 + number % 7 for number in range(20_000)}
    before = {
        tuple(shard for shard, _ in group)
        for group in group_shards([*sizes], sizes, max_bytes=1_000)
    }
    assert 20_000 * 13 / 1_000 < len(before) < 4 * 20_000 * 13 / 1_000
    for changed in (sizes | {"10000": 500}, dict(sorted((sizes | {"10000a": 500}).items()))):
        after = {
            tuple(shard for shard, _ in group)
            for group in group_shards([*changed], changed, max_bytes=1_000)
        }
        assert len(changed) - len(sizes) <= len(after - before) <= 20


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fields": 2},
        {"normalizer": "lowercase"},
        {"pretokenizer": PreTokenizer("gpt2")},
        {"min_count": 3},
        {"special": SpecialTokens(user=("low",))},
        {"memory": "512M", "min_count": 2},
        {"errors": "replace"},
    ],
    ids=str,
)
def test_kept_counts_are_those_that_are_counted(folder, tmp_path, counted, options):
    """With `keep`, `count_words` gives the same counts, and a second run counts no file."""
    options = {"errors": "skip", **options}
    expected = count_words(folder, **options)
    counted.clear()
    assert count_words(folder, keep=tmp_path / "kept", **options) == expected
    assert {*counted} == names(folder)
    counted.clear()
    assert count_words(folder, keep=str(tmp_path / "kept"), **options) == expected
    assert not counted


def test_any_map_keeps_counts(folder, tmp_path, counted):
    """With `keep` and any map, a second run counts no file or range."""
    expected = count_words(folder, errors="skip")
    with ThreadPool(2) as pool:
        for number, each in enumerate((pool.imap, in_ranges(map, size=SIZE))):
            counted.clear()
            for _ in range(2):
                assert (
                    count_words(folder, keep=tmp_path / f"{number}", map=each, errors="skip")
                    == expected
                )
                assert len(counted) == 62 + 4 * number


def test_every_option_that_changes_counts_is_counted_anew(folder, tmp_path, counted):
    """With `keep`, an option that changes counts leads to a new count; one such as block_size does
    not.
    """
    kept = tmp_path / "kept"
    count = partial(count_words, folder, keep=kept)
    count(errors="skip")
    changes = [("fields", 1), ("fields", 2), ("normalizer", "nfc")]
    changes += [("pretokenizer", "gpt2"), ("max_line", 99), ("errors", "replace")]
    changes += [("special", SpecialTokens(user=(token,))) for token in ("low", "est")]
    for name, value in changes:
        counted.clear()
        count(**{"errors": "skip", name: value})
        assert counted, name
    counted.clear()
    for options in ({"min_count": 2}, {"block_size": 99}, {"memory": "1G"}):
        count(errors="skip", **options)
    count(errors="skip", special=SpecialTokens(unk="[unk]"))
    assert not counted


def test_only_what_changed_is_counted_anew(folder, tmp_path, counted):
    """With `keep`, only the group of a new or changed file is counted anew.

    A change is detected even if the size and modification time are the same."""
    kept = tmp_path / "kept"
    count_words(folder, keep=kept, errors="skip")

    def check(changed):
        expected = count_words(folder, errors="skip")
        counted.clear()
        assert count_words(folder, keep=kept, errors="skip") == expected
        assert changed in counted
        assert len(counted) < 62

    path = folder / "08.txt"
    status = path.stat()
    path.write_text(path.read_text().replace("lower", "tower"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    check("08.txt")
    (folder / "61.txt").write_text("new file\n")
    check("61.txt")


@pytest.mark.parametrize("n_bytes", [0, 1, 16, 30, 60, -1])
def test_a_damaged_file_is_not_trusted(folder, tmp_path, counted, monkeypatch, n_bytes):
    """If the stored counts of a group were cut, changed or replaced, only this group is counted
    anew.
    """
    written = []  # the files' names, in the order of the groups
    write = KeptCounts._write

    def recorded(self, name, part):
        written.append(name)
        write(self, name, part)

    monkeypatch.setattr(KeptCounts, "_write", recorded)
    kept = tmp_path / "kept"
    expected = count_words(folder, keep=kept, errors="skip")
    cut, changed, replaced, *others = (kept / name for name in written)
    cut.write_bytes(cut.read_bytes()[:n_bytes])
    draw = random.Random(n_bytes)
    data = bytearray(changed.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    changed.write_bytes(data)
    replaced.write_bytes(others[0].read_bytes())

    paths = expand(folder)
    groups = list(
        group_shards(shards_of(paths, size=SIZE), look_up_sizes(paths)[0], max_bytes=SIZE)
    )
    damaged = [Path(path_of(shard)).name for shard, _ in chain(*groups[:3])]
    n_groups = len(written)
    assert n_groups == len(groups)
    counted.clear()
    assert count_words(folder, keep=kept, errors="skip") == expected
    assert counted == damaged
    assert written[n_groups:] == written[:3]
    counted.clear()
    assert (count_words(folder, keep=kept, errors="skip"), counted) == (expected, [])


def test_a_file_that_changes_while_it_is_counted_is_not_kept(folder, tmp_path, monkeypatch):
    """With `keep`, no counts are stored of a file that changes while it is counted."""
    path = folder / "08.txt"
    real = ShardCounter._count_shards

    def slowly(self, shards):
        part = real(self, shards)
        path.write_text("changed\n")
        return part

    monkeypatch.setattr(ShardCounter, "_count_shards", slowly)
    count_words(path, keep=tmp_path / "kept")
    assert not names(tmp_path / "kept")


def test_an_error_keeps_what_was_counted(folder, tmp_path, counted):
    """After an error, a second run with `keep` raises it again, without counting earlier groups."""
    for _ in range(2):
        with pytest.raises(CorpusError, match=r"c\.txt:1001: invalid UTF-8 byte 0xff"):
            count_words(folder, keep=tmp_path / "kept")
    assert len(counted) < 2 * 62


def test_urls_are_kept_by_their_versions(tmp_path, counted):
    """With `keep`, counts of URLs with a version are stored, also in a bucket; others never are."""
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    import fsspec

    fsspec.filesystem("memory").pipe(
        {"/corpus/a.txt": b"low\n" * 3_000, "/corpus/b.txt": b"lower\n"}
    )
    for _ in range(2):
        assert count_words("memory://corpus", keep="memory://kept/counts/").total == 3_001
    assert sorted({*counted}) == ["a.txt", "b.txt"]
    assert len(counted) == 4
    assert len(fsspec.filesystem("memory").ls("/kept/counts")) >= 3
    with web_server(files={"/a.txt": b"low\n"}) as web:
        counted.clear()
        web.files["/a.txt"] = b"lower\n"
        for _ in range(2):
            count_words(f"{web.url}/a.txt?key=hunter2", keep=tmp_path / "kept")
        with pytest.raises(OutputError, match="an http server accepts no files"):
            count_words(f"{web.url}/a.txt", keep=f"{web.url}/kept")
    assert not any(b"hunter2" in path.read_bytes() for path in (tmp_path / "kept").iterdir())


def test_what_cannot_be_kept_is_refused(folder, tmp_path, run):
    """`keep` with a pipe, approximate counts, or a folder that cannot be created raises an
    error.
    """
    pipe = tmp_path / "pipe"
    file = tmp_path / "file"
    os.mkfifo(pipe)
    file.write_bytes(b"")
    for source, name in (("-", "stdin"), (str(pipe), str(pipe))):
        message = f"^{name}: keep works only with files; write its lines to a file"
        with pytest.raises(ConfigError, match=message):
            count_words(source, keep=tmp_path / "kept")
    message = r"^kept counts are .*; remove keep='.*kept' or approximate=True$"
    with pytest.raises(ConfigError, match=message):
        count_words(folder, keep=tmp_path / "kept", memory="1G", approximate=True)
    faults = {file: "file exists", file / "kept": "not a directory"}
    for place, fault in faults.items():
        with pytest.raises(OutputError, match=f"{place}: cannot be created: {fault}; choose"):
            count_words(folder, keep=place)
    with pytest.raises(ConfigError, match="keep is empty; give a folder"):
        count_words(folder, keep="")
    options = ("-o", tmp_path / "a.volt", "--keep")
    done = run("search", folder, *options, "/proc/none", status=1)
    assert done.stderr.startswith(b"error /proc/none: cannot be created: ")
    done = run("search", folder, *options, "", status=2)
    assert b"keep is empty; give a folder" in done.stderr


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, partial(os.symlink, "/dev/zero")])
def test_kept_counts_must_be_a_file(folder, tmp_path, make):
    """A pipe, folder or device in place of stored counts raises an error, without blocking."""
    count_words(folder / "08.txt", keep=tmp_path / "kept")
    [file] = (tmp_path / "kept").iterdir()
    file.unlink()
    make(file)
    with deadline(5), pytest.raises(OutputError, match=f"^{file}: is not a file; remove it$"):
        count_words(folder / "08.txt", keep=tmp_path / "kept")


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a file system")
def test_a_full_disk_is_an_error(folder, tmp_path, counted):
    """If the disk of `keep` is full, the error names the file, and earlier groups remain stored."""
    kept = tmp_path / "kept"
    kept.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12k", "none", kept], capture_output=True
    ).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        with pytest.raises(
            OutputError, match=rf"{ENDING}: cannot be written: no space left on device; it was not"
        ):
            count_words(folder, keep=kept, errors="skip", pretokenizer="unicode")
        assert names(kept)
        assert all(name.endswith(ENDING) for name in names(kept))
    finally:
        subprocess.run(["umount", kept], check=True)


def test_the_folder_may_lie_in_the_corpus(folder, counted):
    """Stored counts within a corpus are not counted as text; other files with their ending are."""
    (folder / "d.volt-counts").write_text("low\n")
    expected = count_words(folder, errors="skip")
    for _ in range(2):
        assert count_words(folder, keep=folder / "kept", errors="skip") == expected
    assert count_words(folder, errors="skip") == expected


@pytest.mark.slow
def test_a_killed_command_continues(tmp_path):
    """After each kill, `volt search --keep` has more stored counts; its vocabulary is the same in
    the end.
    """
    corpus = tmp_path / "corpus"
    kept = tmp_path / "kept"
    draw = random.Random(4)
    corpus.mkdir()
    for number in range(200):
        (corpus / f"{number:03}.txt").write_text(
            f"low lower {'new' * (number % 7)}est {number % 37} x{number}\n" * 200
        )
    code = f"import volt.count.corpus as c; c.RANGE_SIZE = {SIZE}; import volt_cli.__main__ as v; v.main()"
    options = ["search", str(corpus), "--sizes", "30:60:10", "--select", "fixed:50", "-q"]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'cli'}"}
    assert status_of([*options, "-o", tmp_path / "a.volt"]) == 0
    outputs = ["--keep", str(kept), "-o", str(tmp_path / "b.volt")]
    command = [sys.executable, "-c", code, *options, *outputs]
    n_kept = [0]
    seen = {}
    for _ in range(2):
        process = subprocess.Popen(command, env=environment)
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            if kept.is_dir() and len([*kept.glob(f"*{ENDING}")]) > n_kept[-1] + 10:
                break
            time.sleep(0.001)
        time.sleep(draw.random() * 0.02)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        files = {path.name: path.stat().st_ino for path in kept.glob(f"*{ENDING}")}
        assert files.items() >= seen.items()
        seen = files
        n_kept.append(len(seen))
    assert not (tmp_path / "b.volt").exists()
    subprocess.run(command, env=environment, check=True)
    assert {path.name: path.stat().st_ino for path in kept.iterdir()}.items() > seen.items()
    assert (tmp_path / "b.volt").read_bytes() == (tmp_path / "a.volt").read_bytes()
