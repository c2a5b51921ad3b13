"""The trial translations: the model sees what masks allow, and the beam finds the best."""

import doctest
from dataclasses import replace
from importlib import import_module
from itertools import product

import pytest
from support.places import ROOT

from volt.errors import CandidateError, ConfigError

torch = pytest.importorskip("torch", reason="the model of experiments/nmt needs torch")
MODULES = sorted(path.stem for path in (ROOT / "experiments" / "nmt").glob("[a-z]*.py"))
learner, model, trial = (
    import_module(f"experiments.nmt.{name}") for name in ("learner", "model", "trial")
)
Shape = import_module("volt.trial.language_model").Shape
TINY = learner.Recipe(
    "de", "en", vocabulary="40", width=16, inner=16, heads=2, layers=1, lr=0.02, warmup=20
)
EOS = 2
PAIRS = [
    ("a dog runs", "ein Hund läuft"),
    ("a cat sleeps", "eine Katze schläft"),
    ("two dogs run", "zwei Hunde laufen"),
    ("two cats sleep", "zwei Katzen schlafen"),
    ("a man sleeps", "ein Mann schläft"),
    ("a man runs", "ein Mann läuft"),
    ("two men run", "zwei Männer laufen"),
    ("a dog sleeps", "ein Hund schläft"),
    ("a cat runs", "eine Katze läuft"),
]


@pytest.fixture(autouse=True)
def deterministic():
    """Use one thread, and algorithms that give equal bits each time."""
    threads, before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(before)


@pytest.fixture
def corpus(tmp_path):
    """Write lines in two languages."""
    folder = tmp_path / "data"
    folder.mkdir()
    for place, language in enumerate(("en", "de")):
        for split in ("train", "val", "test2016"):
            (folder / f"{split}.{language}").write_text(
                "".join(f"{pair[place]}\n" for pair in PAIRS), encoding="utf-8"
            )
    return folder


def test_padding_and_later_places_change_no_score():
    """The experiments' translation model scores a row as it does without padding, and a position
    sees no later position."""
    torch.manual_seed(3)
    one = model.Transformer(Shape(n_ids=12, width=16, inner=16, heads=2, layers=2)).eval()
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


def test_a_beam_that_keeps_everything_finds_the_best_translation():
    """A beam of all sequences finds the one with the greatest mean log p."""
    torch.manual_seed(5)
    one = model.Transformer(Shape(n_ids=4, width=16, inner=16, heads=2, layers=1)).eval()
    source, mask = torch.tensor([[0, 1, 2], [1, 1, 2]]), torch.ones(2, 3, dtype=torch.bool)
    found = model.search(one, source, mask, eos=EOS, pad=3, beam=60, most=3)
    sequences = [(*pieces, EOS) for n in range(3) for pieces in product((0, 1), repeat=n)]
    sequences += [*product((0, 1), repeat=3)]

    @torch.inference_mode()
    def mean(row, pieces):
        before, whole = (
            torch.tensor([[EOS, *pieces[:-1]]]),
            torch.ones(1, len(pieces), dtype=torch.bool),
        )
        logs = one(source[row : row + 1], mask[:1], before, whole).log_softmax(-1)
        return float(logs[range(len(pieces)), pieces].mean())

    for row, best in enumerate(found):
        wanted = max(sequences, key=lambda pieces, row=row: mean(row, pieces))
        assert tuple(best) == tuple(piece for piece in wanted if piece != EOS)


def test_a_model_learns_its_lines_and_translates_them_in_order(corpus):
    """After long training on few lines, greedy and beam search return the lines."""
    recipe = replace(TINY, width=32, inner=64, dropout=0.0, smoothing=0.0)
    one = trial.Trial(
        corpus, recipe, trial.Plan(updates=150, rows=9, average=0.5, readings=1), device="cpu"
    )
    assert len(list(one.readings())) == 1
    for beam in (1, 3):
        one.plan = replace(one.plan, beam=beam)
        assert one.translated(one.mean.module.eval(), "val") == [english for english, _ in PAIRS]


def test_a_trial_scores_unseen_text_and_repeats_its_result(corpus):
    """A trial repeats its result with equal seeds, and checks its options first."""
    pytest.importorskip("sacrebleu", reason="it scores translations")
    plan = trial.Plan(updates=30, rows=4, readings=6, patience=2, average=0.5)
    first, again, other = (
        trial.trial(corpus, replace(TINY, seed=seed), plan) for seed in (1, 1, 2)
    )
    names = ("updates", "dev", "test", "BLEU", "chrF2", "tokens")
    assert [first[name] for name in names] == [again[name] for name in names]
    assert first["dev"] != other["dev"]
    assert first["updates"][:2] == [5, 10]
    assert first["test"] == min(
        first["dev"]
    )  # the test is the same text, and the best weights were kept
    (corpus / "test2016.en").unlink()
    with pytest.raises(ConfigError, match=r"test2016.en, plain or compressed: no such file"):
        trial.Trial(corpus, TINY, plan, device="cpu")
    with pytest.raises(CandidateError, match="size 5000 is above"):
        learner.vocabulary_of(corpus, ("de", "en"), 5000)


def test_a_rate_that_is_too_high_ends_the_training(corpus):
    """A learning rate that makes the loss infinite is an error that names the step."""
    one = trial.Trial(
        corpus,
        replace(TINY, lr=1e30, warmup=1),
        trial.Plan(updates=9, rows=4, readings=1),
        device="cpu",
    )
    with pytest.raises(ConfigError, match=r"step \d: the loss is (nan|inf); give a lower --lr"):
        list(one.readings())


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_model_run(name):
    """The examples in the docstrings of the translation model give their results."""
    module = import_module(f"experiments.nmt.{name}")
    assert not doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed
