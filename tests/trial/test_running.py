"""Laws of trials: finished trainings are not repeated, and invalid input is refused.

Trainings are tiny.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="trials need torch")

from volt.choose.training_law import Training  # noqa: E402
from volt.errors import ConfigError, CorpusError, VoltError  # noqa: E402
from volt.trial.report import as_data  # noqa: E402
from volt.trial.running import ChildProcesses, Ended, Trainings, affordable, run, run_each  # noqa: E402
from volt.trial.texts import Texts, read_texts  # noqa: E402
from volt.trial.training import TrainingRecipe, results_so_far  # noqa: E402

TINY = TrainingRecipe(
    width=16, inner=16, heads=2, layers=1, warmup=5, readings=2, lr=0.02, products="float32"
)
LENGTH = Training(read=6_000)


def made_up(n_lines=400):
    chance = random.Random(1)
    words = [
        "".join(chance.choice("aeiouklmnst") for _ in range(chance.randint(2, 7)))
        for _ in range(200)
    ]
    lines = (
        chance.choices(words, weights=[1 / n for n in range(1, 201)], k=9) for _ in range(n_lines)
    )
    return "".join(f"{' '.join(line)}\n" for line in lines)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Use one thread of torch, as in the processes of trials."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def in_this_process(self, command, **_):
    """Train in this process as the command would."""
    options = json.loads(command[-1])
    texts, recipe = Texts.read(Path(options.pop("folder"))), TrainingRecipe(**options.pop("recipe"))
    *_, result = results_so_far(texts, recipe=recipe, **options)
    return Ended(0, json.dumps(result), "")


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(ChildProcesses, "run", in_this_process)
    (tmp_path / "corpus.txt").write_text(made_up())
    return tmp_path / "corpus.txt"


def tiny(corpus, **options):
    given = {"hours": 1, "jobs": 1, "device": "cpu", "training": LENGTH, "recipe": TINY, **options}
    return run(str(corpus), corpus.with_suffix(".trial"), **given)


def test_an_interrupted_trial_continues_to_the_same_result(corpus):
    """A training whose result is on disk is not repeated; a result that was cut short is."""
    notes = list[str]()
    whole = tiny(corpus, report=notes.append)
    assert whole.left == ()
    assert whole.curve.best == min(whole.curve.means)
    assert repr(whole).endswith(
        f"{whole.curve.best:.4f} bits per character, {len(whole.rows)} trainings>"
    )
    path = corpus.with_suffix(".trial") / "trial.jsonl"
    first, second, *_ = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:-9])
    notes.clear()
    again = tiny(corpus, report=notes.append)
    timeless = [
        [{name: value for name, value in row.items() if "second" not in name} for row in one.rows]
        for one in (whole, again)
    ]
    assert timeless[0] == timeless[1]
    assert len(notes) == 1 + 2 * (
        len(whole.rows) - 1
    )  # the length; start and end of each training but the first
    assert sum(note.startswith("training with ") for note in notes) == len(whole.rows) - 1
    data = json.loads(json.dumps(as_data(again)))
    assert data["best"] == again.best in {row["size"] for row in data["sizes"]}
    assert data["rules"]["trained"]["loss_percent"] == pytest.approx(again.losses["trained"])
    corpus.write_text(made_up(500))
    with pytest.raises(
        ConfigError, match="contains trainings on another text; choose another folder"
    ):
        tiny(corpus)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hours": 0}, "hours is 0; give a number above 0"),
        ({"hours": -1}, "hours is -1"),
        ({"hours": float("nan")}, "hours is nan"),
        ({"hours": 1e9}, "at most 10,000"),
        ({"jobs": 0}, "jobs is 0; give 1 or more"),
        ({"training": 3}, r"training is 3 \(int\); give training=volt\.Training"),
        ({"report": 3}, r"report is 3 \(int\)"),
        ({"recipe": {}}, "recipe is a dict; give a TrainingRecipe"),
        ({"errors": "ignore"}, "errors"),
        ({"device": "abacus"}, "device 'abacus' cannot be used here; choose auto or cpu"),
        (
            {"hours": 1e-4},
            r"too little time for one training: about 0\.2 minutes are needed; for 5, pass hours=0\.02",
        ),
        (
            {"hours": 1e-4, "training": Training(epochs=1e6)},
            r"about 1\.8 minutes are needed; for 5, pass hours=0\.16",
        ),
    ],
)
def test_impossible_options_are_refused(corpus, options, message):
    """Options out of range are errors before anything is trained."""
    with pytest.raises(ConfigError, match=message):
        tiny(corpus, **options)


@pytest.mark.parametrize(
    ("sources", "message"),
    [(5, "sources is 5"), ({"low": 3}, "sources is a dict"), ([5], r"s\[0\]")],
)
def test_sources_are_paths(tmp_path, sources, message):
    """Sources that are not paths are errors, as in `count_words`."""
    with pytest.raises(ConfigError, match=message):
        run(sources, tmp_path, hours=1)


@pytest.mark.parametrize("epochs", [0, -1, float("nan"), 1e9])
def test_lengths_out_of_range_are_refused(epochs):
    """Epochs must be positive and at most a million."""
    with pytest.raises(
        ConfigError, match=r"epochs is .*; give a number above 0 and at most 1,000,000"
    ):
        Training(epochs=epochs)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (5.0, "no JSON object"),
        ({"dev": []}, "lists of as many numbers"),
        ({"dev": [1.0, float("nan")]}, "lists of as many numbers"),
        ({"test": ["a", 1.0]}, "lists of as many numbers"),
        ({"millions": [], "dev": [], "test": []}, "lists of as many numbers"),
        ({"size": "8"}, "size is missing"),
        ({"readings": None}, "readings is missing"),
    ],
)
def test_a_line_that_is_not_a_result_is_reported(corpus, values, message):
    """An error names the line of the file, before anything is trained."""
    tiny(corpus)
    path = corpus.with_suffix(".trial") / "trial.jsonl"
    first, second, *others = path.read_bytes().splitlines(keepends=True)
    damaged = values if isinstance(values, float) else json.loads(second) | values
    path.write_bytes(b"".join([first, json.dumps(damaged).encode() + b"\n", *others]))
    with pytest.raises(
        ConfigError,
        match=rf"trial\.jsonl:2: not a result \({message}|{message}.*fix or remove the line",
    ):
        tiny(corpus)


def test_lines_that_are_not_utf_8_can_be_skipped(corpus):
    """With errors="skip", lines that are not UTF-8 are left out, as in counting."""
    before = read_texts([str(corpus)])
    corpus.write_bytes(corpus.read_bytes() + b"a\xff\n")
    assert read_texts([str(corpus)], errors="skip") == before
    with pytest.raises(CorpusError, match="invalid UTF-8 byte 0xff"):
        tiny(corpus)
    assert tiny(corpus, errors="skip").rows


LATE = """
import json, math, sys
doublings, text = math.log2(int(sys.argv[1])), sys.argv[2]
bits = [4 - 0.1 * doublings, 4 - 0.1 * doublings, 2 + 0.1 * doublings, 1 + 0.1 * doublings]
for n in range(1, 5):
    scores = {"millions": [0.001, 0.002, 0.003, 0.004][:n], "dev": bits[:n], "test": bits[:n]}
    seconds = dict.fromkeys(("seconds", "learning_seconds", "reading_seconds"), 1.0)
    print(json.dumps({"text": text, **scores, **seconds}), flush=True)
"""


def test_a_size_that_improves_late_may_be_the_best(tmp_path, monkeypatch):
    """Every training has all its readings, and the best score at the end wins."""
    (tmp_path / "corpus.txt").write_text(made_up(3_000))
    monkeypatch.setattr(
        Trainings,
        "command",
        lambda self, size, _: [sys.executable, "-Sc", LATE, str(size), self.texts.fingerprint],
    )
    result = tiny(
        tmp_path / "corpus.txt", training=Training(read=150_000), recipe=replace(TINY, readings=4)
    )
    assert {len(row["dev"]) for row in result.rows} == {4}
    assert result.best == result.curve.sizes[0] == result.sizes.values[0]
    assert result.left == ()
    table = as_data(result)["sizes"]
    assert min(table, key=lambda row: row["bits_per_character"])["size"] == result.best


def test_trainings_that_an_earlier_version_stopped_run_again(corpus):
    """Results with fewer readings do not count; complete ones are appended."""
    whole = tiny(corpus)
    path = corpus.with_suffix(".trial") / "trial.jsonl"
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    for row in rows[1:3]:
        for name in ("millions", "dev", "test"):
            row[name] = row[name][:1]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    notes = list[str]()
    again = tiny(corpus, report=notes.append)
    assert sum(note.startswith("training with ") for note in notes) == 2
    assert [*again.curve.sizes] == [*whole.curve.sizes]
    assert again.curve.means.tolist() == whole.curve.means.tolist()
    before = path.read_bytes()
    assert tiny(corpus).best == whole.best
    assert path.read_bytes() == before


def test_trainings_with_seeds_of_other_trials_do_not_count(corpus):
    """A trial has two seeds, whatever results the folder contains."""
    first = tiny(corpus)
    other = tiny(corpus, seed=5)
    assert {row["seed"] for row in other.rows} == {5, 6}
    assert tiny(corpus).rows == first.rows


def test_a_training_without_improvement_ends_early(corpus, monkeypatch):
    """It counts, although it has fewer readings, and the progress says so."""

    def answer(self, command, **_):
        folder = Path(json.loads(command[-1])["folder"])
        scores = {"millions": [0.003, 0.006], "dev": [2.0, 2.1], "test": [2.0, 2.1]}
        seconds = dict.fromkeys(("seconds", "learning_seconds", "reading_seconds"), 1.0)
        return Ended(
            0, json.dumps({"text": Texts.read(folder).fingerprint, **scores, **seconds}), ""
        )

    monkeypatch.setattr(ChildProcesses, "run", answer)
    notes = list[str]()
    result = tiny(corpus, recipe=replace(TINY, readings=4, patience=1), report=notes.append)
    assert {row["size"] for row in result.rows} == {*result.curve.sizes}
    assert sum(note.endswith("until dev had not improved for 1 reading") for note in notes) == len(
        result.rows
    )


def test_a_failed_training_ends_the_trial(corpus, monkeypatch):
    """The error contains the last line of its stderr."""
    monkeypatch.setattr(ChildProcesses, "run", lambda *_, **__: Ended(1, "", "out of memory"))
    with pytest.raises(
        VoltError, match=r"the training of [0-9]+ tokens failed: out of memory; run again"
    ):
        tiny(corpus)


def test_a_short_time_shortens_all_trainings():
    """Five trainings fit into four fifths of the time; each reads a million characters or more, if
    so many were requested.
    """
    row = {
        "seconds": 20.0,
        "learning_seconds": 10.0,
        "reading_seconds": 5.0,
        "millions": [0.2],
        "dev": [3.0],
    }
    for hours, jobs in ((0.5, 1), (0.5, 4), (2, 2), (1e-3, 1), (1e3, 1)):
        read = affordable(
            row, TrainingRecipe(characters=50_000_000), seconds=3600 * hours, jobs=jobs
        )
        assert 1_000_000 <= read <= 50_000_000
        seconds = 10 * read / 200_000 + 50 + 5
        assert read in (1_000_000, 50_000_000) or seconds * max(-(-5 // jobs), 2) == pytest.approx(
            0.8 * 3600 * hours, rel=0.01
        )
    assert affordable(row, TrainingRecipe(characters=300_000), seconds=1, jobs=1) == 300_000


def test_the_speed_is_measured_before_long_trainings(corpus, monkeypatch):
    """The short training is stored and used again, so that all trainings have one length."""
    monkeypatch.setattr("volt.trial.running.PROBE", 2_000)
    monkeypatch.setattr("volt.trial.running.affordable", lambda row, recipe, **_: 3_000)
    result = tiny(corpus)
    assert (result.requested, result.characters) == (6_000, 3_000)
    assert "allows each training to read 3,000 of 6,000 characters" in result.warnings[0]
    expected = (
        result.best
        * LENGTH.size(result.n_characters)
        / Training(read=3_000).size(result.n_characters)
    )
    assert result.best_for_request == min(max(round(expected), result.sizes.values[0]), result.best)
    assert f"to {result.best_for_request:,} tokens for 6,000" in result.warnings[0]
    path = corpus.with_suffix(".trial") / "trial.jsonl"
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [row["characters"] for row in rows] == [2_000] + [3_000] * (len(rows) - 1)
    before = path.read_bytes()
    assert tiny(corpus).rows == result.rows
    assert path.read_bytes() == before


ENDLESS = """
import sys
import threading
from volt.trial.running import Trainings
Trainings.command = lambda self, size, seed: [sys.executable, "-c", "import time; time.sleep(60)"]
from volt_cli.app import main
sys.argv = ["volt", "trial", "corpus.txt", "--hours", "1", "--read", "6000"]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.campaign)]
)
def test_a_signal_ends_a_trial_and_its_processes(tmp_path, number):
    """A signal ends the trial with status 128 plus its number, and its processes."""
    (tmp_path / "corpus.txt").write_text(made_up())
    program = [sys.executable, "-c", ENDLESS]
    process = subprocess.Popen(program, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        while "each training reads" not in process.stderr.readline():
            assert process.poll() is None
        time.sleep(0.5)
        process.send_signal(number)
        process.communicate(timeout=30)
        assert process.returncode == 128 + number
    finally:
        process.kill()


def test_an_interrupt_that_another_thread_receives_ends_the_processes():
    """If another thread receives Ctrl-C, the main thread still ends the processes."""
    processes = ChildProcesses()
    statuses = list[int]()

    def work(_):
        time.sleep(0.3)  # until the main thread waits
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        statuses.append(processes.run([sys.executable, "-c", "import time; time.sleep(20)"]).status)

    with pytest.raises(KeyboardInterrupt):
        run_each(
            lambda running: [1] if not running else [],
            work,
            lambda *_: None,
            jobs=1,
            processes=processes,
        )
    assert statuses == [-signal.SIGTERM]
