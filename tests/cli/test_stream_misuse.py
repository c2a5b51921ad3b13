"""`volt stream` used as it is not meant to be: refused by name before a line leaves, or is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from commands import Run, status_of
from hypothesis import given
from hypothesis import strategies as st

from volt.errors import StreamError
from volt.stream.config.sources import shares
from volt_cli.stream.delivery import Consumer


@contextmanager
def stdout_to(path: Path) -> Iterator[None]:
    """Let the descriptor 1 lead to the end of a file, as `>>` does."""
    saved = os.dup(1)
    with path.open("ab") as file:
        try:
            os.dup2(file.fileno(), 1)
            yield
        finally:
            os.dup2(saved, 1)
            os.close(saved)


def test_lines_are_not_written_into_their_source(
    stream_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nor into any other file that the stream reads; another file may grow."""
    for name in ("one.tsv", "two.tsv.gz", "stream.yaml"):
        before = (stream_folder / name).read_bytes()
        with stdout_to(stream_folder / name):
            assert status_of(["stream", "run", "stream.yaml", "--limit", 3, "-q"]) == 2
        assert f"{name}, which is read; choose another place" in capfd.readouterr().err
        assert (stream_folder / name).read_bytes() == before
    with stdout_to(stream_folder / "out"):
        assert status_of(["stream", "run", "stream.yaml", "--limit", 3, "-q"]) == 0
    assert (stream_folder / "out").read_bytes().count(b"\n") == 3


@pytest.mark.parametrize(
    "message", ["abc", "-5", "12 13", "7\nline 39999\n", "a0\tline 0\na1\tline 1\n"]
)
def test_a_consumer_that_writes_no_number_is_refused(tmp_path: Path, message: str) -> None:
    """Else its lines would come again, or a number that stands in its file by chance would be believed."""
    (tmp_path / "ack").write_text(message)
    with pytest.raises(
        StreamError, match=r"ack: '.*' is not a number of lines; write how many lines are used"
    ):
        Consumer(str(tmp_path / "ack")).look()


@pytest.mark.parametrize(
    ("message", "used"), [("", None), (" \n", None), ("12\n", 12), ("12\n15", 15), (" 7 ", 7)]
)
def test_a_consumer_counts_in_a_file(tmp_path: Path, message: str, used: int | None) -> None:
    """The last line counts; nothing is said in an empty file."""
    (tmp_path / "ack").write_text(message)
    assert Consumer(str(tmp_path / "ack")).look() == used


@given(
    st.lists(st.integers(0, 2000), max_size=6).map(sorted),
    st.sampled_from(["", "7"]),
    st.sets(st.integers(1, 30)),
)
def test_a_consumer_counts_on_a_descriptor(numbers: list[int], rest: str, cuts: set[int]) -> None:
    """However its numbers are cut into reads, the last whole line counts, and an unfinished line does not, yet."""
    data = "".join(f"{number}\n" for number in numbers) + rest
    reader, writer = os.pipe()
    try:
        consumer = Consumer(str(reader))
        for start, end in pairwise(
            [0, *sorted({cut for cut in cuts if cut < len(data)} | {len(data)})]
        ):
            if end:
                os.write(writer, data[start:end].encode())
                assert consumer.listen()
            assert (consumer.look() or 0) == int(["0", *data[:end].split("\n")][-2])
    finally:
        os.close(writer)
        assert not consumer.listen()
        os.close(reader)


@pytest.mark.parametrize("temperature", [0.5, 1, 2, 5, 1e9])
def test_shares_are_those_of_the_formula(temperature: float) -> None:
    """size ^ (1 / temperature), normalised."""
    sizes = [1000, 100, 10]
    powers = [size ** (1 / temperature) for size in sizes]
    assert shares(sizes, temperature=temperature) == pytest.approx(
        [power / sum(powers) for power in powers]
    )


def test_a_temperature_that_leaves_a_source_nothing_is_refused(
    volt_stream: Run, stream_folder: Path
) -> None:
    """However small it is: a source that never comes is not left out in silence."""
    assert shares([1 << 40, 1], temperature=1e-300) == [1, 0]
    (stream_folder / "a.txt").write_text("line\n" * 1000)
    (stream_folder / "b.txt").write_text("line\n")
    (stream_folder / "each.yaml").write_text("each: {path: '*.txt', temperature: 1e-3}\n")
    found = volt_stream("run each.yaml --limit", 3, "-q", status=2).stderr
    assert b"each.yaml:1: each.temperature: 0.001 leaves nothing to " in found
    assert b"b.txt; raise it" in found


def test_a_module_that_is_missing_is_to_be_installed(volt_stream: Run, stream_folder: Path) -> None:
    """As where word alignments need a library that is not there: its name, the place and what to do are reported."""
    (stream_folder / "align.py").write_text("def align(fields):\n    import no_such_aligner\n")
    step = "user: {file: align.py, function: align}"
    (stream_folder / "u.yaml").write_text(
        f"sources: {{s: {{path: one.tsv, transforms: [{step}]}}}}\n"
    )
    found = volt_stream("run u.yaml --limit", 3, "-q", status=1).stderr
    assert b"No module named 'no_such_aligner'" in found
    assert b"align.py:2); install the module" in found
