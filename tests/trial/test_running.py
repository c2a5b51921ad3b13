"""Laws of `volt.trial.run`, with tiny models: finished trainings are not repeated, bad input is
refused.
"""

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

import volt  # noqa: E402
from volt.choose.training_law import Training  # noqa: E402
from volt.errors import ConfigError, CorpusError, VoltError  # noqa: E402
from volt.trial.processes import ChildProcesses, Ended, run_each  # noqa: E402
from volt.trial.running import (  # noqa: E402
    Trainings,
    affordable_characters,
    is_complete,
    run,
    run_sides,
    run_superwords,
)
from volt.trial.texts import Texts, read_texts  # noqa: E402
from volt.trial.training import TrainingRecipe, results_of, vocabulary_of  # noqa: E402

TINY = TrainingRecipe(
    width=16, inner=16, heads=2, layers=1, warmup=5, readings=2, lr=0.02, products="float32"
)
LENGTH = Training(read=6_000)


def made_up(n_lines=400):
    """Return a text of made-up words, frequent and rare ones."""
    chance = random.Random(1)
    words = ["".join(chance.choices("aeiouklmnst", k=chance.randint(2, 7))) for _ in range(200)]
    weights = [1 / n for n in range(1, 201)]
    lines = [" ".join(chance.choices(words, weights, k=9)) for _ in range(n_lines)]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Use one thread of torch, as in the processes of trials."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def in_this_process(self, command):
    """Train in this process as the command would."""
    *_, result = results_of(json.loads(command[-1]))
    return Ended(0, json.dumps(result), "")


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(ChildProcesses, "run", in_this_process)
    path = tmp_path / "corpus.txt"
    path.write_text(made_up())
    return path


def tiny(corpus, **options):
    """Run a trial of tiny trainings."""
    usual = {"hours": 1, "jobs": 1, "device": "cpu", "training": LENGTH, "recipe": TINY}
    return run(str(corpus), corpus.with_suffix(".trial"), **usual | options)


def results_file(corpus):
    return corpus.with_suffix(".trial") / "trial.jsonl"


def stored(corpus):
    """Return the results in the file of a trial."""
    return [json.loads(line) for line in results_file(corpus).read_text().splitlines()]


def timeless(rows):
    return [{name: row[name] for name in row if "second" not in name} for row in rows]


def n_trainings(notes):
    """Count the trainings that a trial reported."""
    return sum(note.startswith("training with ") for note in notes)


def test_an_interrupted_trial_continues_to_the_same_result(corpus):
    """A trial repeats only trainings without a whole line in its file, and ends with the same
    result.

    Another text in the same folder raises ConfigError.
    """
    whole = tiny(corpus)
    assert whole.left == ()
    assert whole.curve.best == min(whole.curve.means)
    n = len(whole.rows)
    assert repr(whole).endswith(f"{whole.curve.best:.4f} bits per character, {n} trainings>")
    path = results_file(corpus)
    first, second, *_ = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:-9])
    notes = []
    again = tiny(corpus, report=notes.append)
    assert timeless(again.rows) == timeless(whole.rows)
    assert n_trainings(notes) == n - 1
    assert len(notes) == 1 + 2 * (n - 1)  # the length; start and end of each training
    data = json.loads(json.dumps(again.data))
    assert data["best"] == again.best in {row["size"] for row in data["sizes"]}
    assert data["rules"]["trained"]["loss_percent"] == pytest.approx(again.losses["trained"])
    corpus.write_text(made_up(500))
    message = "contains trainings on another text; choose another folder"
    with pytest.raises(ConfigError, match=message):
        tiny(corpus)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hours": 0}, "hours is 0; give a number above 0"),
        ({"hours": -1}, "hours is -1"),
        ({"hours": float("nan")}, "hours is nan"),
        ({"hours": 1e9}, "at most 10,000"),
        ({"jobs": 0}, "jobs is 0; give 1 or more"),
        (
            {"training": 3},
            r"training is 3 \(int\); give a training such as training=volt\.Training",
        ),
        ({"report": 3}, r"report is 3 \(int\)"),
        ({"recipe": {}}, "recipe is a dict; give a TrainingRecipe"),
        ({"errors": "ignore"}, "errors"),
        ({"device": "abacus"}, "device 'abacus' cannot be used here; choose auto or cpu"),
        ({"hours": 1e-4}, r"about 0\.2 minutes are needed; for 5, pass hours=0\.02"),
        (
            {"hours": 1e-4, "training": Training(epochs=1e6)},
            r"about 1\.8 minutes are needed; for 5, pass hours=0\.16",
        ),
    ],
)
def test_impossible_options_are_refused(corpus, options, message):
    """`run` raises ConfigError for options out of range, before anything is trained."""
    with pytest.raises(ConfigError, match=message):
        tiny(corpus, **options)


@pytest.mark.parametrize(
    ("sources", "message"),
    [(5, "sources is 5"), ({"low": 3}, "sources is a dict"), ([5], r"s\[0\]")],
)
def test_sources_are_paths(tmp_path, sources, message):
    """`run` raises ConfigError for sources that are not paths."""
    with pytest.raises(ConfigError, match=message):
        run(sources, tmp_path, hours=1)


ROW = {
    "key": "size:8|seed:1",
    "text": "abc",
    "size": 8,
    "seed": 1,
    "millions": [1.0, 2.0],
    "dev": [2.0, 1.9],
    "test": [2.1, 2.0],
    "readings": 2,
    "patience": 1,
    **dict.fromkeys(("seconds", "learning_seconds", "reading_seconds"), 1.0),
}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dev": []}, "lists of as many numbers"),
        ({"dev": [1.0, float("nan")]}, "lists of as many numbers"),
        ({"test": ["a", 1.0]}, "lists of as many numbers"),
        ({"millions": [], "dev": [], "test": []}, "lists of as many numbers"),
        ({"size": "8"}, "size is missing"),
        ({"readings": None}, "readings is missing"),
    ],
)
def test_a_row_that_is_not_a_result_is_an_error(values, message):
    """`is_complete` raises ValueError if a value is missing, or readings are not finite numbers."""
    assert is_complete(ROW)
    with pytest.raises(ValueError, match=message):
        is_complete(ROW | values)


def test_lines_that_are_not_utf_8_can_be_skipped(corpus):
    """With errors="skip", `run` leaves out lines that are not UTF-8; otherwise they raise an
    error.
    """
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
    """A size that is worst in early readings is trained to the end, and is best if its last score
    is.
    """
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(made_up(3_000))

    def command(self, choice):
        return [sys.executable, "-Sc", LATE, str(choice.size), self.texts.fingerprint]

    monkeypatch.setattr(Trainings, "command", command)
    result = tiny(corpus, training=Training(read=150_000), recipe=replace(TINY, readings=4))
    assert {len(row["dev"]) for row in result.rows} == {4}
    assert result.best == result.curve.sizes[0] == result.sizes.values[0]
    assert result.left == ()
    rows = result.data["sizes"]
    assert min(rows, key=lambda row: row["bits_per_character"])["size"] == result.best


def test_a_short_trial_reports_what_was_read(tmp_path, monkeypatch):
    """A training reads a batch for each reading, so more than a very short length, and the progress
    and the result of a trial say so."""
    monkeypatch.setattr(ChildProcesses, "run", in_this_process)
    notes = []
    result = tiny_sides(tmp_path, training=Training(read=100), report=notes.append)
    read = {round(1e6 * row["millions"][-1]) for row in result.rows}
    assert [*read] == [pytest.approx(result.characters, abs=50)]
    assert notes[0].startswith(f"each training reads {result.characters:,} characters, ")


def test_trainings_that_an_earlier_version_stopped_run_again(corpus):
    """Stored results with too few readings do not count: their trainings run again."""
    whole = tiny(corpus)
    rows = stored(corpus)
    for row in rows[1:3]:
        for name in ("millions", "dev", "test"):
            del row[name][1:]
    results_file(corpus).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    notes = []
    again = tiny(corpus, report=notes.append)
    assert n_trainings(notes) == 2
    assert again.curve.sizes.tolist() == whole.curve.sizes.tolist()
    assert again.curve.means.tolist() == whole.curve.means.tolist()
    n_results = len(stored(corpus))
    assert tiny(corpus).best == whole.best
    assert len(stored(corpus)) == n_results


def test_trainings_with_seeds_of_other_trials_do_not_count(corpus):
    """A trial uses results with its own two seeds only, whatever results its folder has."""
    first = tiny(corpus)
    other = tiny(corpus, seed=5)
    assert {row["seed"] for row in other.rows} == {5, 6}
    assert tiny(corpus).rows == first.rows


def test_a_training_without_improvement_ends_early(corpus, monkeypatch):
    """A training that ends early for lack of improvement counts, and the progress says why."""

    def answer(self, command):
        texts = Texts.read(Path(json.loads(command[-1])["folder"]))
        scores = {"millions": [0.003, 0.006], "dev": [2.0, 2.1], "test": [2.0, 2.1]}
        seconds = dict.fromkeys(("seconds", "learning_seconds", "reading_seconds"), 1.0)
        return Ended(0, json.dumps({"text": texts.fingerprint, **scores, **seconds}), "")

    monkeypatch.setattr(ChildProcesses, "run", answer)
    notes = []
    result = tiny(corpus, recipe=replace(TINY, readings=4, patience=1), report=notes.append)
    assert {row["size"] for row in result.rows} == {*result.curve.sizes}
    early = [note for note in notes if note.endswith("until dev had not improved for 1 reading")]
    assert len(early) == len(result.rows)


def test_a_failed_training_ends_the_trial(corpus, monkeypatch):
    """If a training fails, the trial raises VoltError with the last line of the training's
    stderr.
    """
    monkeypatch.setattr(ChildProcesses, "run", lambda *_: Ended(1, "", "out of memory"))
    message = "the training with [0-9]+ tokens, seed 1 failed: out of memory; run again"
    with pytest.raises(VoltError, match=message):
        tiny(corpus)


@pytest.mark.parametrize(("hours", "jobs"), [(0.5, 1), (0.5, 4), (2, 2), (1e-3, 1), (1e3, 1)])
def test_a_short_time_shortens_all_trainings(hours, jobs):
    """`affordable_characters` fits five trainings into four fifths of the time.

    Each reads a million characters or more, if so many were requested."""
    row = {"seconds": 20.0, "learning_seconds": 10.0, "reading_seconds": 5.0}
    row |= {"millions": [0.2], "dev": [3.0]}
    recipe = TrainingRecipe(characters=50_000_000)
    read = affordable_characters(row, recipe, seconds=3600 * hours, jobs=jobs)
    assert 1_000_000 <= read <= 50_000_000
    if 1_000_000 < read < 50_000_000:
        seconds = 10 * read / 200_000 + 50 + 5
        n_rounds = max(-(-5 // jobs), 2)
        assert seconds * n_rounds == pytest.approx(0.8 * 3600 * hours, rel=0.01)
    assert (
        affordable_characters(row, TrainingRecipe(characters=300_000), seconds=1, jobs=1) == 300_000
    )


def test_the_speed_is_measured_before_long_trainings(corpus, monkeypatch):
    """Before long trainings, a short one measures the speed; its result is stored and used again.

    So a second call gives all trainings the same length."""
    monkeypatch.setattr("volt.trial.running.PROBE", 2_000)
    monkeypatch.setattr("volt.trial.running.affordable_characters", lambda row, recipe, **_: 5_000)
    result = tiny(corpus)
    assert (result.requested, result.characters) == (6_000, 5_000)
    n = result.n_characters
    change = LENGTH.size(n) / Training(read=5_000).size(n)
    size = min(max(round(result.best * change), result.sizes.values[0]), result.best)
    assert result.best_for_request == size
    assert "allows each training to read 5,000 of 6,000 characters" in result.warnings[0]
    assert f"to {size:,} tokens for 6,000" in result.warnings[0]
    rows = stored(corpus)
    assert [row["characters"] for row in rows] == [2_000] + [5_000] * (len(rows) - 1)
    assert tiny(corpus).rows == result.rows
    assert stored(corpus) == rows


ENDLESS = """
import sys
import threading
from volt.trial.running import Trainings
Trainings.command = lambda self, choice: [sys.executable, "-c", "import time; time.sleep(60)"]
from volt_cli.app import main
sys.argv = ["volt", "trial", "corpus.txt", "--hours", "1", "--read", "6000"]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.campaign)]
)
def test_a_signal_ends_a_trial_and_its_processes(tmp_path, number):
    """SIGTERM or SIGINT ends `volt trial` with the status 128 plus the signal, and its
    processes.
    """
    (tmp_path / "corpus.txt").write_text(made_up())
    program = [sys.executable, "-c", ENDLESS]
    process = subprocess.Popen(program, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
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
    """If another thread receives Ctrl-C, `run_each` still ends the processes, and raises the
    interrupt.
    """
    processes = ChildProcesses()
    statuses = []

    def upcoming(running):
        return [] if running else [1]

    def work(key):
        time.sleep(0.3)  # until the main thread waits
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        statuses.append(processes.run([sys.executable, "-c", "import time; time.sleep(20)"]).status)

    with pytest.raises(KeyboardInterrupt):
        run_each(upcoming, work, lambda *_: None, jobs=1, processes=processes)
    assert statuses == [-signal.SIGTERM]


def tiny_sides(folder, **options):
    """Run a trial of tiny translations, of words spelled backwards."""
    lines = made_up(600).splitlines()
    (folder / "a.txt").write_text("".join(f"{line}\n" for line in lines))
    (folder / "b.txt").write_text("".join(f"{line[::-1]}\n" for line in lines))
    usual = {"hours": 1, "jobs": 1, "device": "cpu", "training": LENGTH, "recipe": TINY}
    texts = (folder / "a.txt", folder / "b.txt")
    return run_sides(*texts, folder / "trial", **usual | options)


def test_an_interrupted_trial_of_a_translation_continues(tmp_path, monkeypatch):
    """A trial of a translation has two seeds of the best pair and of its neighbours.

    It repeats only trainings that are not in its file. Its folder belongs to these texts."""
    monkeypatch.setattr(ChildProcesses, "run", in_this_process)
    whole = tiny_sides(tmp_path)
    assert whole.left == ()
    assert whole.best.seeds == 2
    assert whole.first in {(pair.source, pair.target) for pair in whole.pairs}
    assert json.loads(json.dumps(whole.data))["best"]["source"] == whole.best.source

    path = tmp_path / "trial" / "trial.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:-9])
    notes = []
    again = tiny_sides(tmp_path, report=notes.append)
    assert timeless(again.rows) == timeless(whole.rows)
    assert n_trainings(notes) == len(lines) - 3
    assert {row["translations"] is not None for row in again.rows} == {True}

    corpus = tmp_path / "b.txt"
    message = "contains trainings on another text; choose another folder"
    with pytest.raises(ConfigError, match=message):
        run(corpus, tmp_path / "trial", hours=1, device="cpu", training=LENGTH, recipe=TINY)


@pytest.mark.parametrize(
    ("options", "message"),
    [({}, "missing .*'hours'$"), ({"hours": 1, "read": 9}, "^got an unexpected .*'read'$")],
)
def test_wrong_options_are_type_errors(tmp_path, options, message):
    """A TypeError for options that `run` does not have names the option, and no internal function."""
    with pytest.raises(TypeError, match=message):
        run_sides("a.txt", "b.txt", tmp_path, **options)
    with pytest.raises(TypeError, match=message):
        run_superwords("a.txt", tmp_path, **options)


def test_pairs_of_sizes_share_the_time(tmp_path, monkeypatch):
    """If the time does not allow a training of a translation, the error names the time that eight
    trainings need."""
    monkeypatch.setattr(ChildProcesses, "run", in_this_process)
    with pytest.raises(ConfigError, match=r"for 8, pass hours=0\.0"):
        tiny_sides(tmp_path, hours=1e-4)


def joined(corpus, amounts=(20, 0.1), **options):
    """Run a trial of superwords of tiny trainings."""
    usual = {"hours": 1, "jobs": 1, "device": "cpu", "training": LENGTH, "recipe": TINY}
    usual["select"] = 400
    return run_superwords(str(corpus), corpus.with_suffix(".trial"), amounts, **usual | options)


def test_a_trial_of_superwords_continues(corpus):
    """All vocabularies have the size, and the requested numbers of superwords; a second call repeats
    no training, and trials of sizes in the same folder are not affected.
    """
    sizes = tiny(corpus)
    result = joined(corpus)
    assert [number.superwords for number in result.numbers] == [0, 20, 40]
    assert {number.seeds for number in result.numbers} == {2}
    without, *others = result.numbers
    assert without.crossing == 0
    assert all(0 < number.crossing <= number.superwords for number in others)
    pieces = [number.pieces_per_character for number in result.numbers]
    assert pieces == sorted(pieces, reverse=True)
    assert result.left == ()
    n_results = len(stored(corpus))
    notes = []
    assert joined(corpus, (40, 0.05), report=notes.append).rows == result.rows
    assert n_trainings(notes) == 0
    assert tiny(corpus).rows == sizes.rows
    assert len(stored(corpus)) == n_results
    more = joined(corpus, [0.2])
    assert [number.superwords for number in more.numbers] == [0, 20, 40, 80]


def test_a_vocabulary_with_superwords_is_learned_from_train(corpus):
    """The superwords of a training are those that `learn_superwords` learns from train.txt."""
    joined(corpus, [40])
    path = Texts.read(corpus.with_suffix(".trial")).path("train")
    words = volt.learn_bpe(volt.count_words(path, level="bytes"), n_merges=400)
    both = volt.learn_superwords(words, path, 40, transition=words.merges_at(360))
    assert list(vocabulary_of(path, 400, 40).merges) == both.merges[: both.merges_at(400)]
    assert vocabulary_of(path, 400, 0).merges == tuple(words.merges[: words.merges_at(400)])


@pytest.mark.parametrize(
    ("amounts", "options", "message"),
    [
        ([1.5], {}, r"superwords is 1\.5"),
        ([-3], {}, "superwords is -3; give 1 or more"),
        (["many"], {}, "superwords is 'many'"),
        (0.1, {}, r"superwords is 0\.1 \(float\); give a list such as \[0\.1\]"),
        ([500], {}, "500 superwords and .* do not fit into 400 tokens; give at most"),
        ([9], {"select": "knees"}, "unknown rule 'knees'"),
        ([9], {"hours": 1e-4}, r"are needed; for 4, pass hours=0\.0"),
    ],
)
def test_impossible_superwords_are_refused(corpus, amounts, options, message):
    """`run_superwords` raises ConfigError for numbers that do not fit, before anything is trained."""
    with pytest.raises(ConfigError, match=message):
        joined(corpus, amounts, **options)


def test_a_text_without_spaces_has_no_superwords(corpus):
    """A text whose lines are long and contain no spaces ends the first training with the reason."""
    corpus.write_text(
        "".join(line.replace(" ", "") * 30 + "\n" for line in made_up(200).splitlines())
    )
    with pytest.raises(VoltError, match="has two words with a space between them"):
        joined(corpus, [20])


def test_one_word_lines_are_joined_to_text(corpus):
    """Lines of one word become segments of many words, across which superwords are learned."""
    corpus.write_text(made_up().replace(" ", "\n"))
    assert joined(corpus, [40]).numbers[1].crossing > 0


def test_a_row_of_superwords_needs_its_values(corpus):
    """A row with superwords that lacks the number of its pieces is not a result."""
    values = {"superwords": 9, "crossing": 5, "tokens": 900, "operations": [1.0, 2.0]}
    assert is_complete(ROW | values)
    with pytest.raises(ValueError, match="tokens is missing"):
        is_complete(ROW | {**values, "tokens": None})
