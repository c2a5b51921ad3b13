"""`volt shrink` and `volt search --extend`: the written files, and the refused options."""

import json

import numpy as np
import pytest
from support.commands import search_once

import volt

GERMAN = "die <x>Katze saß <x>auf der Matte\nder Hut den die Katze hatte\n" * 40


@pytest.fixture(name="model")
def _model(run):
    return search_once(run, "--special", "<x>", "--select", "fixed:18").rename("old.volt")


def test_a_vocabulary_grows_and_shrinks_again(run, model, tmp_path):
    """An extended vocabulary keeps all ids; --map of a shrunk one has the new id of each old id."""
    (tmp_path / "de.txt").write_text(GERMAN)
    run("search de.txt --extend old.volt --select fixed:45 -q -o both.volt")
    old = volt.read_vocabulary(model)
    both = volt.read_vocabulary("both.volt")
    assert both.pieces[: len(old)] == old.pieces
    assert len(both) > len(old)
    size = len(both) - 5
    command = f"shrink both.volt --to {size} --on de.txt"
    summary = json.loads(run(f"{command} -o less.volt --map m.json --json").stdout)
    run(f"{command} -q -o same.volt --map m.npy")
    less = volt.read_vocabulary("less.volt")
    new_ids = np.load("m.npy").tolist()
    assert less == volt.read_vocabulary("same.volt")
    assert json.loads((tmp_path / "m.json").read_text()) == new_ids
    assert [less.pieces[new_id] for new_id in new_ids if new_id >= 0] == list(less.pieces)
    assert (summary["ids"], summary["dropped"], len(less)) == (size, 5, size)
    pieces = volt.Encoder(less).encode_batch(GERMAN.splitlines())
    assert summary["pieces"] == sum(map(len, pieces))


def test_a_report_warns_of_the_wrong_texts(run, model, tmp_path):
    """A report says so if many pieces are unknown, or if --closed finds tokens that were dropped
    before."""
    (tmp_path / "zh.txt").write_text("我哋去食飯 low\n")
    message = run(f"shrink {model} --to 20 --on zh.txt -o a.volt").message
    assert "% of the pieces are unknown characters; --on may be of another language" in message
    size = len(volt.read_vocabulary(model)) - 1
    message = run(f"shrink {model} --to {size} --on corpus.txt --closed -o a.volt").message
    assert "unknown" not in message
    assert "--closed keeps" not in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--level bytes", "--level and --extend: MODEL defines how words are made; remove one"),
        ("--special <x>", "--special and --extend: MODEL keeps its special tokens; remove one"),
        (
            "--coverage 0.9",
            "--coverage SHARE and --extend: use --new-atoms leave to add no characters; remove one",
        ),
        ("--marker none", "--marker and --extend"),
        ("-o old.volt", "old.volt: would be written over old.volt, which is read"),
        ("--sizes 1:9:1", "size 1 is below the "),
        ("--to 10_000 -o a.volt", "to is 10,000, but the vocabulary has "),
        ("--to 1 -o a.volt", "ids must remain: 5 special tokens"),
        ("--to 20 -o old.volt", "old.volt: would be written over old.volt, which is read"),
        (
            "--to 20 -o a.npy --map a.npy",
            "a.npy: would be written over a.npy, which is written too",
        ),
        (
            "--to 20 -o a.volt --map a.txt",
            "--map a.txt: has an unknown format; end its name with .npy",
        ),
        ("--to 20 -o - --json", "would both write to stdout"),
    ],
)
def test_wrong_options_are_refused(run, model, options, message):
    """`volt shrink` and --extend refuse contradicting options, sizes out of range, and outputs that
    are inputs."""
    command = f"search corpus.txt --extend {model}"
    if "--to" in options:
        command = f"shrink {model} --on corpus.txt"
    status = 1 if message.startswith(("to is 10", "ids must", "size 1")) else 2
    assert message in run(f"{command} {options}", status=status).message


def test_new_atoms_need_extend(run):
    """`volt search --new-atoms` is refused without --extend."""
    assert "add --extend MODEL" in run("search corpus.txt --new-atoms add", status=2).message


def test_a_unigram_model_shrinks_but_does_not_grow(run, tmp_path):
    """`volt shrink` drops the tokens that cost the text the least probability, and keeps scores and
    characters; --extend is refused; `volt inspect` shows scores and no merges."""
    tokens = ("▁", "l", "o", "w", "▁low", "ow", "lo")
    scores = (-3.0, -4.0, -4.0, -4.0, -2.0, -3.0, -5.0)
    settings = {"marker": "none", "pretokenizer": "metaspace"}
    old = volt.Vocabulary((), tokens, scores=scores, **settings)
    old.save("u.volt")
    (tmp_path / "a.txt").write_text("low low\now\n")
    refused = run("search a.txt --extend u.volt -o x.volt", status=1).message
    assert "a unigram model has no merges" in refused
    size = len(old.ids) - 2
    report = run(f"shrink u.volt --to {size} --on a.txt -o less.volt").message
    assert f"{size} ids of {size + 2}, unigram" in report
    less = volt.read_vocabulary("less.volt")
    assert less.tokens == ("▁", "l", "o", "w", "▁low")
    assert less.scores == scores[:5]
    assert less.counts == (1, 0, 1, 1, 2)
    refused = run("shrink u.volt --to 1 --on a.txt -o y.volt", status=1).message
    assert "at least 8 ids must remain" in refused
    shown = run("inspect -m u.volt").stdout.decode()
    assert "model          unigram" in shown
    assert "unknown score  -15" in shown
    assert "merges" not in shown
