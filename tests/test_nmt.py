"""The experiment that trains a translation model: it goes on bit for bit, and its model sees what masks say."""

from __future__ import annotations

import doctest
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from importlib import import_module
from itertools import islice, product
from pathlib import Path

import pytest
from places import ROOT

from volt.errors import CandidateError, ConfigError, StreamError, VoltError

torch = pytest.importorskip("torch", reason="the model of experiments/nmt is made with torch")
MODULES = sorted(path.stem for path in (ROOT / "experiments" / "nmt").glob("[a-z]*.py"))
data, model, train, translate = (
    import_module(f"experiments.nmt.{name}") for name in ("data", "model", "train", "translate")
)
TINY = train.Recipe(
    vocabulary="utility",
    max_tokens=96,
    window=36,
    width=16,
    inner=16,
    heads=2,
    layers=1,
    dropout=0.1,
    lr=0.02,
    warmup=20,
)
EOS = 2
PAIRS = [
    ("a dog runs", "ein Hund läuft"), ("a cat sleeps", "eine Katze schläft"), ("two dogs run", "zwei Hunde laufen"),
    ("two cats sleep", "zwei Katzen schlafen"), ("a man sleeps", "ein Mann schläft"), ("a man runs", "ein Mann läuft"),
    ("two men run", "zwei Männer laufen"), ("a dog sleeps", "ein Hund schläft"), ("a cat runs", "eine Katze läuft"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def deterministic() -> Iterator[None]:
    """One thread, and algorithms that give the same bits each time; what was set before comes back."""
    threads, before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(before)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Lines in two languages."""
    folder = tmp_path / "data"
    folder.mkdir()
    for place, language in enumerate(("en", "de")):
        for split in ("train", "val"):
            (folder / f"{split}.{language}").write_text("".join(f"{pair[place]}\n" for pair in PAIRS), encoding="utf-8")
    return folder


def prepared(corpus: Path, name: str, recipe=TINY) -> Path:
    """The folder of a run with its vocabulary and its stream."""
    run = corpus.parent / name
    sizes = {"max_tokens": recipe.max_tokens, "window": recipe.window}
    data.prepare(corpus, run, languages=("en", "de"), rule=recipe.vocabulary, seed=recipe.seed, **sizes)
    return run


def logged(run: Path) -> bytes:
    return (run / train.LOG).read_bytes()


def test_a_training_that_is_cut_short_goes_on_bit_for_bit(corpus: Path) -> None:
    """Left two steps behind its checkpoint and taken up with other workers, it logs what an undisturbed one logs."""
    whole, cut = prepared(corpus, "whole"), prepared(corpus, "cut")
    assert len(list(train.training(whole, TINY, n_steps=8))) == 8
    assert len(list(islice(train.training(cut, TINY, n_steps=8, every=3), 5))) == 5
    with (cut / train.LOG).open("ab") as log:
        log.write(b'{"step": 6, "lo')  # what a kill leaves of a line
    again = list(train.training(cut, TINY, n_steps=8, every=3, workers=2))
    assert [step["step"] for step in again] == [4, 5, 6, 7, 8]
    assert logged(cut) == logged(whole)
    found = [json.loads(line) for line in logged(whole).splitlines()]
    assert all(float.fromhex(step["hex"]) == step["loss"] for step in found)
    assert len({step["hex"] for step in found}) == 8
    assert not list(train.training(cut, TINY, n_steps=8))  # there is nothing left to do


def test_dropout_and_the_order_of_lines_are_part_of_what_goes_on(corpus: Path) -> None:
    """Another seed gives other losses from the first step on: bits do not agree by themselves."""
    first = []
    for seed in (1, 2):
        recipe = replace(TINY, seed=seed)
        first += [next(train.training(prepared(corpus, f"run{seed}", recipe), recipe, n_steps=1))["hex"]]
    assert len({*first}) == 2


def test_a_checkpoint_of_other_options_is_refused_by_name(corpus: Path) -> None:
    """What differs is told, and nothing is trained."""
    run = prepared(corpus, "run")
    list(train.training(run, TINY, n_steps=1))
    before = logged(run)
    with pytest.raises(ConfigError, match="is of a training with seed 1, not 2, width 16, not 32; give that"):
        next(train.training(run, replace(TINY, width=32, seed=2), n_steps=2))
    (run / data.CONFIGURATION).write_text((run / data.CONFIGURATION).read_text().replace("seed: 1", "seed: 5"))
    with pytest.raises(StreamError, match="seed"):
        next(train.training(run, TINY, n_steps=2))
    assert logged(run) == before


def test_padding_and_what_comes_later_change_no_score() -> None:
    """Scores are those of rows without padding, on whichever side the source has it; a place sees none behind it."""
    torch.manual_seed(3)
    one = model.Transformer(model.Shape(n_ids=12, width=16, inner=16, heads=2, layers=2)).eval()
    source, target = torch.tensor([[4, 5, 6, 2]]), torch.tensor([[2, 7, 8]])
    yes, no = torch.ones(1, 4, dtype=torch.bool), torch.zeros(1, 2, dtype=torch.bool)
    wanted = one(source, yes, target, yes[:, :3])
    pads = torch.full((1, 2), 3)
    longer, mask = torch.cat([target, pads], 1), torch.cat([yes[:, :3], no], 1)
    for sources, masks in (([pads, source], [no, yes]), ([source, pads], [yes, no])):
        found = one(torch.cat(sources, 1), torch.cat(masks, 1), longer, mask)
        torch.testing.assert_close(found, wanted)
    other = one(source, yes, torch.tensor([[2, 7, 9]]), yes[:, :3])
    torch.testing.assert_close(other[:2], wanted[:2])
    assert not torch.allclose(other[2], wanted[2])


def test_a_model_learns_its_lines_and_translates_them_in_order_as_text(corpus: Path) -> None:
    """Trained long enough on few lines it gives them back, without a trace of pieces, greedily and by beam."""
    recipe = replace(TINY, width=32, inner=64, dropout=0.0, smoothing=0.0)
    run = prepared(corpus, "run", recipe)
    losses = [step["loss"] for step in train.training(run, recipe, n_steps=100)]
    assert losses[-1] < 0.1 < losses[0]
    cpu = torch.device("cpu")
    system = translate.System.load(run, cpu)
    for beam in (1, 3):
        with data.ordered_steps(corpus, run, "val", languages=("en", "de"), max_tokens=60) as steps:
            found = translate.translated(system, steps, device=cpu, beam=beam)
        assert found == [target for _, target in PAIRS]


def test_products_of_bfloat16_learn_nearly_the_same(corpus: Path) -> None:
    """As on a GPU, here by the processor: the first loss differs in the third digit, and the model learns as well."""
    recipe = replace(TINY, width=32, inner=64, dropout=0.0)
    vocabulary = data.searched([corpus / "train.en", corpus / "train.de"], recipe.vocabulary).vocabulary
    cpu, losses = torch.device("cpu"), []
    for is_used in (False, True):
        learner = train.Learner(recipe, len(vocabulary), device=cpu, world=1)
        learner.products = torch.autocast("cpu", torch.bfloat16, enabled=is_used)
        with data.ordered_steps(
            corpus, prepared(corpus, f"{is_used}"), "train", languages=("en", "de"), max_tokens=96
        ) as steps:
            (arrays, *_) = steps
        losses.append([learner.learn(arrays, step)["loss"] for step in range(1, 41)])
    exact, rounded = losses
    assert rounded[0] != exact[0]
    assert rounded[0] == pytest.approx(exact[0], rel=0.01)
    assert rounded[-1] == pytest.approx(exact[-1], rel=0.1)
    assert rounded[-1] < 0.7 * rounded[0]


def test_a_beam_that_keeps_everything_finds_the_best_translation() -> None:
    """Of all that three pieces can say, ended or cut short, it is the one whose pieces have the greatest mean log p."""
    torch.manual_seed(5)
    one = model.Transformer(model.Shape(n_ids=4, width=16, inner=16, heads=2, layers=1)).eval()
    source, mask = torch.tensor([[0, 1, 2], [1, 1, 2]]), torch.ones(2, 3, dtype=torch.bool)
    found = translate.search(one, source, mask, eos=EOS, pad=3, beam=60, most=3)
    said = [(*pieces, EOS) for n in range(3) for pieces in product((0, 1), repeat=n)] + [*product((0, 1), repeat=3)]

    def mean(row: int, pieces: tuple[int, ...]) -> float:
        before, whole = torch.tensor([[EOS, *pieces[:-1]]]), torch.ones(1, len(pieces), dtype=torch.bool)
        logs = one(source[row : row + 1], mask[:1], before, whole).log_softmax(-1)
        found: float = logs[range(len(pieces)), pieces].mean().item()
        return found

    for row, best in enumerate(found):
        wanted = max(said, key=lambda pieces, row=row: mean(row, pieces))
        assert tuple(best) == tuple(piece for piece in wanted if piece != EOS)


@pytest.mark.parametrize(
    ("command", "faulty", "said"),
    [
        ("train", ["--every", "0"], "argument --every: 0: give a whole number, 1 or more"),
        ("train", ["--steps", "-3"], "argument --steps: -3: give a whole number, 1 or more"),
        ("train", ["--heads", "3", "--width", "16"], "3 heads, width 16: give a width that is a multiple of 6"),
        ("train", ["--heads", "2", "--width", "6"], "2 heads, width 6: give a width that is a multiple of 4"),
        ("train", ["--device", "cuda:99"], "argument --device: cuda:99: torch finds no such device here; give cpu"),
        ("train", ["--device", "abacus"], "argument --device: abacus: no device; give cpu or cuda"),
        ("train", ["--dropout", "1"], "argument --dropout: 1: give a number from 0 to below 1"),
        ("train", ["--end", "300"], "argument --end: 300: give more than the 400 steps of --warmup, or 0"),
        ("train", ["--seed", str(1 << 63)], f"give a whole number from 0 to {(1 << 63) - 1}"),
        ("translate", ["--beam", "0"], "argument --beam: 0: give a whole number, 1 or more"),
        ("translate", ["--device", "cuda:99"], "argument --device: cuda:99: torch finds no such device"),
    ],
)
def test_options_out_of_range_are_refused_before_anything_is_written(
    corpus: Path, capsys: pytest.CaptureFixture[str], command: str, faulty: list[str], said: str
) -> None:
    """One line names the option, and no folder is made."""
    run = corpus.parent / "run"
    own = {"train": ["--out", str(run), "--steps", "2"], "translate": ["--run", str(run)]}[command]
    with pytest.raises(SystemExit):
        {"train": train, "translate": translate}[command].main(["--data", str(corpus), *own, *faulty])
    assert said in capsys.readouterr().err
    assert not run.exists()


def test_a_model_that_fails_leaves_no_checkpoint(corpus: Path) -> None:
    """The next call, with options that are right, starts afresh."""
    run = prepared(corpus, "run")
    with pytest.raises(RuntimeError):
        next(train.training(run, replace(TINY, heads=3), n_steps=1))
    assert not (run / train.CHECKPOINT).exists()
    assert len(list(train.training(run, TINY, n_steps=1))) == 1


def test_a_run_that_goes_on_with_other_data_is_told(corpus: Path) -> None:
    """It would read the files of before."""
    run, other = prepared(corpus, "run"), corpus.parent / "other"
    list(train.training(run, TINY, n_steps=1))
    shutil.copytree(corpus, other)
    options = {name: str(value) for name, value in asdict(TINY).items()}
    told = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    with pytest.raises(SystemExit, match=r"stream.yaml: goes on with other files than .*train.en; give the --data of"):
        train.main(["--data", str(other), "--out", str(run), "--steps", "2", "--threads", "1", *told])


def test_two_trainings_do_not_write_into_one_folder(corpus: Path) -> None:
    """The second is told."""
    checkpoints = import_module("experiments.nmt.checkpoints")
    told = ["--data", str(corpus), "--out", str(corpus.parent / "run"), "--steps", "1"]
    with checkpoints.alone(corpus.parent / "run"), pytest.raises(SystemExit, match="another training writes into it"):
        train.main(told)


def test_a_vocabulary_of_another_size_is_told(corpus: Path) -> None:
    """For training and translating."""
    run = prepared(corpus, "run")
    list(train.training(run, TINY, n_steps=1))
    for language in ("en", "de"):
        (corpus / f"train.{language}").write_text("qqq xyz\n" * 9)
    other = prepared(corpus, "other")
    shutil.copy(other / data.VOCABULARY, run / data.VOCABULARY)
    with pytest.raises(ConfigError, match=r"checkpoint.pt: weights of another model"):
        translate.System.load(run, torch.device("cpu"))
    with pytest.raises(ConfigError, match=r"checkpoint.pt: weights of another model"):
        next(train.training(run, TINY, n_steps=2))


def test_a_rate_that_is_too_high_ends_the_training(corpus: Path) -> None:
    """With the step, and a log without it."""
    recipe = replace(TINY, lr=1e30, warmup=1)
    run = prepared(corpus, "run", recipe)
    with pytest.raises(ConfigError, match=r"step \d: the loss is (nan|inf); give a lower --lr"):
        list(train.training(run, recipe, n_steps=9))
    assert b"NaN" not in logged(run)


def test_languages_are_names_and_no_patterns(corpus: Path) -> None:
    """Even if a pattern would find one file."""
    with pytest.raises(ConfigError, match=r"train.\*, plain or compressed: no such file"):
        data.file_of(corpus, "train", "*")


def test_a_checkpoint_that_is_cut_short_is_told(corpus: Path) -> None:
    """With its path and what to do, for training and translating; the log is left as it was."""
    run = prepared(corpus, "run")
    list(train.training(run, TINY, n_steps=1))
    path, before = run / train.CHECKPOINT, logged(run)
    whole = path.read_bytes()
    for part in (b"", whole[:100], whole[: len(whole) // 2], b"text"):
        path.write_bytes(part)
        with pytest.raises(ConfigError, match=r"checkpoint.pt: no whole checkpoint \(.*\); put a copy of it there, or"):
            next(train.training(run, TINY, n_steps=2))
        with pytest.raises(ConfigError, match=r"checkpoint.pt: no whole checkpoint"):
            translate.System.load(run, torch.device("cpu"))
    torch.save({"options": {}}, path)
    with pytest.raises(ConfigError, match=r"a checkpoint without chances, model, optimizer, steps; put"):
        next(train.training(run, TINY, n_steps=2))
    assert logged(run) == before


def test_what_a_run_finds_is_said(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log that has been removed is noted, and a run that has nothing left to do says so."""
    run = prepared(corpus, "run")
    list(train.training(run, TINY, n_steps=2))
    (run / train.LOG).unlink()
    assert [step["step"] for step in train.training(run, TINY, n_steps=3)] == [3]
    assert "losses.jsonl: 2 of the 2 steps before the checkpoint are missing" in capsys.readouterr().err
    options = {name: str(value) for name, value in asdict(TINY).items()}
    told = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    train.main(["--data", str(corpus), "--out", str(run), "--steps", "3", "--threads", "1", *told])
    assert "nothing left to do: " in capsys.readouterr().err


def test_a_trial_scores_text_that_it_did_not_see(corpus: Path) -> None:
    """It ends after so many updates or as soon as val becomes no better, and says the same when it is repeated."""
    pytest.importorskip("sacrebleu", reason="it scores translations")
    trial = import_module("experiments.nmt.trial")
    for language in ("en", "de"):
        (corpus / f"test2016.{language}").write_text((corpus / f"val.{language}").read_text())
    recipe = replace(TINY, vocabulary="40", source="de", target="en")
    plan = trial.Plan(updates=60, rows=4, readings=6, patience=2, average=0.5)
    first, again = (trial.trial(corpus, recipe, plan) for _ in range(2))
    assert first.keys() == again.keys()
    assert all(first[name] == again[name] for name in ("updates", "dev", "test", "BLEU", "chrF2", "tokens"))
    assert first["updates"][:2] == [10, 20]
    assert first["test"] == min(first["dev"])  # the test is the same text here, and the best weights were kept
    assert [one.split("|")[0] for one in first["signatures"]] == ["nrefs:1", "nrefs:1"]
    (corpus / "test2016.en").write_text("one\n")
    with pytest.raises(VoltError, match=r"test2016"):  # before it learns
        trial.Trial(corpus, corpus, recipe, plan, device="cpu")
    with pytest.raises(CandidateError, match="size 5000 is above"):
        trial.vocabulary_of(corpus, ("de", "en"), 5000)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_experiment_run(name: str) -> None:
    """What the docstrings show is so."""
    assert not doctest.testmod(
        import_module(f"experiments.nmt.{name}"), optionflags=doctest.NORMALIZE_WHITESPACE
    ).failed
