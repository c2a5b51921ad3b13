"""`volt warmup`: which loops it compiles, and where they are stored."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

import volt
from volt.kernels import jit
from volt.kernels.warmup import JOBS, kernel, missing
from volt.stream.running.stream import Stream
from volt.stream.transforms.registry import TRANSFORMS

compiles = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled in this run"
)


@compiles
def test_after_warmup_no_command_compiles(run, monkeypatch):
    """After `volt warmup`, no command compiles a loop; a second warmup reports that all are
    compiled."""
    run("warmup")
    assert "already compiled: " in run("warmup").message
    assert not missing(*JOBS)
    monkeypatch.setitem(sys.modules, "volt.kernels.compiling", None)  # an import fails
    Path("p.txt").write_text("the low hat\n")
    for command in (
        "search corpus.txt -o c.volt --candidates 10",
        "export -m c.volt --to subword-nmt -o c.codes",
        "search corpus.txt -o again.volt --candidates c.codes",
        "search a=corpus.txt b=p.txt --parity -o p.volt",
        "encode -m c.volt corpus.txt -o pieces",
        "encode -m c.volt corpus.txt --form ids -o ids",
        "encode -m c.volt corpus.txt --dropout 0.1 --seed 1",
        "encode -m c.volt corpus.txt --form ids --dropout 0.1 --seed 1",
        "decode -m c.volt --form ids ids",
    ):
        assert "compiling" not in run(command).message


def test_warmup_needs_a_writable_folder(run, monkeypatch):
    """`volt warmup` ends with status 1 if compiled code cannot be stored, and names
    NUMBA_CACHE_DIR."""
    monkeypatch.setattr(jit, "code_folder", lambda: None)
    assert "NUMBA_CACHE_DIR" in run("warmup", status=1).message


def test_every_loop_is_compiled_by_warmup():
    """Every loop that Python calls belongs to a job of `volt warmup`."""
    places = {place for places in JOBS.values() for place in places}
    for path in Path(volt.__file__).parent.glob("kernels/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and "releasing" in map(
                ast.unparse, node.decorator_list
            ):
                assert f"{path.stem}.{node.name}" in places


# A stream with every step

STEPS = """
- tag: x
- append: new
- {copy: {from: 1, to: 4}}
- repeat: 2
- choice: [{weight: 1, transforms: [lower]}, {weight: 1, transforms: [upper: {if_cased: 1}]}, {weight: 1}]
- title
- typos
- punctuation
- skip_blank
- bitext
- {match: {pattern: "q", fields: [1, 2]}}
- {regex: "QQ"}
- {length: {max: 99, unit: characters}}
- {length: 99}
- {ratio: 9}
- {where: "f1 <> 'q'"}
- {encode: {vocabulary: c.volt, dropout: 0.1, to: ids, fields: [1]}}
- {documents: {id_field: 3, max_tokens: 20, separator: sep}}
- {decode: {vocabulary: c.volt, fields: [1]}}
- {spm_encode: {model: unigram.model, alpha: 0.5, fields: [1]}}
- {spm_decode: {model: unigram.model, fields: [1]}}
- {spm_encode: {model: bpe.model, alpha: 0.5, fields: [2], to: ids}}
- {documents: {id_field: 3, separator: ""}}
- {user: {file: mine.py, function: same}}
- {multiply: 2}
- keep_fields: [1, 2]
- {sentencepiece: {model: unigram.model}}
- {drop: {rate: 0.3}}
- reorder
- {switchout: {vocabulary: c.volt, rate: 0.3}}
- {insertion: {vocabulary: c.volt, rate: 0.3}}
- {wb_noise: {vocabulary: unigram.model, rate: 0.3}}
- {morfessor_em: {model: em.txt}}
- {morfessor_em_taboo_reordered: {model: em.txt}}
- join_pieces
- {morfessor_em: {model: em.txt, theta: .inf}}
- {encode: {vocabulary: c.volt, to: ids, fields: [1]}}
- {strip_eos: {id: 2, fields: [1]}}
- {drop: {rate: 0.3}}
- {switchout: {vocabulary: c.volt, rate: 0.3, fields: [1]}}
- {filter_too_long: 500}
- {lang_prefix_both: {src_lang: a, tgt_lang: b}}
"""
MONO = """
- duplicate_mono
- {deterministic_segmentation: words.txt}
- keep_fields: [1]
- {morfessor_em_taboo: {model: em.txt}}
- keep_fields: [1]
- {taboo: {model: em.txt, segmenter: morfessor}}
"""


def train(kind):
    """Write a small SentencePiece model of this kind."""
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    words = ("low", "lower", "newest", "widest")
    lines = [f"the cat {word} sat on {word} mats" for word in words] * 20
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        minloglevel=2,
        vocab_size=60,
        hard_vocab_limit=False,
        model_type=kind,
    )
    Path(f"{kind}.model").write_bytes(model.getvalue())


def record_loops(monkeypatch, act):
    """Return the loops of streams that are called during a function."""
    names = set[str]()

    def watched(name, loop):
        def call(*arguments):
            names.add(name)
            return loop(*arguments)

        return call

    with monkeypatch.context() as patch:
        for name in {*JOBS["stream"], *JOBS["steps"], *JOBS["tokens"]}:
            module, function = name.split(".")
            patch.setattr(
                import_module(f"volt.kernels.{module}"), function, watched(name, kernel(name))
            )
        act()
    return names


def test_streams_call_only_compiled_types(run, monkeypatch):
    """Streams call all loops of their jobs, with the types that `volt warmup` compiles: others
    raise TypeError."""
    run("search corpus.txt -o c.volt --candidates 10")
    for kind in ("unigram", "bpe"):
        train(kind)
    Path("mine.py").write_text("def same(fields):\n    return fields\n")
    Path("a.tsv").write_text("Low low.\tthe cat\tx\nlower 1\tA hat!\tx\n" * 40)
    Path("few.tsv").write_text("a\tb\tx\n")
    rows = [{"src": "low", "tgt": "the cat", "id": "x"}, {"src": "É", "tgt": "q", "id": "y"}]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("stream.yaml").write_text(f"""\
sources:
  many: {{path: a.tsv, epochs: 2}}
  few: {{path: few.tsv, epochs: 2}}
  table: {{path: a.jsonl, columns: {{src: src, tgt: tgt, id: id}}, epochs: 2}}
ends: drop
transforms:{STEPS}""")
    pieces = "".join(
        f"{3 - n % 2}.5\t{piece}\n" for n, piece in enumerate("▁abcdefghijklmnopqrstuvwxyz")
    )
    Path("em.txt").write_text(pieces)
    words = [f"low{n}" for n in range(5000)]  # more than a new table has room for
    Path("words.txt").write_text("".join(f"{word}\tlo {word[2:]}\n" for word in words))
    Path("mono.txt").write_text("".join(f"{word} low1\n" for word in words))
    Path("mono.yaml").write_text(
        f"sources: {{one: {{path: mono.txt, epochs: 1}}}}\ntransforms:{MONO}"
    )
    used = record_loops(
        monkeypatch, lambda: [*Stream.from_config("stream.yaml"), *Stream.from_config("mono.yaml")]
    )
    missing = set(TRANSFORMS) - set(re.findall(r"\w+", STEPS + MONO))
    assert not missing, "add these transforms to STEPS of tests/cli/test_warmup.py"
    assert {*JOBS["steps"], *JOBS["tokens"]} <= used
