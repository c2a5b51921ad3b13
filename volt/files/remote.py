"""Request the status, byte ranges and listing of URLs by fsspec, and upload files. All failures are
OSErrors.

A request is a function `call(system, path)`, where `system` is an fsspec file system. `request`
sends it again after a failure that may be temporary (`Retries`); `final_error` decides which
failures are not. Patterns match as for local paths. For http, "?" begins a query, and a folder
consists of the files to which its page links.
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
_SLOWEST = 50_000  # bytes per second; a slower upload counts as broken
_LIBRARIES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "hf": "huggingface_hub"}
# Keys of a file's details in fsspec: ETags, then modification times. The first that exists is the version.
_ETAGS = ["ETag", "etag", "md5Hash", "blob_id"]
_TIMES = ["LastModified", "last_modified", "Last-Modified", "created", "mtime"]
# Errors of Python that a network does not cause.
_FINAL = NotImplementedError, TypeError, ValueError, LookupError, AttributeError
# Errors of botocore that a network causes.
_NETWORK_ERRORS = (
    "HTTPClientError",
    "ConnectionError",
    "IncompleteReadError",
    "CredentialRetrievalError",
)
_TEMPORARY = (408, 425, 429)  # HTTP statuses from 400 to 499 after which a retry may succeed
_systems: dict[tuple[int, str], Any] = {}
_memory_lock = Lock()  # all readers of a memory:// file share one position
T = TypeVar("T")


class RemoteStat(NamedTuple):
    """Status of a URL: size (None if unknown) and version (derived from ETag or modification time,
    0 if unknown)."""

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
    details = request(url, lambda system, path: system.info(path))
    version = next(filter(None, map(details.get, _ETAGS + _TIMES)), "")
    is_folder = details.get("type") == "directory"
    return RemoteStat(details.get("size"), number_of(str(version)), is_folder)


def number_of(text: str) -> int:
    """Return a text's digest as a number; 0 for the empty text."""
    if not text:
        return 0
    from hashlib import blake2b  # takes a while, as it loads OpenSSL

    return int.from_bytes(blake2b(text.encode(), digest_size=7).digest())


def read_range(url: str, start: int, size: int) -> bytes:
    """Return `size` bytes from byte `start` on; fewer if the file ends earlier.

    Raises NoRangesError if the server supports no ranges.
    """
    if not size:
        return b""
    return request(url, lambda system, path: _request_range(system, path, start, start + size))


def put_file(file: Path, url: str) -> None:
    """Upload a file. Raises OSError."""

    def upload(system: Any, path: str) -> None:
        options = dict[str, float]()
        if system.async_impl:  # it would wait for ever for a server that does not read
            options["timeout"] = _SILENT + file.stat().st_size / _SLOWEST
        system.put_file(str(file), path, **options)

    request(url, upload)


def has_ranges(url: str) -> bool:
    try:
        return len(read_range(url, 1, 1)) <= 1
    except NoRangesError:
        return False


def request(url: str, call: Callable[[Any, str], T]) -> T:
    """Return `call(system, path)` for a URL's file system and path.

    Raises OSError if it fails for good.
    """
    system, path = system_of(url)
    retries = Retries(url)
    while True:
        try:
            return call(system, path)
        except (NoRangesError, MissingLibraryError):
            raise
        except Exception as error:
            pause(retries, error)


def pause(retries: Retries, error: Exception) -> None:
    """Wait before a request that failed is sent again.

    Raises OSError if that cannot help, or if the time for retries is over.
    """
    final = final_error(error)
    if final:
        raise final from error
    cause = _cause(error)
    _, headers = _status_and_headers(cause)
    retries.pause(message_of(cause), wait=requested_wait(headers.get("retry-after")))


def final_error(error: Exception) -> OSError | None:
    """Return the error to raise for a failed request; None if the same request may succeed
    later."""
    cause = _cause(error)
    status, _ = _status_and_headers(cause)
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
        or ("BotoCoreError" in kinds and kinds.isdisjoint(_NETWORK_ERRORS))
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
            system.retries = 1  # only `request` retries
        _systems[key] = system
    return _systems[key], _systems[key]._strip_protocol(url)


def _options(scheme: str) -> dict[str, Any]:
    from fsspec.config import conf

    user_config = conf.get(scheme, {})
    library = _LIBRARIES.get(scheme, "aiohttp")
    uncached: dict[str, Any] = {"use_listings_cache": False}
    if library == "s3fs":
        config = {
            "connect_timeout": _CONNECT,
            "read_timeout": _SILENT,
            "retries": {"total_max_attempts": 1},
        }
        return uncached | {"config_kwargs": config | user_config.get("config_kwargs", {})}
    if scheme == "memory" or library == "huggingface_hub":
        return uncached

    import aiohttp

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_SILENT)
    if library == "gcsfs":
        return uncached | {"requests_timeout": timeout}
    client = {"timeout": timeout, "trust_env": True} | user_config.get("client_kwargs", {})
    headers = {"Accept-Encoding": "identity"} | user_config.get("headers", {})
    return {"client_kwargs": client, "headers": headers}


def _request_range(system: Any, path: str, start: int, end: int) -> bytes:
    if not is_web(path):
        with _memory_lock if system.protocol == "memory" else nullcontext():
            return bytes(system.cat_file(path, start=start, end=end))
    with system.open(path, block_size=1, cache_type="none", size=end) as file:
        try:  # `cat_file` would return the whole file if the server supports no ranges
            return bytes(file._fetch_range(start, end))
        except ValueError as error:  # fsspec's error for a server without ranges
            raise NoRangesError(
                errno.ESPIPE, "the server sends only whole files; download the file first"
            ) from error


def _cause(error: Exception) -> Exception:
    """Return an error's real cause, because fsspec reports every HTTP failure as a missing file."""
    if isinstance(error, FileNotFoundError) and isinstance(error.__cause__, Exception):
        return error.__cause__
    return error


def _status_and_headers(error: Exception) -> tuple[int, Any]:
    """Return the HTTP status (0 if unknown) and the headers of the answer to a failed request."""
    response: Any = None
    for source in (error, error.__cause__):
        if response is None:
            response = getattr(source, "response", None)
    if isinstance(response, dict):  # of botocore
        metadata = response.get("ResponseMetadata", {})
        status = getattr(error, "status", None) or metadata.get("HTTPStatusCode")
        if status == 400 and isinstance(error, TimeoutError):  # S3's RequestTimeout
            status = 408
        headers = metadata.get("HTTPHeaders", {})
    else:
        status = getattr(error, "status", None) or getattr(response, "status_code", None)
        headers = getattr(error, "headers", None) or getattr(response, "headers", None) or {}
    return status if isinstance(status, int) else 0, headers


def message_of(error: Exception) -> str:
    return str(error) or type(error).__name__


def files_at(url: str) -> list[str]:
    """Return a file's URL, or the files of a folder or a pattern, sorted. Raises OSError."""
    if has_magic(url) and not _is_file(url):
        return sorted(_files_matching(url))
    if look(url).is_folder:
        return sorted(_files_below(url.rstrip("/")))
    return [url]


def has_magic(url: str) -> bool:
    """Check whether a URL contains a character of patterns."""
    characters = r"[*\[]" if is_web(url) else r"[*?\[]"
    return re.search(characters, bare(url)) is not None


def _is_file(url: str) -> bool:
    try:
        return not is_web(url) and not look(url).is_folder
    except FileNotFoundError:
        return False


def _files_matching(pattern: str) -> Iterator[str]:
    """List the folder before the first part with a pattern, and match the rest of each path."""
    parts = pattern.rstrip("/").split("/")
    for n_fixed, part in enumerate(parts):
        if n_fixed > 2 and has_magic(f"s3://{part}"):
            break
    else:  # brackets in the host, as of IPv6
        return iter([pattern])

    base = "/".join(parts[:n_fixed])
    max_depth = None
    if is_web(pattern) and "**" not in parts:
        max_depth = len(parts) - n_fixed
    expression = "".join(map(_part_to_regex, parts[n_fixed:]))
    regex = re.compile(f"{expression}(?:/.*)?", re.DOTALL)
    urls = _files_below(base, max_depth)
    return (url for url in urls if regex.fullmatch(url.removeprefix(base)))


def _part_to_regex(part: str) -> str:
    if part == "**":
        return "(?:/[^/]*)*?"
    expression = fnmatch.translate(part).removeprefix("(?s:").removesuffix(r")\Z")
    return "/" + expression.replace(".*", "[^/]*")


def _files_below(folder: str, max_depth: int | None = None) -> Iterator[str]:
    """Yield the URLs of all files below a folder, without hidden ones.

    max_depth: number of levels of web pages that are read; None for all
    """
    start = f"{folder}/"
    urls: Iterable[str] = ()
    if is_web(folder):
        urls = _linked_files(start, max_depth)
    else:
        scheme = folder.partition("://")[0]
        with suppress(FileNotFoundError):
            names = request(folder, lambda system, path: system.find(path))
            urls = (f"{scheme}://{name.lstrip('/')}" for name in names)
    for url in urls:
        path = "/" + url.removeprefix(start)
        if url.startswith(start) and not re.search(r"/(\.|/|\Z)", path):
            yield url


def _linked_files(folder: str, max_depth: int | None) -> Iterator[str]:
    for link in request(folder, lambda system, path: system.ls(path, detail=False)):
        if link.endswith("/") and link.startswith(folder) and link != folder:
            if max_depth != 1:
                yield from _linked_files(link, max_depth and max_depth - 1)
        elif "?" not in link.removeprefix(folder):
            yield link
