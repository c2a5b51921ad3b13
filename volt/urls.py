"""Recognise URLs among paths, show them without secrets, and compare them. Nothing is fetched here.

`pathlib.Path` turns two slashes into one, so `s3:/bucket/a.txt` is also read as the URL
`s3://bucket/a.txt`.

>>> url_of("s3://bucket/a.txt"), url_of("s3:/bucket/a.txt"), url_of("corpus/a.txt")
('s3://bucket/a.txt', 's3://bucket/a.txt', None)
"""

from __future__ import annotations

import os
import re

SCHEMES = "s3, gs, hf, https, http, memory and file"  # as messages list them
_URL = re.compile(r"(s3a?|gs|gcs|hf|https?|memory):/+(?=[^/])", re.IGNORECASE)
_FILE = re.compile(r"^file:(?://(?:localhost)?)?(?=/[^/])", re.IGNORECASE)
_USER = re.compile(r"(?<=:)(/{1,2})[^\s/]*@")
# Without the sentence's punctuation.
_QUERY = r"[?#][^\s'\"<>]*?(?=(?::\d+)?[:;,.)\]]*(?:[\s'\"<>]|$))"
_IN_TEXT = re.compile(
    rf"\b([a-z][a-z0-9+.-]*:/{{1,2}}(?!/)(?:[^\s/]*@)?[^\s'\"<>?#]*)(?:{_QUERY})?", re.IGNORECASE
)
_FOREIGN = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_SAME = {"s3a": "s3", "gcs": "gs"}  # other names of a scheme
_WEB = ("http://", "https://")


def url_of(path: str | os.PathLike[str]) -> str | None:
    """Return the URL that a path is, spelled with two slashes; None for a local file.

    >>> url_of("S3:/bucket/a"), url_of("file:///tmp/a"), url_of("en=s3://bucket/a")
    ('s3://bucket/a', None, None)
    """
    text = os.fspath(path)
    match = _URL.match(text)
    if match is None:
        return None
    return f"{match[1].lower()}://{text[match.end() :]}"


def plain_path(path: str) -> str:
    """Return the local path of a `file:` URL; return any other path unchanged.

    >>> plain_path("file:///tmp/a.txt"), plain_path("file:/tmp/a.txt"), plain_path("a.txt")
    ('/tmp/a.txt', '/tmp/a.txt', 'a.txt')
    """
    return _FILE.sub("", path, count=1)


def foreign_scheme(path: str) -> str | None:
    """Return the scheme of a URL that VOLT cannot read, such as ftp; None for any other path.

    >>> foreign_scheme("ftp://host/a.txt"), foreign_scheme("s3://bucket/a"), foreign_scheme("a.txt")
    ('ftp', None, None)
    """
    match = _FOREIGN.match(path)
    if match is None or url_of(path) or plain_path(path) != path:
        return None
    return match[1].lower()


def is_web(url: str) -> bool:
    """Check whether a URL is http or https. Such URLs are read-only, and their "?" starts a query.

    >>> is_web("https://host/a?key=5"), is_web("s3://bucket/a")
    (True, False)
    """
    return url.startswith(_WEB)


def bare(path: str) -> str:
    """Return a URL without user, password and query, safe to show; return a local path unchanged.

    >>> bare("https://me:secret@host/a.txt?X-Signature=5"), bare("s3:/bucket/a?.txt"), bare("a?.txt")
    ('https://host/a.txt', 's3://bucket/a?.txt', 'a?.txt')
    """
    url = url_of(path)
    if url is None:
        return path
    result = _USER.sub(r"\1", url)
    if is_web(url):
        result = re.split("[?#]", result, maxsplit=1)[0]
    return result


def without_secrets(text: str) -> str:
    """Return a text whose URLs lack their users, passwords and queries, which may contain keys.

    >>> without_secrets("https://me:secret@host/a.txt?key=5:17: not UTF-8; see s3:/bucket/b.txt")
    'https://host/a.txt:17: not UTF-8; see s3://bucket/b.txt'
    """
    if ":/" not in text:
        return text

    def remove_user(match: re.Match[str]) -> str:
        url = url_of(match[1]) or match[1]
        return _USER.sub(r"\1", url)

    return _IN_TEXT.sub(remove_user, text)


def same(url: str) -> str:
    """Return a key by which spellings of one URL compare equal: its normal form, without user.

    >>> same("s3a://bucket//a/./b.txt"), same("memory:///a"), same("https://HOST:443/a?b")
    ('s3://bucket/a/b.txt', 'memory://a', 'https://host/a?b')
    """
    without_user = _USER.sub(r"\1", url_of(url) or url)
    scheme, _, path = without_user.partition("://")
    query = ""
    if is_web(url):
        path, mark, query = path.partition("?")
        query = mark + query
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if is_web(url):
        port = {"http": ":80", "https": ":443"}[scheme]
        parts[0] = parts[0].lower().removesuffix(port)
    scheme = _SAME.get(scheme, scheme)
    return f"{scheme}://{'/'.join(parts)}{query}"


def name_of(path: str | os.PathLike[str]) -> str:
    """Return the last part of a path, or of a URL without its query.

    >>> name_of("https://host/a.txt?key=5"), name_of("corpus/b.txt"), name_of("s3://bucket/x/")
    ('a.txt', 'b.txt', 'x')
    """
    return os.path.basename(bare(os.fspath(path)).rstrip("/"))
