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
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from volt.errors import MissingLibraryError, causes, missing
from volt.files.retries import Retries, ServerError, requested_wait
from volt.urls import bare, is_web

_CONNECT = 15  # seconds within which a server must accept a connection
_SILENT = 20  # seconds within which it must send its next bytes
_SLOWEST = 50_000  # bytes per second of an upload; below, it counts as broken
_LIBRARIES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub"}
# Names of ETags, then of modification times.
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
# A network raises none of these.
_FINAL = NotImplementedError, TypeError, ValueError, LookupError, AttributeError
# Errors of botocore that a network causes.
_OF_NETWORK = (
    "HTTPClientError",
    "ConnectionError",
    "IncompleteReadError",
    "CredentialRetrievalError",
)
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
    details = ask(url, lambda system, path: system.info(path))
    version = next(filter(None, map(details.get, _VERSIONS)), "")
    is_folder = details.get("type") == "directory"
    return RemoteStat(details.get("size"), number_of(str(version)), is_folder)


def number_of(text: str) -> int:
    """Return a text's digest as a number; 0 for the empty text."""
    if not text:
        return 0
    from hashlib import blake2b  # takes a while, as it loads OpenSSL

    return int.from_bytes(blake2b(text.encode(), digest_size=7).digest())


def read_range(url: str, start: int, size: int) -> bytes:
    """Return `size` bytes from `start` on, or fewer if the file ends before. Raises NoRangesError."""
    if not size:
        return b""
    return ask(url, lambda system, path: _range(system, path, start, start + size))


def put_file(file: Path, url: str) -> None:
    """Upload a file. Raises OSError."""

    def upload(system: Any, path: str) -> None:
        options = dict[str, float]()
        if system.async_impl:  # it would wait for ever for a server that does not read
            options["timeout"] = _SILENT + file.stat().st_size / _SLOWEST
        system.put_file(str(file), path, **options)

    ask(url, upload)


def has_ranges(url: str) -> bool:
    try:
        return len(read_range(url, 1, 1)) <= 1
    except NoRangesError:
        return False


def ask(url: str, question: Callable[[Any, str], T]) -> T:
    """Return `question(file system, path)`, retried after a temporary failure. Raises OSError."""
    system, path = system_of(url)
    retries = Retries(url)
    while True:
        try:
            return question(system, path)
        except (NoRangesError, MissingLibraryError):
            raise
        except Exception as error:
            pause(retries, error)


def pause(retries: Retries, error: Exception) -> None:
    """Wait before a retry. Raises OSError if a retry cannot help, or the time for retries is over."""
    final = failure(error)
    if final:
        raise final from error
    cause = _cause(error)
    retries.pause(message_of(cause), wait=requested_wait(_headers(cause).get("retry-after")))


def failure(error: Exception) -> OSError | None:
    """Return the error to raise if a retry cannot help; None if a retry may help."""
    cause = _cause(error)
    status = _status(cause)
    kinds = {kind.__name__ for kind in type(cause).__mro__}
    if isinstance(cause, ChangedError):
        return cause
    if status in (401, 403) or not kinds.isdisjoint(("PermissionError", "NoCredentialsError")):
        return RefusedError(errno.EACCES, "access denied")
    if status in (404, 410) or isinstance(cause, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "no such file or directory")
    if isinstance(cause, IsADirectoryError):
        return IsADirectoryError(errno.EISDIR, "is a folder")
    if "TooManyRedirects" in kinds:  # of aiohttp, without a message
        return ServerError(errno.EIO, "the server redirects in a loop")

    is_final = (
        isinstance(cause, _FINAL)
        or (400 <= status < 500 and status not in _TEMPORARY)
        or status == 501
        or ("BotoCoreError" in kinds and kinds.isdisjoint(_OF_NETWORK))
    )
    for inner in causes(cause):
        is_final |= isinstance(inner, socket.gaierror) and inner.errno == socket.EAI_NONAME
    if is_final:
        return ServerError(errno.EIO, message_of(cause))
    return None


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
        library = _LIBRARIES.get(scheme, "aiohttp")
        try:
            import fsspec

            system = fsspec.filesystem(scheme, **_options(scheme))
        except ImportError as error:
            if error.name == "fsspec":
                library = "fsspec"
            raise missing(f"{scheme}:// needs {library}, which", extra="remote") from None
        if library == "s3fs":
            system.retries = 1  # only `ask` retries
        _systems[key] = system
    return _systems[key], _systems[key]._strip_protocol(url)


def _options(scheme: str) -> dict[str, Any]:
    from fsspec.config import conf

    own = conf.get(scheme, {})
    library = _LIBRARIES.get(scheme, "aiohttp")
    uncached: dict[str, Any] = {"use_listings_cache": False}
    if library == "s3fs":
        config = {
            "connect_timeout": _CONNECT,
            "read_timeout": _SILENT,
            "retries": {"total_max_attempts": 1},
        }
        return uncached | {"config_kwargs": config | own.get("config_kwargs", {})}
    if scheme == "memory" or library == "huggingface_hub":
        return uncached

    import aiohttp

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_SILENT)
    if library == "gcsfs":
        return uncached | {"requests_timeout": timeout}
    client = {"timeout": timeout, "trust_env": True} | own.get("client_kwargs", {})
    headers = {"Accept-Encoding": "identity"} | own.get("headers", {})
    return {"client_kwargs": client, "headers": headers}


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
    if isinstance(error, FileNotFoundError) and isinstance(error.__cause__, Exception):
        return error.__cause__
    return error


def _status(error: Exception) -> int:
    response = _response(error)
    result = getattr(error, "status", None) or getattr(response, "status_code", None)
    if isinstance(response, dict):  # of botocore
        result = result or response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if result == 400 and isinstance(error, TimeoutError):  # S3's RequestTimeout
            return 408
    return result if isinstance(result, int) else 0


def _response(error: Exception) -> Any:
    for place in (error, error.__cause__):
        response = getattr(place, "response", None)
        if response is not None:
            return response
    return None


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
    if look(url).is_folder:
        return sorted(_below(url.rstrip("/")))
    return [url]


def has_magic(url: str) -> bool:
    characters = r"[*\[]" if is_web(url) else r"[*?\[]"
    return re.search(characters, bare(url)) is not None


def _is_file(url: str) -> bool:
    try:
        return not is_web(url) and not look(url).is_folder
    except FileNotFoundError:
        return False


def _below(folder: str, depth: int | None = None) -> Iterator[str]:
    start = f"{folder}/"
    urls: Iterable[str] = ()
    if is_web(folder):
        urls = _linked(start, depth)
    else:
        scheme = folder.partition("://")[0]
        with suppress(FileNotFoundError):
            names = ask(folder, lambda system, path: system.find(path))
            urls = (f"{scheme}://{name.lstrip('/')}" for name in names)
    for url in urls:
        inner = "/" + url.removeprefix(start)
        if url.startswith(start) and not re.search(r"/(\.|/|\Z)", inner):
            yield url


def _linked(folder: str, depth: int | None) -> Iterator[str]:
    for link in ask(folder, lambda system, path: system.ls(path, detail=False)):
        if link.endswith("/") and link.startswith(folder) and link != folder:
            if depth != 1:
                yield from _linked(link, depth and depth - 1)
        elif "?" not in link.removeprefix(folder):
            yield link


def _matching(pattern: str) -> Iterator[str]:
    parts = pattern.rstrip("/").split("/")
    for n_fixed, part in enumerate(parts):
        if n_fixed > 2 and has_magic(f"s3://{part}"):
            break
    else:  # brackets in the host, as of IPv6
        return iter([pattern])

    base = "/".join(parts[:n_fixed])
    depth = None
    if is_web(pattern) and "**" not in parts:
        depth = len(parts) - n_fixed
    expression = "".join(map(_expression, parts[n_fixed:]))
    wanted = re.compile(f"{expression}(?:/.*)?", re.DOTALL)
    return (url for url in _below(base, depth) if wanted.fullmatch(url.removeprefix(base)))


def _expression(part: str) -> str:
    if part == "**":
        return "(?:/[^/]*)*?"
    expression = fnmatch.translate(part).removeprefix("(?s:").removesuffix(r")\Z")
    return "/" + expression.replace(".*", "[^/]*")
