"""Laws of s3:// against a real server of that protocol on this machine: commands, streams, and what is refused."""

import asyncio
import gzip
import os
import random
import socket
from contextlib import suppress
from itertools import islice

import pytest
from support.commands import status_of
from support.web_servers import web_server

from volt.count import count_words
from volt.count.corpus import in_ranges, shards_of
from volt.errors import CorpusError, OutputError, StreamError
from volt.files import remote
from volt.files.atomic import write_atomic
from volt.files.paths import expand
from volt.files.small_files import read_bytes
from volt.stream import Source, Stream

pytest.importorskip("s3fs", reason="s3fs is not installed")
moto = pytest.importorskip("moto.server", reason="moto's server is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::volt.files.retries.RetryWarning"),
]

TEXT = "".join(f"low lower newest {number % 97} widest\n" for number in range(4_000))


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A folder with a plain and a compressed file."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "a.txt").write_text(TEXT)
    (folder / "b.txt.gz").write_bytes(gzip.compress(TEXT[:9_000].encode()))
    return folder


@pytest.fixture(scope="module")
def bucket(local):
    """The URL of equal files on a local S3 server."""
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "hunter2")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setattr(remote, "_systems", {})
        system, _ = remote.system_of("s3://corpus")
        system.mkdir("corpus")
        for path in local.iterdir():
            system.put_file(str(path), f"corpus/data/{path.name}")
        yield "s3://corpus/data"
    server.stop()


@pytest.fixture
def clock(clock, monkeypatch):
    """The clock of retries; pauses of s3fs take no time either."""
    sleep = asyncio.sleep
    monkeypatch.setattr("asyncio.sleep", lambda seconds: sleep(0))
    return clock


def test_commands_write_the_same_bytes_to_a_bucket_as_to_a_folder(bucket, local, tmp_path):
    """The commands search and encode read from and write to a bucket as they do with a folder."""
    for source, target in ((str(local), f"{tmp_path}/"), (f"{bucket}/*", "s3://corpus/made/")):
        model = f"{target}v.volt"
        assert status_of(["search", source, "-o", model, "-q", "--candidates", 30]) == 0
        assert (
            status_of(
                ["encode", "-m", model, *expand(source), "-o", f"{target}", "-q", "--form", "ids"]
            )
            == 0
        )
    for name in ("v.volt", "a.txt.ids", "b.txt.ids"):
        assert (
            read_bytes(f"s3://corpus/made/{name}", kind=CorpusError)
            == (tmp_path / name).read_bytes()
        )


def test_a_stream_of_a_bucket_equals_a_stream_of_local_files(bucket, local, tmp_path, monkeypatch):
    """Lines and states of a stream of a bucket equal those of local files, also with a cached
    index."""
    monkeypatch.setattr("volt.stream.reading.text_shard.SMALL", 0)
    found = []
    for folder in (str(local), bucket, bucket):
        paths = (f"{folder}/a.txt", f"{folder}/b.txt.gz")
        with Stream(
            [Source("a", paths, split_lines=500)], seed=5, cache=tmp_path / "cache"
        ) as stream:
            found.append((list(islice(stream, 2_000)), stream.state()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("url", ["s3://corpus/none.txt", "s3://no-such-bucket/a.txt"])
def test_a_missing_object_or_bucket_is_reported(bucket, url):
    """A missing object or bucket raises an error when it is read or written."""
    with pytest.raises(CorpusError, match=f"^{url}: cannot be read: no such file"):
        expand(url)
    if "bucket" in url:
        with (
            pytest.raises(OutputError, match=f"^{url}: cannot be written: no such file"),
            write_atomic(url) as file,
        ):
            file.write(b"low")


def test_missing_credentials_are_reported(bucket, monkeypatch):
    """Missing credentials raise an error before any request."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", os.devnull)
    monkeypatch.setattr(remote, "_systems", {})
    remote_class = type(remote.system_of("s3://corpus")[0])
    remote_class.clear_instance_cache()
    monkeypatch.setattr(remote, "_systems", {})
    with pytest.raises(CorpusError, match="cannot be read: access denied; check the credentials"):
        expand(f"{bucket}/a.txt")


def test_a_server_that_is_gone_is_reported(local, tmp_path, monkeypatch, clock):
    """If a server ends, a count and a stream raise the same error, and the stream continues from
    its state when the server runs again."""
    monkeypatch.setattr("volt.stream.reading.text_shard.SMALL", 0)
    monkeypatch.setattr(remote, "_systems", {})
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "hunter2")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    type(remote.system_of("s3://second")[0]).clear_instance_cache()
    monkeypatch.setattr(remote, "_systems", {})
    system, _ = remote.system_of("s3://second")
    system.mkdir("second")
    system.put_file(str(local / "a.txt"), "second/a.txt")
    source = Source("a", ("s3://second/a.txt",), block_lines=500, split_lines=500)
    try:
        with Stream([source], seed=5, cache=tmp_path / "cache") as stream:
            expected = list(islice(stream, 3_000))
        with Stream([source], seed=5, cache=tmp_path / "cache") as stream:
            lines = list(islice(stream, 700))
            state = stream.state()
            server.stop()
            with pytest.raises(
                StreamError, match=r"s3://second/a.txt: cannot be read: \d+ tries in 30. s failed"
            ):
                list(stream)
        with pytest.raises(
            CorpusError, match=r"s3://second/a.txt: cannot be read: \d+ tries in 30. s failed"
        ):
            count_words("s3://second/a.txt")
        server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
        server.start()
        with Stream([source], seed=5, cache=tmp_path / "cache") as stream:
            stream.restore(state)
            assert lines + list(islice(stream, 2_300)) == expected
    finally:
        server.stop()


def test_a_server_that_is_silent_is_left_after_some_tries(monkeypatch, clock):
    """If a server never answers, reads and writes raise an error, which reports the number of tries
    that were made."""
    monkeypatch.setenv("VOLT_RETRY_FOR", "2")
    for name, value in (("_SILENT", 0.05), ("_systems", {})):
        monkeypatch.setattr(remote, name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "hunter2")
    message = pytest.raises(
        CorpusError, match=r"^s3://third/a.txt: cannot be read: \d+ tries in 2 s failed"
    )
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with message as error:
            expand("s3://third/a.txt")
        silent.settimeout(0)
        n_asked = 0
        with suppress(BlockingIOError):
            while silent.accept():
                n_asked += 1
        assert f" {n_asked} tries " in str(error.value)
        message = pytest.raises(
            OutputError, match=r"cannot be written: \d+ tries in 2 s failed.*; run it again"
        )
        with message, write_atomic("s3://third/a.txt") as file:
            file.write(b"low")


def test_a_bucket_that_says_slow_down_gives_the_bytes_of_its_files(
    bucket, local, monkeypatch, clock
):
    """If 70 % of the requests to a bucket are refused, cut or stalled, lists, reads and writes
    still have the right bytes."""
    draw = random.Random(5)
    kinds = ("503", "503", "429", "500", "cut", "stall")
    with web_server(
        behind=int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2]), retry_after="3"
    ) as web:
        for name, value in (("_SILENT", 0.1), ("_systems", {})):
            monkeypatch.setattr(remote, name, value)
        monkeypatch.setattr("volt.files.remote_files.HEAD_SIZE", 1_000)
        monkeypatch.setattr("volt.files.remote_files.STEP_SIZE", 30_000)
        monkeypatch.setenv("AWS_ENDPOINT_URL", web.url)
        type(remote.system_of("s3://corpus")[0]).clear_instance_cache()
        monkeypatch.setattr(remote, "_systems", {})
        web.faults = iter(lambda: draw.choice(kinds) if draw.random() < 0.7 else "", None)
        assert count_words(f"{bucket}/*").table.rows() == count_words(str(local)).table.rows()
        assert len(shards_of([f"{bucket}/a.txt"], size=30_000)) == len(TEXT) // 30_000 + 1
        assert count_words(f"{bucket}/*", map=in_ranges(map, size=30_000)) == count_words(
            str(local)
        )
        with write_atomic("s3://corpus/made/flaky") as file:
            file.write(TEXT.encode())
        web.faults = iter(())
        assert read_bytes("s3://corpus/made/flaky", kind=CorpusError) == TEXT.encode()
        assert clock.now > 10
        web.faults = iter(lambda: "403", None)
        n_asked = len(web.asked)
        with pytest.raises(CorpusError, match="access denied; check the credentials"):
            expand(f"{bucket}/a.txt")
        assert len(web.asked) - n_asked <= 2
