"""Steps are counted, and their progress is reported to trainers, terminals and files."""

import io
import json
import time
from dataclasses import fields
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.steps_of_streams import TOKENS
from support.streams import write_lines

from volt.batches import ByPacks, ByTokens, SampleFormat, Samples, Steps, collate, collate_packed
from volt.batches.throughput import Counted, Progress, Report, Totals, counts_of
from volt.errors import ConfigError, OutputError, VoltError
from volt.stream import Source, Stream

FIELD = st.lists(st.integers(2, 9), max_size=6).map(lambda ids: [*ids, 1])
PAIRS = st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=5)


class Countable:
    """Steps that know their number and can be skipped, like `Steps`."""

    def __init__(self, n_steps, n=0):
        self.n_steps = n_steps
        self.n = n
        self.n_skipped = 0

    def __iter__(self):
        while self.n < self.n_steps:
            self.n += 1
            yield self.n - 1

    def skip(self, n):
        passed = min(n, self.n_steps - self.n)
        self.n += passed
        self.n_skipped += passed
        return passed


def a_step(n_source=1, n_target=3):
    """Return a step of one row."""
    samples = Samples.of({"src": [[3] * n_source], "tgt": [[4] * (n_target - 1) + [1]]})
    return collate(samples, [0], pad=0, eos=1)


@given(st.lists(PAIRS, min_size=1, max_size=4))
def test_counts_are_those_of_the_samples(steps):
    """`counts_of` returns a step's rows, its ids, and rows × longest row of each field.

    `Totals.plus` adds totals up.
    """
    expected = []
    counts = []
    for pairs in steps:
        source, target = ([*side] for side in zip(*pairs, strict=True))
        step = collate(Samples.of({"src": source, "tgt": target}), range(len(pairs)), pad=0, eos=1)
        widths = [max(map(len, source)), max(map(len, target))]
        n_ids = sum(map(len, source + target))
        expected.append(Totals(1, len(pairs), n_ids, len(pairs) * sum(widths)))
        counted, longest = counts_of(step)
        counts.append(counted)
        assert longest == max(widths)
    assert counts == expected
    total = reduce(Totals.plus, counts)
    assert (total.n_steps, total.n_tokens) == (len(steps), sum(one.n_tokens for one in expected))


def test_each_sample_of_a_pack_is_counted():
    """`counts_of` counts the samples of a step of packs as sentences, and whole rows as laid
    out."""
    samples = Samples.of({"text": [[3, 4, 1], [5, 1], [6, 1]]})
    packed = collate_packed(samples, [[0, 1], [2]], length=6, pad=0, eos=1)
    assert counts_of(packed) == (Totals(1, 3, 7, 12), 6)
    assert counts_of(packed)[0].padding_share == pytest.approx(5 / 12)
    assert Totals().padding_share == 0.0


@given(st.integers(0, 9), st.integers(0, 9), st.booleans())
def test_counted_skips_the_steps_before_its_start(n_steps, start, knows):
    """`Counted(steps, start=n)` skips n steps, by the steps' own `skip` if they have one.

    It refuses a start after the last step.
    """
    steps = Countable(n_steps) if knows else list(range(n_steps))
    if start > n_steps:
        message = f"start is {start}, but there are {n_steps} steps?; give an earlier"
        with pytest.raises(ConfigError, match=message):
            Counted(steps, start=start)
        return
    counted = Counted(steps, start=start)
    expected = [(step + 1, step) for step in range(start, n_steps)]
    assert [(counted.n, step) for step in counted] == expected
    assert counted.n == n_steps
    assert not knows or steps.n_skipped == start


def test_counted_starts_at_the_number_of_restored_steps():
    """`Counted` starts at the attribute `n` of steps, and refuses an earlier start.

    `Counted.skip` returns how many steps were missing.
    """
    assert list(Counted(Countable(9, n=7))) == [7, 8]
    assert list(Counted(Countable(9, n=5), start=7)) == [7, 8]
    message = "start is 3, but 7 steps were taken; restore an earlier state"
    with pytest.raises(ConfigError, match=message):
        Counted(Countable(9, n=7), start=3)
    with pytest.raises(VoltError, match=r"steps is 1 \(int\); give an iterable"):
        Counted(1)
    counted = Counted(Countable(9))
    assert (next(counted), counted.skip(3), next(counted), counted.skip(9)) == (0, 0, 4, 5)


def test_each_report_is_a_line_of_json(tmp_path):
    """`Progress` of rank 0 appends a line of JSON to its file after every few steps, and at the
    end. The keys are the fields of `Report`. Other ranks write nothing."""
    path = tmp_path / "progress.jsonl"
    for rank in (0, 1):
        list(Progress([a_step(2, 3)] * 5, every=2, to=path, rank=rank, world=2))
    reports = [json.loads(line) for line in path.read_text().splitlines()]
    assert {tuple(report) for report in reports} == {tuple(field.name for field in fields(Report))}
    numbers = [[report[key] for key in ("step", "rank", "world", "tokens")] for report in reports]
    assert numbers == [[2, 0, 2, 10], [4, 0, 2, 20], [5, 0, 2, 25]]
    list(Progress([a_step()], to=path))
    assert len(path.read_text().splitlines()) == 4


class Clock:
    """A clock that stands still until it is advanced."""

    now = 1.0

    def __call__(self):
        return self.now

    def steps(self, seconds, n):
        """Yield steps that take some seconds each."""
        for _ in range(n):
            self.now += seconds
            yield a_step()


@pytest.fixture
def clock(monkeypatch):
    result = Clock()
    monkeypatch.setattr(time, "perf_counter", result)
    return result


def test_reports_give_the_share_of_time_spent_waiting(clock):
    """`Report.waited` is the share of time in which the trainer waited for steps.

    It and `tokens_per_second` count from the last report on.
    """
    reports = []
    for number, _ in enumerate(Progress(clock.steps(0.5, n=4), every=2, to=reports.append)):
        if number < 2:
            clock.now += 1.5
    first, second = reports
    assert (first.seconds, first.first_wait, first.waited) == (2.5, 0.5, 0.4)
    assert (second.seconds, second.first_wait, second.waited) == (5.0, 0.5, 0.4)
    assert (first.tokens_per_second, second.tokens_per_second) == (8 / 2.5, 8 / 2.5)


def test_reports_for_people_are_lines_of_text(clock):
    """`Progress` writes to a text file that is not a terminal a line of named numbers, without
    colours."""
    file = io.StringIO()
    list(Progress(clock.steps(1.0, n=1200), every=1200, to=file))
    rates = "step 1,200  4 tokens/s  padding 0.0 %  waited 100 %"
    assert file.getvalue() == f"{rates}  1,200 sentences  4,800 tokens\n"
    assert Report(too_long=2, too_short=1).line().endswith("  2 rows too long  1 row too short")
    assert Progress([]).report() == Report()


def steps_of(folder, rule, **options):
    names = ["src", "tgt"] if isinstance(rule, ByTokens) else ["text"]
    lines = ["\t".join(["w1 " * (1 + n % 7)] * len(names)) for n in range(60)]
    stream = Stream([Source("s", (write_lines(folder / "a.tsv", lines),), epochs=1)], seed=1)
    return Steps(stream, SampleFormat(dict.fromkeys(names, TOKENS)), rule, **options)


@pytest.mark.parametrize(
    "rule", [ByTokens(max_tokens=40, max_length=6, on_long="report"), ByPacks(length=16, rows=2)]
)
def test_progress_agrees_with_the_totals_of_steps(tmp_path, rule):
    """`Progress` over `Steps` reports the sums of `Steps.totals`, and takes rank and world from the
    steps."""
    with steps_of(tmp_path, rule, window=32, rank=1, world=2) as steps:
        progress = Progress(steps)
        list(progress)
        report = progress.report()
        totals = steps.totals
    assert (report.rank, report.world, report.step) == (1, 2, totals.n_steps)
    assert (report.sentences, report.tokens) == (totals.n_samples, totals.n_tokens)
    assert report.padding == pytest.approx(totals.padding_share)
    assert (report.too_long, report.too_short) == (totals.n_too_long, totals.n_too_short)
    assert bool(totals.n_too_long) == isinstance(rule, ByTokens)
    assert len(totals.too_long) == min(10, totals.n_too_long)


def test_progress_of_a_resumed_run_continues_the_number_of_steps(tmp_path):
    """`Progress` over restored `Steps` reports the number of steps over all runs."""
    rule = ByTokens(max_tokens=40)
    with steps_of(tmp_path, rule) as steps:
        n_steps = len(list(steps))
    with steps_of(tmp_path, rule) as again:
        next(iter(again))
        state = again.state()
    with steps_of(tmp_path, rule) as steps:
        steps.restore(state)
        progress = Progress(steps, every=1)
        assert len(list(progress)) == n_steps - 1
        assert progress.report().step == n_steps


WRONG = {
    "to is 3 .*; give an open file, such as sys.stderr, the path of a file for JSON": {"to": 3},
    "/nowhere/x.jsonl: .*no such file or directory": {"to": "/nowhere/x.jsonl"},
    "rank 2 of world 2": {"rank": 2, "world": 2},
}


@pytest.mark.parametrize("message", WRONG)
def test_progress_refuses_wrong_options_before_the_first_step(message):
    """`Progress` checks `to`, `rank` and `world` when it is created."""
    options = WRONG[message]
    with pytest.raises(VoltError, match=message):
        Progress([], **options)


def test_progress_reports_steps_and_files_that_it_cannot_use(tmp_path):
    """`Progress` refuses a step that is not a result of `collate`, and names a file that cannot be
    written any more."""
    message = r"a step is .*; give a step of volt\.batches\.Steps, or a result of collate"
    with pytest.raises(VoltError, match=message):
        list(Progress([np.zeros(3)]))
    (tmp_path / "gone").mkdir()
    progress = Progress([a_step()], to=tmp_path / "gone" / "p.jsonl")
    (tmp_path / "gone").rmdir()
    message = r"p\.jsonl: no such file or directory; give another place"
    with pytest.raises(OutputError, match=message):
        list(progress)
