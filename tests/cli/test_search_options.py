"""`volt search` with many options at once finds what the library finds, and each option counts beside all others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from commands import Run, options_of

import volt
from volt.choose.report import as_data
from volt.errors import VoltError
from volt.text.pretokenizer import PreTokenizer

Options = dict[str, dict[str, Any]]  # options, and the arguments of the library that they stand for

TEXTS = {
    "a": "the Cat\tsat <x> on the mat.\nThe hat, that\tthe mat had sat on Ω\n" * 5
    + "q\tzebra mat.hat Ωω\n\udcff\t\n",
    "b": "der Hut\tdie Matte, die Mäuse hatten\nso\tdie <x> Hütte that the Man\n" * 3
    + "q\tΩ Matte.Hut\n",
}
MERGES = [
    ("t", "h"),
    ("a", "t"),
    ("th", "e"),
    ("h", "at"),
    ("s", "at"),
    ("d", "i"),
    ("i", "e"),
    ("di", "e"),
    ("d", "ie"),
]
SKIP: Options = {"--encoding-errors skip": {"errors": "skip"}}
OFTEN: Options = {"--min-count 2": {"min_count": 2}}
COUNTING: Options = {**SKIP, **OFTEN, "--fields 2": {"fields": 2}}
LOWERCASE: Options = {"--normalizer lowercase": {"normalizer": "lowercase"}}
WORDS: Options = {**LOWERCASE, "--pretokenizer unicode": {"pretokenizer": "unicode"}}
BYTES: Options = {
    "--pattern gpt2 --level bytes": {"pretokenizer": PreTokenizer.of_pattern("gpt2", level="bytes")}
}
MARKER: Options = {"--marker prefix": {"marker": "prefix"}}
LEAST: Options = {"--min-pair-count 7": {"min_pair_count": 7}}
TEMPERATURE: Options = {"--temperature 3": {"temperature": 3}}
PARAMETERS: Options = {
    "--transport length=occurrence": {"length": "occurrence"},
    "--transport mass=characters": {"mass": "characters"},
    "--transport epsilon=0.5": {"epsilon": 0.5},
    "--transport row_tau=0.5": {"row_tau": 0.5},
    "--transport column_tau=0.25": {"column_tau": 0.25},
    "--transport min_share=0.5": {"min_share": 0.5},
    "--transport max_iters=2": {"max_iters": 2},
}
SPECIAL: Options = {
    **{f"--{role} [{role}]": {role: f"[{role}]"} for role in ("unk", "bos", "eos", "pad")},
    "--special <x>": {"user": ("<x>",)},
    "--byte-fallback": {"byte_fallback": True},
}
MODEL: Options = {"--model-params 100 --model-width 2": {"model": volt.LanguageModel(100, 2)}}
SEARCHING: Options = {
    **PARAMETERS,
    **MODEL,
    "--sizes 18:22:2": {"sizes": range(18, 23, 2)},
    "--select fixed:19": {"select": 19},
    "--multiple-of 3": {"multiple_of": 3},
    "--epochs 2": {"training": volt.Training(2)},
}
PARITY: Options = {"--parity": {"parity": True}, "--parity-unit byte": {"unit": "byte"}}
EXTENDING: Options = {"--extend old.volt": {"old": True}, "--new-atoms leave": {"new_atoms": False}}
ALL = {**COUNTING, **WORDS, **SPECIAL, **SEARCHING}
# The options that go together. Those of one way to find merges exclude those of the others.
WAYS: dict[str, Options] = {
    "learned": {
        **ALL,
        **MARKER,
        "--coverage 0.98": {"coverage": 0.98},
        "--candidates 12": {"n_merges": 12},
    },
    "replayed": {**ALL, **MARKER, "--candidates codes": {"merges": MERGES}},
    "mixed": {**ALL, **MARKER, **LEAST, **TEMPERATURE},
    "alike": {**ALL, **MARKER, **LEAST, **TEMPERATURE, **PARITY},
    "extended": {**COUNTING, **SEARCHING, **LEAST, **EXTENDING},
    "columns": {
        **LOWERCASE,
        **BYTES,
        **TEMPERATURE,
        **SKIP,
        **OFTEN,
        "--column text": {"column": "text"},
    },
    "tables": {**TEMPERATURE, **SKIP, **OFTEN, "--word-counts": {"word_counts": True}},
    "until decided": {
        **COUNTING,
        **WORDS,
        **SPECIAL,
        **MODEL,
        **MARKER,
        "--read 1K": {"training": volt.Training(read=1000)},
    },
}
NAMED = ("mixed", "alike", "columns", "tables")
APART = """--help --engine --address --memory --approximate --keep --output --force --all --json --quiet --per-source
    --max-line"""  # where something runs, goes, or ends: tested by themselves


def test_no_option_is_left_out() -> None:
    """Every option of `volt search` is used together with others."""
    used = {
        word
        for options in WAYS.values()
        for word in " ".join(options).split()
        if word.startswith("--")
    }
    assert used == {name for name in options_of(["search"]) if name.startswith("--")} - set(
        APART.split()
    )


def written(options: Options) -> list[str]:
    """Write the texts in the form that the options read; return the files' names."""
    names = [f"{name}.{'jsonl' if '--column text' in options else 'txt'}" for name in TEXTS]
    for name, text in zip(names, TEXTS.values(), strict=True):
        lines = text.splitlines()
        if "--column text" in options:
            lines = [json.dumps({"text": line, "n": "other"}, ensure_ascii=False) for line in lines]
        elif "--word-counts" in options:
            lines = [f"{word}\t{count}" for word, count in Counter(text.split()).items()]
        Path(name).write_bytes(
            "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
        )
    return names


def taken(function: Callable[..., object], values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that a function takes."""
    return {name: value for name, value in values.items() if name in signature(function).parameters}


def found(options: Options, files: Sequence[str], *, named: bool) -> tuple[object, ...]:
    """Search with the library; return the vocabulary and the report."""
    values = {name: value for each in options.values() for name, value in each.items()}
    old = volt.Vocabulary.load("old.volt") if "old" in values else None
    special = old.special if old else volt.SpecialTokens(**taken(volt.SpecialTokens, values))
    made = {"normalizer": old.normalizer, "pretokenizer": old.pretokenizer} if old else {}
    count = partial(volt.count_words, special=special, **taken(volt.count_words, values | made))
    sources = {name: count(file) for name, file in zip(TEXTS, files, strict=True)}
    counts = volt.mix(sources, **taken(volt.mix, values)) if named else count(files)
    if "merges" in values:
        candidates = volt.replay_bpe(counts, **taken(volt.replay_bpe, values))
    elif old:
        candidates = volt.extend_bpe(old, counts, **taken(volt.extend_bpe, values))
    elif "parity" in values:
        candidates = volt.learn_parity(sources, **taken(volt.learn_parity, values))
    else:
        learn: Callable[..., volt.Candidates] = (
            volt.learn_bpe if "n_merges" in values else volt.learn_enough
        )
        candidates = learn(counts, **taken(learn, values))
    parameters = volt.SearchParameters(**taken(volt.SearchParameters, values))
    result = volt.search(
        candidates,
        parameters=parameters,
        special=None if old else special,
        **taken(volt.search, values),
    )
    return result.vocabulary, json.loads(
        json.dumps([result.vocabulary.provenance, as_data(result)])
    )


@pytest.mark.parametrize("way", WAYS)
def test_options_together_do_what_each_says(
    way: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vocabulary and the report are the library's; without one of the options, they would be others."""
    options, named = WAYS[way], way in NAMED
    if way == "until decided":
        monkeypatch.setattr("volt.learn.bpe.N_SURE", 9)
        monkeypatch.setattr("volt.learn.bpe.COMMON", 10**9)
        monkeypatch.setattr("volt.choose.rules.LEAST", 4)
        monkeypatch.setattr("volt.choose.rules.UTILITY", 2)  # decided before the model is
    files = written(options)
    Path("codes").write_text(
        "#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in MERGES)
    )
    volt.Vocabulary(
        (("t", "h"),), (*"thesaomdiunr", "e</w>", "t</w>", "th"), normalizer="lowercase"
    ).save("old.volt")
    sources = [f"{name}={file}" if named else file for name, file in zip(TEXTS, files, strict=True)]
    line = ["search", *sources, *" ".join(options).split(), "-o", "v.volt", "--json"]
    data = json.loads(run(*line).stdout)
    data = {name: value for name, value in data.items() if name not in ("output", "parity")} | {
        "seconds": {}
    }
    expected = found(options, files, named=named)
    vocabulary = volt.Vocabulary.load("v.volt")
    assert (vocabulary, [vocabulary.provenance, data]) == expected
    for option in options:
        rest = {name: values for name, values in options.items() if name != option}
        with suppress(VoltError):  # nothing is found without it
            assert found(rest, files, named=named) != expected, option
