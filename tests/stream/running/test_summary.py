"""Streams that are mixed by the sizes of their sources, and what each source gives in a virtual epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.streams import Drop, Same, numbered

from volt.errors import ConfigError, StreamError
from volt.stream import Sampling, Schedule, Source, Stream, plan
from volt.stream.reading.open_source import open_source
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.running.chunk_computation import chunk_rows
from volt.stream.running.openings import Opening, ReadCounts
from volt.stream.running.state import Cursor
from volt.stream.running.summary import Summary, VirtualEpoch, epochs_read

Mixed = Callable[..., Stream]  # a stream of sources with so many lines


@pytest.fixture
def mixed(tmp_path):
    """A stream of sources a, b, c … with so many lines, mixed by size."""

    def stream(
        sizes=(12, 5, 2),
        mix=Sampling(),  # noqa: B008
        **options,
    ):
        named = [(name, n, tmp_path / str(n)) for name, n in zip("abcdef", sizes, strict=False)]
        for _, _, folder in named:
            folder.mkdir(exist_ok=True)
        paths = {
            name: held(folder / f"{name}.0.tsv") or numbered(folder, name, n)
            for name, n, folder in named
        }
        sources = [Source(name, paths[name], block_lines=4, split_lines=3) for name in paths]
        return Stream(sources, mix=mix, **{"seed": 3, "cache": tmp_path / "cache", **options})

    return stream


def held(path):
    """The path of a file that is there, which another stream may be reading."""
    return (str(path),) if path.exists() else ()


def origin(line):
    """The source that a line comes from, and its number there."""
    name, number = line.split("\t")[0].split("-")
    return name, int(number)


def taken(stream, n):
    return [origin(line) for _, line in zip(range(n), stream, strict=False)]


SAMPLINGS = [Sampling(), Sampling(temperature=5), Sampling("uniform"), Sampling("concatenation")]


def spread(counts):
    return max(counts) - min(counts)


@settings(
    deadline=None,
    max_examples=examples(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # files are made once a size
@given(
    sizes=st.lists(st.integers(1, 14), min_size=1, max_size=4),
    mix=st.sampled_from(SAMPLINGS),
    seed=st.integers(0, 9),
)
def test_no_line_comes_again_before_all_lines_of_its_source_came(mixed, sizes, mix, seed):
    """At every line, no line of a source was given k + 1 times while another was given fewer than k times.

    So in the first virtual epoch no line of a source comes twice unless it is drawn out; in a later one, which may
    begin within a pass, a line comes at most twice more often than another.
    """
    with mixed(sizes, mix, seed=seed) as stream:
        n_lines = stream.epoch_lines or 0
        lines = taken(stream, 3 * n_lines)
    for name, size in zip("abcd", sizes, strict=False):
        counts = Counter({(name, number): 0 for number in range(size)})
        for line in lines:
            counts.update([line] if line in counts else ())
            assert spread([*counts.values()]) <= 1
        assert set(counts) == {(name, number) for number in range(size)}
        epochs = [
            Counter(lines[first : first + n_lines]) for first in range(0, len(lines), n_lines)
        ]
        inside = [[epoch[line] for line in counts] for epoch in epochs]
        assert spread(inside[0]) <= 1
        assert max(inside[0]) == 1 or sum(inside[0]) > size
        assert max(map(spread, inside)) <= 2


def test_a_virtual_epoch_of_a_concatenation_is_every_line_once(mixed):
    """Without a temperature nothing is drawn out: every virtual epoch has every line exactly once."""
    with mixed((12, 5, 2), Sampling("concatenation")) as stream:
        assert stream.epoch_lines == 19
        for _ in range(3):
            lines = taken(stream, 19)
            assert len(set(lines)) == 19
            epoch = stream.passes()
            assert epoch is not None
            assert {name: part.lines for name, part in epoch.sources.items()} == {
                "a": 12,
                "b": 5,
                "c": 2,
            }


@pytest.mark.parametrize("mix", SAMPLINGS, ids=str)
def test_reports_of_virtual_epochs_count_what_was_given(mixed, mix):
    """`passes` is what counting the lines gives, at every line of three epochs; shares are the mixture's."""
    with mixed(mix=mix) as stream:
        n_lines, lines = stream.epoch_lines or 0, list[tuple[str, int]]()
        for line in islice(stream, 3 * n_lines):
            lines.append(origin(line))
            epoch = stream.passes()
            assert epoch is not None
            first = (len(lines) - 1) // n_lines * n_lines
            counts, total = (
                Counter(name for name, _ in lines[first:]),
                Counter(name for name, _ in lines),
            )
            assert (epoch.number, epoch.n_lines, epoch.given) == (
                first // n_lines,
                n_lines,
                len(lines) - first,
            )
            for name, size in (("a", 12), ("b", 5), ("c", 2)):
                part = epoch.sources[name]
                assert (part.lines, part.passes) == (counts[name], total[name] // size)
                assert part.realised == part.lines / epoch.given
                assert abs(part.lines - part.wanted * epoch.given) < 2
            assert sum(part.wanted for part in epoch.sources.values()) == pytest.approx(1)
        assert stream.summary().epoch_lines == n_lines


def test_reports_go_on_where_a_stream_goes_on(mixed):
    """A restored stream reports the epoch in which it stands as the stream that it goes on for does."""
    with mixed() as stream:
        before = stream.passes()
        taken(stream, 50)
        state = stream.state()
        taken(stream, 9)
        found = stream.passes()
    with mixed() as again:
        again.restore(state)
        taken(again, 9)
        assert again.passes() == found
    assert before is not None
    assert (before.number, before.given) == (0, 0)
    assert [part.lines for part in before.sources.values()] == [0, 0, 0]


def test_ranks_divide_a_virtual_epoch(mixed):
    """The lines of an epoch of all ranks sum to V, and those that two ranks gave in the first are distinct."""
    streams = [mixed((40, 9), Sampling("concatenation"), rank=rank, world=2) for rank in (0, 1)]
    lines, sizes = list[tuple[str, int]](), list[int]()
    for stream in streams:
        with stream:
            assert stream.epoch_lines == 49
            first = stream.passes()
            assert first is not None
            sizes.append(first.n_lines)
            lines += taken(stream, first.n_lines)
            done = stream.passes()
            assert done is not None
            assert (done.number, done.given) == (0, first.n_lines)
            taken(stream, 1)
            assert (stream.passes() or done).number == 1
    assert sum(sizes) == 49
    assert len(set(lines)) >= 48  # each rank has its share of each source within one line


def test_streams_without_virtual_epochs_say_so(tmp_path):
    """One source has its own lines; of several, none may end, and none may have a weight that changes."""
    paths = {name: numbered(tmp_path, name, n) for name, n in (("a", 6), ("b", 2))}

    def lines(**options):
        stream = Stream(
            [Source("a", paths["a"], 3.0), Source("b", paths["b"], **options)], cache=tmp_path
        )
        assert (stream.passes() is None) == (stream.epoch_lines is None)
        return stream.epoch_lines

    assert lines() == 8
    assert lines(weight=0.0) == 6
    assert lines(epochs=2) is None
    assert lines(weight=Schedule(((0, 1.0), (5, 2.0)))) is None
    assert Stream([Source("a", paths["a"], epochs=2)], cache=tmp_path).epoch_lines == 6


def test_plans_tell_of_a_virtual_epoch(mixed):
    """A plan's virtual epoch has V lines, of each source its share, and so many passes."""
    found = plan(mixed((9, 1), Sampling(temperature=2)), at=24, seconds=0.01)
    assert found.epoch_lines == 12
    message = {
        name: (part.epoch_lines, part.epoch_passes, part.share)
        for name, part in found.sources.items()
    }
    assert message == {"a": pytest.approx((9, 1, 0.75)), "b": pytest.approx((3, 3, 0.25))}
    assert (found.sources["a"].lines, found.sources["a"].epochs) == pytest.approx((18, 2))


def test_plans_count_passes_of_what_filters_leave(tmp_path):
    """Where half the lines are dropped, an epoch's lines need twice the passes."""
    paths = numbered(tmp_path, "a", 400)
    stream = Stream(
        [Source("a", paths, transforms=(Drop(0.5),)), Source("b", paths)], cache=tmp_path
    )
    found = plan(stream, at=0, seconds=0.01).sources
    assert found["a"].epoch_passes == pytest.approx(1 / found["a"].yield_)
    assert (found["b"].epoch_passes, found["b"].share, found["b"].lines) == (1, 0.5, 0)


def test_a_state_names_its_mixing(mixed):
    """Another temperature, and weights instead, are refused by name; with accept='weights' the stream goes on."""
    with mixed() as stream:
        taken(stream, 10)
        state = stream.state()
    assert state["configuration"]["mix"] == "temperature 1.5"
    for other, message in (
        (Sampling(temperature=5), "temperature 5"),
        (Sampling("uniform"), "uniform"),
        (None, "none"),
    ):
        with mixed(mix=other) as again:
            with pytest.raises(
                StreamError, match=f"mix: temperature 1.5 in the state, {message} here; .*accept="
            ):
                again.restore(state)
            again.restore(state, accept=["weights"])
            taken(again, 5)
            epoch = again.passes()
            assert epoch is not None
            assert (epoch.number, epoch.given) == (0, 5)  # virtual epochs count from there
    with (
        mixed((12, 5, 3)) as again,
        pytest.raises(StreamError, match=r"sources\.c\.n_lines: 2 in the state, 3 here"),
    ):
        again.restore(state, accept=["weights"])


def test_what_goes_not_with_mixing_by_size_is_refused(tmp_path):
    """A weight, a schedule, an end, a share of nothing, and what is no Sampling."""
    paths = numbered(tmp_path, "a", 30)
    for source, message in (
        (
            Source("a", paths, 2.0),
            r"source 'a': weight=2\.0 cannot be used with mix; remove one of them",
        ),
        (Source("a", paths, Schedule(((0, 1.0),))), "cannot be used with mix"),
        (
            Source("a", paths, epochs=1),
            "source 'a': epochs=1 cannot be used with mix; remove one of them",
        ),
    ):
        with pytest.raises(ConfigError, match=message):
            Stream([source], mix=Sampling(), cache=tmp_path)
    few = numbered(tmp_path, "b", 2)
    with pytest.raises(ConfigError, match=r"mix: temperature 0\.05 leaves nothing to source 'b'"):
        Stream(
            [Source("a", paths), Source("b", few)], mix=Sampling(temperature=0.05), cache=tmp_path
        )
    with pytest.raises(TypeError, match="Sampling"):
        Stream([Source("a", paths)], mix="uniform", cache=tmp_path)  # type: ignore[arg-type]


def opened(folder, *steps, n=9, **options):
    """A source of numbered lines in file order."""
    return open_source(
        Source("a", numbered(folder, "a", n), 1.0, steps, **{"shuffle": "none", **options}), seed=5
    )


def test_summaries_of_nothing_and_of_much():
    """Speeds of no time are 0; numbers are rounded and grouped."""
    some = Summary(
        n=12_345, n_lines=1_000, seconds=0.33333, n_read=2_000, n_faults=1_500, fields={3: 1, 1: 2}
    )
    values = some.to_json()
    assert (values["seconds"], values["lines_per_second"], list(values["fields"])) == (
        0.333,
        3000.0,
        ["1", "3"],
    )
    assert (values["fields_sampled"], values["left_out"], values["epoch_lines"]) == (True, [], None)
    assert repr(some) == "<Summary: 12,345 lines given, 3,000 per second, 2,000 read, 1,500 unfit>"
    assert Summary(n=0, n_lines=0, seconds=0.0, n_read=0, n_faults=0).lines_per_second == 0
    assert (
        repr(VirtualEpoch(3, 1_000, 1, {"a": None}))
        == "<VirtualEpoch 3: 1 of 1,000 lines, 1 source>"
    )  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("cursor", "size", "expected"),
    [
        (Cursor(), None, 0.0),
        (Cursor(9, 2, 20, 5), None, 2.5),
        (Cursor(9, 2, 20, 5), 10, 2.625),
        (Cursor(9, 2, 20, 5), 0, 2.5),
        (Cursor(9, 2, 20, 10), 10, 2.75),
        (Cursor(9, 2, 20, 5, 1, 3), 4, 3.1),
    ],
)
def test_passes_count_lines_read(tmp_path, cursor, size, expected):
    """Passes count whole epochs, lines before the chunk, and the part of the chunk that was delivered."""
    source = opened(tmp_path, Same(), n=40, block_lines=10)
    block = LineBlock(cursor.epoch, 20, 10)
    opening = None if size is None else Opening(0, 0, cursor, block, size, ReadCounts())
    if cursor.chunk:
        source.chunk_lines, block = 6, block
        assert chunk_rows(1, n_lines=10, most=6) == (6, 10)
        expected = 2 + (20 + 6 + 2 / 4 * 4) / 40
    assert epochs_read(source, cursor, opening) == pytest.approx(expected)
