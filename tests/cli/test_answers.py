"""`volt encode` and `volt decode` as filters: a line in gives its line out, through pipes and in a terminal."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import VOLT, status_of
from drawn import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from writers import check_answers, writing

from volt.encode.encoder import Encoder
from volt.files.blocks import Wait
from volt.kernels.warmup import compile_kernels
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary
from volt_cli.decode import _Check, _from_ids, _from_pieces
from volt_cli.io import write_each

TOKENS = ("l", "o", "w", "e", "l</w>", "o</w>", "w</w>", "e</w>", "low</w>", "lo")
VOCABULARY = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=TOKENS)
DEADLINE = 60  # seconds


@given(
    text=st.lists(st.sampled_from([*"lowe \n", "é", "<u>"]), max_size=60).map("".join),
    places=st.lists(st.integers(0, 60), max_size=6),
    form=st.sampled_from(["pieces", "ids", "@@"]),
)
@example(text="loé low<u>\n<u> é\n", places=[5], form="@@")
@settings(max_examples=examples(20))
def test_lines_are_decoded_before_more_is_waited_for(
    text: str, places: list[int], form: str
) -> None:
    """However pieces, ids, or pieces in subword-nmt's convention are cut into writes; bytes and special tokens may end
    a word."""
    vocabulary = replace(VOCABULARY, byte_fallback=True, special=SpecialTokens(user=("<u>",)))
    lines, separator = (
        "".join(f"{line}\n" for line in text.splitlines()).encode(),
        "@@" if form == "@@" else "",
    )
    encoded = Encoder(vocabulary).encode_text(
        lines, form="ids" if form == "ids" else "pieces", separator=separator
    )

    def answers(path: str, wait: Wait) -> Iterator[bytes]:
        if form == "ids":
            return _from_ids(vocabulary, [path], errors="strict", max_line=None, wait=wait)
        reading: dict[str, Any] = {"errors": "strict", "max_line": None, "wait": wait}
        return _from_pieces(
            vocabulary, [path], check=_Check(vocabulary), separator=separator, **reading
        )

    with writing([encoded] if encoded else []) as writer:
        expected = b"".join(answers(writer.path, writer))
    assert expected == b"".join(b" ".join(line.split()) + b"\n" for line in lines.splitlines())
    check_answers(encoded, places, answers, expected)


def test_what_is_written_can_be_read_before_more_is_asked_for(tmp_path: Path) -> None:
    """No text stays in a buffer while the next one is waited for."""
    path = tmp_path / "out"

    def texts() -> Iterator[bytes]:
        yield b"low\n"
        assert path.read_bytes() == b"low\n"

    with path.open("wb") as file:
        write_each(file, texts())


FILTERS = (
    "encode -m v.volt",
    "decode -m v.volt",
    "decode -m v.volt --form ids",
    "translate-input t.yaml --task t",
    "translate-output t.yaml --task t",
)


@pytest.mark.parametrize("line", FILTERS)
@pytest.mark.parametrize("place", ["-", "out"])
def test_every_filter_waits_for_text_and_for_the_end_of_its_reader(
    line: str,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """A filter that writes to stdout waits before it reads a pipe, and the wait also ends with stdout's reader."""
    outlets = []

    def waiting(
        descriptor: int, seconds: float | None = None, *, outlet: int | None = None
    ) -> bool:
        outlets.append(outlet)
        return True

    monkeypatch.chdir(tmp_path)
    VOCABULARY.save("v.volt")
    Path("t.yaml").write_text("tasks: {t: {type: mono, inputs: {i: {mono: nowhere}}}}")
    monkeypatch.setattr("volt.files.blocks.is_ready", waiting)
    reader, writer = os.pipe()
    os.write(writer, b"4\n" if "ids" in line else b"low</w>\n")
    os.close(writer)
    with os.fdopen(reader):
        assert status_of([*line.split(), f"/dev/fd/{reader}", "-o", place]) == 0
    assert outlets or place == "out"
    assert (capfdbinary.readouterr().out == b"") == (place == "out")
    assert all((outlet is None) == (place == "out") for outlet in outlets)


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A vocabulary, with the compiled loops on disk."""
    VOCABULARY.save(tmp_path / "small.volt")
    compile_kernels("encode")
    return str(tmp_path / "small.volt")


def answer(descriptor: int) -> bytes:
    """What can be read within the deadline; nothing if there is nothing."""
    return os.read(descriptor, 1 << 16) if select.select([descriptor], [], [], DEADLINE)[0] else b""


def test_a_line_comes_back_through_open_pipes_and_a_reader_that_goes_ends_them(model: str) -> None:
    """`encode | decode` gives each line back while the pipes stay open. When nobody reads any more, both end in silence
    with 0, though their writer says nothing and does not go.
    """
    encoding = subprocess.Popen(
        [*VOLT, "encode", "-m", model], bufsize=0, stdin=-1, stdout=-1, stderr=-1
    )
    decoding = subprocess.Popen(
        [*VOLT, "decode", "-m", model], bufsize=0, stdin=encoding.stdout, stdout=-1, stderr=-1
    )
    try:
        assert encoding.stdin and encoding.stdout and decoding.stdout  # noqa: PT018
        encoding.stdout.close()
        encoding.stdin.write(b"low lo\nlo")
        assert answer(decoding.stdout.fileno()) == b"low lo\n"
        encoding.stdin.write(b"w\r\n")
        assert answer(decoding.stdout.fileno()) == b"low\n"
        decoding.stdout.close()
        assert [process.wait(DEADLINE) for process in (decoding, encoding)] == [0, 0]
        assert [process.stderr.read() for process in (decoding, encoding) if process.stderr] == [
            b"",
            b"",
        ]
    finally:
        for process in (encoding, decoding):
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    pipe.close()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_shows_lines_and_answers_alone(model: str) -> None:
    """Each line that is typed is answered at once, with no bar between; Ctrl-D ends."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [*VOLT, "encode", "-m", model], stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    try:
        shown = b""
        for typed in (b"low\n", b"lo w\n"):
            os.write(ours, typed)
            while (
                shown.count(b"\n") % 2 or not shown.endswith(b"\r\n") or typed.strip() not in shown
            ):
                more = answer(ours)
                assert more, shown
                shown += more
        assert shown == b"low\r\nlow</w>\r\nlo w\r\nl o</w> w</w>\r\n"
        os.write(ours, b"\x04")
        assert process.wait(DEADLINE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
