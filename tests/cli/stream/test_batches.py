"""`volt stream batches`: the totals of the steps, unfit lines, states and signals."""

from __future__ import annotations

import json
import signal

import pytest
from support.indexed_ids import packed
from support.screens import printed, too_wide
from support.streams import write_lines

from volt import Vocabulary
from volt.batches.steps import Steps
from volt.batches.throughput import Report, Totals
from volt.stream.running.summary import SourceSummary, Summary
from volt_cli.stream.batches import BatchReport, StepTotals, report_parts, step_row

CONFIG = """\
seed: 3
sources: {pairs: {path: pairs.tsv, epochs: 1, block_lines: 40, transforms: [tag: {text: {{tag}}}]}}
batches:
  fields: {src: v.volt, tgt: w.volt}
  max_tokens: 40
  longest: 15
  on_long: report
  window: 64
"""
SET = ("--set", "tag=a")
LONG = 4  # lines that are too long


@pytest.fixture
def config(stream_folder):
    """Write a configuration with batches, and its files."""
    lines = ["\t".join([" ".join("a" * (1 + n % 9)), "b b"]) for n in range(200)]
    lines[7::50] = ["a " * 20 + "\tb"] * LONG
    write_lines(stream_folder / "pairs.tsv", lines)
    for name in ("v.volt", "w.volt"):
        Vocabulary((), ("a", "b", "a</w>", "b</w>")).save(stream_folder / name)
    (stream_folder / "b.yaml").write_text(CONFIG)
    return stream_folder / "b.yaml"


def error_text(volt_stream, *arguments):
    """Return the JSON report of the command."""
    return json.loads(volt_stream("batches b.yaml", *SET, *arguments, "--json", "-q").stdout)


@pytest.mark.parametrize("world", [1, 3])
def test_it_says_what_a_trainer_gets(volt_stream, config, world):
    """The reported numbers equal the steps that Python gives the same rank."""
    found = error_text(volt_stream, "-n", 9, "--world", world, "--rank", world - 1, "--seed", 0)
    with Steps.from_config(
        config, rank=world - 1, world=world, values={"tag": "a"}, seed=0
    ) as steps:
        arrays = [step for step, _ in zip(steps, range(9), strict=False)]
    assert (found["steps"], found["step"], found["rank"], found["world"]) == (
        9,
        9,
        world - 1,
        world,
    )
    assert found["sentences"] == sum(step["nsentences"] for step in arrays)
    assert found["tokens"] == sum(
        step["src_mask"].sum() + step["tgt_mask"].sum() for step in arrays
    )
    places = sum(step["src_mask"].size + step["tgt_mask"].size for step in arrays)
    assert found["padding"] == pytest.approx(1 - found["tokens"] / places, abs=1e-6)
    assert found["longest"] == max(step["src_mask"].shape[1] for step in arrays)
    assert found["every"] == []


def test_ranks_have_the_same_number_of_steps(volt_stream, config):
    """Together, all ranks read each line once, except the reported ones; the end of the stream is
    reported."""
    ranks = [error_text(volt_stream, "-n", 1000, "--world", 2, "--rank", rank) for rank in (0, 1)]
    assert ranks[0]["steps"] == ranks[1]["steps"] > 5
    assert sum(rank["sentences"] for rank in ranks) + ranks[0]["left"] + LONG == 200
    assert ranks[0]["too_long"] == ranks[1]["too_long"] == LONG
    assert sorted(int(place.split(":")[1].split(" ")[0]) for place in ranks[0]["too_long_at"]) == [
        8,
        58,
        108,
        158,
    ]
    assert ranks[0]["sources"]["pairs"]["epochs"] == 1
    done = volt_stream("batches b.yaml", *SET, "-n", 1000)
    assert b"the stream ended after" in done.stderr
    assert all(f"pairs.tsv:{line}" in done.stdout.decode() for line in (8, 58, 108, 158))


def test_a_state_goes_on(volt_stream, config):
    """Two runs equal one run, also with other ranks; --force replaces the state, which is otherwise
    kept."""
    whole = error_text(volt_stream, "-n", 12)
    first = error_text(volt_stream, "-n", 5, "--state", "s.json", "--resume")
    second = error_text(volt_stream, "-n", 7, "--state", "s.json", "--resume")
    assert (second["step"], first["tokens"] + second["tokens"]) == (12, whole["tokens"])
    with Steps.from_config(config, values={"tag": "a"}) as steps:
        steps.restore(json.loads((config.parent / "s.json").read_bytes()))
        assert steps.n == 12
    for rank in (0, 1):
        ranks = error_text(
            volt_stream, "-n", 999, "--world", 2, "--rank", rank, "--state", f"{rank}.json"
        )
    assert json.loads((config.parent / "0.json").read_bytes())["n"] == ranks["steps"]
    kept = "s.json: contains the position of an earlier run, after step 12; add --resume to continue there, or --force"
    assert kept in refused(volt_stream, "b.yaml", *SET, "-n", "3", "--state", "s.json")
    assert error_text(volt_stream, "-n", 3, "--state", "s.json", "--force")["step"] == 3


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_report_fits_a_terminal(width):
    """No line is wider than the terminal, even with large numbers and long places."""
    report = Report(
        step=10**9,
        rank=7,
        world=128,
        sentences=10**9,
        tokens=10**11,
        padding=0.1234,
        longest=9_999,
        seconds=1e2,
        first_wait=12.3,
    )
    totals = Totals(
        n_steps=10**9,
        n_too_long=11,
        too_long=("train.de-en.tsv:17 (line 1 of the stream)",),
        n_left=3,
    )
    summary = Summary(
        n=10**9,
        n_lines=10**9,
        seconds=1e2,
        n_read=10**10,
        n_faults=10**9 + 3,
        reasons={"a transform's own reason": 10**9, "columns": 3},
        sources={"backtranslated": SourceSummary(10**9, 1e9, 123.45)},
    )
    step = StepTotals(report, 10**6)
    batches = BatchReport(step, (step, step), 10**9, totals, summary)
    shown = printed([step_row(step), *report_parts(batches)], width)
    assert too_wide(shown, width) == []
    assert "12.34 %" in shown
    assert "10 more" in shown


# What is wrong


def refused(volt_stream, *arguments, status=2):
    """Return the one-line error of a refused command."""
    done = volt_stream("batches", *arguments, status=status)
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr
    return str(done.stderr.decode()).replace("\n", " ")


WRONG: dict[str, tuple[tuple[str, str], str]] = {
    "max_tokens 0": (
        ("max_tokens: 40", "max_tokens: 0"),
        "b.yaml:5: batches.max_tokens: should be greater than or",
    ),
    "window 0": (
        ("window: 64", "window: 0"),
        "b.yaml:8: batches.window: should be greater than or equal to 1, not 0",
    ),
    "missing": (
        ("src: v.volt", "src: no.volt"),
        "b.yaml:4: batches.fields.src: no.volt: no such file; check the path",
    ),
    "damaged": (
        ("src: v.volt", "src: bad.volt"),
        "b.yaml:4: batches.fields.src: bad.volt:6: damaged or cut short",
    ),
    "no section": (
        (CONFIG[CONFIG.index("batches") :], ""),
        "b.yaml: key 'batches' is missing; add it, as in batches:",
    ),
    "code": (
        ("tag: {text: {{tag}}}", "user: {file: f.py, function: f}"),
        "would run the code in f.py; read it, then",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_configuration_is_refused(volt_stream, config, name):
    """The error names the line and the remedy before anything runs."""
    (before, after), message = WRONG[name]
    vocabulary = (config.parent / "v.volt").read_text()
    (config.parent / "bad.volt").write_text(vocabulary[: len(vocabulary) // 2])
    config.write_text(CONFIG.replace(before, after).replace("{{tag}}", "a"))
    assert message in refused(volt_stream, "b.yaml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["b.yaml", *SET, "--rank", 2, "--world", 2],
            "rank 2 of world 2: give a rank of 0 or more",
        ),
        (["b.yaml", *SET, "--rank", 1], "rank 1 of world 1"),
        (["b.yaml", *SET, "--world", 0], "'--world'"),
        (["b.yaml", *SET, "-n", 0], "'--steps'"),
        (["b.yaml"], "{{tag}} has no value; give --set tag, or"),
        (["no.yaml"], "no.yaml: cannot be read: no such file or directory; check the path"),
        (["b.yaml", *SET, "--resume"], "--resume needs --state; name the file to continue from"),
        (["b.yaml", *SET, "--state", "-"], "--state -: stdout is for the report; name a file"),
        (
            ["b.yaml", *SET, "--state", "v.volt"],
            "v.volt: would be written over v.volt, which is read; choose",
        ),
        (["b.yaml", *SET, "--state", "./w.volt"], "w.volt, which is read; choose another place"),
        (
            ["b.yaml", *SET, "--state", "pairs.tsv"],
            "pairs.tsv, which is read; choose another place",
        ),
        (["b.yaml", *SET, "--state", "b.yaml"], "b.yaml, which is read; choose another place"),
    ],
)
def test_wrong_options_are_refused(volt_stream, config, arguments, message):
    """The error names the option; nothing is overwritten."""
    before = {path: path.read_bytes() for path in config.parent.glob("*.*")}
    assert message in refused(volt_stream, *arguments)
    assert {path: path.read_bytes() for path in before} == before


def test_a_state_of_other_steps_is_refused(volt_stream, config):
    """The error names the difference and the file, also for a file that is not a state."""
    error_text(volt_stream, "-n", 2, "--state", "s.json")
    config.write_text(CONFIG.replace("max_tokens: 40", "max_tokens: 50"))
    resume = ("b.yaml", *SET, "--state", "s.json", "--resume")
    found = refused(volt_stream, *resume, status=1)
    assert (
        "s.json: the state belongs to other steps: tokens.max_tokens: 40 in the state, 50 here; restore it"
        in found
    )
    for text, message in (
        ("7", "is not a state of steps; give a file that --state has written"),
        ("{", "is not JSON"),
    ):
        (config.parent / "s.json").write_text(text)
        assert f"s.json: {message}" in refused(volt_stream, *resume, status=1)
    volt_stream("run b.yaml", *SET, "--limit", 3, "--state", "lines.json", "-q")
    found = refused(volt_stream, "b.yaml", *SET, "--state", "lines.json", "--resume", status=1)
    assert "lines.json: the state belongs to a stream of lines" in found


def test_lines_that_do_not_fit_have_a_place(volt_stream, config):
    """Missing fields and overlong samples are reported with their place and the file's keys."""
    text = CONFIG.replace("{{tag}}", "a")
    config.write_text(text.replace("on_long: report", "on_long: raise"))
    found = refused(volt_stream, "b.yaml", status=1)
    assert "pairs.tsv:" in found
    assert (
        "max_length (longest in a configuration) is 15; raise it, drop such lines with the filter length"
        in found
    )
    assert "or set on_long to report in batches" in found
    endless = text.replace("  longest: 15\n", "").replace("epochs: 1, ", "")
    config.write_text(endless.replace("max_tokens: 40", "max_tokens: 1"))
    assert "too long (max_tokens is 1), the first at pairs.tsv:" in refused(
        volt_stream, "b.yaml", status=1
    )
    write_lines(config.parent / "pairs.tsv", ["a\tb", "a"])
    config.write_text(text)
    assert "pairs.tsv:2 " in (found := refused(volt_stream, "b.yaml", status=1))
    assert "has no field 'tgt'; drop such lines with the filter bitext" in found


def test_ids_of_a_larger_vocabulary_are_refused(volt_stream, config):
    """The error names the id, its line, and the size of the vocabulary."""
    for end, data in zip(("bin", "idx"), packed([[4, 2], [4, 5, 99, 2]], "u16"), strict=True):
        (config.parent / f"ids.{end}").write_bytes(data)
    section = "{fields: {text: v.volt}, eos: false, max_tokens: 40}"
    config.write_text(f"sources: {{ids: {{path: ids.bin, shuffle: none}}}}\nbatches: {section}\n")
    found = refused(volt_stream, "b.yaml", status=1)
    assert (
        ":2 (line 1 of the stream): the id 99 in field 'text' is not in its vocabulary (0 to 7)"
        in found
    )
    assert "give the vocabulary that made it" in found


@pytest.mark.parametrize(("name", "command"), [("batches", "batches"), ("mixing", "run")])
def test_an_example_says_the_command_that_shows_it(volt_stream, name, command):
    """An example with batches names a `volt stream batches` command, which runs."""
    error_text = volt_stream("example", name, "-o", "x").stderr.decode()
    assert f"next: volt stream {command} x/stream.yaml" in error_text
    volt_stream(*error_text.rstrip().split("volt stream ")[-1].split())


def test_it_reports_on_the_way(volt_stream, config):
    """--every prints totals after every N steps, as JSON or as rows, before the final totals."""
    found = error_text(volt_stream, "-n", 10, "--every", 4)
    assert [one["step"] for one in found["every"]] == [4, 8]
    assert found["every"][0]["tokens"] < found["every"][1]["tokens"] < found["tokens"]
    shown = volt_stream("batches b.yaml", *SET, "-n", 10, "--every", 5).stdout.decode()
    words = [line.split() for line in shown.split("\n")]
    assert [line[:2] for line in words[:2]] == [["step", "5"], ["step", "10"]]
    assert words[2] == ["source", "lines", "read", "epochs", "steps", "per", "epoch"]
    assert f"{found['tokens']:,} without padding" in shown


FAULTY_CONFIG = """\
seed: 3
errors: {on_fault: skip}
sources: {pairs: {path: pairs.tsv, block_lines: 40}}
batches: {fields: {src: v.volt, tgt: v.volt}, max_tokens: 40, window: 60}
"""
N_LINES, UNFIT = 200, 8


@pytest.fixture
def faulty_config(stream_folder):
    """Write a configuration with batches, some of whose lines are not UTF-8."""
    lines = [b"\t".join([b" ".join([b"a"] * (1 + n % 9)), b"b b"]) for n in range(N_LINES)]
    lines[7 :: N_LINES // UNFIT] = [b"a\t\xff"] * UNFIT
    (stream_folder / "pairs.tsv").write_bytes(b"".join(line + b"\n" for line in lines))
    Vocabulary((), ("a", "b", "a</w>", "b</w>")).save(stream_folder / "v.volt")
    (stream_folder / "b.yaml").write_text(FAULTY_CONFIG)
    return stream_folder / "b.yaml"


def message(volt_stream, *arguments, status=0):
    """Return the JSON report of the command."""
    return json.loads(volt_stream("batches b.yaml", *arguments, "--json", status=status).stdout)


def test_unfit_lines_are_reported(volt_stream, faulty_config):
    """The table and the JSON count unfit lines by reason; without unfit lines, there is no row."""
    faulty_config.write_text(
        faulty_config.read_text().replace("block_lines", "epochs: 1, block_lines")
    )
    found = message(volt_stream, "-n", 1000)
    assert (found["n_read"], found["n_faults"]) == (N_LINES, UNFIT)
    assert list(found["reasons"].values()) == [UNFIT]
    assert found["sentences"] + found["left"] == N_LINES - UNFIT
    volt_stream("run b.yaml --summary run.json -q")
    of_lines = json.loads((faulty_config.parent / "run.json").read_bytes())
    assert [found[key] for key in ("n_faults", "reasons")] == [
        of_lines[key] for key in ("n_faults", "reasons")
    ]
    shown = volt_stream("batches b.yaml -n", 1000).stdout.decode()
    assert f"unfit         {UNFIT} lines, dropped from {N_LINES} read\n" in shown
    assert f"{UNFIT} {next(iter(found['reasons']))}\n" in shown
    write_lines(faulty_config.parent / "pairs.tsv", ["a\tb"] * 9)
    assert b"unfit" not in volt_stream("batches b.yaml -n", 1000).stdout


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.usefixtures("faulty_config")
def test_what_was_read_counts_over_all_runs(volt_stream, workers):
    """Resumed runs report as many lines, epochs and faults as one run."""
    options = ("--state", "s.json", "--resume", "--workers", workers)
    several = [message(volt_stream, "-n", n, *options) for n in (3, 1, 20, 1, 40)]
    whole = message(volt_stream, "-n", 65, "--workers", 2 - workers)
    keys = ("step", "n_read", "n_faults", "reasons")
    assert [several[-1][key] for key in keys] == [whole[key] for key in keys]
    read = [one["sources"]["pairs"] for one in several]
    assert [read[-1][key] for key in ("lines", "epochs")] == [
        whole["sources"]["pairs"][key] for key in ("lines", "epochs")
    ]
    assert [one["lines"] for one in read] == sorted(one["lines"] for one in read)
    assert [one["epochs"] for one in read] == sorted(one["epochs"] for one in read)
    assert (
        "1 in this run, up to step 66"
        in volt_stream("batches b.yaml -n", 1, *options).stdout.decode()
    )


@pytest.mark.usefixtures("faulty_config")
def test_speed_is_that_of_making_windows(volt_stream):
    """The speed is tokens per second from the second window on; before that, none is reported."""
    found = message(volt_stream, "-n", 60, "--every", 1)
    for one in [*found["every"], found]:
        if one["windows"] < 2:
            assert one["tokens_per_second"] is None
        else:
            assert one["tokens_per_second"] == pytest.approx(
                one["tokens"] / one["seconds"], rel=1e-2
            )
    windows = [one["windows"] for one in found["every"]]
    assert windows == sorted(windows)
    assert (windows[0], windows[-1]) == (1, found["sources"]["pairs"]["lines"] // 60)
    shown = volt_stream("batches b.yaml -n", 2, "--every", 1).stdout.decode()
    assert [line.endswith("– tokens/s") for line in shown.split("\n")[:2]] == [True, True]
    assert "speed here    – after 1 window; measured from the second window on" in shown


@pytest.mark.usefixtures("faulty_config")
def test_quiet_prints_no_table(volt_stream):
    """With --quiet, only errors and requested JSON are printed."""
    done = volt_stream("batches b.yaml -n", 4, "--every", 2, "-q")
    assert done == (b"", b"")
    assert json.loads(volt_stream("batches b.yaml -n", 4, "-q", "--json").stdout)["steps"] == 4


def interrupted(monkeypatch, number, at):
    """Send a signal while the next step is computed."""
    made = Steps.__iter__

    def steps(self):
        for step in made(self):
            yield step
            if self.n == at:
                signal.raise_signal(number)

    monkeypatch.setattr(Steps, "__iter__", steps)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("options", [(), ("--json",)])
@pytest.mark.usefixtures("faulty_config")
def test_a_signal_leaves_the_summary_and_the_state(
    volt_stream,
    monkeypatch,
    faulty_config,
    number,
    options,
):
    """After a signal, the totals are printed, and the state continues with the next step."""
    whole = message(volt_stream, "-n", 40)
    with monkeypatch.context() as patch:
        interrupted(patch, number, at=25)
        command = ("batches", "b.yaml", "-n", 10**7, "--every", 10, "--state", "s.json", *options)
        done = volt_stream(*command, status=128 + number)
    assert (
        f"stopped by {signal.Signals(number).name} after step 25; the state is in s.json"
        in done.stderr.decode()
    )
    rest = message(volt_stream, "-n", 15, "--state", "s.json", "--resume")
    if options:
        found = json.loads(done.stdout)
        assert (found["steps"], [one["step"] for one in found["every"]]) == (25, [10, 20])
        assert found["tokens"] + rest["tokens"] == whole["tokens"]
    else:
        assert [line.split()[:2] for line in done.lines[:3]] == [
            ["step", "10"],
            ["step", "20"],
            ["source", "lines"],
        ]
        assert f"{whole['tokens'] - rest['tokens']:,} without padding" in done.stdout.decode()
    assert (rest["step"], rest["n_read"]) == (40, whole["n_read"])


@pytest.mark.usefixtures("faulty_config")
def test_rows_come_when_they_are_reached(volt_stream, monkeypatch):
    """Each row is on stdout before the next step is computed."""
    seen = list[tuple[int, int]]()
    made = Steps.__iter__

    def steps(self):
        for step in made(self):
            seen.append((self.n, shown[0]))
            yield step

    shown = [0]
    monkeypatch.setattr(Steps, "__iter__", steps)
    monkeypatch.setattr(
        "volt_cli.stream.batches.show", lambda *parts: shown.__setitem__(0, shown[0] + 1)
    )
    volt_stream("batches b.yaml -n", 9, "--every", 3)
    assert seen == [(n, (n - 1) // 3) for n in range(1, 10)]


@pytest.mark.parametrize("width", [40, 60, 120])
def test_a_row_has_all_numbers_at_any_width(width):
    """A row wraps only between its numbers; an unknown speed is –."""
    rows = [
        step_row(StepTotals(Report(step=step, sentences=9, tokens=step * 7, seconds=1.0), step))
        for step in (1, 2000)
    ]
    shown = printed(rows, width).rstrip("\n").split("\n")
    joined = " ".join(" ".join(shown).split())
    first = "step 1 9 sentences 7 tokens padding 0.00 % longest 0 – tokens/s"
    assert (
        joined
        == f"{first} step 2,000 9 sentences 14,000 tokens padding 0.00 % longest 0 14,000 tokens/s"
    )
    assert (len(shown) == 2) == (width == 120)
