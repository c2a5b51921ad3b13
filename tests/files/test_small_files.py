"""Laws of reading a small file at once: faults are errors of the requested class, with their place."""

import os
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.counting import PACKERS

from volt.errors import CandidateError, ConfigError, CorpusError
from volt.files import small_files
from volt.files.blocks import read_blocks
from volt.files.paths import expand
from volt.files.ranges import divide_into_spans
from volt.files.small_files import (
    decode_text,
    is_compressed,
    is_pipe,
    read_bytes,
    read_start,
    read_text,
)
from volt.formats.registry import read_vocabulary


def test_read_text_changes_no_character(tmp_path):
    """`read_text` and `read_bytes` return every character and line end of a file unchanged."""
    path = tmp_path / "a"
    path.write_bytes("é\r\n\n😀".encode())
    assert (
        read_text(path, kind=ConfigError)
        == "é\r\n\n😀"
        == read_bytes(str(path), kind=ConfigError).decode()
    )


@pytest.mark.parametrize("packer", PACKERS)
def test_the_limit_counts_decompressed_bytes_of_all_members(tmp_path, packer):
    """`read_bytes` accepts exactly `most` decompressed bytes, and refuses one more, also in a
    second member."""
    text = b"low\n" * 1000
    path = tmp_path / "a"
    for parts in ([text], [text, b""], [text[:-1], text[-1:]]):
        path.write_bytes(b"".join(map(PACKERS[packer], parts)))
        assert read_bytes(path, kind=ConfigError, most=len(text)) == text
    for parts in ([text + b"x"], [text, b"x"], [text[:-1], b"xy"]):
        path.write_bytes(b"".join(map(PACKERS[packer], parts)))
        with pytest.raises(
            ConfigError, match="a: more than 4,000 bytes, too many for such a file; check the path"
        ):
            read_bytes(path, kind=ConfigError, most=len(text))


@pytest.mark.parametrize("packer", PACKERS)
def test_read_head_reads_only_the_start_of_a_file(tmp_path, packer, monkeypatch):
    """`read_head` reads less than half of a compressed file of three megabytes."""
    text = Random(1).randbytes(3 << 20)
    read = []
    (tmp_path / "a").write_bytes(PACKERS[packer](text))
    start = small_files.read_start
    monkeypatch.setattr(
        small_files,
        "read_start",
        lambda *a, **k: (data := start(*a, **k), read.append(len(data)))[0],
    )
    assert small_files.read_head(tmp_path / "a", 4096, kind=ConfigError) == text[:4096]
    assert max(read) < len(text) // 2


@pytest.mark.parametrize("kind", [CandidateError, ConfigError])
def test_what_cannot_be_read_is_an_error_of_the_kind(tmp_path, kind):
    """`read_bytes` and `read_text` raise an error of the class `kind`, with the path and a remedy,
    for a missing file and a folder."""
    for place in (tmp_path, tmp_path / "none", tmp_path / ("x" * 300)):
        for read in (read_bytes, read_text):
            with pytest.raises(kind, match=f"^{place}: cannot be read: .*; check the path$"):
                read(place, kind=kind)


@given(
    st.lists(st.text(alphabet="aé", max_size=3), max_size=4),
    st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80"]),
)
def test_bytes_that_are_no_text_have_their_line(lines, bad):
    """The error of `decode_text` names the line of the first byte that is not UTF-8."""
    data = "".join(f"{line}\n" for line in lines).encode() + bad + b"\n"
    with pytest.raises(ConfigError, match=f"^a:{len(lines) + 1}: not UTF-8 text; mend it$"):
        decode_text("a", data, kind=ConfigError, remedy="; mend it")


@pytest.mark.parametrize("path", ["a\0b", "\ud800"], ids=ascii)
def test_a_path_with_an_impossible_character_is_reported(path):
    """A NUL or a lone surrogate in a path raises an error of VOLT from every function that opens
    files."""
    for read in (
        lambda: read_bytes(path, kind=CorpusError),
        lambda: next(read_blocks(path)),
        lambda: expand(path),
    ):
        with pytest.raises(CorpusError, match=r"cannot be read|no such file"):
            read()
    with pytest.raises(CorpusError, match="cannot be read"):
        next(divide_into_spans(path, size=9))
    with pytest.raises(ConfigError, match="contains a character that no path can contain"):
        read_vocabulary(path)


def test_files_are_recognised_by_their_first_bytes(tmp_path):
    """`is_compressed` recognises a file by its first bytes; a shorter signature is plain text.

    `is_pipe` recognises a pipe without reading it.
    """
    plain = tmp_path / "a"
    plain.write_bytes(b"BZx")
    assert read_bytes(plain, kind=CorpusError) == read_start(plain, -1) == b"BZx"
    assert read_start(plain, 2) == b"BZ"
    packed = tmp_path / "b"
    packed.write_bytes(PACKERS["gzip"](b"x"))
    assert not is_compressed(plain)
    assert is_compressed(packed)
    os.mkfifo(tmp_path / "pipe")
    assert is_pipe(tmp_path / "pipe")
    assert not any(is_pipe(tmp_path / name) for name in ("a", "none", "a\0b"))


def test_a_compressed_file_has_a_limit_by_default(tmp_path, monkeypatch):
    """`read_bytes` without `most` limits only compressed files.

    A truncated file is an error of the class `kind`.
    """
    monkeypatch.setattr(small_files, "_MAX_TEXT", 89)
    path = tmp_path / "a"
    path.write_bytes(b"x" * 90)
    assert len(read_bytes(path, kind=CorpusError)) == 90
    path.write_bytes(PACKERS["gzip"](b"x" * 90))
    with pytest.raises(CorpusError, match="more than 89 bytes"):
        read_bytes(path, kind=CorpusError)
    path.write_bytes(PACKERS["gzip"](b"x" * 80)[:-4])
    with pytest.raises(ConfigError, match="a: truncated after line 0"):
        read_bytes(path, kind=ConfigError)
