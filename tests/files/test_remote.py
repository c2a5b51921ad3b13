"""Laws of URLs: they are read like local paths of the same bytes, and written completely or not at all."""

import errno
import gzip
import json
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

import volt
from volt.encode.files import EncodeJob, encode_each, encode_one
from volt.errors import ConfigError, CorpusError, MissingLibraryError, OutputError, VocabularyError
from volt.files import remote
from volt.files.atomic import check_distinct, check_writable, write_atomic
from volt.files.blocks import read_blocks
from volt.files.paths import expand
from volt.files.remote import look
from volt.files.remote_files import RemoteFile
from volt.files.retries import ServerError
from volt.files.small_files import read_bytes, read_head
from volt.formats.registry import format_of, read_vocabulary, write_vocabulary

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")

TEXT = "low lower newest widest\nnew low größer\n" * 300
FILES = {
    "b.txt.gz": "low lowest\n" * 50,
    "a.txt": TEXT,
    "c/d.txt": "wide\n",
    "c/.hidden.txt": "x\n",
    ".e/f.txt": "y\n",
}
PATTERNS = [
    "",
    "/",
    "*",
    "*.txt",
    "?.txt",
    "[ab]*",
    "**",
    "**/*.txt",
    "c",
    "c/*",
    "*/*.txt",
    "**/d*",
    "a.txt",
]


@pytest.fixture
def both(tmp_path):
    """A folder of files and the URL of a folder with equal files."""
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]
    for name, text in FILES.items():
        data = gzip.compress(text.encode(), mtime=0) if name.endswith(".gz") else text.encode()
        place = tmp_path / "corpus" / name
        place.parent.mkdir(exist_ok=True, parents=True)
        place.write_bytes(data)
        memory.pipe_file(f"/corpus/{name}", data)
    yield f"{tmp_path}/corpus", "memory://corpus"
    memory.store.clear()


@pytest.fixture
def encoder():
    counts = volt.WordCounts.from_pairs({"low": 9, "lower": 5, "newest": 6, "widest": 3})
    return volt.Encoder(volt.search(volt.learn_bpe(counts, n_merges=9), sizes=[12, 14]).vocabulary)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_folders_and_patterns_give_the_same_files(both, pattern):
    """`expand` returns the same files for a folder or pattern of URLs as for local paths, in the
    same order."""
    local, far = both
    found = expand(f"{local}/{pattern}")
    assert expand(f"{far}/{pattern}") == [
        path.replace(local, far).replace("corpus//", "corpus/") for path in found
    ]


@pytest.mark.parametrize(
    ("path", "what"), [("x.txt", "no such file"), ("*.zst", "no file matches"), ("c/x*", "no file")]
)
def test_missing_urls_raise_the_errors_of_missing_paths(both, path, what):
    """A missing URL, and a pattern of URLs without matches, raise the errors that local paths
    raise."""
    for place in both:
        with pytest.raises(CorpusError, match=what) as message:
            [*read_blocks(expand(f"{place}/{path}")[0])]
        assert str(message.value).startswith(f"{place}/{path}: ")


def test_urls_are_counted_like_local_files(both):
    """`count_words` returns the same counts for plain and compressed URLs as for local files."""
    local, far = both
    assert volt.count_words(far).table.rows() == volt.count_words(local).table.rows()
    assert volt.count_words(f"{far}/c").table.rows() == [("wide", 1)]


def test_errors_name_the_url_and_the_line(both):
    """An error about a URL's text contains the URL and the line."""
    fsspec.filesystem("memory").pipe_file("/corpus/bad.txt", b"low\n\xff\n")
    with pytest.raises(CorpusError, match=r"^memory://corpus/bad.txt:2: invalid UTF-8"):
        volt.count_words(f"{both[1]}/bad.txt")
    fsspec.filesystem("memory").pipe_file("/corpus/bad.gz", gzip.compress(b"low\n" * 900)[:-9])
    with pytest.raises(CorpusError, match=r"^memory://corpus/bad.gz: truncated after line"):
        volt.count_words(f"{both[1]}/bad.gz")


def test_a_vocabulary_is_saved_to_and_loaded_from_a_url(both, encoder):
    """`Vocabulary.save` writes the bytes of a local file to a URL, and `Vocabulary.load` reads
    them."""
    local, far = both
    for place in both:
        encoder.vocabulary.save(f"{place}/v.volt")
    assert read_bytes(f"{far}/v.volt", kind=VocabularyError) == Path(local, "v.volt").read_bytes()
    assert (
        volt.Vocabulary.load(f"{far}/v.volt")
        == read_vocabulary(f"{far}/v.volt")
        == encoder.vocabulary
    )
    assert read_head(f"{far}/v.volt", 7, kind=VocabularyError) == b'{"volt"'


@pytest.mark.parametrize("to", ["subword-nmt", "huggingface"])
def test_a_format_of_several_files_is_read_from_urls(both, encoder, to):
    """`read_vocabulary` of a URL also fetches the other files of the format from the URL's
    folder."""
    for place in both:
        write_vocabulary(encoder.vocabulary.closed(), f"{place}/codes", to=to)
    local, far = (f"{place}/codes" for place in both)
    assert format_of(far) == to
    assert read_vocabulary(far).tokens == read_vocabulary(local).tokens
    with pytest.raises(VocabularyError, match=r"^memory://corpus/a.txt:1: neither"):
        read_vocabulary("memory://corpus/a.txt")


def test_encoding_from_and_to_urls_writes_the_bytes_of_local_files(both, encoder, tmp_path):
    """`encode_one` and `encode_each` write the same bytes to URLs as to local files.

    A second run skips finished files.
    """
    local, far = both
    paths = [f"{far}/a.txt", f"{far}/b.txt.gz"]
    encode_one(
        encoder, [f"{local}/a.txt", f"{local}/b.txt.gz"], tmp_path / "one", job=EncodeJob("npy")
    )
    encode_one(encoder, paths, Path("memory://out/one"), job=EncodeJob("npy"))
    assert read_bytes("memory://out/one", kind=CorpusError) == Path(tmp_path, "one").read_bytes()
    for n_lines in (600, None):
        made = list(encode_each(encoder, paths, Path("memory://out"), job=EncodeJob("ids")))
        assert [outcome.n_lines for outcome in made] == [n_lines, n_lines and 50]
    manifest = json.loads(read_bytes("memory://out/.volt-encoded.json", kind=CorpusError))
    assert manifest["a.txt.ids"]["source"] == "memory://corpus/a.txt"


def test_a_failed_upload_changes_nothing(both):
    """`write_atomic` of a URL uploads the file at the end of the block.

    If the block fails, the old content is unchanged.
    """
    with write_atomic(f"{both[1]}/new") as file:
        file.write(b"whole")
        with pytest.raises(FileNotFoundError):
            look("memory://corpus/new")
    with suppress(ZeroDivisionError), write_atomic(f"{both[1]}/new") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert read_bytes(f"{both[1]}/new", kind=CorpusError) == b"whole"


@pytest.mark.parametrize("place", ["https://host/v.volt", "memory://corpus/"])
def test_unwritable_urls_are_refused_before_writing(place):
    """`check_writable` refuses an HTTP server and a folder."""
    with pytest.raises(OutputError, match="it was not changed"):
        check_writable(place)


def test_an_output_that_is_read_is_refused(both):
    """`check_distinct` refuses an output URL that is also an input, whatever the spelling, also of
    file:// URLs."""
    with pytest.raises(ConfigError, match="would be written over"):
        check_distinct(["memory:///corpus/./a.txt"], [f"{both[1]}/a.txt"])
    with pytest.raises(ConfigError, match="would be written over"):
        check_distinct([f"file://{both[0]}/a.txt"], [f"{both[0]}/a.txt"])
    check_distinct([f"{both[1]}/new"], [f"{both[1]}/a.txt"])


def test_a_file_url_is_the_file(both, encoder):
    """file:// URLs are read and written as local files."""
    local = f"file://{both[0]}"
    assert expand(f"{local}/*.txt") == expand(f"{both[0]}/*.txt")
    assert volt.count_words(local).table.rows() == volt.count_words(both[0]).table.rows()
    encoder.vocabulary.save(f"{local}/v.volt")
    assert volt.Vocabulary.load(f"{both[0]}/v.volt") == read_vocabulary(f"{local}/v.volt")


def test_a_url_that_changes_while_it_is_read_is_reported(monkeypatch):
    """`RemoteFile.read` raises ChangedError if the file has changed, instead of mixing two
    versions."""
    monkeypatch.setattr("volt.files.remote_files.HEAD_SIZE", 4)
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/changing.txt", b"low\n" * 9)
    with RemoteFile("memory://changing.txt") as file:
        assert file.read(4) == b"low\n"
        memory.pipe_file("/changing.txt", b"new\n" * 9)
        with pytest.raises(remote.ChangedError):
            file.read()


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_missing_library_is_named(scheme, monkeypatch):
    """If the library of a scheme is not installed, the error contains the command that installs
    it."""
    from fsspec.registry import _registry

    library = {"s3": "s3fs", "gs": "gcsfs"}[scheme]
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(_registry, scheme, raising=False)  # where another test has used it
    monkeypatch.setattr(remote, "_systems", {})
    with pytest.raises(
        MissingLibraryError,
        match=rf"{scheme}:// needs {library}.*pip install 'volt-vocab\[remote\]'",
    ):
        expand(f"{scheme}://bucket/a.txt")


def test_fsspec_itself_may_be_missing(monkeypatch):
    """If fsspec is not installed, the error names it and the scheme."""
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setattr(remote, "_systems", {})
    with pytest.raises(MissingLibraryError, match="memory:// needs fsspec"):
        expand("memory://corpus/a.txt")


STATUSES = {
    remote.RefusedError: (401, 403),
    FileNotFoundError: (404, 410),
    ServerError: (400, 402, 499, 501),
    type(None): (0, 399, 408, 425, 429, 500, 503, "x"),
}


@pytest.mark.parametrize("kind", STATUSES)
def test_a_status_is_final_or_retried(kind):
    """`final_error` returns an error for the HTTP statuses of refused, missing and wrong requests,
    and None for others, wherever the exception carries the status."""
    for status in STATUSES[kind]:
        head = {"ResponseMetadata": {"HTTPStatusCode": status}}
        carriers = {"status": status}, {"response": SimpleNamespace(status_code=status)}
        for attributes in (*carriers, {"response": head}):
            error = OSError("why")
            vars(error).update(attributes)
            assert type(remote.final_error(error)) is kind


def test_an_error_is_final_or_retried():
    """`final_error` decides by the cause of a FileNotFoundError, because fsspec reports every
    failure as a missing file. Keys in a URL are refused."""
    hidden = FileNotFoundError("as fsspec says")
    hidden.__cause__ = OSError("why")
    assert remote.final_error(hidden) is None
    kinds = {
        PermissionError(): errno.EACCES,
        IsADirectoryError(): errno.EISDIR,
        NotImplementedError("x"): errno.EIO,
        FileNotFoundError(): errno.ENOENT,
        type("NoCredentialsError", (Exception,), {})(): errno.EACCES,
    }
    assert [final.errno for final in map(remote.final_error, kinds) if final] == list(
        kinds.values()
    )
    assert (remote.message_of(KeyError()), remote.message_of(OSError("x"))) == ("KeyError", "x")
    with pytest.raises(remote.RefusedError, match="keys in a URL"):
        remote.look("s3://key:secret@bucket/a")


def test_libraries_get_timeouts_and_no_cache():
    """fsspec's file systems are created with timeouts, without caches of listings, and without
    retries of their own."""
    options = remote._options("http")
    timeout = options["client_kwargs"]["timeout"]
    assert (timeout.total, timeout.sock_connect, timeout.sock_read) == (None, 15, 20)
    assert options["client_kwargs"]["trust_env"]
    assert options["headers"] == {"Accept-Encoding": "identity"}
    uncached = {"use_listings_cache": False}
    assert remote._options("gs") == uncached | {"requests_timeout": timeout}
    waits = {"connect_timeout": 15, "read_timeout": 20, "retries": {"total_max_attempts": 1}}
    assert remote._options("s3") == uncached | {"config_kwargs": waits}
    assert remote._options("memory") == uncached


def test_parts_of_patterns_are_regular_expressions():
    """In a pattern of URLs, `*` matches within a part, and `**` matches any folders.

    An http URL that ends in a slash is a folder.
    """
    expressions = [remote._part_to_regex(part) for part in ("**", "a?", "*.txt")]
    assert expressions == ["(?:/[^/]*)*?", "/a.", r"/[^/]*\.txt"]
    assert remote.look("https://h/a/?b") == (None, 0, True)
    assert remote.RemoteStat(None, 3, is_folder=True).stamp == (0, 3)


def test_a_pattern_requests_no_deeper_pages_than_it_matches(monkeypatch):
    """For an http pattern, a star reads one level of links, and two stars read all.

    Links with a query, or to the page itself, are ignored.
    """
    pages = {
        "http://h/": ["http://h/a/", "http://h/x.txt", "http://h/"],
        "http://h/a/b/": ["http://h/a/b/z.txt"],
        "http://h/a/": ["http://h/a/b/", "http://h/a/y.txt", "http://h/a/y.txt?q"],
    }
    asked = []
    monkeypatch.setattr(remote, "request", lambda url, _: asked.append(url) or pages[url])
    found = [remote.files_at(f"http://h/{pattern}") for pattern in ("*", "*/*", "**", "a/*.txt")]
    assert found[:2] + found[3:] == [["http://h/x.txt"], ["http://h/a/y.txt"], ["http://h/a/y.txt"]]
    assert found[2] == [f"http://h/{name}.txt" for name in ("a/b/z", "a/y", "x")]
    assert len(asked) == 1 + 2 + 3 + 1
