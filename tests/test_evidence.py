"""Laws of the evidence: runs continue after kills, curves are read as stored, losses follow their
definitions.
"""

import doctest
import gzip
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.places import ROOT

from volt.errors import ConfigError
from volt.trial.results import Curve, Results

pytest.importorskip("torch", reason="the models of the trials are made with torch")
FOLDERS = "evidence", "lm"
MODULES = [
    f"experiments.{folder}.{path.stem}"
    for folder in FOLDERS
    for path in sorted((ROOT / "experiments" / folder).glob("*.py"))
]
curves, grid, picks, results, running, tables = (
    import_module(f"experiments.evidence.{name}")
    for name in ("curves", "grid", "picks", "results", "running", "tables")
)
lm_data, texts_of = import_module("experiments.lm.data"), import_module("volt.trial.texts")
training = import_module("volt.trial.training")
BITS = curves.MEASURES["text"]
GOOD = (
    b'{"key": "lm|a", "kind": "lm", "corpus": "ted-fi", "size": 500, "seed": 1, "seconds": 1.5, '
    b'"dev": [2.5], "test": [2.5], "operations": [9.0]}'
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    """The examples of the modules' docstrings are correct."""
    if not name.endswith("__main__"):
        assert not doctest.testmod(
            import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE
        ).failed


@pytest.fixture
def corpora(tmp_path):
    """Write a folder of data with one language, of made-up words."""
    chance = random.Random(1)
    words = ["".join(chance.choices("aeiouklmnst", k=chance.randint(2, 7))) for _ in range(300)]
    weights = [1 / n for n in range(1, 301)]
    lines = [" ".join(chance.choices(words, weights, k=9)) for _ in range(1500)]
    write_finnish(tmp_path / "data", "\n".join(lines))
    return tmp_path / "data"


def write_finnish(data, text):
    """Write a folder of data whose only corpus is ted-fi."""
    (data / "ted").mkdir(parents=True)
    (data / "ted" / "Finnish.txt.gz").write_bytes(gzip.compress(text.encode()))


@pytest.fixture
def one_thread():
    """Use one thread of torch, as in trials, because results depend on it."""
    torch = import_module("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trained(texts, **options):
    """Return the result of a complete training."""
    *_, last = training.results_so_far(texts, **options)
    return dict(last)


def evidence(data, out, *more):
    """Return the command that runs small trials."""
    options = "--corpora ted-fi --sizes 500 --options characters=20000 --nice 0 --hours 1"
    folders = ["--data", data, "--out", out, "--work", out / "texts"]
    command = ["experiments.evidence", "run", *folders, *options.split(), *more]
    return [sys.executable, "-m", *map(str, command)]


def test_the_texts_of_a_corpus_contain_each_word_once(corpora, tmp_path):
    """Train, dev and test share no segment, and together they are the corpus."""
    texts = lm_data.prepared(corpora, "ted-fi", tmp_path / "work")
    parts = [texts.path(split).read_text() for split in texts_of.SPLITS]
    lines = lm_data.lines_of(corpora, "ted-fi")
    assert Counter("".join(parts).split()) == Counter(" ".join(lines).split())
    train, dev, test = (part.count("\n") for part in parts)
    assert train > 10 * dev > 0
    assert abs(dev - test) <= 1
    assert texts.characters["train"] == len(parts[0])


def test_other_data_has_a_folder_of_its_own(corpora, tmp_path):
    """Texts of two folders of data do not overwrite each other."""
    work = tmp_path / "work"
    texts = lm_data.prepared(corpora, "ted-fi", work)
    before = texts.path("train").read_bytes()
    write_finnish(tmp_path / "other", "ei mitaan\n" * 900)
    other = lm_data.prepared(tmp_path / "other", "ted-fi", work)
    assert other.fingerprint != texts.fingerprint
    assert texts.path("train").read_bytes() == before
    assert lm_data.prepared(corpora, "ted-fi", work) == texts


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.usefixtures("one_thread")
def test_a_killed_run_continues(corpora, tmp_path):
    """After a kill, each trial has one result, which a single training also gives."""
    process = subprocess.Popen(
        evidence(corpora, tmp_path, "--jobs", "1"), stderr=subprocess.DEVNULL, cwd=ROOT
    )
    while not results.read(tmp_path / "lm.jsonl"):
        time.sleep(0.05)
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    with (tmp_path / "lm.jsonl").open("ab") as file:
        file.write(b'{"key": "cut sh')
    again = subprocess.run(
        evidence(corpora, tmp_path), check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert "1 of 2 trials are finished" in again.stderr
    assert "\n1 new results\n" in again.stderr
    found = results.read(tmp_path / "lm.jsonl")
    assert [row["seed"] for row in found] == [1, 2]
    texts = lm_data.prepared(corpora, "ted-fi", tmp_path / "texts")
    for row in found:
        wanted = trained(
            texts, size=500, seed=row["seed"], recipe=training.TrainingRecipe(characters=20_000)
        )
        assert all(row[name] == wanted[name] for name in ("dev", "test", "tokens"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "ended", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.campaign)]
)
def test_a_signal_ends_a_run_at_once(corpora, tmp_path, ended):
    """A signal ends the run and its trials, which are not called failed."""
    command = evidence(corpora, tmp_path, "--options", "characters=200000000")
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background may not
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=ROOT, preexec_fn=heeds
    )
    assert process.stderr is not None
    try:
        lines = [process.stderr.readline() for _ in range(3)]
        assert lines[-1].endswith(": started\n")
        process.send_signal(ended)
        assert process.communicate(timeout=60)[1] == ""  # within a trial, which would take an hour
        assert process.returncode == 128 + ended
    finally:
        process.kill()
    assert results.read(tmp_path / "lm.jsonl") == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--options", "dropout=much"], "invalid option value: 'dropout=much'"),
        (
            ["--options", "rows=2"],
            "rows=2: give NAME=VALUE, with characters, width, inner, dropout, lr, products as NAME",
        ),
        (["--corpora", "de-en"], "de-en: no corpus de-en; choose from"),
    ],
)
def test_wrong_options_are_refused_before_any_trial(tmp_path, capsys, given, message):
    """Invalid options are errors of one line before any trial."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            import_module("experiments.evidence.__main__").main(
                evidence(tmp_path, tmp_path, *given)[3:]
            )
    finally:
        signal.signal(signal.SIGTERM, before)
    assert message in f"{capsys.readouterr().err}{ended.value.code}"
    assert not [*tmp_path.iterdir()]


def test_a_trial_whose_texts_changed_gives_no_result(corpora, tmp_path, monkeypatch):
    """A result with another text than the key of its trial is dropped."""
    trial = grid.Trial("lm", "ted-fi", 500, 1, (("characters", 2_000),))
    text = replace_training(monkeypatch, corpora, tmp_path)
    for key_text, n in ((text, 1), ("0123456789ab", 0)):
        notes = []
        path = tmp_path / f"{key_text}.jsonl"
        runner = run_trials(corpora, path, {trial: trial.key(key_text)}, notes.append)[0]
        assert (len(results.read(path)), runner.n_failed) == (n, 1 - n)
    assert notes[-1] == "lm ted-fi 500 seed 1: its texts changed during the run; no result"


def replace_training(monkeypatch, corpora, folder):
    """Replace training by a program that prints a result. Return the fingerprint of its texts."""
    text = lm_data.prepared(corpora, "ted-fi", folder / "texts").fingerprint
    result = {"text": text, "seconds": 1.0, "dev": [2.5], "test": [2.5], "operations": [9.0]}
    program = [sys.executable, "-c", f"print({json.dumps(result)!r})"]
    monkeypatch.setattr(grid.Trial, "command", lambda *_, **__: program)
    return text


def run_trials(corpora, path, keys, note):
    """Run the trials that have no result in a file. Return the runner and its summary."""
    work = path.parent / "texts"
    runner = running.Runner(corpora, work, device="cpu", note=note, nice=0)
    with Results.open(path, results.check) as stored:
        return runner, runner.run([*keys], keys, stored, until=math.inf, jobs=1)


def test_a_run_repeats_no_finished_trial(corpora, tmp_path, monkeypatch):
    """After a kill during writing, only trials without a result run."""
    text = replace_training(monkeypatch, corpora, tmp_path)
    path = tmp_path / "lm.jsonl"
    keys = {}
    for seed in (1, 2):
        trial = grid.Trial("lm", "ted-fi", 500, seed)
        keys[trial] = trial.key(text)
        assert run_trials(corpora, path, keys, str)[1] == "1 new results"
        assert [row["seed"] for row in results.read(path)] == [1, 2][:seed]
        with path.open("ab") as file:
            file.write(b'{"key": "cut sh')


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"key": "b"}', "kind is missing"),
        (GOOD.replace(b'"kind": "lm"', b'"kind": "nmt"'), "test is missing"),
    ],
)
def test_lines_without_the_values_of_a_trial_are_errors(tmp_path, line, message):
    """The error names the file, the line and the missing value."""
    path = tmp_path / "lm.jsonl"
    path.write_bytes(GOOD + b"\n" + line + b"\n")
    match = rf"lm.jsonl:2: not a result \({message}.*; fix or remove the line"
    with pytest.raises(ConfigError, match=match):
        results.read(path)


@pytest.mark.parametrize("size", [0, "many", None])
def test_picks_that_are_not_sizes_are_reported(tmp_path, size):
    """A file of picks without a size for each rule is an error."""
    rules = dict.fromkeys(picks.RULES, 4000)
    message = "picks.json: not a file of `picks` .*; write it again"
    for sizes in [rules | {"median500": size}, {"balanced": 4000}]:
        (tmp_path / picks.FILE).write_text(json.dumps({"ted-fi": {"text": "a", "picks": sizes}}))
        with pytest.raises(ConfigError, match=message):
            picks.read(tmp_path)


LOSSES = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 9), min_size=1)


@given(LOSSES)
def test_a_rule_is_reported_by_its_mean_and_worst(by_corpus):
    """The mean loss lies in its interval, between the least and the greatest loss."""
    found = tables.Regret.of("median500", by_corpus)
    values = sorted(by_corpus.values())
    assert found.mean == pytest.approx(sum(values) / len(values))
    assert found.worst == by_corpus[found.worst_corpus] == values[-1]
    assert values[0] - 1e-9 <= found.low <= found.mean + 1e-9
    assert found.mean - 1e-9 <= found.high <= values[-1] + 1e-9


SIZES = st.lists(st.integers(100, 40_000), min_size=2, max_size=7, unique=True).map(sorted)


@given(st.data())
def test_losses_are_zero_at_the_best_size_only(data):
    """No size has a negative loss, and a size between two others scores between them."""
    sizes = data.draw(SIZES)
    scores = data.draw(st.lists(st.floats(1, 3), min_size=len(sizes), max_size=len(sizes)))
    curve = Curve("a", np.array(sizes), tuple(np.array([score]) for score in scores))
    lost = [BITS.regret(curve, size) for size in (*sizes, data.draw(st.integers(1, 10**6)))]
    assert min(lost) >= 0
    assert min(lost[: len(sizes)]) == 0
    n = data.draw(st.integers(0, len(sizes) - 2))
    between = data.draw(st.integers(sizes[n], sizes[n + 1]))
    assert min(scores[n : n + 2]) - 1e-9 <= curve.at(between) <= max(scores[n : n + 2]) + 1e-9
    assert sizes[0] <= tables.smooth_best(curve) <= sizes[-1]


def test_rules_are_ranked_by_their_losses():
    """On made-up scores, losses are as computed by hand; more BLEU is better."""
    measure = curves.MEASURES["BLEU"]
    rows = [
        {"corpus": "a", "size": size, "seed": 1, "BLEU": bleu}
        for size, bleu in ((1000, 30.0), (4000, 32.0), (16000, 31.0))
    ]
    sizes = {"median500": 1000, "knee": 4000, "always 32,000": 32_000}
    sizes |= {"tokens": 32_001, "muv": 499, "f95": 500}
    regrets = tables.regrets(curves.curves(rows, measure), {"a": sizes}, measure)
    losses = {regret.rule: round(regret.mean, 6) for regret in regrets[1:]}
    assert list(losses.items()) == [
        ("knee", 0),
        ("always 32,000", 1),
        ("median500", 2),
        ("f95", 2),
    ]
    row = "| `f95` | 2.00 | 2.00–2.00 | 2.00 | a | 1 |"
    assert row in tables.regrets_table(regrets, measure)


FOLDER = ROOT / "experiments" / "evidence"


def committed():
    """Return the results that are part of the project."""
    return {kind: results.read(FOLDER / f"{kind}.jsonl") for kind in ("lm", "nmt")}


def test_committed_results_have_the_reported_recipes():
    """No result has another recipe, or another text than the rules picked on."""
    usable, stored = import_module("experiments.evidence.__main__").usable, picks.read(FOLDER)
    assert {kind: usable(FOLDER, kind, stored) for kind in ("lm", "nmt")} == committed()
    longer = FOLDER / "longer"
    assert (
        usable(longer, "lm", stored, {"characters": 20_000_000})
        == results.read(longer / "lm.jsonl")
        != []
    )
    assert usable(longer, "lm", stored) == []


def test_the_tables_follow_from_the_results():
    """TABLES.md equals the tables of the results and the picks."""
    longer = results.read(FOLDER / "longer" / "lm.jsonl")
    assert (FOLDER / "TABLES.md").read_text() == tables.document(
        committed(), picks.sizes(picks.read(FOLDER)), longer
    )


@pytest.mark.skipif("VOLT_DATA" not in os.environ, reason="the corpora are elsewhere")
def test_the_picks_follow_from_the_rules(tmp_path):
    """On a corpus of the trials, rules pick the sizes of picks.json."""
    texts = lm_data.prepared(Path(os.environ["VOLT_DATA"]), "ted-mr", tmp_path)
    stored = picks.read(ROOT / "experiments" / "evidence")["ted-mr"]
    model = picks.trained_model(training.TrainingRecipe())
    assert stored == {
        "text": texts.fingerprint,
        "picks": picks.picks_of([texts.path("train")], model),
    }


def made_up_bed(late):
    """Return three sizes, of which the smallest is far behind until its last reading."""
    stopping = import_module("experiments.evidence.stopping")
    scores = {500: (3.0, 2.5, 2.4, late), 2000: (2.4, 2.2, 2.1, 2.0), 8000: (2.3, 2.2, 2.1, 2.1)}
    runs = {size: [stopping.Run(size, dev, dev, 1.0)] for size, dev in scores.items()}
    return stopping.Bed(runs, n_characters=100_000, n_read=4e6, n_readings=4)


@pytest.mark.parametrize(("late", "is_dropped"), [(1.9, True), (2.3, False)])
def test_stopping_drops_a_size_that_improves_late(late, is_dropped):
    """A rule saves the readings after the stop, whether or not the size would have been the best."""
    stopping = import_module("experiments.evidence.stopping")
    bed = made_up_bed(late)
    assert stopping.all_known(bed, stopping.Behind(0.03, 0.5)) == (is_dropped, 12.0, 10.0)
    assert stopping.all_known(bed, stopping.RULES["no stopping (now)"]) == (False, 12.0, 12.0)


@pytest.mark.slow
def test_stopping_early_drops_best_sizes_or_saves_no_time():
    """On all stored trainings, every stopping rule drops best sizes or saves almost no time."""
    stopping, law = (
        import_module("experiments.evidence.stopping"),
        import_module("experiments.evidence.law"),
    )
    table = stopping.replayed(law.stored_rows())
    assert table["3 % behind at half (before)"] == [12, 20.5, 6, 3, 0.4]
    assert table["no stopping (now)"] == [0, 0, 0, 0, 0]
    for n_dropped, _, n_changed, _, saved in table.values():
        assert n_dropped + n_changed > 0 or saved <= 0.1


def test_equal_compute_is_the_cost_of_the_cheapest_complete_training():
    """A training that ended early does not set the limit; a longer one is read before its end."""
    rows = []
    for size, scores, operations in (
        (1, [3.0, 2.0], [1.0, 2.0]),
        (2, [2.5, 1.5], [2.0, 4.0]),
        (3, [1.0], [0.5]),
    ):
        scores = {"dev": scores, "test": scores}
        rows.append({"corpus": "a", "size": size, "operations": operations, **scores})
    [curve] = curves.curves(rows, curves.MEASURES["compute"])
    assert curve.means.tolist() == [2.0, 2.5, 1.0]


def test_the_pairs_of_a_bible_are_the_verses_that_both_languages_have(tmp_path):
    """Verses are joined by their names, not by their order."""
    sides = import_module("experiments.evidence.sides")
    (tmp_path / "bible").mkdir()
    for language, names in {"sw": "abd", "uk": "dcb"}.items():
        with gzip.open(tmp_path / "bible" / f"{language}.tsv.gz", "wt") as file:
            file.writelines(f"{name}\t{language} {name}\n" for name in names)
    source, target = sides.files_of(tmp_path, "bible-sw-uk", tmp_path)
    assert Path(source).read_text() == "sw b\nsw d\n"
    assert Path(target).read_text() == "uk b\nuk d\n"


def test_pairs_of_sizes_are_compared_with_one_size_by_seed():
    """A seed that one size lacks does not count, nor do pairs that have only such seeds."""
    sides = import_module("experiments.evidence.sides")
    scores = {
        (4000, 4000, 1): 2.0,
        (4000, 1000, 1): 2.1,
        (4000, 1000, 2): 9.0,
        (2000, 2000, 2): 9.0,
    }
    rows = [
        {"source": source, "size": target, "seed": seed, "millions": [1], "dev": [bits]}
        | {"test": [bits], "chrF++": 10 * bits, "BLEU": bits}
        for (source, target, seed), bits in scores.items()
    ]
    predicted = json.loads((sides.FOLDER / "predictions.json").read_text())["bible-sw-uk"]
    assert list(sides.table(rows, predicted)) == [
        "5 | 4000 | 4000 | one size | 2.0000 |  |  | 20.0 |  |  | 2.0 | 1 |",
        "5 | 4000 | 1000 | claim | 2.1000 | +5.00 | +1.5 | 21.0 | +1.0 | -0.6 | 2.1 | 1 |",
    ]
    assert list(sides.table(rows[2:], predicted)) == []
