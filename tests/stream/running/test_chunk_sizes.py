"""Laws of how many lines Python code is handed at a time: any number gives the same lines, and a state knows which."""

from __future__ import annotations

from pathlib import Path

import pytest

from volt.errors import StreamError
from volt.stream.reading import open_source
from volt.stream.reading.source_definition import Source
from volt.stream.running.stream import Stream
from volt.stream.transforms.case import Lower
from volt.stream.transforms.tags import Tag
from volt.stream.transforms.transform import Transform
from volt.stream.transforms.user_code import User

N_LINES = 300


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds lines.tsv, and mine.py with a function that returns the same list each time."""
    (tmp_path / "lines.tsv").write_text(
        "".join(f"{number}\tÉ{number}\n" for number in range(N_LINES))
    )
    (tmp_path / "mine.py").write_text(
        "kept = []\n\ndef swapped(fields):\n    kept[:] = fields[::-1]\n    return kept if fields[0] != '7' else None\n"
    )
    return tmp_path


def stream(folder: Path, *transforms: Transform) -> Stream:
    """One epoch of the lines."""
    return Stream(
        [Source("lines", (str(folder / "lines.tsv"),), transforms=transforms, epochs=1)], seed=1
    )


def user(folder: Path) -> User:
    """A function of a Python file."""
    return User(file=folder / "mine.py", function="swapped")


@pytest.mark.parametrize("n", [1, 40, 1000])
def test_any_number_of_lines_at_a_time_gives_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    """How many lines a function's calls share changes no line, whatever the function does with what it returned."""
    monkeypatch.setattr(open_source, "CHUNK_LINES", n)
    with stream(folder, user(folder)) as given, stream(folder) as raw:
        wanted = ["\t".join(line.split("\t")[::-1]) for line in raw if not line.startswith("7\t")]
        assert list(given) == wanted


def test_a_state_that_counts_other_chunks_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state says which chunk it stands in, so it fits only where chunks are as large; whole blocks have none."""
    states = []
    for transforms in ((Lower(), Tag("x")), (user(folder),)):
        with stream(folder, *transforms) as taken:
            next(iter(taken))
            states.append((transforms, taken.state()))
    monkeypatch.setattr(open_source, "CHUNK_LINES", 64)
    for (transforms, state), fits in zip(states, (True, False), strict=True):
        with stream(folder, *transforms) as other:
            if fits:
                other.restore(state)
                assert len(list(other)) == N_LINES - 1
            else:
                with pytest.raises(StreamError, match="chunk_lines"):
                    other.restore(state)
