"""The experiment on published tokenizers: it knows files by content, and tells an exact reading from another."""

import base64
import doctest
import gzip
import json
import random
from collections import Counter
from importlib import import_module

import pytest
from support.drawn import examples
from support.places import ROOT

import volt
from experiments.real_tokenizers import added_tokens, comparing, mutating, originals, texts
from experiments.real_tokenizers.__main__ import main
from experiments.real_tokenizers.finding import Found, find
from volt.text.pretokenizer import PreTokenizer

MODULES = sorted(path.stem for path in (ROOT / "experiments" / "real_tokenizers").glob("[a-z]*.py"))
LINES = ["low lower", "", "  lo\rw", "é 12345", "😀low"]
RANKS = [*(bytes([byte]) for byte in range(256)), b"lo", b"low", b" low"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    """The docstrings' examples give their results."""
    assert not doctest.testmod(import_module(f"experiments.real_tokenizers.{name}")).failed


def ranks_file(path):
    path.write_bytes(
        b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(RANKS))
    )
    return path


def test_files_are_known_by_content_whatever_their_names(tmp_path):
    """Each kind of file is recognised by content, also compressed; other files are not."""
    ranks = ranks_file(tmp_path / "a").read_bytes()
    (tmp_path / "b.gz").write_bytes(gzip.compress(ranks))
    (tmp_path / "c").write_text(json.dumps({"model": {"vocab": {}}}))
    (tmp_path / "d").write_text(json.dumps({"config": {"pattern": "a"}, "vocab": []}))
    (tmp_path / "e").write_bytes(b"\n\x0e\n\x05<unk>\x15\x00\x00\x00\x00\x18\x02")
    (tmp_path / "f").write_text('"bpe_simple_vocab_16e6.txt#version: 0.2\ni n\n')
    folder = tmp_path / "g"
    folder.mkdir()
    (folder / "vocab.json").write_text("{}")
    (folder / "merges.txt").write_text("#version: 0.2\ni n\n")
    (tmp_path / "h").write_text("low 1\nlow 2\n")
    (tmp_path / "i").write_text("{not json")
    assert {found.name: found.kind for found in find(tmp_path)} == {
        "a": "tiktoken",
        "b.gz": "tiktoken",
        "c": "tokenizer.json",
        "d": "tekken",
        "e": "sentencepiece",
        "f": "clip merges",
        "g/": "vocab + merges",
        "g/merges.txt": "merges",
    }


def own(path, shift):
    """Return VOLT in place of a library; with a shift, the letter w has another id."""
    encoder = volt.Encoder(path)
    odd = encoder.vocabulary.ids["w"]

    def encode(lines):
        encoded = encoder.encode_batch(lines)
        return [
            [n + shift * (n == odd) for n in encoded[line].tolist()] for line in range(len(lines))
        ]

    return originals.Original("volt", encode, dict)


@pytest.mark.parametrize("shift", [0, 1])
def test_a_file_is_exact_if_no_id_differs_and_the_first_difference_is_made_small(
    shift, tmp_path, monkeypatch
):
    """The comparison counts lines with other ids, and shows the smallest part that differs."""
    path = tmp_path / "a.volt"
    volt.Vocabulary(
        merges=(), tokens=tuple("low"), marker="none", pretokenizer=PreTokenizer("bytes")
    ).save(path)
    monkeypatch.setitem(originals.LOADERS, "own", lambda path: own(path, shift))
    found = Found("a", path, "own")
    pair, read = comparing.read(found)
    assert pair is not None
    done = comparing.compare(found, {"text": LINES}, pair, read)
    assert done.is_exact == (not shift)
    assert done.n_differing == {"text": 3 * shift}
    assert [(row.line, row.text) for row in done.first] == [(5, "w")] * shift  # the shortest line


def test_refusals_are_reported_from_missing_originals(tmp_path, monkeypatch, capsys):
    """A refused file is reported with its error; a missing original is not a refusal."""
    ranks_file(tmp_path / "unheard-of")
    (tmp_path / "damaged.json").write_text(json.dumps({"model": {"type": "BPE", "vocab": 1}}))
    monkeypatch.setitem(
        originals.LOADERS, "tokenizer.json", lambda path: originals.Original("none", list, dict)
    )
    text = tmp_path / "text.txt"
    text.write_bytes(b"low\n")
    out = tmp_path / "out.json"
    assert main([str(tmp_path), "--text", str(text), "--json", str(out)]) == 0
    message = {row["found"]["name"]: row for row in json.loads(out.read_text())}
    assert message["damaged.json"]["is_refusal"]
    assert "damaged.json" in message["damaged.json"]["refused"]
    assert not message["unheard-of"]["is_refusal"]
    assert "none is declared" in message["unheard-of"]["refused"]
    assert "0 of 2 files exact, 1 refused" in capsys.readouterr().out


def small_files():
    """Write two files that tokenizers trains and one of VOLT, with special tokens."""
    tokenizers = pytest.importorskip("tokenizers")
    files = {}
    for name, cut in (
        ("bytes", tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)),
        ("spaces", None),
    ):
        real = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
        real.pre_tokenizer = cut or tokenizers.pre_tokenizers.Metaspace()
        options = {"special_tokens": ["<unk>", "<s>", "<a>"], "show_progress": False}
        real.train_from_iterator(
            LINES * 9, tokenizers.trainers.BpeTrainer(vocab_size=90, **options)
        )
        files[name] = json.loads(real.to_str())
    return files


@pytest.mark.filterwarnings("ignore::volt.errors.VoltWarning")
def test_added_tokens_and_decoded_text_are_compared(tmp_path, capsys):
    """The table compares ids and text of each file; unexplained differences set the status."""
    for name, data in small_files().items():
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
    options = [str(tmp_path), "--lines", "40", "--rows", "40"]
    assert added_tokens.main(options) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(small_files())
    assert all("equal" in row for row in rows)
    other = added_tokens.compared([1, 2], [1, 3], ["a", "b"], notes=[])
    assert (other.text, other.example) == ("1 of 2 differ", "'b': 2, 3 there")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore::volt.errors.VoltWarning")
def test_no_change_of_a_file_is_read_silently_as_another(tmp_path):
    """A changed file gives the ids of tokenizers, a note, or a refusal."""
    files, lines = (
        small_files(),
        [*LINES, "a<unk>low", "x <s> ö", " <a>lo", *texts.hostile_lines(examples(15))],
    )
    learned = volt.search(volt.learn_bpe({"low": 5, "slow": 2, "lower": 3}), select=12).vocabulary
    volt.write_vocabulary(learned.closed(), tmp_path / "v.json", to="huggingface")
    files["own"] = json.loads((tmp_path / "v.json").read_text())
    found = mutating.outcomes([*files.items()], lines, examples(120), random.Random(3), tmp_path)
    kinds = Counter((one.kind, name, change) for name, change, one in found)
    assert not [key for key in kinds if key[0] in ("silent", "fault")]
    assert {kind for kind, *_ in kinds} >= {"equal", "announced", "refused"}


def test_texts_are_the_same_each_time_and_hold_what_they_promise(tmp_path):
    """Equal seeds give equal texts of UTF-8 lines with each kind of difficulty."""
    paths = [texts.make_texts(tmp_path / name, None, n_lines=90, n_hostile=300) for name in "ab"]
    assert [path.read_bytes() for path in paths[0]] == [path.read_bytes() for path in paths[1]]
    lines = texts.hostile_lines(300)
    assert len(lines) == 300
    text = "".join(lines)
    assert not any("\n" in line for line in lines)
    assert all(
        sign in text
        for sign in ("\r", "\U0010ffff", "\x00", "\u2028", "<|endoftext|>", "[INST]", "ſ", "🇫🇮")
    )
    assert max(map(len, lines)) >= 1_000
    assert len(texts.prose_lines(90, None)) == 90
