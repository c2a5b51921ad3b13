"""Read the size, version, listing and byte ranges of URLs by fsspec. All failures are OSErrors.

A failed request is sent again (`Retries`), unless that cannot help. Patterns match as for local paths. For http, "?"
begins a query, and a folder consists of the files to which its page links.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from volt.errors import MissingLibraryError, causes, missing
from volt.files.retries import Retries, ServerError, requested_wait
from volt.urls import bare, is_web

_CONNECT, _SILENT = (
    15,
    20,
)  # seconds within which a server must accept a connection, and send its next bytes
_SLOWEST = 50_000  # bytes per second of an upload; below, it counts as broken
_LIBRARIES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub"}
_VERSIONS = (
    "ETag",
    "etag",
    "md5Hash",
    "blob_id",
    "LastModified",
    "last_modified",
    "Last-Modified",
    "created",
    "mtime",
)
_FINAL = (
    NotImplementedError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
)  # not raised by a network
_OF_NETWORK = (
    "HTTPClientError",
    "ConnectionError",
    "IncompleteReadError",
    "CredentialRetrievalError",
)  # of botocore
_TEMPORARY = (408, 425, 429)  # HTTP statuses from 400 to 499 after which a retry may succeed
_systems: dict[tuple[int, str], Any] = {}
_memory = Lock()  # all readers of a memory:// file share one position
T = TypeVar("T")


class RemoteStat(NamedTuple):
    """Status of a URL: size (None if unknown) and version (derived from ETag or modification time, 0 if unknown)."""

    size: int | None
    version: int
    is_folder: bool

    @property
    def stamp(self) -> tuple[int, int]:
        """Size and version."""
        return self.size or 0, self.version


class NoRangesError(OSError):
    """The server supports no ranges."""


class ChangedError(OSError):
    """The file changed after it was opened."""

    remedy = "run it again"


class RefusedError(PermissionError):
    """Access is denied."""

    remedy = "check the credentials"


def look(url: str) -> RemoteStat:
    """Return the status of a URL, without a cache. Raises OSError."""
    if is_web(url) and bare(url).endswith("/"):
        return RemoteStat(None, 0, is_folder=True)
    from hashlib import blake2b  # takes a while, as it loads OpenSSL

    details = ask(url, lambda system, path: system.info(path))
    version = next((str(details[name]) for name in _VERSIONS if details.get(name)), "")
    number = int.from_bytes(blake2b(version.encode(), digest_size=7).digest()) if version else 0
    return RemoteStat(details.get("size"), number, details.get("type") == "directory")


def read_range(url: str, start: int, size: int) -> bytes:
    """Return `size` bytes from `start` on, or fewer if the file ends before. Raises NoRangesError."""
    return ask(url, lambda system, path: _range(system, path, start, start + size)) if size else b""


def put_file(file: Path, url: str) -> None:
    """Upload a file. Raises OSError."""
    seconds = (
        _SILENT + file.stat().st_size / _SLOWEST
    )  # libraries wait for ever for a server that does not read
    ask(
        url,
        lambda fs, path: fs.put_file(
            str(file), path, **({"timeout": seconds} if fs.async_impl else {})
        ),
    )


def has_ranges(url: str) -> bool:
    try:
        return len(read_range(url, 1, 1)) <= 1
    except NoRangesError:
        return False


def ask(url: str, question: Callable[[Any, str], T]) -> T:
    """Return `question(file system, path)`, retried after a temporary failure. Raises OSError."""
    (system, path), retries = system_of(url), Retries(url)
    while True:
        try:
            return question(system, path)
        except (NoRangesError, MissingLibraryError):
            raise
        except Exception as error:
            pause(retries, error)


def pause(retries: Retries, error: Exception) -> None:
    """Wait before a retry. Raises OSError if a retry cannot help, or the time for retries is over."""
    if (final := failure(error)) is not None:
        raise final from error
    cause = _cause(error)
    retries.pause(message_of(cause), wait=requested_wait(_headers(cause).get("retry-after")))


def failure(error: Exception) -> OSError | None:
    """Return the error to raise if a retry cannot help; None if a retry may help."""
    cause = _cause(error)
    status = _status(cause)
    if isinstance(cause, ChangedError):
        return cause
    if (
        status in (401, 403)
        or isinstance(cause, PermissionError)
        or type(cause).__name__ == "NoCredentialsError"
    ):
        return RefusedError(errno.EACCES, "access denied")
    if status in (404, 410) or isinstance(cause, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "no such file or directory")
    if isinstance(cause, IsADirectoryError):
        return IsADirectoryError(errno.EISDIR, "is a folder")
    is_final = (
        isinstance(cause, _FINAL)
        or (400 <= status < 500 and status not in _TEMPORARY)
        or status == 501
    )
    kinds = {kind.__name__ for kind in type(cause).__mro__}
    if "TooManyRedirects" in kinds:  # of aiohttp, without a message
        return ServerError(errno.EIO, "the server redirects in a loop")
    is_final |= "BotoCoreError" in kinds and kinds.isdisjoint(_OF_NETWORK)
    is_final |= any(
        isinstance(one, socket.gaierror) and one.errno == socket.EAI_NONAME for one in causes(cause)
    )
    return ServerError(errno.EIO, message_of(cause)) if is_final else None


def system_of(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, one per process, and the path in it."""
    if url.startswith(("s3://", "gs://")) and "@" in url.split("/")[2]:
        raise RefusedError(
            errno.EACCES,
            "keys in a URL are not used; configure them for the library of this scheme",
        )
    scheme = url.partition(":")[0]
    key = os.getpid(), scheme
    if key not in _systems:
        try:
            import fsspec

            system = fsspec.filesystem(scheme, **_options(scheme))
            if _LIBRARIES.get(scheme) == "s3fs":
                system.retries = 1  # only `ask` retries
            _systems[key] = system
        except ImportError as error:
            library = "fsspec" if error.name == "fsspec" else _LIBRARIES.get(scheme, "aiohttp")
            raise missing(f"{scheme}:// needs {library}, which", extra="remote") from None
    return _systems[key], _systems[key]._strip_protocol(url)


def _options(scheme: str) -> dict[str, Any]:
    from fsspec.config import conf

    own = conf.get(scheme, {})
    if scheme in ("http", "https", "gs", "gcs"):
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_SILENT)
        if scheme in ("gs", "gcs"):
            return {"use_listings_cache": False, "requests_timeout": timeout}
        client = {"timeout": timeout, "trust_env": True, **own.get("client_kwargs", {})}
        return {
            "client_kwargs": client,
            "headers": {"Accept-Encoding": "identity", **own.get("headers", {})},
        }
    if _LIBRARIES.get(scheme) == "s3fs":
        waits = {
            "connect_timeout": _CONNECT,
            "read_timeout": _SILENT,
            "retries": {"total_max_attempts": 1},
        }
        return {
            "use_listings_cache": False,
            "config_kwargs": {**waits, **own.get("config_kwargs", {})},
        }
    return {"use_listings_cache": False}


def _range(system: Any, path: str, start: int, end: int) -> bytes:
    if not is_web(path):
        with _memory if system.protocol == "memory" else nullcontext():
            return bytes(system.cat_file(path, start=start, end=end))
    with system.open(path, block_size=1, cache_type="none", size=end) as file:
        try:  # `cat_file` would return the whole file if the server supports no ranges
            return bytes(file._fetch_range(start, end))
        except ValueError as error:  # fsspec's error for a server without ranges
            raise NoRangesError(errno.ESPIPE, "the server sends only whole files") from error


def _cause(error: Exception) -> Exception:
    """Return an error's real cause, because fsspec reports every HTTP failure as a missing file."""
    result = error.__cause__ if isinstance(error, FileNotFoundError) else None
    return result if isinstance(result, Exception) else error


def _status(error: Exception) -> int:
    response = _response(error)
    head = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
    if (head.get("HTTPStatusCode"), isinstance(error, TimeoutError)) == (400, True):
        return 408  # S3's RequestTimeout
    result = (
        getattr(error, "status", None)
        or head.get("HTTPStatusCode")
        or getattr(response, "status_code", 0)
    )
    return result if isinstance(result, int) else 0


def _response(error: Exception) -> Any:
    own = getattr(error, "response", None)
    return getattr(error.__cause__, "response", None) if own is None else own


def _headers(error: Exception) -> Any:
    response = _response(error)
    if isinstance(response, dict):  # of botocore
        return response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return getattr(error, "headers", None) or getattr(response, "headers", None) or {}


def message_of(error: Exception) -> str:
    return str(error) or type(error).__name__


def files_at(url: str) -> list[str]:
    """Return a file's URL, or the files of a folder or a pattern, sorted. Raises OSError."""
    if has_magic(url) and not _is_file(url):
        return sorted(_matching(url))
    return sorted(_below(url.rstrip("/"))) if look(url).is_folder else [url]


def has_magic(url: str) -> bool:
    return re.search(r"[*\[]" if is_web(url) else r"[*?\[]", bare(url)) is not None


def _is_file(url: str) -> bool:
    try:
        return not is_web(url) and not look(url).is_folder
    except FileNotFoundError:
        return False


def _below(folder: str, *, depth: int | None = None) -> Iterator[str]:
    start = f"{folder}/"
    try:
        result = (
            _linked(start, depth) if is_web(folder) else ask(folder, lambda fs, path: fs.find(path))
        )
    except FileNotFoundError:
        return
    for name in result:
        url = name if is_web(folder) else f"{folder.partition('://')[0]}://{name.lstrip('/')}"
        if url.startswith(start) and not any(
            part[:1] in ("", ".") for part in url.removeprefix(start).split("/")
        ):
            yield url


def _linked(folder: str, depth: int | None) -> Iterator[str]:
    for link in ask(folder, lambda system, path: system.ls(path, detail=False)):
        if link.endswith("/") and link.startswith(folder) and link != folder:
            yield from _linked(link, depth and depth - 1) if depth != 1 else ()
        elif "?" not in link.removeprefix(folder):
            yield link


def _matching(pattern: str) -> Iterator[str]:
    parts = pattern.rstrip("/").split("/")
    magic = (
        number for number, part in enumerate(parts) if number > 2 and has_magic(f"s3://{part}")
    )
    fixed = next(magic, None)
    if fixed is None:  # brackets in the host, as of IPv6
        return iter([pattern])
    wanted = re.compile("".join(map(_expression, parts[fixed:])) + "(?:/.*)?", re.DOTALL)
    base = "/".join(parts[:fixed])
    depth = len(parts) - fixed if is_web(pattern) and "**" not in parts else None
    return (url for url in _below(base, depth=depth) if wanted.fullmatch(url.removeprefix(base)))


def _expression(part: str) -> str:
    if part == "**":
        return "(?:/[^/]*)*?"
    return "/" + re.sub(r"\(\?s:(.*)\)\\Z", r"\1", fnmatch.translate(part)).replace(".*", "[^/]*")
