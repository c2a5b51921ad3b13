"""Laws of `volt.ext.ray`: what a cluster counts and encodes is what this process does, and nobody sees who died."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pytest
from drawn import DRAWS_ALL
from places import ROOT
from programs import start
from web_servers import web_server

from volt import Encoder, count_words, learn_bpe, search
from volt.encode.binarize import binarize, binarize_each
from volt.encode.files import EncodeJob, encode_each, encode_one, encode_stream
from volt.encode.frames import Frame
from volt.errors import ConfigError, CorpusError, OutputError, VoltError

ray = pytest.importorskip("ray", reason="needs ray: make ray")

from volt.ext import ray as volt_ray  # noqa: E402
from volt.ext import ray_cluster  # noqa: E402
from volt.ext.ray import RayMap, RayWriter, encode  # noqa: E402
from volt.ext.ray_cluster import connected  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning:ray")
IN_RANGES = RayMap(range_size=1 << 16)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A cluster of this machine, for all tests that want one. Its end disconnects, and restores signal handlers."""
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    with connected():
        yield
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == handlers
    assert not ray.is_initialized()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Shards: large, packed, without a last line end, empty, with bad bytes."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = "".join(
        f"für low lower {'new' * (number % 7)}est {number % 977}\r\n" for number in range(20_000)
    ).encode()
    (folder / "a.txt").write_bytes(lines)
    (folder / "b.txt.gz").write_bytes(gzip.compress(lines[:50_000]))
    (folder / "c.txt").write_bytes(b"\xef\xbb\xbflow\n\nlower")
    (folder / "d.txt").write_bytes(b"")
    (folder / "e.txt").write_bytes(lines + b"\xff\n" + lines)
    return sorted(map(str, folder.iterdir()))


@pytest.fixture(scope="module")
def encoder(corpus: list[str]) -> Encoder:
    return Encoder(
        search(learn_bpe(count_words(corpus[:4]), 200), sizes=range(60, 121, 20)).vocabulary
    )


def files_of(folder: Path) -> dict[str, bytes]:
    """All files of a folder, hidden ones too, but for what says when they were made."""
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.name != ".volt-encoded.json"
    }


def whole(folder: Path) -> set[str]:
    origins = json.loads((folder / ".volt-encoded.json").read_bytes())
    return {name for name, origin in origins.items() if "files" in origin}


@pytest.mark.parametrize(
    ("shard_map", "options"),
    [
        (IN_RANGES, {}),
        (IN_RANGES, {"pretokenizer": "gpt2", "normalizer": "nfkc", "min_count": 3}),
        (replace(IN_RANGES, add_up=False), {"min_count": 2, "memory": "512M"}),
    ],
)
def test_counts_are_those_of_one_process(
    cluster: None, corpus: list[str], shard_map: RayMap, options: dict[str, Any]
) -> None:
    """Words, lines, bytes and bad lines; reported is all that was read, once."""
    message = list[tuple[str, int, int | None]]()
    found = count_words(
        corpus,
        map=shard_map,
        errors="skip",
        progress=lambda path, done, total: message.append((path, done, total)),
        **options,
    )
    assert found == count_words(corpus, errors="skip", **options)
    assert message[-1][1:] == (sum(map(os.path.getsize, corpus)),) * 2
    assert [done for _, done, _ in message] == sorted(done for _, done, _ in message)


def test_many_small_files_are_counted_by_few_tasks(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counts are those of one process, and so is the error, whose file is not the first of its task."""
    tasks, finished = list[int](), volt_ray.finished
    for number in range(400):
        (tmp_path / f"{number:03}.txt").write_text(f"low lower {number % 7}\n" * (number % 5))
    (tmp_path / "big.txt").write_text("newest\n" * 5_000)

    def counted(function: Callable[[Any], object], items: Any, **options: Any) -> Iterator[Any]:
        listed = list(items)
        tasks.append(len(listed))
        return finished(function, listed, **options)

    monkeypatch.setattr(volt_ray, "finished", counted)
    for shard_map in (RayMap(), RayMap(range_size=1 << 12), RayMap(add_up=False)):
        assert count_words(str(tmp_path), map=shard_map) == count_words(str(tmp_path))
    assert 1 < tasks[0] <= 4 * os.cpu_count() + 2  # type: ignore[operator]
    (tmp_path / "250.txt").write_bytes(b"low\n\xff\n")
    (tmp_path / "251.txt").write_bytes(b"\xff\n")
    with pytest.raises(CorpusError, match=r"250\.txt:2: invalid UTF-8"):
        count_words(str(tmp_path), map=RayMap())


def test_workers_keep_counts(
    cluster: None, corpus: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run writes nothing, whatever the number of cores; nor does one without Ray."""
    kept, expected = tmp_path / "kept", count_words(corpus, errors="skip")
    assert count_words(corpus, map=IN_RANGES, errors="skip", keep=kept) == expected
    files = {path.name: path.stat().st_ino for path in kept.iterdir()}
    assert len(files) > 10
    monkeypatch.setattr("volt.count.corpus.RANGE_SIZE", IN_RANGES.range_size)
    monkeypatch.setattr(volt_ray, "_AHEAD", 1)
    for options in (
        {"map": IN_RANGES},
        {"map": replace(IN_RANGES, add_up=False), "memory": "512M"},
        {},
    ):
        assert count_words(corpus, errors="skip", keep=kept, **options) == expected
        assert {path.name: path.stat().st_ino for path in kept.iterdir()} == files
    with pytest.raises(OutputError, match="cannot be created: file exists"):
        count_words(corpus, map=IN_RANGES, keep=corpus[0])


def test_a_packed_file_is_counted_by_several_tasks(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With equal counts and errors if counting takes long; otherwise by one task, which has threads."""
    tasks, finished, path = list[int](), volt_ray.finished, tmp_path / "a.gz"
    lines = "".join(f"FÜR low {number}\n" for number in range(20_000)).encode()
    path.write_bytes(gzip.compress(lines))

    def counted(function: Callable[[Any], object], items: Any, **options: Any) -> Iterator[Any]:
        listed = list(items)
        tasks.append(sum(map(len, listed)))
        return finished(function, listed, **options)

    monkeypatch.setattr(volt_ray, "finished", counted)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 8.0})
    heard, options = list[tuple[str, int, int | None]](), {"normalizer": "nfkc+lowercase"}
    note: Any = lambda *one: heard.append(one)  # noqa: E731
    here = count_words(path, **options)  # type: ignore[arg-type]
    assert count_words(path, map=IN_RANGES, progress=note, **options) == here  # type: ignore[arg-type]
    assert heard[-1] == (str(path), path.stat().st_size, path.stat().st_size)
    assert count_words(path, map=IN_RANGES) == count_words(path)
    assert tasks == [4, 1]
    path.write_bytes(gzip.compress(lines + b"\xff\n" + lines))
    for damaged in (path.read_bytes(), path.read_bytes()[:-9]):
        path.write_bytes(damaged)
        with pytest.raises(CorpusError) as there:
            count_words(path, map=IN_RANGES, **options)  # type: ignore[arg-type]
        with pytest.raises(CorpusError, match=re.escape(str(there.value))):
            count_words(path, **options)  # type: ignore[arg-type]


def test_a_url_is_counted_in_ranges(
    cluster: None, corpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By several workers, from a server that refuses some of their requests; a packed file is counted whole."""
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    draw = random.Random(5)
    with web_server(
        files={f"/{Path(path).name}": Path(path).read_bytes() for path in corpus[:4]}
    ) as web:
        urls = [f"{web.url}/{Path(path).name}?key=hunter2" for path in corpus[:4]]
        web.faults = iter(lambda: draw.choice(["503", "cut"]) if draw.random() < 0.2 else "", None)
        assert count_words(urls, map=IN_RANGES) == count_words(corpus[:4])
        ranges = {asked for asked in web.asked if re.search(r"/a\.txt.*bytes=\d+", asked)}
        assert len(ranges) > Path(corpus[0]).stat().st_size >> 16


def test_an_error_is_that_of_one_process(cluster: None, corpus: list[str]) -> None:
    """It names the first line at fault, is of the same class, and the cluster counts on afterwards."""
    for sources in (corpus, corpus[::-1], [*corpus, "/dev/null/none"]):
        with pytest.raises(VoltError) as here:
            count_words(sources)
        with pytest.raises(VoltError) as there:
            count_words(sources, map=IN_RANGES)
        if "/dev/null/none" in sources:
            assert isinstance(there.value, CorpusError)
            continue
        assert (type(there.value), str(there.value)) == (type(here.value), str(here.value))
    assert ":20001: invalid UTF-8 byte 0xff" in str(there.value) or "none" in str(there.value)
    assert count_words(corpus[0], map=IN_RANGES) == count_words(corpus[0])


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(EncodeJob(), marks=pytest.mark.campaign),
        EncodeJob("ids", errors="skip"),
        pytest.param(EncodeJob("bin"), marks=pytest.mark.campaign),
        EncodeJob("npy", n_threads=2),
        EncodeJob(dropout=0.5, seed=7),
    ],
)
def test_encoded_files_are_those_of_one_process(
    cluster: None, corpus: list[str], encoder: Encoder, tmp_path: Path, job: EncodeJob
) -> None:
    """Byte for byte, with what lies beside; either finds what the other made, and makes it no more."""
    paths = corpus[:4]
    here, there = tmp_path / "here", tmp_path / "there"
    lines = {
        outcome.source: outcome.n_lines for outcome in encode_each(encoder, paths, here, job=job)
    }
    message = list[int]()
    found = encode_each(encoder, paths, there, job=job, write=RayWriter(), progress=message.append)
    assert {outcome.source: outcome.n_lines for outcome in found} == lines
    assert files_of(there) == files_of(here)
    assert message[-1] == sum(map(os.path.getsize, paths))
    again = [
        *encode_each(encoder, paths, there, job=job),
        *encode_each(encoder, paths, here, job=job, write=RayWriter()),
    ]
    assert {outcome.n_lines for outcome in again} == {None}


def test_pairs_of_ids_are_those_of_one_process(
    cluster: None, corpus: list[str], encoder: Encoder, tmp_path: Path
) -> None:
    """Workers write equal .bin and .idx files, and count equal lines and ids; a file at fault leaves no pair."""
    here, there, frame = tmp_path / "here", tmp_path / "there", Frame.of(encoder.vocabulary)
    options: dict[str, Any] = {"frame": frame, "dtype": "i64"}
    local = [*binarize_each(encoder, corpus[:4], here, **options)]
    remote = [*binarize_each(encoder, corpus[:4], there, write=RayWriter().each, **options)]
    assert {(pair.prefix.name, pair.n_lines, pair.n_ids, pair.dtype) for pair in remote} == {
        (pair.prefix.name, pair.n_lines, pair.n_ids, pair.dtype) for pair in local
    }
    assert files_of(there) == files_of(here)
    with pytest.raises(CorpusError, match=r"e\.txt:20001: invalid UTF-8"):
        list(binarize_each(encoder, corpus, tmp_path / "bad", write=RayWriter().each, **options))
    assert not [name for name in files_of(tmp_path / "bad") if name.startswith("e.")]


@pytest.mark.parametrize(
    ("job", "size"),
    [
        (EncodeJob(), 1 << 16),
        (EncodeJob("npy", eos=True, truncate=5), 1 << 14),
        (EncodeJob("ids", errors="skip"), 1 << 14),
    ],
)
def test_one_output_of_ranges_is_that_of_one_process(
    cluster: None,
    corpus: list[str],
    encoder: Encoder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    job: EncodeJob,
    size: int,
) -> None:
    """Byte for byte, in a file, a stream and a pair; an invalid line has its number in the file.

    The packed file is large for these ranges, so this process encodes it.
    """
    monkeypatch.setattr(volt_ray, "RANGE_SIZE", size)
    here, there, parts = tmp_path / "here/out", tmp_path / "there/out", RayWriter().parts
    paths = corpus if job.errors == "skip" else corpus[:4]
    here.parent.mkdir(), there.parent.mkdir()
    assert encode_one(encoder, paths, there, job=job, parts=parts) == encode_one(
        encoder, paths, here, job=job
    )
    binarize(encoder, paths, there.with_name("pair"), job=job, parts=parts)
    binarize(encoder, paths, here.with_name("pair"), job=job)
    for documents in ("file", "blank"):
        options: dict[str, Any] = {"documents": documents, "job": replace(job, eos=False)}
        binarize(encoder, paths, there.with_name(documents), parts=parts, **options)
        binarize(encoder, paths, here.with_name(documents), **options)
    assert files_of(there.parent) == files_of(here.parent)
    if job.is_text:
        whole = b"".join(encode_stream(encoder, paths, job=job))
        assert b"".join(encode_stream(encoder, paths, job=job, parts=parts)) == whole
    if job.errors == "strict":
        with pytest.raises(CorpusError, match=r"e\.txt:20001: invalid UTF-8"):
            encode_one(encoder, corpus, there, job=job, parts=parts)
    with pytest.raises(ConfigError, match="numbers of lines"):
        encode_one(encoder, paths, there, job=replace(job, dropout=0.5, seed=1), parts=parts)
    assert there.read_bytes() == here.read_bytes()


def test_an_error_leaves_what_is_whole(
    cluster: None, corpus: list[str], encoder: Encoder, tmp_path: Path
) -> None:
    """Files before the one at fault are written and noted; of that one there is nothing."""
    with pytest.raises(CorpusError, match=r"e\.txt:20001: invalid UTF-8"):
        list(encode_each(encoder, corpus, tmp_path, job=EncodeJob(), write=RayWriter()))
    assert set(files_of(tmp_path)) == whole(tmp_path) == {f"{name}.txt.pieces" for name in "abcd"}


def test_a_worker_that_is_killed_is_not_missed(
    cluster: None,
    corpus: list[str],
    encoder: Encoder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever it did is done again, and there once: each worker that is seen in the first second is killed."""
    expected = count_words(corpus, errors="skip")
    killed, over, summaries = list[int](), threading.Event(), list[str]()

    def kill() -> None:
        while not over.wait(0.05) and len(killed) < 4:
            for worker in _workers():
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        ranges = replace(IN_RANGES, report=summaries.append)
        found = count_words(corpus * 3, map=ranges, errors="skip", keep=tmp_path / "kept")
        assert found.counts.tolist() == (expected.counts * 3).tolist()
        writer = RayWriter(report=summaries.append)
        list(
            encode_each(encoder, corpus[:4], tmp_path / "there", job=EncodeJob("bin"), write=writer)
        )
    finally:
        over.set()
        thread.join()
    assert killed
    summary = re.compile(r"Ray: (\d+) tasks, (\d+) repeated, [\d.]+ MB/s")
    (n_tasks, n_repeated), (n_written, n_repeated_too) = [
        map(int, summary.fullmatch(each).groups()) for each in summaries
    ]  # type: ignore[union-attr]
    assert n_tasks > 3 * 10
    assert n_written == 4
    assert 1 <= n_repeated + n_repeated_too <= len(killed)
    list(encode_each(encoder, corpus[:4], tmp_path / "here", job=EncodeJob("bin")))
    assert files_of(tmp_path / "there") == files_of(tmp_path / "here")


def _workers() -> list[int]:
    """The processes below this one that run a task."""
    import psutil

    return [
        found.pid
        for found in psutil.Process().children(recursive=True)
        if "ray::_apply" in " ".join(_name(found))
    ]


def _name(process: Any) -> list[str]:
    import psutil

    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_a_job_of_kubernetes_searches_and_encodes(cluster: None, tmp_path: Path) -> None:
    """On a cluster; in campaigns, again, on a cluster of each command, which writes the same files."""
    text = "\n".join(topics.values())
    for name, part in (("a", text[:60_000]), ("b", text[60_000:120_000])):
        (tmp_path / f"{name}.txt").write_text(part, encoding="utf-8")
    program = ["bash", ROOT / "examples" / "kubernetes" / "search_and_encode.sh"]
    address = ray.get_runtime_context().gcs_address
    start(*program, folder=tmp_path, CORPUS="[ab].txt", OUTPUT="out", ADDRESS=address)
    files = {
        path: path.read_bytes()
        for path in (tmp_path / "out").rglob("*.*")
        if not path.name.startswith(".")
    }
    names = {path.name for path in files}
    assert len(list((tmp_path / "out" / "counts").iterdir())) == 1
    assert names == {
        "corpus.volt",
        "a.txt.npy",
        "a.txt.npy.offsets.npy",
        "b.txt.npy",
        "b.txt.npy.offsets.npy",
    }
    if DRAWS_ALL:
        start(*program, folder=tmp_path, CORPUS="[ab].txt", OUTPUT="out", ADDRESS="")
        assert files == {path: path.read_bytes() for path in files}
    assert "set CORPUS" not in start(*program, folder=tmp_path, status=1, OUTPUT="out", CORPUS="")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RayMap(address=3), "address is 3 (int); give a str"),  # type: ignore[arg-type]
        (lambda: RayMap(range_size=0), "range_size is 0; give 1 or more"),
        (lambda: RayMap(add_up=1), "add_up is 1 (int); give True or False"),  # type: ignore[arg-type]
        (lambda: RayMap(report=1), "report is 1 (int); give a function, or None"),  # type: ignore[arg-type]
        (lambda: RayWriter(report=1), "report is 1 (int); give a function, or None"),  # type: ignore[arg-type]
        (lambda: RayWriter(address=3), "address is 3 (int); give a str"),  # type: ignore[arg-type]
        (
            lambda: encode(None, None),  # type: ignore[arg-type]
            "dataset is None; give a dataset of Ray, such as ray.data.read_text(paths)",
        ),
    ],
)
def test_options_are_checked_at_once(make: Callable[[], object], message: str) -> None:
    """Before a cluster starts; the least range is a byte."""
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value) == message
    assert RayMap(range_size=1).address is None


def test_messages_of_ray_are_shortened() -> None:
    """The first sentence of its first line is enough, and of that 300 characters."""
    for text in ("One. Two.", " One.\nTwo. Three.", "One"):
        assert ray_cluster.first_sentence(text) == "One"
    assert [ray_cluster.first_sentence("x" * n) == "x" * n for n in (300, 301)] == [True, False]


def test_stdin_and_pipes_are_refused(cluster: None, encoder: Encoder, tmp_path: Path) -> None:
    """Workers could not read them; the error says what to do."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for source, name in (("-", "stdin"), (str(pipe), str(pipe))):
        with pytest.raises(
            ConfigError, match=f"{name}: workers read only files; write its lines to a file"
        ):
            count_words(source, map=IN_RANGES)
    with pytest.raises(ConfigError, match="workers read only files"):
        list(
            encode_each(encoder, [str(pipe)], tmp_path / "out", job=EncodeJob(), write=RayWriter())
        )


def test_workers_are_where_the_driver_is(
    cluster: None, corpus: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A path that is not absolute means the same to them, and stands so in errors."""
    monkeypatch.chdir(Path(corpus[0]).parent)
    assert count_words("a.txt", map=IN_RANGES) == count_words("a.txt")
    with pytest.raises(CorpusError, match=r"^e\.txt:20001:"):
        count_words("e.txt", map=IN_RANGES)


def test_a_folder_that_a_machine_lacks_is_named(tmp_path: Path) -> None:
    """The error says what to do; the driver adds which machine."""
    with pytest.raises(
        VoltError,
        match=r"none: cannot be entered: no such file or directory; run this from a folder that",
    ):
        volt_ray._enter(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("address", "message"),
    [("localhost:1", "connection refused"), ("ray://localhost:99999999", "")],
)
def test_an_address_without_a_cluster_is_refused(address: str, message: str) -> None:
    """At once: Ray itself would look for minutes, and then end the process."""
    with pytest.raises(
        ConfigError,
        match=f"no cluster of Ray at address '{address}': {message}.*`ray start --head`",
    ):
        ray_cluster._joined(address).__enter__()


def test_an_address_that_is_not_that_of_the_connection_is_refused(
    cluster: None, corpus: list[str]
) -> None:
    """By its name; the address of the cluster in use, and "auto", are taken."""
    used = ray.get_runtime_context().gcs_address
    port = used.rpartition(":")[2]
    for address in (used, f"localhost:{port}", "auto"):
        assert count_words(corpus[0], map=RayMap(address=address)) == count_words(corpus[0])
    for address in (
        "localhost:1",
        f"192.0.2.99:{port}",
        f"nowhere.invalid:{port}",
        "ray://localhost:10001",
    ):
        with pytest.raises(ConfigError) as message:
            count_words(corpus[0], map=RayMap(address=address))
        assert str(message.value) == (
            f"Ray is connected to the cluster at {used}, but the address is '{address}'; remove the address, or "
            "call ray.shutdown() first"
        )


def _until(process: subprocess.Popen[bytes], there: Callable[[], bool]) -> None:
    """Wait until something is there that a process makes."""
    end = time.monotonic() + 60
    while not there() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()


def _started(*arguments: object) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'cli'}"}
    command = [sys.executable, "-m", "volt_cli", *map(str, arguments), "--engine", "ray", "-q"]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)


@pytest.mark.campaign
@pytest.mark.parametrize("process", ["gcs_server", "raylet"])
def test_a_command_that_is_ended_while_ray_starts_says_so(tmp_path: Path, process: str) -> None:
    """With the status of SIGTERM, when one of the cluster's processes is there, and the others are not yet."""
    import psutil

    (tmp_path / "a.txt").write_bytes(b"low lower newest\n")
    command = _started("search", tmp_path / "a.txt", "-o", tmp_path / "a.volt")
    driver = psutil.Process(command.pid)
    _until(
        command,
        lambda: any(
            f"/{process}" in " ".join(_name(found)) for found in driver.children(recursive=True)
        ),
    )
    command.terminate()
    said = command.communicate(timeout=60)[1]
    assert (command.returncode, said) == (143, b"ended by SIGTERM\n")


@pytest.mark.campaign
def test_a_command_that_is_ended_leaves_no_part(tmp_path: Path, encoder: Encoder) -> None:
    """Workers are killed while they write, and what they had begun is gone with them."""
    (tmp_path / "a.txt").write_bytes(b"low lower newest\n" * 8_000_000)
    encoder.vocabulary.save(tmp_path / "a.volt")
    command = _started(
        "encode", "-m", tmp_path / "a.volt", tmp_path / "a.txt", "-o", f"{tmp_path / 'out'}/"
    )
    _until(command, lambda: any(tmp_path.glob("out/.*.part")))
    command.terminate()
    assert (command.communicate(timeout=60)[1], command.returncode) == (b"ended by SIGTERM\n", 143)
    assert not [*tmp_path.glob("out/.*.part")]


@pytest.mark.campaign
def test_a_count_whose_driver_is_killed_continues(tmp_path: Path) -> None:
    """With what was kept, which is not written again, and the same result; the workers end with their driver."""
    text, kept, result = tmp_path / "a.txt", tmp_path / "kept", tmp_path / "result"
    text.write_bytes(
        b"".join(b"low lower newest %d\n" % (number % 977) for number in range(200_000))
    )
    code = f"""from volt import count_words
from volt.ext.ray import RayMap
counts = count_words({str(text)!r}, map=RayMap(range_size=1 << 13), keep={str(kept)!r})
print(counts.fingerprint, counts.n_lines, counts.n_bytes, file=open({str(result)!r}, "w"))"""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'cli'}"}
    seen = dict[str, int]()
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE
        )
        _until(
            process,
            partial(lambda n_kept: len([*kept.glob("*.volt-counts")]) > n_kept + 10, len(seen)),
        )
        process.kill()
        process.communicate()
        time.sleep(5)
        files = {path.name: path.stat().st_ino for path in kept.glob("*.volt-counts")}
        assert files.items() > seen.items()
        seen = files
    assert not result.exists()
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert {path.name: path.stat().st_ino for path in kept.iterdir()}.items() > seen.items()
    counts = count_words(text)
    assert result.read_text() == f"{counts.fingerprint} {counts.n_lines} {counts.n_bytes}\n"


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130), (None, 0)],
)
def test_a_command_that_ends_takes_its_cluster_along(
    tmp_path: Path, number: signal.Signals | None, status: int
) -> None:
    """Whatever it ends by; what was being written is not there, unless it ends well: then it is as without Ray."""
    import psutil

    corpus, made, local = tmp_path / "corpus", tmp_path / "made.volt", tmp_path / "local.volt"
    corpus.mkdir()
    for name in "abcdef":
        (corpus / f"{name}.txt").write_bytes(b"low lower newest\n" * 200_000)
    search = [sys.executable, "-m", "volt_cli", "search", str(corpus), "--sizes", "9:13:1", "-q"]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'cli'}"}
    process = subprocess.Popen(
        [*search, "--engine", "ray", "-o", str(made)], env=environment, stderr=subprocess.PIPE
    )
    driver, seen = psutil.Process(process.pid), set[Any]()
    while process.poll() is None:
        seen |= set(driver.children(recursive=True))
        if number is not None and any("ray::_apply" in " ".join(_name(found)) for found in seen):
            process.send_signal(number)
            break
        time.sleep(0.02)
    assert process.wait(timeout=60) == status, process.communicate()
    end = time.monotonic() + 20
    while (left := [found for found in seen if found.is_running()]) and time.monotonic() < end:
        time.sleep(0.2)
    assert seen
    assert not left
    assert made.exists() == (number is None)
    if number is None:
        subprocess.run([*search, "-o", str(local)], env=environment, check=True)
        assert made.read_bytes() == local.read_bytes()
