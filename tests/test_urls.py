"""Laws of URLs as paths: they are distinguished from files, and shown without secrets."""

from pathlib import Path

import pytest

from volt.errors import CorpusError, shown_path, unreadable
from volt.files.paths import expand
from volt.urls import bare, name_of, plain_path, same, url_of, without_secrets

SECRET = (
    "https://me:hunter2@host:8080/corpus/a.txt?X-Amz-Signature=hunter2&X-Amz-Credential=hunter2/x"
)


def test_urls_are_distinguished_from_paths():
    """A Path of a URL is read as that URL; file:, other schemes and empty addresses are paths."""
    for url in ("s3://bucket/a b/ü.txt", "https://host/a.txt?key=5", "hf://datasets/x/y/a.txt"):
        assert url_of(Path(url)) == url == url_of(url)
    for path in (
        "-",
        "a.txt",
        "./s3:/bucket",
        "en=s3://bucket/a",
        "/s3://x",
        "C:/a",
        "s3:",
        "s3://",
        "",
    ):
        assert url_of(path) is None
        assert bare(path) == plain_path(path) == path
    for path in (
        "file:///a/b.txt",
        "file:/a/b.txt",
        "FILE://localhost/a/b.txt",
        Path("file:///a/b.txt"),
    ):
        assert plain_path(str(path)) == "/a/b.txt"
    assert plain_path("file:///file:///a") == "/file:///a"


@pytest.mark.parametrize("path", [SECRET, Path(SECRET)])
def test_no_secret_is_shown(path):
    """Messages contain no user, password or query, wherever the URL stands in them."""
    for message in (
        shown_path(path),
        bare(str(path)),
        name_of(path),
        str(CorpusError(f"{path}:17: not UTF-8; see '{path}', or {path}.")),
        str(unreadable("a.txt", OSError(5, f"cannot connect to {path}"), kind=CorpusError)),
    ):
        assert "hunter2" not in message
        assert "me@" not in message
    assert str(CorpusError(f"{path}:17: low")) == "https://host:8080/corpus/a.txt:17: low"


def test_a_text_without_secrets_is_unchanged():
    """Messages without users, passwords or queries are unchanged."""
    for text in (
        "a.txt:17: low?",
        "give s3://bucket/*.gz or https://host/a.txt",
        "a:/b:c@d",
        "key: value, x@y",
    ):
        assert without_secrets(text).replace("a:/d", "a:/b:c@d") == text


def test_spellings_of_one_url_are_the_same():
    """All spellings of one URL have one key, so that no input is overwritten."""
    for one, other in {
        "s3://bucket/a//b": "s3a://bucket/./a/b",
        "gs://bucket/a": "gcs:/bucket/a",
        "memory:///a": "memory://a",
        "http://HOST:80/a": "http://me:secret@host/a",
    }.items():
        assert same(one) == same(other) != same(f"{other}.txt")


@pytest.mark.parametrize("url", ["ftp://host/a.txt", "gopher://host/*.txt"])
def test_unsupported_schemes_are_reported(url):
    """The error lists the supported schemes, and does not report a missing file."""
    with pytest.raises(
        CorpusError, match=r"(ftp|gopher):// is not supported; copy it, or use one of s3, gs, hf"
    ):
        expand(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://u:p@ss@h/x", "http://h/x"),
        ("http://joe:pa'S#?ECW@h/none.txt", "http://h/none.txt"),
        ("s3://KEY:SECRET@bucket/none.txt", "s3://bucket/none.txt"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
    ],
)
def test_awkward_secrets_are_left_out(url, shown):
    """A password may contain any character except a slash, and is never shown."""
    assert bare(url) == shown
    assert without_secrets(f"error {url}: cannot be read") == f"error {shown}: cannot be read"
