"""Laws of `expand` and of the checks of paths: links in circles are not followed, no file is named
twice, and names are safe to print."""

import glob
import os
import socket
from pathlib import Path

import pytest

from volt.count import count_words
from volt.errors import ConfigError, CorpusError
from volt.files.paths import (
    check_readable,
    exists,
    expand,
    expand_user,
    is_file,
    mark_of,
    size_of,
    stands_for_several,
    total_size,
)

NAMES = ["a.txt", "b.tsv", "s/b.txt", "s/t/c.txt", "s/t/t.txt", "[x]/d.txt", ".h/d.txt", "s/.e.txt"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with some files."""
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_text("low\n")
    return tmp_path


@pytest.mark.parametrize(
    "pattern",
    [
        "**/*.txt",
        "s/**/*.txt",
        "**/t/*",
        "**/s/**/*.txt",
        "s*/**/c.*",
        "./**/*.txt",
        "[[]x]/**/*.txt",
        "*.txt",
    ],
)
def test_expand_matches_the_files_of_glob(folder, pattern):
    """Without links, `expand` returns the files of Python's glob for relative and absolute
    patterns, sorted."""
    assert expand(pattern) == sorted(glob.glob(pattern, recursive=True))
    whole = f"{glob.escape(str(folder))}/{pattern}"
    assert sorted(map(os.path.normpath, expand(whole))) == sorted(
        map(os.path.normpath, glob.glob(whole, recursive=True))
    )


def test_expand_names_no_file_twice(folder):
    """If a pattern matches a folder and files in it, `expand` returns each file once."""
    for pattern in ("**", "./**", "**/", "s/**", "s/**/t*"):
        paths = [os.path.normpath(path) for path in expand(pattern)]
        assert len(set(paths)) == len(paths)
        assert paths.count("s/t/t.txt") == 1


def test_expand_follows_no_links_to_folders(folder):
    """`expand` does not follow links to folders, for a folder and for `**`.

    Broken links are errors when they are read.
    """
    for name in ("one", "two", "s/up"):
        os.symlink(folder, name)
    os.symlink("nowhere", "broken.txt")
    os.symlink("self", "self")
    os.symlink("a.txt", "linked.txt")
    texts = ["[x]/d.txt", "a.txt", "linked.txt", "s/b.txt", "s/t/c.txt", "s/t/t.txt"]
    assert [os.path.relpath(path, folder) for path in expand(folder)] == sorted([*texts, "b.tsv"])
    assert expand("**/[!b]*.txt") == [text for text in texts if text != "s/b.txt"]
    for bad in ("self", "broken.txt", "br*"):
        with pytest.raises(CorpusError, match=r": cannot be read: "):
            count_words(bad)


def test_pipes_and_sockets_in_a_folder_are_left_out(folder):
    """`expand` omits pipes and sockets of a folder or a pattern, because reading them could block.

    A pipe is accepted by its own name.
    """
    os.mkfifo("pipe.txt")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.txt")
        assert expand("*.txt") == ["a.txt"]
        assert not {"pipe.txt", "socket.txt"} & {Path(path).name for path in expand(".")}
        assert expand("pipe.txt") == ["pipe.txt"]
        with pytest.raises(CorpusError, match="no file matches this pattern"):
            expand("p*.txt")


@pytest.mark.parametrize("name", [b"a\nerror: b", b"a\x1b]0;x\x07", b"a\xff", "a\u202eb".encode()])
def test_errors_print_any_file_name_in_one_line(folder, name):
    """A file of any name can be counted, and an error that contains the name is one printable
    line."""
    path = os.fsdecode(name)
    Path(path).write_bytes(b"low\n\xfe\n")
    assert count_words(path, errors="skip").words == ["low"]
    for source in (path, f"{path}/none"):
        with pytest.raises(CorpusError) as caught:
            count_words(source)
        assert str(caught.value).isprintable()
        str(caught.value).encode()


def test_a_folder_that_cannot_be_read_is_reported(tmp_path, monkeypatch):
    """`expand` raises an error for a subfolder that cannot be read, instead of omitting its
    files."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "a.txt").write_text("a")
    scan = os.scandir

    def refuse(path):
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(
        CorpusError,
        match="closed: cannot be read: permission denied; name the files that can be read",
    ):
        expand(tmp_path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("~", "/home/me"),
        ("~/a.tsv", "/home/me/a.tsv"),
        ("a/~/b", "a/~/b"),
        ("$DATA/a.tsv", "/data/a.tsv"),
        ("${DATA}2/$DATA", "/data2//data"),
        ("$ODD/a", "~/$DATA/a"),
        ("$/a$/${}", "$/a$/${}"),
        ("a.tsv", "a.tsv"),
        ("", ""),
    ],
)
def test_expand_user_replaces_home_and_variables(monkeypatch, path, expected):
    """`expand_user` replaces `~` at the start and variables anywhere, but does not expand their
    values again."""
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("DATA", "/data")
    monkeypatch.setenv("ODD", "~/$DATA")
    assert expand_user(path) == expected


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "$NOT_SET/a",
            r"\$NOT_SET/a: the variable NOT_SET is not set; set it, or write the path out",
        ),
        ("~/${NOT SET}", "the variable NOT SET is not set"),
        (
            "~nobody-of-this-name/a",
            "the home folder ~nobody-of-this-name is not known; write the path out",
        ),
    ],
)
def test_expand_user_refuses_unknown_users_and_variables(path, message):
    """`expand_user` raises an error for an unset variable and an unknown user."""
    with pytest.raises(ConfigError, match=message):
        expand_user(path)


def test_empty_files_are_a_corpus_without_words(folder):
    """`count_words` refuses a folder of empty files in one short error, and accepts it if one file
    has words."""
    Path("many").mkdir()
    for number in range(300):
        Path(f"many/{number}").touch()
    with pytest.raises(CorpusError, match="and 297 more: no words in 0 lines"):
        count_words("many")
    Path("many/7").write_text("low")
    assert count_words("many").words == ["low"]


def test_expand_keeps_the_order_of_sources(tmp_path):
    """`expand` keeps the order of sources, sorts the files of patterns and folders, and omits
    hidden files."""
    for name in ("b.txt", "a.txt", "sub/c.txt", "sub/.hidden", ".git/d", "odd[1].txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    def names(*sources):
        return [
            path if path == "-" else os.path.relpath(path, tmp_path) for path in expand(sources)
        ]

    assert names(tmp_path) == ["a.txt", "b.txt", "odd[1].txt", "sub/c.txt"]
    assert names(tmp_path / "b.txt", "-", tmp_path / "a.txt") == ["b.txt", "-", "a.txt"]
    assert names(tmp_path / "?.txt") == ["a.txt", "b.txt"]
    assert names(tmp_path / "**" / "c.*") == ["sub/c.txt"]
    assert names(tmp_path / "s*") == ["sub/c.txt"]
    assert names(tmp_path / "odd[1].txt") == ["odd[1].txt"]
    assert expand(tmp_path / "a.txt") == [str(tmp_path / "a.txt")]


def test_expand_says_what_is_missing(tmp_path):
    """The error of `expand` says whether a file, a match of a pattern, or any file in a folder is
    missing."""
    (tmp_path / "empty").mkdir()
    for source, message in [
        (tmp_path / "none.txt", "no such file"),
        (tmp_path / "*.gz", "no file matches this pattern"),
        (tmp_path / "empty", "the directory contains no files"),
    ]:
        with pytest.raises(CorpusError, match=message):
            expand(source)
    with pytest.raises(CorpusError, match="no corpus was given"):
        expand([])


def test_sizes_and_marks_of_local_files(folder):
    """`size_of` returns the size of a file, and `mark_of` its size and modification time; both
    return None for a missing file."""
    size = len("low\n")
    status = Path("a.txt").stat()
    for path in ("a.txt", f"file://{folder}/a.txt"):
        assert size_of(path) == size
        assert mark_of(path) == (size, status.st_mtime_ns)
        assert exists(path)
        assert is_file(path)
        check_readable(path, kind=CorpusError)
    assert mark_of("s") == (0, Path("s").stat().st_mtime_ns)
    assert exists("s")
    assert not is_file("s")
    assert is_file("s3://bucket/a")
    for missing in ("none", "a\0b"):
        assert size_of(missing) is None
        with pytest.raises(ConfigError, match="cannot be read"):
            check_readable(missing, kind=ConfigError)
    assert mark_of("none") is None
    assert not exists("none")
    sums = [total_size(paths) for paths in (["a.txt", "[x]/d.txt"], ["a.txt", "none"], [])]
    assert sums == [2 * size, None, 0]


@pytest.mark.parametrize("pattern", ["*.txt", "s3://b/a?", "https://h/*", "https://h/[ab]"])
def test_patterns_stand_for_several(folder, pattern):
    """`stands_for_several` accepts patterns.

    A "?" of http starts a query, and the path of an existing file is not a pattern.
    """
    assert stands_for_several(pattern)
    for plain in ("[x]/d.txt", "c", "https://h/a?b", "s3://b/a"):
        assert not stands_for_several(plain)
