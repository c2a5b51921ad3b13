"""Laws of reading by HTTP: with and without ranges, from failing servers, and without showing secrets."""

import random
import socket

import pytest
from support.web_servers import LINES, READERS

import volt
from volt.errors import CorpusError, OutputError, VoltError
from volt.files import remote
from volt.files.atomic import write_atomic
from volt.files.blocks import read_blocks, read_raw
from volt.files.paths import exists, expand, size_of
from volt.files.remote_files import RemoteFile
from volt.files.retries import ServerError
from volt.files.small_files import read_bytes

pytest.importorskip("fsspec", reason="fsspec is not installed")
pytest.importorskip("aiohttp", reason="aiohttp is not installed")

pytestmark = pytest.mark.filterwarnings("ignore::volt.files.retries.RetryWarning")


@READERS
def test_a_server_gives_the_bytes_of_the_file(web, ranges):
    """URLs give the bytes of the file with and without ranges, compressed or not; an empty file is
    empty."""
    web.ranges = ranges
    assert b"".join(read_raw(f"{web.url}/a.txt")) == LINES
    assert b"".join(read_raw(f"{web.url}/c/b.txt.gz")) == LINES
    assert read_bytes(f"{web.url}/c/b.txt.gz", kind=CorpusError) == LINES
    assert list(read_raw(f"{web.url}/empty.txt")) == []
    assert size_of(f"{web.url}/a.txt") == len(LINES)


@READERS
def test_reads_of_any_size_give_the_bytes_in_order(web, ranges):
    """`RemoteFile.read(n)` returns at most n bytes, in order, and no bytes only at the end."""
    web.ranges = ranges
    draw = random.Random(5)
    with RemoteFile(f"{web.url}/a.txt") as file:
        found = list(iter(lambda: file.read(draw.randint(1, 30_000)), b""))
    assert b"".join(found) == LINES


def test_only_the_ranges_that_are_read_are_requested(web):
    """`read_range` requests exactly its bytes.

    `RemoteFile` requests only the first range of a large file to read its first bytes.
    """
    assert remote.read_range(f"{web.url}/a.txt", 5_000, 7) == LINES[5_000:5_007]
    assert web.asked == ["GET /a.txt bytes=5000-5006"]
    with RemoteFile(f"{web.url}/a.txt") as file:
        assert file.read(8) == LINES[:8]
    assert [asked for asked in web.asked[1:] if asked.startswith("GET")] == [
        "GET /a.txt bytes=0-999"
    ]
    assert remote.has_ranges(f"{web.url}/a.txt")
    web.ranges = False
    assert not remote.has_ranges(f"{web.url}/a.txt")


def test_links_of_a_page_are_a_folder(web):
    """An http URL that ends in a slash is a folder of the files to which its page links, and
    patterns match their names."""
    assert expand(f"{web.url}/") == [f"{web.url}{name}" for name in sorted(web.files)]
    assert expand(f"{web.url}/*.txt") == [f"{web.url}/a.txt", f"{web.url}/empty.txt"]
    assert expand(f"{web.url}/c/**/*.txt") == [f"{web.url}/c/d/e.txt"]
    assert (
        volt.count_words(f"{web.url}/c/").table.rows()
        == volt.count_words(expand(f"{web.url}/c/")).table.rows()
    )


@READERS
@pytest.mark.parametrize("fault", ["cuts", "refusals"])
def test_a_server_that_always_fails_is_reported_after_some_tries(web, ranges, fault):
    """If a server always fails, at the start or in the middle of a file, one error says how often
    the request was sent."""
    web.ranges = ranges
    with RemoteFile(f"{web.url}/a.txt") as file:
        assert file.read(500) == LINES[:500]
        setattr(web, fault, 10_000)
        with pytest.raises(ServerError, match=r"tries in 30. s failed, the last with: "):
            file.read()
    assert 10_000 - getattr(web, fault) < 150
    with pytest.raises(
        CorpusError,
        match=r"^http://[\d.:]+/a.txt: cannot be read: \d+ tries in 30. s .*run it again",
    ):
        list(read_blocks(f"{web.url}/a.txt"))


def test_a_server_that_does_not_run_is_reported(clock):
    """A URL of a port on which no server listens raises an error after some tries."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/a.txt"
    with pytest.raises(CorpusError, match=r"tries in 30. s failed, the last with: cannot connect"):
        expand(url)


def test_a_server_that_is_silent_is_reported(monkeypatch, clock):
    """A server that accepts a connection and never answers raises an error after some tries."""
    monkeypatch.setenv("VOLT_RETRY_FOR", "9")
    monkeypatch.setattr(remote, "_SILENT", 0.05)
    monkeypatch.setattr(remote, "_systems", {})
    message = pytest.raises(CorpusError, match=r"tries in 9 s failed, the last with: .*timeout")
    with socket.create_server(("127.0.0.1", 0)) as silent, message:
        expand(f"http://127.0.0.1:{silent.getsockname()[1]}/a.txt")


def test_exists_raises_an_error_if_the_server_fails(web):
    """`exists` raises an error if the server fails.

    If it returned False, a resumed run would start anew, and overwrite its state.
    """
    assert exists(f"{web.url}/a.txt")
    assert not exists(f"{web.url}/b.txt")
    web.refusals = 1_000
    with pytest.raises(VoltError, match=r"tries in 30. s failed"):
        exists(f"{web.url}/a.txt")


@pytest.mark.parametrize(
    ("status", "what"),
    [(403, "access denied; check the credentials"), (404, "no such file"), (400, "400")],
)
def test_a_refusal_is_final(web, status, what):
    """A status that a retry cannot change is reported after the first request."""
    web.refusals = 1_000
    web.status = status
    with pytest.raises(CorpusError, match=what):
        expand(f"{web.url}/a.txt")
    assert len(web.asked) == 2  # by HEAD, which some servers do not know, and by GET


def test_a_loop_of_redirects_is_final(web):
    """A server that redirects in a loop is reported after the redirects that the library
    follows."""
    web.refusals = 1_000
    web.status = 302
    with pytest.raises(CorpusError, match="the server redirects in a loop"):
        expand(f"{web.url}/a.txt")
    assert len(web.asked) < 50


def test_no_secret_is_reported(web):
    """The user, password and signature of a URL are sent to the server, but no error shows them."""
    url = f"http://me:hunter2@{web.url.removeprefix('http://')}/a.txt?Signature=hunter2"
    assert next(read_blocks(url)).place(3) == f"{web.url}/a.txt:4"
    assert any("Signature=hunter2" in asked for asked in web.asked)
    web.files["/a.txt"] = b"low\n\xff\n"
    with pytest.raises(CorpusError) as message:
        volt.count_words(url)
    assert str(message.value).startswith(f"{web.url}/a.txt:2: ")
    with pytest.raises(OutputError) as message, write_atomic(url):
        pass
    assert "hunter2" not in str(message.value)
