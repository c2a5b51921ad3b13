"""A small web server for tests, with or without ranges, that fails on request."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

LINES = b"".join(b"low newest %d\n" % number for number in range(9_000))
READERS = pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "whole"])


@dataclass
class Web:
    """The files and the behaviour of a server; both may be changed while it runs.

    url: of its root
    files: path → content
    ranges: whether it answers requests for ranges of bytes
    has_version: whether it sends an ETag
    cuts: the number of next answers that break off after half of their bytes
    refusals: the number of next requests that are answered by `status`
    faults: what happens to each of the next requests: "" nothing, "cut" or "stall" after half of
        the bytes, or a status
    retry_after: the header Retry-After of refusals
    asked: the requests, such as "GET /a.txt bytes=0-99"
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    has_version: bool = True
    cuts: int = 0
    refusals: int = 0
    status: int = 503
    faults: Iterator[str] = field(default_factory=lambda: iter(()))
    retry_after: str = ""
    over: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)


class Clock:
    """A clock that passes only while someone sleeps, and starts at one."""

    def __init__(self):
        self.now = 1.0
        self.lock = threading.Lock()

    def sleep(self, seconds):
        with self.lock:
            self.now += seconds

    def __call__(self):
        return self.now


@contextmanager
def web_server(*, behind=0, **options):
    """Run a server on this machine during a block. behind: the port of a server that it asks"""
    web = Web(**options)
    handler = _proxy(web, behind) if behind else _handler(web)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    web.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield web
    finally:
        web.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(web):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_HEAD(self):
            self._answer(body=False)

        def do_GET(self):
            self._answer(body=True)

        def log_message(self, *_):
            pass

        def _answer(self, *, body):
            path = self.path.partition("?")[0]
            asked = self.headers.get("Range", "")
            web.asked.append(f"{self.command} {self.path} {asked}".strip())
            self.fault = next(web.faults, "")
            if web.refusals or self.fault.isdecimal():
                web.refusals = max(0, web.refusals - 1)
                self._refuse(int(self.fault or web.status))
            elif path.endswith("/"):
                self._page(path)
            elif path not in web.files:
                self.send_error(404)
            else:
                with suppress(ConnectionError):
                    self._file(web.files[path], asked if web.ranges else "", body=body)

        def _refuse(self, status):
            self.send_response(status)
            if web.retry_after:
                self.send_header("Retry-After", web.retry_after)
            if 300 <= status < 400:
                self.send_header("Location", self.path)
            self.end_headers()

        def _page(self, folder):
            rest = {name.removeprefix(folder) for name in web.files if name.startswith(folder)}
            links = {"".join(name.partition("/")[:2]) for name in rest}
            page = "".join(f'<a href="{link}">{link}</a>\n' for link in sorted(links)).encode()
            self._send(200, page, {"Content-Type": "text/html"}, body=True)

        def _file(self, data, asked, *, body):
            head = {}
            if web.has_version:
                head["ETag"] = f'"{blake2b(data, digest_size=8).hexdigest()}"'
            if found := re.fullmatch(r"bytes=(\d+)-(\d+)", asked):
                first = int(found[1])
                last = min(int(found[2]), len(data) - 1)
                head["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
                self._send(206, data[first : last + 1], head, body=body)
            else:
                self._send(200, data, head, body=body)

        def _send(self, status, data, head, *, body):
            self.send_response(status)
            for name, value in {**head, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            if body and len(data) > 1 and (web.cuts or self.fault):
                web.cuts = max(0, web.cuts - 1)
                data = data[: len(data) // 2]
            if body:
                self.wfile.write(data)
            if body and self.fault == "stall":
                self.wfile.flush()
                web.over.wait()

    return Handler


def _proxy(web, port):
    """Pass requests on to another server of this machine, except those that meet a fault."""

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # which says that it waits for a body

        def log_message(self, *_):
            pass

        def _pass_on(self):
            web.asked.append(f"{self.command} {self.path}")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = next(web.faults, "")
            other = HTTPConnection("127.0.0.1", port)
            other.request(self.command, self.path, body, dict(self.headers))
            answer = other.getresponse()
            data = answer.read()
            self.close_connection = True
            if fault.isdecimal():
                self.send_response(int(fault))
                self.send_header("Retry-After", web.retry_after or "0")
                self.send_header("Connection", "close")
                data = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
            else:
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("connection", "transfer-encoding"):
                        self.send_header(name, value)
            self.end_headers()
            if self.command == "HEAD":
                data = b""
            if fault in ("cut", "stall"):
                data = data[: len(data) // 2]
            with suppress(ConnectionError):
                self.wfile.write(data)
            if fault == "stall":
                self.wfile.flush()
                web.over.wait()

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on

    return Proxy
