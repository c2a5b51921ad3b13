"""Laws of reading a small file at once: what cannot be read is an error of the kind asked for, with its place."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from counting import PACKERS
from hypothesis import given
from hypothesis import strategies as st

from volt.errors import CandidateError, ConfigError, CorpusError, VoltError
from volt.files import small_files
from volt.files.blocks import read_blocks
from volt.files.paths import expand
from volt.files.ranges import file_spans
from volt.files.small_files import decoded, read_bytes, read_text
from volt.formats.registry import read_vocabulary


def test_text_is_what_was_written(tmp_path: Path) -> None:
    """Every character and every line end comes back."""
    path = tmp_path / "a"
    path.write_bytes("é\r\n\n😀".encode())
    assert (
        read_text(path, kind=ConfigError)
        == "é\r\n\n😀"
        == read_bytes(str(path), kind=ConfigError).decode()
    )


@pytest.mark.parametrize("packer", PACKERS)
def test_the_limit_counts_unpacked_bytes_of_all_members(tmp_path: Path, packer: str) -> None:
    """Exactly as many bytes as allowed are read, one more is an error, also if a further member holds it."""
    text, path = b"low\n" * 1000, tmp_path / "a"
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
def test_the_start_of_a_packed_file_needs_no_more_than_its_start(
    tmp_path: Path, packer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three megabytes that hardly shrink, half are read at most; the bytes are the first of the text."""
    text, read = Random(1).randbytes(3 << 20), list[int]()
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
def test_what_cannot_be_read_is_an_error_of_the_kind(tmp_path: Path, kind: type[VoltError]) -> None:
    """A missing file and a folder are reported with the path and what to do."""
    for place in (tmp_path, tmp_path / "none", tmp_path / ("x" * 300)):
        for read in (read_bytes, read_text):
            with pytest.raises(kind, match=f"^{place}: cannot be read: .*; check the path$"):
                read(place, kind=kind)


@given(
    st.lists(st.text(alphabet="aé", max_size=3), max_size=4),
    st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80"]),
)
def test_bytes_that_are_no_text_have_their_line(lines: list[str], bad: bytes) -> None:
    """The line is one more than the line ends before the first byte that is not UTF-8."""
    data = "".join(f"{line}\n" for line in lines).encode() + bad + b"\n"
    with pytest.raises(ConfigError, match=f"^a:{len(lines) + 1}: not UTF-8 text; mend it$"):
        decoded("a", data, kind=ConfigError, remedy="; mend it")


@pytest.mark.parametrize("path", ["a\0b", "\ud800"], ids=ascii)
def test_what_is_no_path_is_reported_as_a_file_that_cannot_be_read(path: str) -> None:
    """A NUL or a lone surrogate in a path is an error of VOLT, wherever files are opened."""
    for read in (
        lambda: read_bytes(path, kind=CorpusError),
        lambda: next(read_blocks(path)),
        lambda: expand(path),
    ):
        with pytest.raises(CorpusError, match=r"cannot be read|no such file"):
            read()
    with pytest.raises(CorpusError, match="cannot be read"):
        next(file_spans(path, size=9))
    with pytest.raises(ConfigError, match="contains a character that no path can contain"):
        read_vocabulary(path)
