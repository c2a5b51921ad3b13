"""Lines appended to a source, and sources added, while a stream is stopped: every line still comes once an epoch."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import numbered

from volt.errors import StreamError
from volt.stream import Source, Stream, merge_states

Shuffle = Literal["lines", "outputs", "none"]


class Corpus:
    """Files of numbered lines, which grow."""

    def __init__(self, folder: Path, n_files: int, n_lines: int) -> None:
        self.folder, self.n_files, self.n = folder, 0, 0
        for _ in range(n_files):
            self.add_file(n_lines)

    def add_file(self, n_lines: int) -> None:
        """Add a file that comes after the others."""
        self.n_files += 1
        self.append(n_lines)

    def append(self, n_lines: int) -> None:
        """Append lines to the last file."""
        with Path(self.folder, f"{self.n_files:02}.tsv").open("a") as file:
            file.write("".join(f"line {self.n + i}\n" for i in range(n_lines)))
        self.n += n_lines

    def stream(self, rank: int = 0, world: int = 1, **options: Any) -> Stream:
        """A stream of what the files hold now."""
        paths = tuple(str(path) for path in sorted(self.folder.glob("*.tsv")))
        return Stream([Source("a", paths, **options)], seed=7, rank=rank, world=world)


def numbers(stream: Stream, n: int | None = None) -> list[int]:
    """The numbers of the next lines."""
    return [int(line.split()[1]) for line in islice(stream, n)]


GROWTH = st.lists(
    st.tuples(st.booleans(), st.integers(1, 9), st.integers(0, 30)), min_size=1, max_size=3
)


@settings(deadline=None, max_examples=examples(60))
@given(
    n_files=st.integers(1, 3),
    n_lines=st.integers(1, 9),
    first=st.integers(0, 30),
    growth=GROWTH,
    shuffle=st.sampled_from(["lines", "outputs", "none"]),
    split=st.sampled_from([None, 2, 4]),
    block=st.integers(1, 12),
)
def test_every_line_comes_once_an_epoch(
    n_files: int,
    n_lines: int,
    first: int,
    growth: list[tuple[bool, int, int]],
    shuffle: Shuffle,
    split: int | None,
    block: int,
) -> None:
    """However often a source grows, what is given until the end of 3 epochs is 3 times the lines of each epoch.

    Lines appended in an epoch are given once in it, and once in every later one.
    """
    with TemporaryDirectory() as folder:
        corpus = Corpus(Path(folder), n_files, n_lines)
        options: dict[str, Any] = {
            "shuffle": shuffle,
            "split_lines": split,
            "block_lines": block,
            "epochs": 3,
        }
        stream, given_ = corpus.stream(**options), list[int]()
        given_ += numbers(stream, first)
        first_epochs = dict.fromkeys(range(corpus.n), 0)
        for is_file, more, n in growth:
            state = json.loads(json.dumps(stream.state()))
            old = corpus.n
            (corpus.add_file if is_file else corpus.append)(more)
            stream = corpus.stream(**options)
            with pytest.raises(StreamError, match=r"or pass accept=\['data'\]"):
                stream.restore(state)
            stream.restore(state, accept=["data"])
            accepted = stream.accepted
            assert (
                f"appended to source 'a': from line {len(given_)} on, after other lines of epoch "
                in accepted[0]
            )
            first_epochs |= dict.fromkeys(range(old, corpus.n), int(accepted[0].rpartition(" ")[2]))
            given_ += numbers(stream, n)
        again = corpus.stream(**options)
        again.restore(stream.state())
        rest = numbers(again)
        assert numbers(stream) == rest
        assert Counter(given_ + rest) == {
            number: 3 - epoch for number, epoch in first_epochs.items()
        }


@settings(deadline=None, max_examples=examples(30))
@given(
    n_lines=st.integers(4, 30),
    more=st.integers(1, 20),
    reads=st.lists(st.integers(0, 25), min_size=1, max_size=4),
    world=st.integers(1, 4),
    block=st.integers(1, 9),
)
def test_ranks_share_appended_lines(
    n_lines: int, more: int, reads: list[int], world: int, block: int
) -> None:
    """The states of all ranks are merged, the source grows, and other ranks continue: each line twice in 2 epochs."""
    with TemporaryDirectory() as folder:
        corpus = Corpus(Path(folder), 2, n_lines)
        options: dict[str, Any] = {"block_lines": block, "epochs": 2}
        streams = [corpus.stream(rank, len(reads), **options) for rank in range(len(reads))]
        found = [
            number
            for stream, n in zip(streams, reads, strict=True)
            for number in numbers(stream, n)
        ]
        merged, old = merge_states([stream.state() for stream in streams]), corpus.n
        corpus.append(more)
        new = [corpus.stream(rank, world, **options) for rank in range(world)]
        for stream in new:
            stream.restore(merged, accept=["data"])
        [accepted] = {stream.accepted for stream in new}
        epoch = int(accepted[0].rpartition(" ")[2])
        counts = Counter(found + [number for stream in new for number in numbers(stream)])
        assert counts == {number: 2 if number < old else 2 - epoch for number in range(corpus.n)}


def test_what_was_not_appended_is_refused(tmp_path: Path) -> None:
    """A changed line, a file that comes before, a shorter file, and the state of one rank of two."""
    corpus = Corpus(tmp_path, 1, 9)
    stream = corpus.stream()
    numbers(stream, 4)
    state, file = stream.state(), tmp_path / "01.tsv"
    text = file.read_text()
    for changed in (text.replace("line 3", "line x") + "more\n", text[:-7], "more\n" + text):
        file.write_text(changed)
        with pytest.raises(StreamError, match=r"restore it there, or start anew$"):
            corpus.stream().restore(state, accept=["data"])
    file.write_text(text)
    (tmp_path / "00.tsv").write_text("line 9\n")
    with pytest.raises(StreamError, match=r"restore it there, or start anew$"):
        corpus.stream().restore(state, accept=["data"])
    (tmp_path / "00.tsv").unlink()
    half = corpus.stream(1, 2).state()
    corpus.append(1)
    with pytest.raises(
        StreamError, match="lines were appended to source 'a', but the state is of one rank of 2"
    ):
        corpus.stream(1, 2).restore(half, accept=["data"])


def test_files_may_lack_their_last_line_end(tmp_path: Path) -> None:
    """A file that did not end with a line end grows by one and further lines."""
    (tmp_path / "01.tsv").write_text("line 0\nline 1")
    corpus = Corpus(tmp_path, 0, 0)
    stream = corpus.stream(epochs=1)
    before = numbers(stream, 1)
    state = stream.state()
    (tmp_path / "01.tsv").write_text("line 0\nline 1\nline 2\n")
    after = corpus.stream(epochs=1)
    after.restore(state, accept=["data"])
    assert sorted(before + numbers(after)) == [0, 1, 2]


@settings(deadline=None, max_examples=examples(30))
@given(n=st.integers(0, 60), weights=st.lists(st.integers(1, 5), min_size=3, max_size=3))
def test_a_source_is_added(n: int, weights: list[int]) -> None:
    """The other sources continue with the lines that would have come; shares hold from the line of the change on."""
    with TemporaryDirectory() as folder:
        sources = [
            Source(name, numbered(Path(folder), name, 20), float(weight))
            for name, weight in zip("abc", weights, strict=True)
        ]
        old = Stream(sources[:2], seed=1)
        list(islice(old, n))
        state = old.state()
        new = Stream([sources[2], *sources[:2]], seed=1)
        with pytest.raises(
            StreamError, match=r"sources\.c: not in the state.*pass accept=\['sources'\]"
        ):
            new.restore(state)
        new.restore(state, accept=["sources"])
        assert new.accepted == (f"source 'c' from line {n} on",)
        mixed, alone = list(islice(new, 90)), list(islice(old, 200))
        for name, weight in zip("abc", weights, strict=True):
            own = [line for line in mixed if line.startswith(name)]
            assert abs(len(own) - 90 * weight / sum(weights)) <= 1
            assert (
                name == "c" or own == [line for line in alone if line.startswith(name)][: len(own)]
            )
        again = Stream([sources[2], *sources[:2]], seed=1)
        again.restore(new.state())
        assert (list(islice(again, 20)), again.state()["accepted"]) == (
            list(islice(new, 20)),
            ["sources"],
        )
