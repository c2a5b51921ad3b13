"""Small streams with every option: their lines, numbers and states at each stop are pinned, and any reader agrees."""

from itertools import islice

import pytest
from support.golden import check
from support.streams import Drop, Pair, Refuse, Repeat, numbered

from volt.stream import ErrorPolicy, Sampling, Schedule, Source, Stream
from volt.stream.running import engine
from volt.stream.transforms.case import Upper
from volt.stream.transforms.filters import Length

RISING = Schedule(((0, 1.0), (9, 0.0), (14, 2.0)), "linear")
SKIP = ErrorPolicy("skip")
ROWS = {
    "plain": ([{}], {}),
    "in order": ([{"shuffle": "none", "split_lines": 2}], {"seed": 3}),
    "pieces": (
        [{"split_lines": 2, "block_lines": 4}, {"split_lines": 3, "block_lines": 2}],
        {"seed": 1},
    ),
    "filtered": (
        [{"transforms": (Drop(0.6),), "block_lines": 3}, {"weight": 2.5, "split_lines": None}],
        {},
    ),
    "repeated": (
        [{"transforms": (Repeat(),), "shuffle": "outputs"}, {"weight": RISING}],
        {"seed": 2},
    ),
    "joined": (
        [{"transforms": (Pair(), Drop(0.2)), "shuffle": "outputs", "block_lines": 5}, {}],
        {},
    ),
    "unfit": (
        [{"transforms": (Refuse("-1"), Upper())}, {"transforms": (Refuse("1\t"),)}],
        {"policy": SKIP},
    ),
    "compiled": (
        [{"transforms": (Length(max=2), Upper()), "block_lines": 4}, {"weight": 0.0}],
        {"seed": 9},
    ),
    "stops": ([{"epochs": 1}, {"epochs": 2, "weight": 0.25}], {}),
    "drops": ([{"epochs": 1, "weight": 3.0}, {"epochs": 2, "block_lines": 4}], {"ends": "drop"}),
    "rank": ([{"epochs": 3, "block_lines": 3}, {"split_lines": 2}], {"rank": 1, "world": 3}),
    "mixed": (
        [{"block_lines": 4}, {"split_lines": 4}],
        {"mix": Sampling(temperature=2), "rank": 1, "world": 2},
    ),
}


def opened(folder, name, **more):
    """A stream of one of the rows: sources a and b of 11 and 7 lines."""
    sources, options = ROWS[name]
    sizes = zip("ab", (11, 7), sources, strict=False)
    held = {one: tuple(map(str, sorted(folder.glob(f"{one}.*.tsv")))) for one in "ab"}
    listed = [
        Source(one, held[one] or numbered(folder, one, n, n_shards=2), **own)
        for one, n, own in sizes
    ]
    return Stream(listed, cache=folder, **options, **more)


def numbers_of(stream):
    """The numbers of a summary, without times; the virtual epoch; and the state's cursors."""
    summary, passes, state = stream.summary().to_json(), stream.passes(), stream.state()
    sources = [[*map(str, one.values())] for one in summary["sources"].values()]
    numbers = [
        summary[key] for key in ("n", "n_lines", "n_read", "n_faults", "reasons", "epoch_lines")
    ]
    cursors = [[*map(str, one.values())] for one in state["sources"].values()]
    epoch = passes and [
        passes.number,
        passes.n_lines,
        passes.given,
        *map(repr, passes.sources.values()),
    ]
    return [numbers, sources, cursors, epoch, state["ended"], state["since"], state["base"]]


@pytest.fixture(autouse=True)
def windows(monkeypatch):
    """Turns are planned a few at a time."""
    monkeypatch.setattr(engine, "WINDOW", 30)
    monkeypatch.setattr(engine, "_FEW", 8)


@pytest.mark.parametrize("name", ROWS)
def test_lines_and_numbers_stay_as_they_are(tmp_path, name):
    """Lines, and all counts at each stop, of small streams equal golden values, read as text, bytes
    or columns.
    """
    with opened(tmp_path, name) as stream:
        lines, stops = [line.replace("\t", "|") for line in islice(stream, 5)], [numbers_of(stream)]
        lines += b"".join(stream.blocks(limit=6)).decode().replace("\t", "|").split("\n")[:-1]
        stops.append(numbers_of(stream))
        lines += ["…"] * stream.skip(3)
        for batch in stream.batches(limit=9):
            found = zip(
                batch.lines.lines, batch.sources, batch.epochs, batch.lines.origins, strict=True
            )
            lines += [
                f"{line}|{source}.{epoch}.{origin}".replace("\t", "|")
                for line, source, epoch, origin in found
            ]
        stops.append(numbers_of(stream))
        place = stream.place()
    where = None
    if place is not None:
        source, (block, chunk), offset = place
        where = [source, *block[:3], chunk, offset]
    check(f"stream trajectory {name}", [" ".join(lines), *map(str, stops), str(where)])
