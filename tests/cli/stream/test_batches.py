"""`volt stream batches`: the totals of the steps, unfit lines, states and signals."""

import json
import signal

import pytest
from support.indexed_ids import packed
from support.screens import printed, too_wide
from support.streams import write_lines

from volt import Vocabulary
from volt.batches.steps import Steps
from volt.batches.throughput import Report, Totals
from volt.ext.loader_state import Position
from volt.stream.running.summary import SourceSummary, Summary
from volt_cli.stream.batches import BatchReport, StepTotals, report_parts, step_row

CONFIG = """\
seed: 3
sources: {pairs: {path: pairs.tsv, epochs: 1, block_lines: 40, transforms: [tag: {text: a}]}}
batches:
  fields: {src: v.volt, tgt: w.volt}
  max_tokens: 40
  longest: 15
  on_long: report
  window: 64
"""
N_TOO_LONG = 4
UNFIT_CONFIG = """\
seed: 3
errors: {on_fault: skip}
sources: {pairs: {path: pairs.tsv, block_lines: 40}}
batches: {fields: {src: v.volt, tgt: v.volt}, max_tokens: 40, window: 60}
"""
N_LINES = 200
N_UNFIT = 8


@pytest.fixture
def config(stream_folder):
    """Write a configuration with batches, and its files; some lines are too long."""
    lines = ["\t".join([" ".join("a" * (1 + n % 9)), "b b"]) for n in range(N_LINES)]
    lines[7::50] = ["a " * 20 + "\tb"] * N_TOO_LONG
    write_lines(stream_folder / "pairs.tsv", lines)
    for name in ("v.volt", "w.volt"):
        Vocabulary((), ("a", "b", "a</w>", "b</w>")).save(stream_folder / name)
    (stream_folder / "b.yaml").write_text(CONFIG)
    return stream_folder / "b.yaml"


@pytest.fixture
def unfit_config(config):
    """Write a configuration some of whose lines are not UTF-8."""
    lines = [b"\t".join([b" ".join([b"a"] * (1 + n % 9)), b"b b"]) for n in range(N_LINES)]
    lines[7 :: N_LINES // N_UNFIT] = [b"a\t\xff"] * N_UNFIT
    (config.parent / "pairs.tsv").write_bytes(b"".join(line + b"\n" for line in lines))
    config.write_text(UNFIT_CONFIG)
    return config


@pytest.fixture
def report(volt_stream):
    """Run `volt stream batches b.yaml` with options, and return its JSON report."""
    return lambda options: json.loads(volt_stream(f"batches b.yaml {options} --json -q").stdout)


@pytest.fixture
def refused(volt_stream):
    """Run `volt stream batches` with arguments that are refused, and return the error."""

    def refuse(arguments="b.yaml", status=1):
        done = volt_stream(f"batches {arguments}", status=status)
        assert done.stdout == b""
        assert "Traceback" not in done.message
        return done.message.replace("\n", " ")

    return refuse


@pytest.mark.parametrize("world", [1, 3])
def test_the_report_equals_the_steps_of_python(report, config, world):
    """`volt stream batches` reports the sentences, tokens, padding and longest row of the steps
    that `Steps` yields for the rank."""
    rank = world - 1
    values = report(f"-n 9 --world {world} --rank {rank} --seed 0")
    with Steps.from_config(config, rank=rank, world=world, seed=0) as steps:
        arrays = [step for step, _ in zip(steps, range(9), strict=False)]
    masks = [(step["src_mask"], step["tgt_mask"]) for step in arrays]
    n_tokens = sum(src.sum() + tgt.sum() for src, tgt in masks)
    n_positions = sum(src.size + tgt.size for src, tgt in masks)
    assert (values["steps"], values["step"]) == (9, 9)
    assert (values["rank"], values["world"]) == (rank, world)
    assert values["sentences"] == sum(step["nsentences"] for step in arrays)
    assert values["tokens"] == n_tokens
    assert values["padding"] == pytest.approx(1 - n_tokens / n_positions, abs=1e-6)
    assert values["longest"] == max(src.shape[1] for src, _ in masks)
    assert values["every"] == []


def test_ranks_have_the_same_number_of_steps(volt_stream, report, config):
    """All ranks of a stream have equally many steps, and together read each line once, except lines
    reported as too long or left over."""
    first, second = (report(f"-n 1000 --world 2 --rank {rank}") for rank in (0, 1))
    assert first["steps"] == second["steps"] > 5
    n_sentences = first["sentences"] + second["sentences"]
    assert n_sentences + first["left"] + N_TOO_LONG == N_LINES
    assert first["too_long"] == second["too_long"] == N_TOO_LONG
    places = {place.partition(" ")[0].rpartition("/")[2] for place in first["too_long_at"]}
    expected = {f"pairs.tsv:{line}" for line in (8, 58, 108, 158)}
    assert places == expected
    assert first["sources"]["pairs"]["epochs"] == 1
    done = volt_stream("batches b.yaml -n 1000")
    assert "the stream ended after" in done.message
    assert all(place in done.stdout.decode() for place in expected)


def test_a_run_resumes_from_its_state(report, refused, config):
    """Two runs joined by --state and --resume have the tokens of one run; --force replaces a
    state."""
    whole = report("-n 12")
    first = report("-n 5 --state s.json --resume")
    second = report("-n 7 --state s.json --resume")
    assert (second["step"], first["tokens"] + second["tokens"]) == (12, whole["tokens"])
    with Steps.from_config(config) as steps:
        steps.restore(json.loads((config.parent / "s.json").read_bytes()))
        assert steps.n == 12
    for rank in (0, 1):
        values = report(f"-n 999 --world 2 --rank {rank} --state {rank}.json")
    assert json.loads((config.parent / "0.json").read_bytes())["n"] == values["steps"]
    message = (
        "s.json: contains the position of an earlier run, after step 12; add --resume to continue there, "
        "or --force"
    )
    assert message in refused("b.yaml -n 3 --state s.json", status=2)
    assert report("-n 3 --state s.json --force")["step"] == 3


def test_templates_are_filled(report, refused, config):
    """`volt stream batches --set` fills a template; the error for a missing value suggests it."""
    whole = report("-n 5")
    config.write_text(CONFIG.replace("text: a", "text: {{tag}}"))
    assert "{{tag}} has no value; give --set tag, or" in refused(status=2)
    filled = report("-n 5 --set tag=a")
    assert filled["tokens"] == whole["tokens"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_report_fits_a_terminal(width):
    """The report of `volt stream batches` is never wider than the terminal, even with large
    numbers."""
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


WRONG = {
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
        ("tag: {text: a}", "user: {file: f.py, function: f}"),
        "would run the code in f.py; read it, then",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_faulty_configuration_is_refused(refused, config, name):
    """An error in a configuration names its line and the remedy, and no step runs."""
    (before, after), message = WRONG[name]
    vocabulary = (config.parent / "v.volt").read_text()
    (config.parent / "bad.volt").write_text(vocabulary[: len(vocabulary) // 2])
    config.write_text(CONFIG.replace(before, after))
    assert message in refused(status=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("b.yaml --rank 2 --world 2", "rank 2 of world 2: give a rank of 0 or more"),
        ("b.yaml --rank 1", "rank 1 of world 1"),
        ("b.yaml --world 0", "'--world'"),
        ("b.yaml -n 0", "'--steps'"),
        ("no.yaml", "no.yaml: cannot be read: no such file or directory; check the path"),
        ("b.yaml --resume", "--resume needs --state; name the file to continue from"),
        ("b.yaml --state -", "--state -: stdout is for the report; name a file"),
        ("b.yaml --state v.volt", "v.volt: would be written over v.volt, which is read; choose"),
        ("b.yaml --state ./w.volt", "w.volt, which is read; choose another place"),
        ("b.yaml --state pairs.tsv", "pairs.tsv, which is read; choose another place"),
        ("b.yaml --state b.yaml", "b.yaml, which is read; choose another place"),
    ],
)
def test_wrong_options_are_refused(refused, config, arguments, message):
    """A wrong option of `volt stream batches` gives an error that names it, and overwrites no
    file."""
    before = {path: path.read_bytes() for path in config.parent.glob("*.*")}
    assert message in refused(arguments, status=2)
    assert {path: path.read_bytes() for path in before} == before


def test_a_state_of_other_steps_is_refused(volt_stream, report, refused, config):
    """--resume refuses a state of other steps, of a stream of lines, and a file that is not a
    state."""
    report("-n 2 --state s.json")
    config.write_text(CONFIG.replace("max_tokens: 40", "max_tokens: 50"))
    resume = "b.yaml --state s.json --resume"
    message = (
        "the state belongs to other steps: tokens.max_tokens: 40 in the state, 50 here; restore it"
    )
    assert f"s.json: {message}" in refused(resume)
    volt_stream("run b.yaml --limit 3 --state lines.json -q")
    lines_state = (config.parent / "lines.json").read_text()
    for text, message in (
        ("7", "is not a state; give a file that a stream has written"),
        ("{", "is not JSON"),
        (lines_state, "the state belongs to a stream of lines"),
    ):
        (config.parent / "s.json").write_text(text)
        assert f"s.json: {message}" in refused(resume)


def test_lines_that_fit_no_batch_are_named(refused, config):
    """The error for a line that is too long, or lacks a field, names the file, the line and the key
    to change."""
    config.write_text(CONFIG.replace("on_long: report", "on_long: raise"))
    message = refused()
    for part in (
        "pairs.tsv:",
        "max_length (longest in a configuration) is 15; raise it, drop such lines with the filter length",
        "or set on_long to report in batches",
    ):
        assert part in message
    endless = CONFIG.replace("  longest: 15\n", "").replace("epochs: 1, ", "")
    config.write_text(endless.replace("max_tokens: 40", "max_tokens: 1"))
    assert "too long (max_tokens is 1), the first at pairs.tsv:" in refused()
    write_lines(config.parent / "pairs.tsv", ["a\tb", "a"])
    config.write_text(CONFIG)
    message = refused()
    assert "pairs.tsv:2 " in message
    assert "has no field 'tgt'; drop such lines with the filter bitext" in message


def test_ids_of_a_larger_vocabulary_are_refused(refused, config):
    """The error for an id that the vocabulary lacks names the id, its line, and the greatest id."""
    for end, data in zip(("bin", "idx"), packed([[4, 2], [4, 5, 99, 2]], "u16"), strict=True):
        (config.parent / f"ids.{end}").write_bytes(data)
    section = "{fields: {text: v.volt}, eos: false, max_tokens: 40}"
    config.write_text(f"sources: {{ids: {{path: ids.bin, shuffle: none}}}}\nbatches: {section}\n")
    message = refused()
    assert (
        ":2 (line 1 of the stream): the id 99 in field 'text' is not in its vocabulary (0 to 7)"
    ) in message
    assert "give the vocabulary that made it" in message


@pytest.mark.parametrize(("name", "command"), [("batches", "batches"), ("mixing", "run")])
def test_an_example_prints_a_command_that_runs(volt_stream, name, command):
    """`volt stream example` ends with a command for the written configuration, and that command
    runs."""
    message = volt_stream(f"example {name} -o x").message
    assert f"next: volt stream {command} x/stream.yaml" in message
    volt_stream(message.rstrip().split("volt stream ")[-1])


def test_every_prints_totals_between_steps(volt_stream, report, config):
    """--every N prints the totals after each N steps, as rows or in the JSON, before the final
    totals."""
    values = report("-n 10 --every 4")
    assert [row["step"] for row in values["every"]] == [4, 8]
    assert values["every"][0]["tokens"] < values["every"][1]["tokens"] < values["tokens"]
    lines = volt_stream("batches b.yaml -n 10 --every 5").lines
    words = [" ".join(line.split()) for line in lines]
    assert [row[:7].rstrip() for row in words[:2]] == ["step 5", "step 10"]
    assert words[2] == "source lines read epochs steps per epoch"
    assert any(f"{values['tokens']:,} without padding" in line for line in lines)


def test_unfit_lines_are_reported(volt_stream, report, unfit_config):
    """The table and the JSON of `volt stream batches` count unfit lines by reason; without unfit
    lines, the table has no row for them."""
    unfit_config.write_text(UNFIT_CONFIG.replace("block_lines", "epochs: 1, block_lines"))
    values = report("-n 1000")
    assert (values["n_read"], values["n_faults"]) == (N_LINES, N_UNFIT)
    [(reason, n_unfit)] = values["reasons"].items()
    assert n_unfit == N_UNFIT
    assert values["sentences"] + values["left"] == N_LINES - N_UNFIT
    volt_stream("run b.yaml --summary run.json -q")
    summary = json.loads((unfit_config.parent / "run.json").read_bytes())
    assert (summary["n_faults"], summary["reasons"]) == (N_UNFIT, values["reasons"])
    shown = volt_stream("batches b.yaml -n 1000").stdout.decode()
    assert f"unfit         {N_UNFIT} lines, dropped from {N_LINES} read\n" in shown
    assert f"{N_UNFIT} {reason}\n" in shown
    write_lines(unfit_config.parent / "pairs.tsv", ["a\tb"] * 9)
    assert b"unfit" not in volt_stream("batches b.yaml -n 1000").stdout


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.usefixtures("unfit_config")
def test_lines_read_are_counted_over_all_runs(volt_stream, report, workers):
    """After --resume, lines read, epochs and unfit lines are totals of all runs."""
    options = f"--state s.json --resume --workers {workers}"
    runs = [report(f"-n {n} {options}") for n in (3, 1, 20, 1, 40)]
    whole = report(f"-n 65 --workers {2 - workers}")
    for key in ("step", "n_read", "n_faults", "reasons"):
        assert runs[-1][key] == whole[key]
    for key in ("lines", "epochs"):
        numbers = [run["sources"]["pairs"][key] for run in runs]
        assert numbers == sorted(numbers)
        assert numbers[-1] == whole["sources"]["pairs"][key]
    shown = volt_stream(f"batches b.yaml -n 1 {options}").stdout
    assert b"1 in this run, up to step 66" in shown


@pytest.mark.usefixtures("unfit_config")
def test_speed_is_known_from_the_second_window_on(volt_stream, report):
    """The reported speed is tokens ÷ seconds from the second window on, and missing before."""
    values = report("-n 60 --every 1")
    for row in (*values["every"], values):
        speed = None
        if row["windows"] >= 2:
            speed = pytest.approx(row["tokens"] / row["seconds"], rel=1e-2)
        assert row["tokens_per_second"] == speed
    windows = [row["windows"] for row in values["every"]]
    assert windows == sorted(windows)
    assert (windows[0], windows[-1]) == (1, values["sources"]["pairs"]["lines"] // 60)
    done = volt_stream("batches b.yaml -n 2 --every 1")
    assert all(line.endswith("– tokens/s") for line in done.lines[:2])
    message = "speed here    – after 1 window; measured from the second window on"
    assert message in done.stdout.decode()


@pytest.mark.usefixtures("unfit_config")
def test_quiet_prints_no_table(volt_stream, report):
    """With --quiet, `volt stream batches` prints nothing, or only the JSON of --json."""
    assert volt_stream("batches b.yaml -n 4 --every 2 -q") == (b"", b"")
    assert report("-n 4")["steps"] == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.usefixtures("unfit_config")
def test_a_signal_ends_a_run_with_its_totals_and_state(
    volt_stream, report, monkeypatch, number, as_json
):
    """After SIGINT or SIGTERM, the totals are printed, and the saved state continues with the next
    step."""
    yield_steps = Steps.__iter__

    def interrupted_steps(self):
        for step in yield_steps(self):
            yield step
            if self.n == 25:  # while the next step is computed
                signal.raise_signal(number)

    whole = report("-n 40")
    command = "batches b.yaml -n 10000000 --every 10 --state s.json"
    if as_json:
        command += " --json"
    with monkeypatch.context() as patch:
        patch.setattr(Steps, "__iter__", interrupted_steps)
        done = volt_stream(command, status=128 + number)
    name = signal.Signals(number).name
    assert f"stopped by {name} after step 25; the state is in s.json" in done.message
    rest = report("-n 15 --state s.json --resume")
    n_tokens = whole["tokens"] - rest["tokens"]
    if as_json:
        values = json.loads(done.stdout)
        assert (values["steps"], [row["step"] for row in values["every"]]) == (25, [10, 20])
        assert values["tokens"] == n_tokens
    else:
        assert [" ".join(line.split()[:2]) for line in done.lines[:3]] == [
            "step 10",
            "step 20",
            "source lines",
        ]
        assert f"{n_tokens:,} without padding" in done.stdout.decode()
    assert (rest["step"], rest["n_read"]) == (40, whole["n_read"])


@pytest.mark.usefixtures("unfit_config")
def test_rows_are_printed_at_once(volt_stream, monkeypatch):
    """A row of --every is on stdout before the next step is computed."""
    n_shown_at_step = []
    shown = []
    yield_steps = Steps.__iter__

    def steps(self):
        for step in yield_steps(self):
            n_shown_at_step.append((self.n, len(shown)))
            yield step

    monkeypatch.setattr(Steps, "__iter__", steps)
    monkeypatch.setattr("volt_cli.stream.batches.show", lambda *parts: shown.append(parts))
    volt_stream("batches b.yaml -n 9 --every 3")
    assert n_shown_at_step == [(n, (n - 1) // 3) for n in range(1, 10)]


@pytest.mark.parametrize("width", [40, 60, 120])
def test_a_row_wraps_between_its_numbers(width):
    """A row of --every wraps only between its numbers; a speed that is not known is shown as –."""
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


@pytest.mark.parametrize("world", [1, 2])
def test_steps_after_a_state_are_skipped(volt_stream, config, world):
    """`volt stream skip` skips steps of the state's ranks; states of a StreamDataset are read, too."""
    volt_stream(f"batches b.yaml -n 3 --world {world} --state a.json -q")
    with Steps.from_config(config, world=world) as steps:
        whole = [step["id"].tolist() for step in steps]
    [saved] = [json.loads((config.parent / "a.json").read_text())]
    for state in (saved, Position(saved, world=world).to_json()):
        (config.parent / "a.json").write_text(json.dumps(state))
        volt_stream("skip b.yaml a.json 3:5 -o b.json")
        skipped = json.loads((config.parent / "b.json").read_text())
        with Steps.from_config(config, world=world) as steps:
            steps.restore(skipped)
            assert [step["id"].tolist() for step in steps] == whole[5:]
    for line in (whole[3][0], whole[5][0]):
        trace = json.loads(volt_stream(f"trace b.yaml {line} --state b.json --json").stdout)
        assert trace["skipped"] == (line in whole[3])
    (config.parent / "a.json").write_text(json.dumps(Position(saved, 1, world).to_json()))
    assert (
        "at step 4, not step 3" in volt_stream("skip b.yaml a.json 3:5 -o b.json", status=1).message
    )
