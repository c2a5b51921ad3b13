"""Policies, sources, parts and ranks: exactly at each limit, one below and one above."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from golden import check
from streams import numbered, write_lines

from volt.errors import ArgumentError, ConfigError, OutputError, StreamError
from volt.stream import Checks, ErrorPolicy, Schedule, Source
from volt.stream.reading.epoch_order import permutation
from volt.stream.reading.error_policy import Fault, FaultCounter, check_quarantine, is_held, kind_of
from volt.stream.reading.open_source import fingerprint, open_source, segment_lines
from volt.stream.reading.source_definition import check_names
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.transforms.documents import Repeat
from volt.stream.transforms.filters import Length
from volt.stream.transforms.user_code import User


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_fault": "stop"}, "unknown on_fault 'stop'"),
        ({"on_fault": "quarantine"}, "give a quarantine file if, and only if, it is 'quarantine'"),
        ({"quarantine": "a"}, "give a quarantine file if, and only if, it is 'quarantine'"),
        ({"on_fault": "quarantine", "quarantine": 3}, "quarantine is 3"),
        (
            {"max_faults": -1},
            "max_faults=-1, max_share=None: give a count of 0 or more, and a share from 0 to 1",
        ),
        ({"max_faults": 1.5}, "max_faults is 1.5"),
        ({"max_share": 1.01}, "max_share=1.01: give a count"),
        ({"max_share": -0.01}, "max_share=-0.01: give a count"),
        ({"max_share": "1"}, "max_share is '1'"),
    ],
)
def test_policies_are_checked(options: dict[str, Any], message: str) -> None:
    """Shares from 0 to 1 and counts from 0 up are taken, at their limits too."""
    with pytest.raises((ConfigError, ArgumentError), match=message):
        ErrorPolicy(**options)
    ErrorPolicy(max_faults=0, max_share=0.0)
    ErrorPolicy(max_share=1)


@pytest.mark.parametrize(
    ("limits", "n_read", "n_faults", "exceeded"),
    [
        ({"max_faults": 2}, 0, 2, ""),
        ({"max_faults": 2}, 0, 3, "max_faults=2"),
        ({"max_faults": 0}, 0, 1, "max_faults=0"),
        ({"max_share": 0.25}, 999, 900, ""),
        ({"max_share": 0.25}, 1000, 250, ""),
        ({"max_share": 0.25}, 1000, 251, "max_share=0.25"),
        ({"max_share": 0.25}, 1001, 251, "max_share=0.25"),
        ({"max_share": 0.0, "max_faults": 9}, 1000, 1, "max_share=0.0"),
        ({}, 1000, 1000, ""),
    ],
)
def test_limits_of_faults_are_exact(
    limits: dict[str, Any], n_read: int, n_faults: int, exceeded: str
) -> None:
    """As many as allowed pass; one more stops, with the last fault, both numbers and the limit."""
    counter = FaultCounter(ErrorPolicy("skip", **limits), n_read=n_read - 1, n_faults=n_faults - 1)
    fault = Fault("a.tsv", 7, "columns: 1")
    if exceeded:
        message = rf"^a\.tsv:7: columns: 1; unfit lines: {n_faults} of {n_read}, more than {exceeded} allows; fix the data$"
        with pytest.raises(StreamError, match=message):
            counter.charge(n_read=1, faults=[Fault("b", 0, "utf: x"), fault][1:])
    else:
        counter.charge(n_read=1, faults=[fault])
        counter.charge(n_read=2, faults=[])
        assert (counter.n_read, counter.n_faults, counter.reasons) == (
            n_read + 2,
            n_faults,
            {"columns": 1},
        )
    assert (fault.place, Fault("b", 0, "x: y").place, kind_of(fault)) == ("a.tsv:7", "b", "columns")


def test_a_quarantine_file_is_checked_before_the_run(tmp_path: Path) -> None:
    """A URL, a folder, a missing folder; else rows are appended, in the order of the faults, as they are written."""
    for path, message in (
        ("s3://a/b", "it is a URL; name a local file"),
        (str(tmp_path), "it is a folder; name a file"),
        (str(tmp_path / "no" / "a"), "no such folder; create the folder"),
    ):
        with pytest.raises(OutputError, match=f"cannot be appended to: {message}"):
            check_quarantine(path)
    path = str(tmp_path / "unfit.jsonl")
    assert not is_held(None)
    assert not is_held(path)
    counter = FaultCounter(ErrorPolicy("quarantine", quarantine=path))
    for line in (2, 1):
        counter.charge(
            n_read=1, faults=[Fault("a", line, "utf: é", text="ü\t"), Fault("b", 0, "x")]
        )
    rows = [json.loads(row) for row in Path(path).read_text().splitlines()]
    assert [tuple(row.values()) for row in rows[::2]] == [
        ("a:2", "utf: é", "ü\t"),
        ("a:1", "utf: é", "ü\t"),
    ]
    assert "é" in Path(path).read_text()
    assert is_held(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_lines": 0}, "block_lines=0 must be at least 1"),
        ({"block_bytes": 0}, "block_bytes=0 must"),
        ({"split_lines": 0}, "split_lines=0 must"),
        ({"epochs": 0}, "epochs=0 must"),
        ({"block_lines": None}, "block_lines is None"),
        ({"block_bytes": None}, "block_bytes is None"),
        ({"shuffle": "all"}, "shuffle='all': choose lines, outputs or none"),
        ({"paths": ()}, "paths is empty; give"),
        ({"paths": "a"}, "paths is 'a'.*give a tuple of one path"),
        ({"paths": (3,)}, r"paths\[0\] is 3"),
        ({"transforms": (Length,)}, r"transforms\[0\] is .*give a tuple of transforms"),
        ({"name": 3}, "name is 3"),
        ({"transforms": Length()}, r"transforms is .*give a tuple of transforms"),
        ({"name": ["a"]}, "did you mean Source"),
        (
            {"transforms": (Length(), Repeat(101), Repeat(100))},
            "into more than 10,000 lines; remove or lower",
        ),
        ({"names": ("x", "y")}, "2 names and 1 paths; give one file"),
        ({"names": ("x", "y"), "keys": ("x",)}, "2 names and 1 keys"),
        ({"keys": ("x",)}, "0 names and 1 keys"),
        ({"weight": -1.0}, "source 'a': weight"),
        ({"checks": 1}, "give"),
        ({"weight": Schedule(((0, 0.0), (9, 0.0)))}, "every weight of its schedule is 0"),
        ({"max_line": -1}, "max_line"),
        ({"weight": float("nan")}, "source 'a': weight"),
    ],
)
def test_sources_are_checked(options: dict[str, Any], message: str) -> None:
    """Every option has its limit and its remedy."""
    with pytest.raises((ConfigError, ArgumentError), match=message):
        Source(**{"name": "a", "paths": ("a",), **options})


def test_sources_at_their_limits() -> None:
    """Ones, the most copies, tables of one key, lists in place of tuples; a repr counts what there is."""
    least = Source("a", ["a"], block_lines=1, block_bytes=1, split_lines=1, epochs=1, max_line=1)  # type: ignore[arg-type]
    most = Source(
        "a",
        ("a", "b"),
        Schedule(((0, 0.0), (9, 1.0))),
        [Repeat(100), Repeat(100)],
        names=("x", "y"),
    )  # type: ignore[arg-type]
    assert (least.paths, most.transforms) == (("a",), (Repeat(100), Repeat(100)))
    assert repr(most) == "<Source 'a': 2 paths, a schedule of weights, 2 transforms>"
    assert repr(replace(least, weight=0.25)) == "<Source 'a': 1 path, weight 0.25, 0 transforms>"
    assert Source(
        "a", ("a",), names=("x",), keys=("y",), split_lines=None, epochs=None, max_line=None
    ).keys == ("y",)
    for wrong in ([], ["a", "a"]):
        with pytest.raises(
            ConfigError, match=r"a stream needs one or more sources, with distinct names"
        ):
            check_names(wrong)
    check_names(["a"])
    assert [
        Checks(**one).any for one in ({}, {"blank": False}, {"min_fields": 1}, {"max_chars": 0})
    ] == [False] + [True] * 3
    for wrong_checks in (
        {"min_fields": -1},
        {"max_fields": 0},
        {"max_chars": -1},
        {"min_fields": 3, "max_fields": 2},
    ):
        with pytest.raises(ConfigError):
            Checks(**wrong_checks)
    Checks(min_fields=2, max_fields=2)


@pytest.mark.parametrize(
    ("block_bytes", "options", "expected"),
    [
        (1000, {}, (10, 10)),
        (1009, {}, (10, 10)),
        (1010, {}, (10, 10)),
        (1, {}, (1, 1)),
        (10**6, {}, (64, 64)),
        (10**6, {"block_lines": 7}, (7, 7)),
        (500, {"block_lines": 7}, (5, 5)),
        (10**6, {"python": True}, (64, 8)),
        (1000, {"python": True}, (10, 8)),
        (700, {"python": True}, (7, 7)),
        (10**6, {"python": True, "shuffle": "outputs"}, (64, 64)),
    ],
)
def test_blocks_and_chunks_are_bounded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    block_bytes: int,
    options: dict[str, Any],
    expected: tuple[int, int],
) -> None:
    """By lines, by bytes on average, and for Python code by lines per call, but for whole blocks that are shuffled."""
    monkeypatch.setattr("volt.stream.reading.open_source.CHUNK_LINES", 8)
    (tmp_path / "own.py").write_text("def same(fields):\n    return fields\n")
    steps = (
        (User(file=tmp_path / "own.py", function="same"),) if options.pop("python", False) else ()
    )
    declared = Source(
        "a",
        (write_lines(tmp_path / "a", ["x" * 99] * 50),),
        1.0,
        steps,
        **{"block_lines": 64, **options},
    )
    source = open_source(replace(declared, block_bytes=block_bytes), seed=0)
    assert (source.block_lines, source.chunk_lines) == expected
    assert ("chunk_lines" in source.fingerprints) == (expected[1] < expected[0])
    assert (source.n_bytes, source.n_lines, source.is_clean, source.is_utf8) == (
        5000,
        50,
        True,
        True,
    )


@pytest.mark.parametrize("shuffle", ["lines", "none"])
def test_layouts_of_grown_sources(tmp_path: Path, shuffle: Any) -> None:
    """Old lines in the epoch's order, then appended ones in file order, until the epoch of growth is over."""
    source = open_source(
        Source("a", numbered(tmp_path, "a", 11, n_shards=2), split_lines=2, shuffle=shuffle), seed=1
    )
    result = list[str]()
    for grown in ((), ((1, 4),), ((1, 6),), ((0, 3), (1, 8)), ((1, 10),)):
        growing = source.growing(grown)
        assert growing.growing(grown) is growing
        for epoch in (0, 1, 2):
            slices = segment_lines(growing, LineBlock(epoch, 0, 11))
            lines = [
                int(growing.line_starts[one.segment]) + one.first + i
                for one in slices
                for i in range(one.n_lines)
            ]
            assert sorted(lines) == list(range(11))
            result.append(f"{grown} {epoch}: {lines}")
            assert segment_lines(growing, LineBlock(epoch, 3, 5)) == segment_lines(
                growing, LineBlock(epoch, 3, 5)
            )
    if shuffle == "lines":
        check("stream layouts", result)
    else:
        assert all(line.endswith(f": {[*range(11)]}") for line in result)
    assert source.growing(((1, 4),)) is not source


def test_orders_and_fingerprints_stay_as_they_are() -> None:
    """Permutations of a few lines by seed, name, epoch and block; digests of values in any order of keys."""
    orders = [
        permutation(n, *place).tolist()
        for n, *place in ((0, 1), (1, 1), (2, 1, "a"), (9, 1, "a", 0), (9, 1, "a", 1))
    ]
    check("stream orders", [*map(str, orders), fingerprint({"b": [1, None], "a": "é"})])
    assert fingerprint({"a": "é", "b": [1, None]}) == fingerprint({"b": [1, None], "a": "é"})
