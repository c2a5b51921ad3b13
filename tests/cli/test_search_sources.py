"""`volt search` with named sources: NAME=FILE."""

import json
from pathlib import Path

import pytest
from support.commands import TEXT, listed

from volt.count.corpus import count_words
from volt.learn.parity import learn_parity, measure_parity
from volt.vocabulary import Vocabulary

GREEK = "η γάτα κάθισε στο χαλί\nτο καπέλο που η γάτα είχε\n"
SIZES = "--sizes 36:44:4"
BOTH = "search en=corpus.txt el=el.txt"


@pytest.fixture
def folder(run, tmp_path):
    """Write two texts in two scripts, one ten times as long, and both as columns of a table."""
    (tmp_path / "el.txt").write_text(GREEK * 4)
    (tmp_path / "en=a:2.txt").write_text(TEXT)
    rows = zip(TEXT.splitlines(), (GREEK * 40).splitlines(), strict=True)
    (tmp_path / "both.tsv").write_text("".join(f"{english}\t{greek}\n" for english, greek in rows))
    return tmp_path


def test_a_column_of_a_file_is_counted(run, folder):
    """NAME=FILE:N counts one column; without N, a warning shows the columns of the first line."""
    run(f"search en=both.tsv:1 el=both.tsv:2 {SIZES} -q -o named.volt")
    message = run(f"search both.tsv {SIZES} -o joined.volt").message
    for part in (
        "warning both.tsv: its lines have several columns between tabs: 1 'the cat sat on the mat', 2 'η γάτα",
        "To use some columns, give --fields N,N, or --column NAME if the first line or each object",
    ):
        assert part in message
    assert "warning" not in run(f"search both.tsv --fields 1,2 {SIZES} -o x.volt").message
    named, joined = (Vocabulary.load(f"{name}.volt") for name in ("named", "joined"))
    assert set(named.tokens) == set(joined.tokens)
    message = run(f"search el=both.tsv:2 en=both.tsv {SIZES} -o x.volt --force").message
    assert message.count("both.tsv: its lines have several columns") == 1
    n_words = count_words("both.tsv", fields=2).total + count_words("both.tsv").total
    assert Vocabulary.load("x.volt").provenance["words"] == n_words


def test_the_output_is_named_after_all_sources(run, folder):
    """The default output joins the sorted names of the sources, and is not replaced by that of
    another corpus."""
    done = run(f"{BOTH} --temperature 5 {SIZES} --json")
    assert json.loads(done.stdout)["output"] == "el+en.volt"
    provenance = Vocabulary.load("el+en.volt").provenance
    assert (provenance["sources"], provenance["temperature"]) == (["el", "en"], 5)
    assert "parity" not in provenance
    run(f"search el=el.txt en=corpus.txt {SIZES} -q")
    refused = run(f"search el=both.tsv:2 en=corpus.txt {SIZES}", status=2)
    assert "another corpus" in refused.message


def test_parity_equals_the_librarys(run, folder):
    """`volt search --parity` learns the merges of `learn_parity`, and its report compares them with
    plain BPE."""
    command = f"{BOTH} --parity --select fixed:40 --transport min_share=0 -o p.volt"
    data = json.loads(run(f"{command} --json").stdout)
    sources = {"en": count_words("corpus.txt"), "el": count_words("el.txt")}
    candidates = learn_parity(sources)
    parity = measure_parity(sources, candidates, size=40)
    vocabulary = Vocabulary.load("p.volt")
    assert list(vocabulary.merges) == candidates.merges[: candidates.merges_at(40)]
    assert vocabulary.provenance["parity"] == "character"
    assert "|parity:character|" in data["signature"]
    assert (data["parity"]["plain_ratio"], data["parity"]["ratio"]) == parity.ratios
    assert parity.ratios[1] < parity.ratios[0]
    greek = parity.sources[0]
    expected = {"units": greek.n_units, "plain_pieces": greek.plain, "pieces": greek.fair}
    assert data["parity"]["sources"]["el"] == expected
    done = run(f"{command} --parity-unit byte")
    shown = done.stdout.decode()
    assert "pieces per byte" in shown
    assert "worst ÷ best" in shown
    assert "mislead for several scripts" in done.message


def test_per_source_equals_separate_searches(run, folder):
    """--per-source writes for each source the vocabulary that a search of its text writes."""
    shown = run(f"{BOTH} --per-source -o new/each").lines
    assert listed(folder / "new/each") == ["el.volt", "en.volt"]
    for name, file in (("en", "corpus.txt"), ("el", "el.txt")):
        run(f"search {file} -q -o alone.volt")
        assert Path("alone.volt").read_bytes() == Path(f"new/each/{name}.volt").read_bytes()
    data = json.loads(run(f"{BOTH} --per-source --json").stdout)["sources"]
    rows = [" ".join(row.split()[:3]) for row in shown[1:3]]
    assert rows == [f"el 44 {data['el']['best']['size']}", f"en 480 {data['en']['best']['size']}"]
    assert [data[name]["output"] for name in ("el", "en")] == ["el.volt", "en.volt"]
    refused = run("search en=el.txt --per-source", status=2)
    assert "en.volt: exists, but was made from another" in refused.message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "corpus.txt --temperature 2",
            "--temperature needs named sources; write NAME=FILE for each text",
        ),
        ("corpus.txt --per-source", "--per-source needs named sources"),
        (
            "en=corpus.txt el=el.txt --temperature 0.5",
            "--temperature 0.5: give 1 or more; 1 leaves the totals",
        ),
        ("en=corpus.txt el=el.txt --temperature nan", "--temperature nan: give 1 or more"),
        (
            "en=corpus.txt --parity",
            "--parity compares sources, but there is only 'en'; name two or more",
        ),
        (
            "en=corpus.txt el=el.txt --parity-unit line",
            "--parity-unit works only with --parity; add --parity",
        ),
        (
            "en=corpus.txt el=el.txt --parity --candidates el.txt",
            "--candidates el.txt already contains merges",
        ),
        (
            "en=corpus.txt el=el.txt --parity --per-source",
            "--per-source and --parity: each source has its own",
        ),
        (
            "en=corpus.txt el=el.txt --per-source --temperature 2",
            "--per-source and --temperature: each source has",
        ),
        (
            "en=corpus.txt el=el.txt --parity --parity-unit line",
            "equally many lines or pass --parity-unit character",
        ),
        (
            "en=corpus.txt el=el.txt --parity --parity-unit line --word-counts",
            "a table of words has no lines of text",
        ),
        (
            "en=corpus.txt el=el.txt --per-source -o -",
            "-o -: stdout takes only one file; --per-source writes several",
        ),
        (
            "en=corpus.txt el=el.txt --per-source -o el.txt",
            "-o el.txt: is a file; --per-source writes several",
        ),
        (
            "en=corpus.txt el.txt",
            "el.txt has no name, but en=corpus.txt has one; write NAME=el.txt",
        ),
        (
            "en=corpus.txt el=both.tsv:0",
            "el=both.tsv:0: columns are counted from 1; write a column such as el=both.tsv:1",
        ),
        ("a=corpus.txt b=corpus.txt --parity --coverage 0.9", "remove --coverage or --parity"),
        ("en=-:1 de=-:2", "can be read only once"),
        ("- -", "can be read only once"),
        ("en=corpus.txt de=", "de="),
        ("en=corpus.txt ..=corpus.txt", "..=corpus.txt"),
        ("en=corpus.txt x=x.volt -o ./x.volt", "x.volt: would be written over x.volt, which is"),
        (
            "en=corpus.txt x=x.volt:1 --per-source -o .",
            "x.volt: would be written over x.volt, which is read",
        ),
    ],
)
def test_contradicting_options_are_refused(arguments, message, run, folder):
    """Options of named sources that contradict each other, and outputs that are sources, end a
    search with status 2 and one line; nothing is written."""
    (folder / "x.volt").write_text(GREEK)
    before = listed(folder)
    text = run(f"search {arguments}", status=2).message
    assert message in text
    assert text.count("\n") == 1
    assert listed(folder) == before
    assert (folder / "x.volt").read_text() == GREEK


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("en=corpus.txt el=empty.txt", "empty.txt: no words in 0 lines; check the text"),
        ("en=corpus.txt el=nowhere.txt", "nowhere.txt: no such file; check the path"),
        (
            "en=corpus.txt el=both.tsv:3",
            "both.tsv:1: field 3 was requested, but the line has only 2; repair the line",
        ),
        ("en=corpus.txt one=one.txt --per-source -o each/deep", "error one: nothing to merge"),
    ],
)
def test_uncountable_sources_are_refused(arguments, message, run, folder):
    """A source that is empty, missing, too small or lacks the column ends a search with status 1
    and is named; nothing is written."""
    (folder / "empty.txt").touch()
    (folder / "one.txt").write_text("hello\n")
    before = listed(folder)
    assert message in run(f"search {arguments}", status=1).message
    assert listed(folder) == before


def test_warnings_name_options(run):
    """Warnings of a search name the option that helps."""
    shown = run("search corpus.txt --candidates 3 -o few.volt").stdout.decode()
    assert "Learn more merges" in " ".join(shown.split())


@pytest.mark.parametrize("n_words", [8, 9, 17])
def test_memory_must_suffice_for_every_corpus(n_words, run, folder, monkeypatch):
    """`volt search --memory` is checked for each source, and for both together."""
    monkeypatch.setattr("volt.count.bounded_sums.learning_bytes", lambda n, _: (n == n_words) << 40)
    command = f"{BOTH} --memory 1G {SIZES}"
    if n_words < 17:
        command += " --per-source"
    message = f"{n_words} distinct words are too many for 1 GB"
    assert message in run(command, status=1).message
    assert not [name for name in listed(folder) if name.endswith(".volt")]
