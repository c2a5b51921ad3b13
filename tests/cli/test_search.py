"""`volt search` returns what the library returns, with many options at once."""

import json
import os
import pty
import re
import subprocess
from collections import Counter
from contextlib import suppress
from functools import partial
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.commands import TEXT, VOLT, options_of

import volt
from volt.choose.report import as_data
from volt.choose.token_choice import choose_tokens
from volt.errors import ConfigError, CorpusError, VoltError
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
SKIP = {"--encoding-errors skip": {"errors": "skip"}}
OFTEN = {"--min-count 2": {"min_count": 2}}
COUNTING = {**SKIP, **OFTEN, "--fields 2": {"fields": 2}}
LOWERCASE = {"--normalizer lowercase": {"normalizer": "lowercase"}}
WORDS = {**LOWERCASE, "--pretokenizer unicode": {"pretokenizer": "unicode"}}
BYTES = {
    "--pattern gpt2 --level bytes": {"pretokenizer": PreTokenizer.of_pattern("gpt2", level="bytes")}
}
MARKER = {"--marker prefix": {"marker": "prefix"}}
LEAST = {"--min-pair-count 7": {"min_pair_count": 7}}
TEMPERATURE = {"--temperature 3": {"temperature": 3}}
PARAMETERS = {
    "--transport length=occurrence": {"length": "occurrence"},
    "--transport mass=characters": {"mass": "characters"},
    "--transport epsilon=0.5": {"epsilon": 0.5},
    "--transport row_tau=0.5": {"row_tau": 0.5},
    "--transport column_tau=0.25": {"column_tau": 0.25},
    "--transport min_share=0.5": {"min_share": 0.5},
    "--transport max_iters=2": {"max_iters": 2},
}
SPECIAL = {
    **{f"--{role} [{role}]": {role: f"[{role}]"} for role in ("unk", "bos", "eos", "pad")},
    "--special <x>": {"user": ("<x>",)},
    "--byte-fallback": {"byte_fallback": True},
}
MODEL = {"--model-params 100 --model-width 2": {"model": volt.LanguageModel(100, 2)}}
SEARCHING = {
    **PARAMETERS,
    **MODEL,
    "--sizes 18:22:2": {"sizes": range(18, 23, 2)},
    "--select fixed:19": {"select": 19},
    "--multiple-of 3": {"multiple_of": 3},
    "--epochs 2": {"training": volt.Training(2)},
}
PARITY = {"--parity": {"parity": True}, "--parity-unit byte": {"unit": "byte"}}
EXTENDING = {"--extend old.volt": {"old": True}, "--new-atoms leave": {"new_atoms": False}}
ALL = {**COUNTING, **WORDS, **SPECIAL, **SEARCHING}
# The options that go together. Those of one way to find merges exclude those of the others.
WAYS = {
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
        "--tokens optimal": {"chooses": True},
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
    --max-line --superwords --across --certify"""  # where something runs, goes, or ends; the last three: tested by themselves


def test_every_option_is_combined():
    """Every option of `volt search` is in WAYS or APART of this module."""
    words = " ".join([APART, *(" ".join(options) for options in WAYS.values())]).split()
    names = {name for name in options_of(["search"]) if name.startswith("--")}
    assert {word for word in words if word.startswith("--")} == names


def write_texts(options):
    """Write the texts in the form that the options read; return the names of the files."""
    names = [f"{name}.{'jsonl' if '--column text' in options else 'txt'}" for name in TEXTS]
    for name, text in zip(names, TEXTS.values(), strict=True):
        lines = text.splitlines()
        if "--column text" in options:
            lines = [json.dumps({"text": line, "n": "other"}, ensure_ascii=False) for line in lines]
        elif "--word-counts" in options:
            lines = [f"{word}\t{count}" for word, count in Counter(text.split()).items()]
        text = "".join(f"{line}\n" for line in lines)
        Path(name).write_bytes(text.encode("utf-8", "surrogateescape"))
    return names


def arguments_of(function, values):
    """Return the values that are arguments of a function."""
    return {name: value for name, value in values.items() if name in signature(function).parameters}


def search_with_library(options, files, *, named):
    """Search with the library; return the vocabulary, and its provenance and report as JSON."""
    values = {name: value for each in options.values() for name, value in each.items()}
    old = volt.Vocabulary.load("old.volt") if "old" in values else None
    special = old.special if old else volt.SpecialTokens(**arguments_of(volt.SpecialTokens, values))
    if old:
        values |= {"normalizer": old.normalizer, "pretokenizer": old.pretokenizer}
    count = partial(volt.count_words, special=special, **arguments_of(volt.count_words, values))
    sources = {name: count(file) for name, file in zip(TEXTS, files, strict=True)}
    counts = volt.mix(sources, **arguments_of(volt.mix, values)) if named else count(files)
    if "merges" in values:
        candidates = volt.replay_bpe(counts, **arguments_of(volt.replay_bpe, values))
    elif old:
        candidates = volt.extend_bpe(old, counts, **arguments_of(volt.extend_bpe, values))
    elif "parity" in values:
        candidates = volt.learn_parity(sources, **arguments_of(volt.learn_parity, values))
    else:
        learn = volt.learn_bpe if "n_merges" in values else volt.learn_enough
        candidates = learn(counts, **arguments_of(learn, values))
    parameters = volt.SearchParameters(**arguments_of(volt.SearchParameters, values))
    result = volt.search(
        candidates,
        parameters=parameters,
        special=None if old else special,
        **arguments_of(volt.search, values),
    )
    if "chooses" in values:
        result = choose_tokens(result, parameters=parameters)
    data = json.dumps([result.vocabulary.provenance, as_data(result)])
    return result.vocabulary, json.loads(data)


@pytest.mark.parametrize("way", WAYS)
def test_every_option_changes_the_result(way, run, monkeypatch):
    """The result of `volt search` with many options equals the library's, and leaving out any
    option changes it."""
    options = WAYS[way]
    named = way in NAMED
    if way == "until decided":
        monkeypatch.setattr("volt.learn.bpe.N_SURE", 9)
        monkeypatch.setattr("volt.learn.bpe.COMMON", 10**9)
        monkeypatch.setattr("volt.choose.rules.LEAST", 4)
        monkeypatch.setattr("volt.choose.rules.UTILITY", 2)  # decided before the model is
    files = write_texts(options)
    rows = "".join(f"{left} {right}\n" for left, right in MERGES)
    Path("codes").write_text("#version: 0.2\n" + rows)
    tokens = (*"thesaomdiunr", "e</w>", "t</w>", "th")
    volt.Vocabulary((("t", "h"),), tokens, normalizer="lowercase").save("old.volt")
    sources = [f"{name}={file}" if named else file for name, file in zip(TEXTS, files, strict=True)]
    words = " ".join([*sources, *options])
    data = json.loads(run(f"search {words} -o v.volt --json").stdout)
    del data["output"]
    data.pop("parity", None)
    data["seconds"] = {}
    expected = search_with_library(options, files, named=named)
    vocabulary = volt.Vocabulary.load("v.volt")
    assert (vocabulary, [vocabulary.provenance, data]) == expected
    for option in options:
        rest = {name: values for name, values in options.items() if name != option}
        with suppress(VoltError):  # nothing is found without it
            assert search_with_library(rest, files, named=named) != expected, option


CLOCK_TEXT = "It's 12345 o'clock,\tIT'S late!\n" * 20


@pytest.mark.parametrize("level", ["characters", "bytes"])
@pytest.mark.parametrize("pattern", ["gpt2", "deepseek3", r" ?\w+|\W"])
def test_a_pattern_is_stored(run, tmp_path, pattern, level):
    """A vocabulary of `volt search --pattern` stores the pattern, and decoding restores every text."""
    (tmp_path / "c.txt").write_text(CLOCK_TEXT)
    run(f"search c.txt -q -o v.volt --level {level} --pattern", pattern)
    pretokenizer = volt.Vocabulary.load("v.volt").pretokenizer
    assert pretokenizer == PreTokenizer.of_pattern(pattern, level=level)
    encoded = run("encode -m v.volt c.txt").stdout
    assert run("decode -m v.volt", stdin=encoded).stdout.decode() == CLOCK_TEXT


def test_an_export_agrees_with_the_library(run, tmp_path):
    """Exports of a vocabulary with a pattern split as tokenizers and tiktoken do."""
    pytest.importorskip("tokenizers")
    pytest.importorskip("tiktoken")
    (tmp_path / "c.txt").write_text(CLOCK_TEXT)
    run("search c.txt -q -o v.volt --pattern cl100k --level bytes")
    for options in ("--to huggingface -o hf", "--to tiktoken -o v.tiktoken"):
        done = run(f"export -m v.volt {options} --closed --check c.txt")
        assert b"20 of 20 lines" in done.stdout + done.stderr
    refused = run("export -m v.volt --to subword-nmt -o codes --closed", status=1)
    assert "subword-nmt" in refused.message


LANGUAGE_MODEL = "--model-params 1e6 --model-width 3000000"
REFUSED = [
    ("--pattern cl100", "no pattern is called 'cl100'; did you mean cl100k?"),
    ("--pattern (?<=a)b", "look-behind"),
    (
        "--pattern gpt2 --pretokenizer unicode",
        "remove --pattern gpt2 or --pretokenizer unicode",
    ),
    ("--level bytes --pretokenizer unicode", "remove --pretokenizer unicode"),
    ("--coverage 0", "coverage is 0; give a share"),
    ("--coverage 1.1", "coverage is 1.1; give a share"),
    ("--coverage nan", "coverage is nan; give a share"),
    ("--coverage 0.9 --level bytes", "256 bytes spell every character"),
    ("--coverage 0.9 --candidates corpus.txt", "--coverage works only when merges are learned"),
    ("--min-count 0", "Invalid value for '--min-count'"),
    ("--min-count -1", "Invalid value for '--min-count'"),
    ("--min-pair-count 0", "Invalid value for '--min-pair-count'"),
]
REFUSED_MODELS = [
    (
        "--select scaling",
        "the rule scaling needs a language model; give --model-params and --model-width",
    ),
    ("--model-params 1e9", "--model-width is missing"),
    ("--model-width 512", "--model-params is missing"),
    ("--model-params nan --model-width 512", "params is nan"),
    ("--model-params 1e400 --model-width 512", "params is inf"),
    ("--model-params -1 --model-width 512", "params is -1"),
    ("--model-params 0 --model-width 512", "params is 0"),
    ("--model-params 1e9 --model-width 0", "width is 0"),
]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        *((f"search corpus.txt {options}", message) for options, message in REFUSED),
        *(
            (f"{command} corpus.txt {options}", message)
            for command in ("search", "compare")
            for options, message in REFUSED_MODELS
        ),
        ("encode -m corpus.txt --threads 0 corpus.txt", "Invalid value for '--threads'"),
        ("encode -m corpus.txt --cache-words 0 corpus.txt", "Invalid value for '--cache-words'"),
        ("compare corpus.txt --temperature 0.5", "Invalid value for '--temperature'"),
        ("compare corpus.txt --temperature nan", "Invalid value for '--temperature'"),
    ],
)
def test_wrong_values_are_refused(run, command, message):
    """A wrong value of an option, or two options that contradict each other, end a command with
    status 2 and one message that names them."""
    text = " ".join(run(command, status=2).message.split())
    assert message in text
    assert text.startswith("error ")


def test_an_empty_pattern_is_refused(run):
    """`volt search --pattern ''` is refused."""
    message = run("search corpus.txt -o v.volt --pattern", "", status=2).message
    assert "pattern '' could match the empty text" in message


def test_dropped_characters_are_reported(run):
    """Report, JSON, signature and file of a search state the characters that --coverage drops."""
    with open("corpus.txt", "a", encoding="utf-8") as file:
        file.write("\x1b€\n")
    shown = run("search corpus.txt --coverage 0.99 --all -o x.volt").stdout.decode()
    for part in ("|coverage:0.99|", "left out", "beyond 99 %", "\\x1b"):
        assert part in shown
    data = json.loads(run("search corpus.txt --coverage 0.99 --json -o x.volt").stdout)
    assert {"\x1b", "€"} <= set(data["coverage"]["left_out"])
    saved = json.loads(Path("x.volt").read_text(encoding="utf-8"))
    assert saved["provenance"]["left_out"] == data["coverage"]["left_out"]
    assert b"left out" not in run("search corpus.txt -o y.volt").stdout


def test_a_language_model_adds_a_rule_and_a_column(run):
    """With a language model, the report has the rule scaling and a cost; tokens per byte are always
    reported."""
    plain = run("search corpus.txt --all -o x.volt").stdout.decode()
    assert "tokens/byte" in plain
    assert "GFLOP/byte" not in plain
    assert "\nscaling " not in plain
    shown = run(f"search corpus.txt --all -o x.volt {LANGUAGE_MODEL}").stdout.decode()
    assert "GFLOP/byte" in shown
    assert re.search(r"\nscaling +\d+ +1e\+06 parameters of width 3,000,000 deserve", shown)
    command = f"search corpus.txt --json --select scaling {LANGUAGE_MODEL}"
    data = json.loads(run(command).stdout)
    assert data["pick"]["rule"] == "scaling"
    for step in data["steps"]:
        expected = 2 * (1e6 + step["size"] * 3e6) * step["tokens_per_byte"]
        assert step["serving_flops_per_byte"] == pytest.approx(expected)


def test_stdin_is_the_default_corpus(run):
    """`volt search < corpus.txt` finds what `volt search corpus.txt` finds."""
    run("search corpus.txt -q -o named.volt")
    run("search -q -o read.volt", stdin=TEXT.encode())
    assert volt.Vocabulary.load("read.volt") == volt.Vocabulary.load("named.volt")


def test_a_corpus_is_not_typed(tmp_path):
    """`volt search` without CORPUS at a terminal ends with status 2."""
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*VOLT, "search"], stdin=theirs, capture_output=True, cwd=tmp_path, timeout=60
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 2
    assert b"CORPUS is missing: name files, or give a text on stdin" in done.stderr
    assert not list(tmp_path.iterdir())


def test_counting_refuses_a_min_count_below_1(run):
    """`count_words` refuses min_count below 1."""
    with pytest.raises(ConfigError, match="min_count is 0; give 1 or more"):
        volt.count_words("corpus.txt", min_count=0)
    Path("once.txt").write_text("low\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="no word of 1 occurs 2 times or more"):
        volt.count_words("once.txt", min_count=2)
    with pytest.raises(ConfigError, match="1 source, temperature 0"):
        volt.mix({"en": volt.count_words("once.txt")}, temperature=0)


def test_the_command_of_a_trial_reads_the_same_text(run):
    """The command of a trial in the report has the files and options of the text; it has TEXT
    instead of word counts and columns of named sources, which a trial does not read."""
    assert (
        "volt trial corpus.txt --epochs 5 --hours 0.1\n"
        in run("search corpus.txt -o x.volt").stdout.decode()
    )
    table = "".join(f"low lower\t{line}\n" for line in TEXT.splitlines())
    Path("table.tsv").write_text(table)
    for corpus, text in (
        ("table.tsv --fields 2", "table.tsv --fields 2"),
        ("a=table.tsv:2", "TEXT"),
    ):
        shown = run(f"search {corpus} --read 5000 -o x.volt").stdout.decode()
        assert f"volt trial {text} --epochs 2.6 --hours 0.1\n" in shown


def test_pairs_of_texts_and_small_sizes_show_the_evidence_for_translation(run):
    """The report advises on translation if the corpus has several columns, sources or files such as
    a.en and a.de, or if the size is small; not if the user gives a size.
    """
    for name in ("a.en", "a.de", "b.txt"):
        Path(name).write_text(TEXT)
    Path("two.tsv").write_text("low\thigh\n" * 9)
    for corpus in ("a.en a.de", "two.tsv --fields 1,2", "a=a.en b=b.txt", "b.txt"):
        shown = " ".join(run(f"search {corpus} -o x.volt").stdout.decode().split())
        assert (
            "translate For translation, do this instead: search again with --select fixed:4000."
            in shown
        )
    fixed = run("search a.en a.de --select fixed:20 -o x.volt").stdout.decode()
    assert "translate" not in fixed
    counts = "".join(f"{a}{b}{c}\t9\n" for a, b, c in product("abcdefghijklmnop", repeat=3))
    Path("words.tsv").write_text(counts * 9)
    shown = run("search words.tsv --word-counts --epochs 0.01 -o x.volt").stdout.decode()
    assert "translate" not in shown


@pytest.mark.parametrize(
    ("options", "fault"),
    {
        "": "needs words that contain their spaces; add --pretokenizer metaspace, or --level bytes",
        "--marker suffix --level bytes": "--marker suffix: a unigram model has no markers",
        "--level bytes --superwords 3": "--superwords: tokens are chosen anew",
        "--pretokenizer metaspace --extend old.volt": "--extend",
    }.items(),
)
def test_what_chosen_tokens_exclude(run, tmp_path, options, fault):
    """--tokens optimal refuses options that it contradicts, and writes nothing."""
    (tmp_path / "c.txt").write_text("low lower lowest\n" * 9)
    volt.Vocabulary((("l", "o"),), (*"lowerst", "lo")).save("old.volt")
    ended = run(f"search c.txt --tokens optimal -o new.volt {options}", status=2)
    assert fault in ended.message
    assert not (tmp_path / "new.volt").exists()
