"""Laws of `volt search --superwords`: the vocabulary is the library's, however the text is given."""

import gzip
import json
import re
from pathlib import Path
from random import Random

import pytest

import volt
from volt.encode.decoder import decode
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

PHRASES = [
    "as well as the",
    "on the other hand",
    "at the end of the day",
    "in order to",
    "one of the",
]
NAMES = [
    f"{a}{b}"
    for a in ["mo", "lin", "ker", "tas", "ub", "fel", "gra", "nor", "pim"]
    for b in ["da", "rim", "o", "vest", "ku"]
]
CHANCE = Random(5)
LINES = [
    " ".join([*CHANCE.choices(PHRASES, k=3), *CHANCE.choices(NAMES, k=3), "--- 1234"])
    for _ in range(200)
]
SEARCH = "search t.txt --level bytes --select fixed:340 -o s.volt"


@pytest.fixture
def text():
    """Write the lines to t.txt in the current folder."""
    Path("t.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")


def searched(run, command, *others):
    """Return the JSON report of a search, and its vocabulary."""
    data = json.loads(run(f"{command} --json", *others).stdout)
    return data, Vocabulary.load("s.volt")


def test_the_last_tokens_are_those_of_the_library(run, text):
    """--superwords N gives the tokens and counts of `learn_superwords` after all but N tokens; the
    counts are those of encoding, and the report compares them with N = 0.
    """
    data, vocabulary = searched(run, f"{SEARCH} --superwords 20 --transport min_share=1e-9")
    words = volt.learn_bpe(volt.count_words("t.txt", level="bytes"), n_merges=90)
    plain = volt.search(words, sizes=[340], select=340).vocabulary
    learned = volt.learn_superwords(words, "t.txt", 20, transition=words.merges_at(320))
    assert learned.merges == list(vocabulary.merges)
    assert vocabulary.pretokenizer == PreTokenizer.of_pattern("superbpe", level="bytes")
    assert vocabulary.provenance["transition"] == words.merges_at(320)
    without, with_20 = data["superwords"]
    assert (without["superwords"], with_20["superwords"]) == (0, 20)
    for row, used in ((without, plain), (with_20, vocabulary)):
        assert row["n_pieces"] == sum(map(len, volt.Encoder(used).encode_lines(LINES)))
    assert without["n_pieces"] > with_20["n_pieces"] == data["best"]["n_pieces"]
    assert data["best"]["size"] == 340
    crossing = [token for token in vocabulary.tokens if "Ġ" in token[1:]]
    assert with_20["n_crossing"] >= len(crossing) > 5  # some are never used


def test_a_share_is_a_number_and_auto_is_the_best_share(run, text):
    """A share of the tokens gives the vocabulary of the number; auto gives the share with the fewest
    pieces, shows all.
    """
    _, by_number = searched(run, f"{SEARCH} --superwords 34")
    for share in ("0.1", "10%"):
        assert searched(run, f"{SEARCH} --superwords {share}")[1] == by_number
    data, best = searched(run, f"{SEARCH} --superwords auto")
    rows = data["superwords"]
    assert [row["superwords"] for row in rows] == [0, 17, 34, 68]
    assert min(row["n_pieces"] for row in rows) == rows[2]["n_pieces"]
    assert best == by_number
    shown = run(f"{SEARCH} --superwords auto --model-params 1e6 --model-width 64").stdout.decode()
    assert "GFLOP/byte" in shown
    assert "The vocabulary's last 34 tokens are learned across spaces" in shown


def test_any_way_to_give_the_text_gives_the_same_superwords(run, text):
    """Compressed files, folders, columns, sources, kept counts and a memory limit give the same
    tokens as one file.
    """
    _, plain = searched(run, f"{SEARCH} --superwords 20")
    Path("t.txt.gz").write_bytes(gzip.compress(Path("t.txt").read_bytes()))
    Path("folder").mkdir()
    for name, lines in (("one.txt", LINES[:90]), ("two.txt", LINES[90:])):
        Path("folder", name).write_text("\n".join(lines) + "\n")
    Path("t.tsv").write_text("".join(f"x\t{line}\n" for line in LINES))
    Path("t.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in LINES))
    ways = (
        "t.txt.gz|folder|t.tsv --fields 2|t.jsonl --column text|a=t.tsv:2|t.txt --memory 2G|"
        "t.txt --keep kept|a=folder/one.txt b=folder/two.txt|t.txt --multiple-of 8"
    )
    for way in ways.split("|"):
        _, other = searched(run, SEARCH.replace("t.txt", way) + " --superwords 20")
        assert other.merges[: len(plain.merges)] == plain.merges, way
    assert len(other.pieces) % 8 == 0


def test_across_says_what_is_never_joined(run, text):
    """With --across, the vocabulary splits stretches by this pattern, and no token crosses a match."""
    _, vocabulary = searched(run, f"{SEARCH} --superwords 20", "--across", "the|--- 1234")
    assert vocabulary.pretokenizer == PreTokenizer.of_pattern("the|--- 1234", level="bytes")
    superwords = [token for token in vocabulary.tokens if "Ġ" in token[1:]]
    assert len(superwords) > 5
    assert not any("the" in token for token in superwords)


def test_each_source_has_its_own_superwords(run, text):
    """With --per-source, each vocabulary has superwords of its text alone."""
    Path("u.txt").write_text("in the end of the day\n" * 50)
    command = "search a=t.txt b=u.txt --level bytes --superwords 3 --select fixed:262 -o f"
    sources = json.loads(run(f"{command} --per-source --json").stdout)["sources"]
    assert {name: len(source["superwords"]) for name, source in sources.items()} == {"a": 2, "b": 2}
    assert "Ġ" in Vocabulary.load("f/b.volt").tokens[-1][1:]
    assert b"3 superwords" in run(f"{command} --per-source").stdout


def test_metaspace_needs_no_bytes(run, text):
    """With --pretokenizer metaspace, lines are joined whole, and text decodes to itself."""
    run("search t.txt --pretokenizer metaspace --superwords 9 --select fixed:60 -o s.volt -q")
    vocabulary = Vocabulary.load("s.volt")
    assert vocabulary.pretokenizer.name == "metaspace-line"
    assert any("▁" in token[1:] for token in vocabulary.tokens)
    assert [
        decode(vocabulary, line) for line in volt.Encoder(vocabulary).encode_lines(LINES)
    ] == LINES


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ("--superwords 1.5", "share above 0 and below 1"),
        ("--superwords 0", "share above 0 and below 1"),
        ("--superwords -3", "share above 0 and below 1"),
        ("--superwords 120%", "share above 0 and below 1"),
        ("--superwords many", "or auto"),
        ("--superwords 85", "85 superwords and 256 single .* into 340 tokens; give at most 84"),
        ("--across superbpe", "only with --superwords"),
        ("--superwords 9 --across [", "--across: pattern '\\['"),
        ("--superwords 9 --across nosuch", "--across: no pattern is called 'nosuch'"),
        ("--superwords 9 --marker suffix", "remove --marker"),
        ("--superwords 9 --min-count 2", "--min-count: they are counted in all"),
        ("--superwords 9 --memory 2G --approximate", "--approximate: they are counted"),
        ("--superwords 9 --word-counts", "which words are neighbours"),
    ],
)
def test_contradictions_are_refused(options, fault, run, text):
    """Numbers out of range and options that contradict --superwords are refused; nothing is written."""
    message = run(f"{SEARCH} {options}", status=2).message
    assert re.search(fault, message), message
    assert not Path("s.volt").exists()


@pytest.mark.parametrize(
    ("lines", "options", "status", "fault"),
    [
        (LINES, "", 2, "--level bytes or --pretokenizer metaspace"),
        (["word"] * 9, "--pretokenizer metaspace", 1, "no line of the text has two words"),
        (["abcabcabd"] * 9, "--pretokenizer metaspace", 1, "no line of the text has two words"),
        (
            LINES,
            "--pretokenizer metaspace --across superbpe",
            2,
            "only at line ends; remove --across",
        ),
        (["word"] * 9, "--level bytes", 2, "choose a larger size"),
    ],
)
def test_texts_without_superwords_are_refused(lines, options, status, fault, run):
    """Words without spaces, texts of single words, and texts without spaces are refused."""
    Path("t.txt").write_text("\n".join(lines) + "\n")
    message = run(f"search t.txt --superwords 1 -o s.volt {options}", status=status).message
    assert fault in message


def test_stdin_is_refused(run):
    """stdin, which cannot be read again, is refused before it is read."""
    message = run("search - --level bytes --superwords 9", status=2, stdin=b"a b\n").message
    assert "error stdin: --superwords reads the text again" in message
