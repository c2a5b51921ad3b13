"""`Summary` and `VirtualEpoch`: statistics of streams, also of streams mixed by the sizes of their
sources."""

from collections import Counter
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

SAMPLINGS = [Sampling(), Sampling(temperature=5), Sampling("uniform"), Sampling("concatenation")]


@pytest.fixture
def open_mixed(tmp_path):
    """A function that opens a stream of sources a, b, c … with these numbers of lines, mixed by
    size."""

    def open_stream(sizes=(12, 5, 2), mix=SAMPLINGS[0], **options):
        sources = []
        for name, n in zip("abcdef", sizes, strict=False):
            folder = tmp_path / str(n)
            path = folder / f"{name}.0.tsv"
            if not path.exists():
                folder.mkdir(exist_ok=True)
                numbered(folder, name, n)
            sources.append(Source(name, (str(path),), block_lines=4, split_lines=3))
        return Stream(sources, mix=mix, **{"seed": 3, "cache": tmp_path / "cache", **options})

    return open_stream


def find_origin(line):
    """Return the source of a line, and the line's number there."""
    name, number = line.split("\t")[0].split("-")
    return name, int(number)


def read_origins(stream, n):
    return [find_origin(line) for line in islice(stream, n)]


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
def test_a_source_is_read_evenly(open_mixed, sizes, mix, seed):
    """At every line of a stream, the numbers of times that the lines of a source were yielded
    differ by at most one; in a virtual epoch, by at most two."""
    with open_mixed(sizes, mix, seed=seed) as stream:
        n_lines = stream.epoch_lines or 0
        lines = read_origins(stream, 3 * n_lines)
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


def test_a_virtual_epoch_of_concatenated_sources_has_each_line_once(open_mixed):
    """With mix='concatenation', every virtual epoch has each line of each source once."""
    with open_mixed((12, 5, 2), Sampling("concatenation")) as stream:
        assert stream.epoch_lines == 19
        for _ in range(3):
            lines = read_origins(stream, 19)
            assert len(set(lines)) == 19
            sources = stream.passes().sources
            assert {name: part.lines for name, part in sources.items()} == {"a": 12, "b": 5, "c": 2}


@pytest.mark.parametrize("mix", SAMPLINGS, ids=str)
def test_passes_equal_a_naive_count(open_mixed, mix):
    """Stream.passes equals a count of the yielded lines, at every line of three virtual epochs."""
    with open_mixed(mix=mix) as stream:
        n_lines = stream.epoch_lines
        names = []
        for line in islice(stream, 3 * n_lines):
            names.append(line[0])
            epoch = stream.passes()
            number = (len(names) - 1) // n_lines
            counts = Counter(names[number * n_lines :])
            total = Counter(names)
            assert (epoch.number, epoch.n_lines) == (number, n_lines)
            assert epoch.given == counts.total()
            for name, size in (("a", 12), ("b", 5), ("c", 2)):
                part = epoch.sources[name]
                assert (part.lines, part.passes) == (counts[name], total[name] // size)
                assert part.realised == part.lines / epoch.given
                assert abs(part.lines - part.wanted * epoch.given) < 2
            assert sum(part.wanted for part in epoch.sources.values()) == pytest.approx(1)
        assert stream.summary().epoch_lines == n_lines


def test_a_restored_stream_reports_the_same_virtual_epoch(open_mixed):
    """Stream.passes of a restored stream equals that of the stream whose state it has."""
    with open_mixed() as stream:
        before = stream.passes()
        read_origins(stream, 50)
        state = stream.state()
        read_origins(stream, 9)
        expected = stream.passes()
    with open_mixed() as again:
        again.restore(state)
        read_origins(again, 9)
        assert again.passes() == expected
    assert (before.number, before.given) == (0, 0)
    assert [part.lines for part in before.sources.values()] == [0, 0, 0]


def test_ranks_divide_a_virtual_epoch(open_mixed):
    """The lines of all ranks in a virtual epoch sum to epoch_lines, and ranks yield distinct
    lines."""
    streams = [
        open_mixed((40, 9), Sampling("concatenation"), rank=rank, world=2) for rank in (0, 1)
    ]
    lines = []
    for stream in streams:
        with stream:
            assert stream.epoch_lines == 49
            n_lines = stream.passes().n_lines
            lines += read_origins(stream, n_lines)
            epoch = stream.passes()
            assert (epoch.number, epoch.given) == (0, n_lines)
            stream.skip(1)
            assert stream.passes().number == 1
    assert len(lines) == 49
    assert len(set(lines)) >= 48  # each rank has its share of each source within one line


def test_only_endless_sources_of_constant_weight_have_virtual_epochs(tmp_path):
    """epoch_lines and passes are None if one of several sources ends, or if a weight changes."""
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


def test_plans_contain_the_virtual_epoch(open_mixed):
    """plan returns the lines and passes of each source in a virtual epoch."""
    found = plan(open_mixed((9, 1), Sampling(temperature=2)), at=24, seconds=0.01)
    assert found.epoch_lines == 12
    for name, expected in (("a", (9, 1, 0.75)), ("b", (3, 3, 0.25))):
        part = found.sources[name]
        assert (part.epoch_lines, part.epoch_passes, part.share) == pytest.approx(expected)
    assert (found.sources["a"].lines, found.sources["a"].epochs) == pytest.approx((18, 2))


def test_plans_count_passes_by_the_lines_that_filters_pass(tmp_path):
    """If a filter drops half the lines of a source, its plan has twice the passes."""
    paths = numbered(tmp_path, "a", 400)
    stream = Stream(
        [Source("a", paths, transforms=(Drop(0.5),)), Source("b", paths)], cache=tmp_path
    )
    found = plan(stream, at=0, seconds=0.01).sources
    assert found["a"].epoch_passes == pytest.approx(1 / found["a"].yield_)
    assert (found["b"].epoch_passes, found["b"].share, found["b"].lines) == (1, 0.5, 0)


def test_a_state_of_another_mix_is_refused(open_mixed):
    """restore refuses a state of another temperature, or of weights; accept=['weights'] accepts
    it."""
    with open_mixed() as stream:
        read_origins(stream, 10)
        state = stream.state()
    assert state["configuration"]["mix"] == "temperature 1.5"
    for other, message in (
        (Sampling(temperature=5), "temperature 5"),
        (Sampling("uniform"), "uniform"),
        (None, "none"),
    ):
        with open_mixed(mix=other) as again:
            with pytest.raises(
                StreamError, match=f"mix: temperature 1.5 in the state, {message} here; .*accept="
            ):
                again.restore(state)
            again.restore(state, accept=["weights"])
            read_origins(again, 5)
            epoch = again.passes()
            assert (epoch.number, epoch.given) == (0, 5)  # virtual epochs are numbered anew
    with (
        open_mixed((12, 5, 3)) as again,
        pytest.raises(StreamError, match=r"sources\.c\.n_lines: 2 in the state, 3 here"),
    ):
        again.restore(state, accept=["weights"])


def test_options_that_contradict_mix_are_refused(tmp_path):
    """Stream with mix refuses a weight, a schedule, an end, a share of 0, and a mix that is not a
    Sampling."""
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
        Stream([Source("a", paths)], mix="uniform", cache=tmp_path)


def test_summaries_show_speeds_and_round_numbers():
    """The speed of no time is 0; repr and to_json round and group numbers."""
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
    )


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
def test_epochs_read_counts_epochs_chunks_and_outputs(tmp_path, cursor, size, expected):
    """epochs_read adds whole epochs, the lines before the chunk, and the delivered part of the
    chunk."""
    declared = Source("a", numbered(tmp_path, "a", 40), transforms=(Same(),), block_lines=10)
    source = open_source(declared, seed=5)
    block = LineBlock(cursor.epoch, 20, 10)
    opening = None if size is None else Opening(0, 0, cursor, block, size, ReadCounts())
    if cursor.chunk:
        source.chunk_lines = 6
        assert chunk_rows(1, n_lines=10, most=6) == (6, 10)
        expected = 2 + (20 + 6 + 2 / 4 * 4) / 40
    assert epochs_read(source, cursor, opening) == pytest.approx(expected)
