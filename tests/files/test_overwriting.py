"""Laws of `check_distinct`: no output overwrites an input or another output."""

import os
from pathlib import Path

import pytest

from volt.errors import ConfigError
from volt.files.atomic import check_distinct, identity


@pytest.fixture
def spelled(tmp_path, monkeypatch):
    """Spellings of one file, a plain one first."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("a").write_bytes(b"x")
    Path("folder/up").symlink_to("..")
    Path("link").symlink_to("a")
    Path("link-of-link").symlink_to(tmp_path / "link")
    Path("twin").hardlink_to("a")
    return [
        "a",
        "./a",
        "folder/../a",
        "folder/up/a",
        "link",
        "link-of-link",
        "twin",
        str(tmp_path / "a"),
    ]


def test_one_file_is_one_file_however_it_is_spelled(spelled):
    """`check_distinct` refuses an output that is also an input or another output, for any spelling
    or link of the file."""
    for one in spelled:
        for other in spelled:
            with pytest.raises(ConfigError, match=r"which is read") as caught:
                check_distinct(["b", one], [other])
            assert f"{one}: would be written over {other}" in str(caught.value)
            with pytest.raises(ConfigError, match=r"which is written too"):
                check_distinct([other, one], ["b"])


def test_files_that_do_not_exist_yet_are_compared(spelled):
    """`check_distinct` refuses two paths to the same missing file, also through links and missing
    folders."""
    Path("dangling").symlink_to("folder/new")
    for one, other in (
        ("folder/new", "dangling"),
        ("folder/up/new", "new"),
        ("none/new", "./none/new"),
    ):
        with pytest.raises(ConfigError):
            check_distinct([one, other])
    check_distinct(["folder/new", "new", "none/new", "none/other"])


def test_pipes_and_terminals_may_be_read_and_written(tmp_path):
    """`check_distinct` accepts a pipe, a terminal or an invalid path as input and output, because
    no content could be lost."""
    os.mkfifo(tmp_path / "pipe")
    ours, theirs = os.openpty()
    for place in (tmp_path / "pipe", os.ttyname(theirs), f"/dev/fd/{theirs}", "a\0b"):
        check_distinct([place, place], [place])
        assert identity(place) is None
    os.close(ours)
    os.close(theirs)


def test_a_descriptor_is_the_file_that_it_was_opened_from(tmp_path):
    """`check_distinct` treats /dev/fd/N as the file that descriptor N was opened from."""
    path = tmp_path / "a"
    with path.open("ab") as file, pytest.raises(ConfigError, match="which is read"):
        check_distinct([f"/dev/fd/{file.fileno()}"], [path])
