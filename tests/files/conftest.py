"""A server of files for the tests of URLs."""

import gzip

import pytest
from support.web_servers import LINES, web_server

from volt.files import remote, remote_files


@pytest.fixture
def web(monkeypatch, clock):
    """Serve some files, read by small ranges. A silent server is given up after a moment."""
    monkeypatch.setattr(remote_files, "HEAD_SIZE", 1_000)
    monkeypatch.setattr(remote_files, "STEP_SIZE", 9_000)
    monkeypatch.setattr(remote, "_SILENT", 0.1)
    monkeypatch.setattr(remote, "_systems", {})
    files = {
        "/a.txt": LINES,
        "/c/b.txt.gz": gzip.compress(LINES),
        "/c/d/e.txt": b"low\n",
        "/empty.txt": b"",
    }
    with web_server(files=files) as server:
        yield server
