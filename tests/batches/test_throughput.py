"""Counting steps: how many there were, and what a trainer, a terminal and a file report of them."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams import write_lines

from volt.batches import ByPacks, ByTokens, SampleFormat, Samples, Steps, collate
from volt.batches.throughput import Counted, Progress, Report
from volt.errors import ConfigError, OutputError, VoltError
from volt.stream import Source, Stream

TOKENS = ["<pad>", "</s>", "<unk>", "a", "b"]
KEYS = [
    "step",
    "rank",
    "world",
    "seconds",
    "sentences",
    "tokens",
    "padding",
    "longest",
    "tokens_per_second",
    "waited",
    "first_wait",
    "too_long",
    "too_short",
]


class Countable:
    """Steps that know their number, as `Steps` does, and that can be passed over."""

    def __init__(self, n_steps: int, n: int = 0) -> None:
        self.n_steps, self.n, self.skipped = n_steps, n, 0

    def __iter__(self) -> Iterator[int]:
        while self.n < self.n_steps:
            self.n += 1
            yield self.n - 1

    def skip(self, n: int) -> int:
        """Pass over steps; how many there were."""
        passed = min(n, self.n_steps - self.n)
        self.n, self.skipped = self.n + passed, self.skipped + passed
        return passed


def a_step(n_source: int, n_target: int) -> dict[str, Any]:
    """A step of one row."""
    return collate(
        Samples.of({"src": [[3] * n_source], "tgt": [[4] * (n_target - 1) + [1]]}),
        [0],
        pad=0,
        eos=1,
    )


@given(st.integers(0, 9), st.integers(0, 9), st.booleans())
def test_what_is_resumed_goes_on_where_it_was(n_steps: int, start: int, knows: bool) -> None:
    """The steps from the start on, with their numbers; a start behind the end is refused."""
    steps: Any = Countable(n_steps) if knows else list(range(n_steps))
    if start > n_steps:
        with pytest.raises(
            ConfigError, match=f"start is {start}, but there are {n_steps} steps?; give an earlier"
        ):
            Counted(steps, start=start)
        return
    counted = Counted(steps, start=start)
    assert [(counted.n, step) for step in counted] == [
        (step + 1, step) for step in range(start, n_steps)
    ]
    assert counted.n == n_steps
    assert not knows or steps.skipped == start


def test_what_stands_somewhere_is_counted_from_there() -> None:
    """Steps that were restored know their number; they cannot go back."""
    assert list(Counted(Countable(9, n=7))) == [7, 8]
    assert list(Counted(Countable(9, n=5), start=7)) == [7, 8]
    with pytest.raises(
        ConfigError, match="start is 3, but 7 steps were taken; restore an earlier state"
    ):
        Counted(Countable(9, n=7), start=3)
    with pytest.raises(VoltError, match=r"steps is 1 \(int\); give an iterable"):
        Counted(1)  # type: ignore[arg-type]
    counted = Counted(Countable(9))
    assert (next(counted), counted.skip(3), next(counted), counted.skip(9)) == (0, 0, 4, 5)


def test_each_report_is_a_line_of_json_with_the_same_keys(tmp_path: Path) -> None:
    """After every so many steps and at the end; a file is added to, and nothing but rank 0 writes."""
    path = tmp_path / "progress.jsonl"
    for rank in (0, 1):
        list(Progress([a_step(2, 3)] * 5, every=2, to=path, rank=rank, world=2))
    message = [json.loads(line) for line in path.read_text().splitlines()]
    assert [[*one] for one in message] == [KEYS] * 3
    assert [(one["step"], one["rank"], one["world"], one["tokens"]) for one in message] == [
        (2, 0, 2, 10),
        (4, 0, 2, 20),
        (5, 0, 2, 25),
    ]
    list(Progress([a_step(2, 3)], to=path))
    assert len(path.read_text().splitlines()) == 4


def test_padding_and_tokens_are_those_of_the_arrays() -> None:
    """Ids of all sides against places of all sides; the longest is the widest side."""
    samples = Samples.of({"src": [[3], [3, 3, 3, 1]], "tgt": [[4, 1], [1]]})
    progress = Progress([collate(samples, [0, 1], pad=0, eos=1)] * 3)
    assert len(list(progress)) == 3
    report = progress.report()
    assert (report.sentences, report.tokens, report.longest) == (6, 24, 4)
    assert report.padding == pytest.approx(1 - 8 / 12)
    assert Progress([]).report() == Report()


class Clock:
    """Stands still until advanced."""

    now = 1.0

    def __call__(self) -> float:
        return self.now

    def pass_by(self, seconds: float, n: int) -> Iterator[dict[str, Any]]:
        """Steps that take some time each."""
        for _ in range(n):
            self.now += seconds
            yield a_step(1, 3)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that progress looks at."""
    monkeypatch.setattr(time, "perf_counter", found := Clock())
    return found


def test_time_is_distinguished(clock: Clock) -> None:
    """What the trainer waits for steps is no part of what it uses for itself; rates are since the last report."""
    reports = list[Report]()
    for number, _ in enumerate(Progress(clock.pass_by(0.5, n=4), every=2, to=reports.append)):
        clock.now += 1.5 if number < 2 else 0.0
    first, second = reports
    assert (first.seconds, first.first_wait, first.waited) == (2.5, 0.5, 0.4)
    assert (second.seconds, second.first_wait, second.waited) == (5.0, 0.5, 0.4)
    assert (first.tokens_per_second, second.tokens_per_second) == (8 / 2.5, 8 / 2.5)


def test_people_get_a_line(clock: Clock) -> None:
    """Numbers with their names, without colours where there is no terminal."""
    file = io.StringIO()
    list(Progress(clock.pass_by(1.0, n=1200), every=1200, to=file))
    message = "step 1,200  4 tokens/s  padding 0.0 %  waited 100 %  1,200 sentences  4,800 tokens\n"
    assert file.getvalue() == message
    assert Report(too_long=2, too_short=1).line().endswith("  2 rows too long  1 row too short")


def steps_of(folder: Path, rule: ByTokens | ByPacks, *, n_fields: int = 2, **options: Any) -> Steps:
    """Steps of some lines."""
    lines = ["\t".join(["a " * (1 + n % 7)] * n_fields) for n in range(60)]
    stream = Stream([Source("s", (write_lines(folder / "a.tsv", lines),), epochs=1)], seed=1)
    names = ("src", "tgt")[-n_fields:]
    return Steps(stream, SampleFormat(dict.fromkeys(names, TOKENS)), rule, **options)


@pytest.mark.parametrize(
    "rule", [ByTokens(max_tokens=40, max_length=6, on_long="report"), ByPacks(length=16, rows=2)]
)
def test_steps_and_their_progress_agree(tmp_path: Path, rule: ByTokens | ByPacks) -> None:
    """The sums of `Steps.totals` are those of its progress, which takes rank and world from the steps."""
    n_fields = 2 if isinstance(rule, ByTokens) else 1
    with steps_of(tmp_path, rule, n_fields=n_fields, window=32, rank=1, world=2) as steps:
        progress = Progress(steps)
        list(progress)
        report, totals = progress.report(), steps.totals
    assert (report.rank, report.world, report.step) == (1, 2, totals.n_steps)
    assert (report.sentences, report.tokens) == (totals.n_samples, totals.n_tokens)
    assert report.padding == pytest.approx(totals.padding_share)
    assert (report.too_long, report.too_short) == (totals.n_too_long, totals.n_too_short)
    assert (totals.n_too_long > 0) == (n_fields == 2)
    assert len(totals.too_long) == min(10, totals.n_too_long)


def test_progress_goes_on_with_restored_steps(tmp_path: Path) -> None:
    """A run that is resumed counts steps on, and all else anew."""
    rule = ByTokens(max_tokens=40)
    with steps_of(tmp_path, rule) as steps:
        whole = len(list(steps))
        next(iter(again := steps_of(tmp_path, rule)))
        state = again.state()
    with steps_of(tmp_path, rule) as steps:
        steps.restore(state)
        progress = Progress(steps, every=1)
        assert len(list(progress)) == whole - 1
        assert progress.report().step == whole
    again.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"to": 3},
            "to is 3 .*; give an open file, such as sys.stderr, the path of a file for JSON lines",
        ),
        ({"to": "/nowhere/x.jsonl"}, "/nowhere/x.jsonl: .*no such file or directory"),
        ({"rank": 2, "world": 2}, "rank 2 of world 2"),
    ],
)
def test_misuse_is_reported(options: dict[str, Any], message: str) -> None:
    """Before the first step is asked for."""
    with pytest.raises(VoltError, match=message):
        Progress([], **options)


def test_what_is_no_step_is_refused(tmp_path: Path) -> None:
    """With what to give; and a file that has become unwritable says so."""
    with pytest.raises(
        VoltError,
        match=r"a step is .*; give a step of volt\.batches\.Steps, or a result of collate",
    ):
        list(Progress([np.zeros(3)]))
    (tmp_path / "there").mkdir()
    progress = Progress([a_step(1, 2)], to=tmp_path / "there" / "p.jsonl")
    (tmp_path / "there").rmdir()
    with pytest.raises(
        OutputError, match=r"p\.jsonl: no such file or directory; give another place"
    ):
        list(progress)
