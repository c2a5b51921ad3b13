"""A cluster counts and encodes exactly what one process does, also if workers die or a file is invalid."""

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
from dataclasses import replace
from pathlib import Path
from pydoc_data.topics import topics

import pytest
from support.drawn import DRAWS_ALL
from support.places import ROOT, environment
from support.programs import start
from support.web_servers import web_server

from volt import Encoder, count_words, learn_bpe, search
from volt.encode.binarize import binarize, binarize_each
from volt.encode.files import EncodeJob, encode_each, encode_one, encode_stream
from volt.encode.frames import Frame
from volt.errors import ConfigError, CorpusError, OutputError, VoltError

ray = pytest.importorskip("ray", reason="needs ray: make ray")

from volt.ext import ray as volt_ray  # noqa: E402
from volt.ext import ray_tasks  # noqa: E402
from volt.ext.ray import RayMap, RayWriter, encode  # noqa: E402
from volt.ext.ray_cluster import connected  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning:ray")
IN_RANGES = RayMap(range_size=1 << 16)


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with connected():
        yield


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Files that are large, compressed, without a last line end, empty, and invalid at line 20,001."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = [f"für low lower {'new' * (n % 7)}est {n % 977}\r\n" for n in range(20_000)]
    text = "".join(lines).encode()
    (folder / "a.txt").write_bytes(text)
    (folder / "b.txt.gz").write_bytes(gzip.compress(text[:50_000]))
    (folder / "c.txt").write_bytes(b"\xef\xbb\xbflow\n\nlower")
    (folder / "d.txt").write_bytes(b"")
    (folder / "e.txt").write_bytes(text + b"\xff\n" + text)
    return sorted(map(str, folder.iterdir()))


@pytest.fixture(scope="module")
def encoder(corpus):
    candidates = learn_bpe(count_words(corpus[:4]), 200)
    return Encoder(search(candidates, sizes=range(60, 121, 20)).vocabulary)


def files_of(folder):
    """Return the contents of all files of a folder except the manifest, which contains times."""
    paths = [path for path in folder.iterdir() if path.name != ".volt-encoded.json"]
    return {path.name: path.read_bytes() for path in paths}


def whole(folder):
    """Return the names of the outputs that the manifest lists as finished."""
    origins = json.loads((folder / ".volt-encoded.json").read_bytes())
    return {name for name, origin in origins.items() if "files" in origin}


@pytest.fixture
def tasks(monkeypatch):
    """The items of each call of `run_tasks`: a task counts an item."""
    calls = []
    run_tasks = volt_ray.run_tasks

    def recorded(function, items, **options):
        calls.append(list(items))
        return run_tasks(function, calls[-1], **options)

    monkeypatch.setattr(volt_ray, "run_tasks", recorded)
    return calls


@pytest.mark.parametrize(
    ("shard_map", "options"),
    [
        (IN_RANGES, {}),
        (IN_RANGES, {"pretokenizer": "gpt2", "normalizer": "nfkc", "min_count": 3}),
        (replace(IN_RANGES, add_up=False), {"min_count": 2, "memory": "512M"}),
    ],
)
def test_counts_are_those_of_one_process(corpus, shard_map, options):
    """`RayMap` gives the words, lines, bytes and skipped lines of one process.

    Progress rises to the bytes of all files.
    """
    options["errors"] = "skip"
    reports = []
    counts = count_words(
        corpus, map=shard_map, progress=lambda *report: reports.append(report), **options
    )
    assert counts == count_words(corpus, **options)
    done = [report[1] for report in reports]
    total = sum(map(os.path.getsize, corpus))
    assert done == sorted(done)
    assert reports[-1][1:] == (total, total)


def test_few_tasks_count_many_small_files(tmp_path, tasks):
    """`RayMap` counts many small files in a few tasks.

    Counts and the first error are those of one process.
    """
    for number in range(400):
        (tmp_path / f"{number:03}.txt").write_text(f"low lower {number % 7}\n" * (number % 5))
    (tmp_path / "big.txt").write_text("newest\n" * 5_000)
    for shard_map in (RayMap(), RayMap(range_size=1 << 12), RayMap(add_up=False)):
        assert count_words(str(tmp_path), map=shard_map) == count_words(str(tmp_path))
    assert 1 < len(tasks[0]) <= 4 * os.cpu_count() + 2
    (tmp_path / "250.txt").write_bytes(b"low\n\xff\n")
    (tmp_path / "251.txt").write_bytes(b"\xff\n")
    with pytest.raises(CorpusError, match=r"250\.txt:2: invalid UTF-8"):
        count_words(str(tmp_path), map=RayMap())


def test_workers_keep_counts(corpus, tmp_path, monkeypatch):
    """With `keep`, a second count writes no file, for any number of cores, with and without Ray."""
    kept = tmp_path / "kept"
    expected = count_words(corpus, errors="skip")
    assert count_words(corpus, map=IN_RANGES, errors="skip", keep=kept) == expected
    files = {path.name: path.stat().st_ino for path in kept.iterdir()}
    assert len(files) > 10
    monkeypatch.setattr("volt.count.corpus.RANGE_SIZE", IN_RANGES.range_size)
    monkeypatch.setattr(volt_ray, "TASKS_PER_CORE", 1)
    in_parts = {"map": replace(IN_RANGES, add_up=False), "memory": "512M"}
    for options in ({"map": IN_RANGES}, in_parts, {}):
        assert count_words(corpus, errors="skip", keep=kept, **options) == expected
        assert {path.name: path.stat().st_ino for path in kept.iterdir()} == files
    with pytest.raises(OutputError, match="cannot be created: file exists"):
        count_words(corpus, map=IN_RANGES, keep=corpus[0])


def test_several_tasks_count_a_compressed_file(tmp_path, monkeypatch, tasks):
    """With a normalizer, which makes counting slow, several tasks count a large compressed file;
    without one, a single task does. Errors are those of one process."""
    path = tmp_path / "a.gz"
    lines = "".join(f"FÜR low {number}\n" for number in range(20_000)).encode()
    path.write_bytes(gzip.compress(lines))
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 8.0})
    reports = []
    options = {"normalizer": "nfkc+lowercase"}

    def report(*values):
        reports.append(values)

    local = count_words(path, **options)
    assert count_words(path, map=IN_RANGES, progress=report, **options) == local
    assert reports[-1] == (str(path), path.stat().st_size, path.stat().st_size)
    assert count_words(path, map=IN_RANGES) == count_words(path)
    assert [sum(map(len, items)) for items in tasks] == [4, 1]
    data = gzip.compress(lines + b"\xff\n" + lines)
    for damaged in (data, data[:-9]):
        path.write_bytes(damaged)
        with pytest.raises(CorpusError) as error:
            count_words(path, map=IN_RANGES, **options)
        with pytest.raises(CorpusError, match=re.escape(str(error.value))):
            count_words(path, **options)


def test_workers_count_ranges_of_a_url(corpus):
    """`RayMap` counts a URL in ranges, and a compressed URL as a whole, though the server refuses
    some requests."""
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    draw = random.Random(5)
    files = {f"/{Path(path).name}": Path(path).read_bytes() for path in corpus[:4]}
    with web_server(files=files) as web:
        urls = [f"{web.url}{name}?key=hunter2" for name in files]
        web.faults = iter(lambda: draw.choice(["503", "cut"]) if draw.random() < 0.2 else "", None)
        assert count_words(urls, map=IN_RANGES) == count_words(corpus[:4])
        ranges = {asked for asked in web.asked if re.search(r"/a\.txt.*bytes=\d+", asked)}
        assert len(ranges) > Path(corpus[0]).stat().st_size >> 16


def test_an_error_is_that_of_one_process(corpus):
    """The error of a count on a cluster is that of one process: it names the first invalid line.

    The cluster can count afterwards.
    """
    for sources in (corpus, corpus[::-1]):
        with pytest.raises(VoltError, match=":20001: invalid UTF-8 byte 0xff") as local:
            count_words(sources)
        with pytest.raises(type(local.value), match=f"^{re.escape(str(local.value))}$"):
            count_words(sources, map=IN_RANGES)
    with pytest.raises(CorpusError):
        count_words([*corpus, "/dev/null/none"], map=IN_RANGES)
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
def test_encoded_files_are_those_of_one_process(corpus, encoder, tmp_path, job):
    """`RayWriter` writes the files of one process, byte for byte.

    A second run, with or without Ray, encodes none of them again.
    """
    paths = corpus[:4]
    local = tmp_path / "local"
    remote = tmp_path / "remote"
    reports = []
    writer = {"write": RayWriter(), "progress": reports.append}
    n_lines = [
        {
            outcome.source: outcome.n_lines
            for outcome in encode_each(encoder, paths, out, job=job, **options)
        }
        for out, options in ((local, {}), (remote, writer))
    ]
    assert n_lines[0] == n_lines[1]
    assert files_of(remote) == files_of(local)
    assert reports[-1] == sum(map(os.path.getsize, paths))
    again = [*encode_each(encoder, paths, remote, job=job)]
    again += encode_each(encoder, paths, local, job=job, write=RayWriter())
    assert {outcome.n_lines for outcome in again} == {None}


def test_pairs_of_ids_are_those_of_one_process(corpus, encoder, tmp_path):
    """`RayWriter.each` writes the .bin and .idx files of one process, and counts the same lines and
    ids. An invalid file has no output."""
    options = {"frame": Frame.of(encoder.vocabulary), "dtype": "i64"}
    by_ray = {"write": RayWriter().each, **options}
    local, remote, bad = (tmp_path / name for name in ("local", "remote", "bad"))
    pairs = [
        {(pair.prefix.name, pair.n_lines, pair.n_ids, pair.dtype) for pair in each}
        for each in (
            binarize_each(encoder, corpus[:4], local, **options),
            binarize_each(encoder, corpus[:4], remote, **by_ray),
        )
    ]
    assert pairs[0] == pairs[1]
    assert files_of(remote) == files_of(local)
    with pytest.raises(CorpusError, match=r"e\.txt:20001: invalid UTF-8"):
        list(binarize_each(encoder, corpus, bad, **by_ray))
    assert not [name for name in files_of(bad) if name.startswith("e.")]


@pytest.mark.parametrize(
    ("job", "size"),
    [
        (EncodeJob(), 1 << 16),
        (EncodeJob("npy", eos=True, truncate=5), 1 << 14),
        (EncodeJob("ids", errors="skip"), 1 << 14),
    ],
)
def test_one_output_of_ranges_is_that_of_one_process(
    corpus,
    encoder,
    tmp_path,
    monkeypatch,
    job,
    size,
):
    """`RayWriter.parts` gives a file, a stream and a pair the bytes of one process.

    An error names the invalid line by its number in the file.

    The compressed file is large for these ranges, so this process encodes it.
    """
    monkeypatch.setattr(volt_ray, "RANGE_SIZE", size)
    parts = RayWriter().parts
    paths = corpus if job.errors == "skip" else corpus[:4]
    n_lines = []
    for name, options in (("local", {}), ("remote", {"parts": parts})):
        folder = tmp_path / name
        folder.mkdir()
        n_lines.append(encode_one(encoder, paths, folder / "out", job=job, **options))
        binarize(encoder, paths, folder / "pair", job=job, **options)
        for documents in ("file", "blank"):
            split = {"documents": documents, "job": replace(job, eos=False)}
            binarize(encoder, paths, folder / documents, **split, **options)
    assert n_lines[0] == n_lines[1]
    files = files_of(tmp_path / "local")
    assert files_of(tmp_path / "remote") == files

    output = tmp_path / "remote" / "out"
    if job.is_text:
        text = b"".join(encode_stream(encoder, paths, job=job))
        assert b"".join(encode_stream(encoder, paths, job=job, parts=parts)) == text
    if job.errors == "strict":
        with pytest.raises(CorpusError, match=r"e\.txt:20001: invalid UTF-8"):
            encode_one(encoder, corpus, output, job=job, parts=parts)
    with pytest.raises(ConfigError, match="numbers of lines"):
        encode_one(encoder, paths, output, job=replace(job, dropout=0.5, seed=1), parts=parts)
    assert output.read_bytes() == files["out"]


def test_files_before_an_error_are_written(corpus, encoder, tmp_path):
    """If one file is invalid, `RayWriter` writes the files before it, and the manifest lists
    them."""
    with pytest.raises(CorpusError, match=r"e\.txt:20001: invalid UTF-8"):
        list(encode_each(encoder, corpus, tmp_path, job=EncodeJob(), write=RayWriter()))
    assert set(files_of(tmp_path)) == whole(tmp_path) == {f"{name}.txt.pieces" for name in "abcd"}


def workers():
    """Return the processes that run a task."""
    import psutil

    numbers = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "ray::_run_task" in " ".join(process.cmdline()):
                numbers.append(process.pid)
        except psutil.Error:
            continue
    return numbers


def test_the_tasks_of_killed_workers_are_repeated(corpus, encoder, tmp_path):
    """If workers are killed in the first moments, their tasks are repeated, and the results are
    those of one process."""
    expected = count_words(corpus, errors="skip")
    killed = []
    over = threading.Event()
    summaries = []

    def kill():
        while not over.wait(0.05) and len(killed) < 4:
            for worker in workers():
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)

    thread = threading.Thread(target=kill)
    thread.start()
    job = EncodeJob("bin")
    report = summaries.append
    try:
        ranges = replace(IN_RANGES, report=report)
        counts = count_words(corpus * 3, map=ranges, errors="skip", keep=tmp_path / "kept")
        writer = RayWriter(report=report)
        list(encode_each(encoder, corpus[:4], tmp_path / "remote", job=job, write=writer))
    finally:
        over.set()
        thread.join()
    assert counts.counts.tolist() == (expected.counts * 3).tolist()
    list(encode_each(encoder, corpus[:4], tmp_path / "local", job=job))
    assert files_of(tmp_path / "remote") == files_of(tmp_path / "local")
    summary = re.compile(r"Ray: (\d+) tasks, (\d+) repeated, [\d.]+ MB/s")
    (n_tasks, n_counted_again), (n_written, n_written_again) = [
        map(int, summary.fullmatch(each).groups()) for each in summaries
    ]
    assert n_tasks > 3 * 10
    assert n_written == 4
    assert 1 <= n_counted_again + n_written_again <= len(killed)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_a_job_of_kubernetes_searches_and_encodes(tmp_path):
    """examples/kubernetes/search_and_encode.sh writes a vocabulary, counts and encoded files.

    Campaigns also run it without an address; the files are equal.
    """
    text = "\n".join(topics.values())
    (tmp_path / "a.txt").write_text(text[:60_000], encoding="utf-8")
    (tmp_path / "b.txt").write_text(text[60_000:120_000], encoding="utf-8")
    program = ["bash", ROOT / "examples" / "kubernetes" / "search_and_encode.sh"]
    address = ray.get_runtime_context().gcs_address
    start(*program, folder=tmp_path, CORPUS="[ab].txt", OUTPUT="out", ADDRESS=address)
    paths = [path for path in (tmp_path / "out").rglob("*.*") if path.name[0] != "."]
    encoded = {f"{name}.txt.npy{more}" for name in "ab" for more in ("", ".offsets.npy")}
    assert {path.name for path in paths} == {"corpus.volt"} | encoded
    assert len(list((tmp_path / "out" / "counts").iterdir())) == 1
    if DRAWS_ALL:
        files = [path.read_bytes() for path in paths]
        start(*program, folder=tmp_path, CORPUS="[ab].txt", OUTPUT="out", ADDRESS="")
        assert files == [path.read_bytes() for path in paths]
    assert "set CORPUS" not in start(*program, folder=tmp_path, status=1, OUTPUT="out", CORPUS="")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RayMap(range_size=0), "range_size is 0; give 1 or more"),
        (lambda: RayMap(add_up=1), "add_up is 1 (int); give True or False"),
        (
            lambda: encode(None, None),
            "dataset is None; give a dataset of Ray, such as ray.data.read_text(paths)",
        ),
        *(
            case
            for kind in (RayMap, RayWriter)
            for case in (
                (lambda kind=kind: kind(address=3), "address is 3 (int); give a str"),
                (lambda kind=kind: kind(report=1), "report is 1 (int); give a function, or None"),
            )
        ),
    ],
)
def test_arguments_are_checked_at_once(make, message):
    """`RayMap`, `RayWriter` and `encode` refuse wrong arguments when they are called."""
    with pytest.raises(ConfigError) as error:
        make()
    assert str(error.value) == message


def test_stdin_and_pipes_are_refused(encoder, tmp_path):
    """`RayMap` and `RayWriter` refuse stdin and pipes, which workers cannot read, and say what to
    do."""
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    for source, name in (("-", "stdin"), (pipe, pipe)):
        message = f"{name}: workers read only files; write its lines to a file"
        with pytest.raises(ConfigError, match=message):
            count_words(source, map=IN_RANGES)
    with pytest.raises(ConfigError, match="workers read only files"):
        list(encode_each(encoder, [pipe], tmp_path / "out", job=EncodeJob(), write=RayWriter()))


def test_relative_paths_mean_the_same_to_workers(corpus, monkeypatch):
    """Workers read relative paths from the driver's folder, and errors show them as the caller
    wrote them."""
    monkeypatch.chdir(Path(corpus[0]).parent)
    assert count_words("a.txt", map=IN_RANGES) == count_words("a.txt")
    with pytest.raises(CorpusError, match=r"^e\.txt:20001:"):
        count_words("e.txt", map=IN_RANGES)


def test_a_folder_that_a_machine_lacks_is_named(tmp_path):
    """If a machine lacks the driver's folder, the error names the folder and a remedy."""
    message = r"none: cannot be entered: no such file or directory; run this from a folder that"
    with pytest.raises(VoltError, match=message):
        ray_tasks._enter(str(tmp_path / "none"))


def until(process, condition):
    """Wait for a condition while a process runs."""
    end = time.monotonic() + 60
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()


def python(*arguments):
    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE)


@pytest.mark.campaign
def test_a_terminated_command_leaves_no_partial_file(tmp_path, encoder):
    """If `volt encode --engine ray` is terminated while workers write, they are killed, and their
    temporary files are removed."""
    text = tmp_path / "a.txt"
    vocabulary = tmp_path / "a.volt"
    out = tmp_path / "out"
    text.write_bytes(b"low lower newest\n" * 8_000_000)
    encoder.vocabulary.save(vocabulary)
    options = ["--engine", "ray", "-q"]
    command = python("-m", "volt_cli", "encode", "-m", vocabulary, text, "-o", f"{out}/", *options)
    until(command, lambda: any(out.glob(".*.part")))
    command.terminate()
    assert (command.communicate(timeout=60)[1], command.returncode) == (b"ended by SIGTERM\n", 143)
    assert not [*out.glob(".*.part")]


@pytest.mark.campaign
def test_a_count_whose_driver_is_killed_continues(tmp_path):
    """If the driver of a count with `keep` is killed, its workers end, and a second run does not
    write stored counts again."""
    text = tmp_path / "a.txt"
    kept = tmp_path / "kept"
    result = tmp_path / "result"
    text.write_bytes(b"".join(b"low lower newest %d\n" % (n % 977) for n in range(200_000)))
    code = f"""from volt import count_words
from volt.ext.ray import RayMap
counts = count_words({str(text)!r}, map=RayMap(range_size=1 << 13), keep={str(kept)!r})
print(counts.fingerprint, counts.n_lines, counts.n_bytes, file=open({str(result)!r}, "w"))"""

    def files():
        return {path.name: path.stat().st_ino for path in kept.glob("*.volt-counts")}

    seen = {}
    for _ in range(2):
        process = python("-c", code)
        most = len(seen) + 10
        until(process, lambda most=most: len(files()) > most)
        process.kill()
        process.communicate()
        time.sleep(5)
        assert files().items() > seen.items()
        seen = files()
    assert not result.exists()
    assert python("-c", code).wait() == 0
    assert files().items() > seen.items()
    counts = count_words(text)
    assert result.read_text() == f"{counts.fingerprint} {counts.n_lines} {counts.n_bytes}\n"
