"""Laws of the report of a search: its order, its rows, its sample words, and its numbers."""

import io
import json
import re
from itertools import product
from pathlib import Path
from random import Random

import pytest
from rich.console import Console

import volt
from volt.choose.report import as_text
from volt.choose.search import readable_cuts, sample_cuts
from volt.count.word_counts import WordCounts
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

SYLLABLES = [a + b for a in "klmnprst" for b in "aeiou"]
TEXT = (
    "საქართველო საქართველოს ლამაზია სიყვარულისთვის განსაკუთრებით\n"
    "Donaudampfschifffahrt großartigerweise\n" * 5
)


def words_of(seed, n=400, most=3_000):
    """Return words of one to four syllables, with counts that fall as in a text."""
    draw = Random(seed)
    words = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))) for _ in range(n)]
    return {word: 1 + most // rank for rank, word in enumerate(words, 1)}


@pytest.fixture(scope="module")
def result():
    """Return a search of more sizes than a report shows."""
    return volt.search(volt.learn_bpe(words_of(1), 500), sizes=range(60, 420, 17))


def text_of(result, *, width=140, full=False):
    """Return the report for a terminal of some width."""
    console = Console(file=io.StringIO(), width=width)
    console.print(as_text(result, full=full), crop=False)
    return console.file.getvalue()


def sizes_of(report):
    """Return the first cells of the table of sizes."""
    table = re.split(r"^ *size  .*\n", report, flags=re.MULTILINE)[1]
    return re.findall(r"^ *([0-9,]+) +[0-9,]+ ", table.partition("pieces:")[0], re.MULTILINE)


def cuts_of(result):
    cuts = sample_cuts(result.candidates, result.vocabulary)
    return list(readable_cuts(cuts, result.vocabulary))


def test_the_answer_comes_first(result):
    """The report begins with the size and its reason, the sizes for other lengths of training, how
    sure that is, and what to do next.

    A notebook shows the same texts, and `advice` follows them."""
    size, lengths, certainty, advice = result.answer
    console = Console(file=io.StringIO(), width=100)
    console.print(as_text(result, advice=[("more", ["Train."])]), crop=False)
    report = " ".join(console.file.getvalue().split())
    assert report.startswith(
        f"answer {size} lengths {lengths} how sure {certainty} next {advice} more Train. warning"
    )
    assert size.startswith(f"{result.pick.size_text} tokens suit a training of 5 epochs ")
    assert " tokens for 1 epoch, " in lengths
    assert lengths.endswith(" for 20 or more.")
    notebook = result._repr_html_()
    for text in result.answer:
        assert text in notebook


def test_five_rows_surround_the_answer(result):
    """The report's table has five sizes around the pick; with `full`, all sizes, transports, rules
    and the signature.
    """
    assert len(result.steps) > 10
    short = text_of(result)
    full = text_of(result, full=True)
    sizes = sizes_of(short)
    assert len(sizes) == 5
    assert f"{result.pick.size:,}" in sizes
    assert sizes_of(full) == [f"{step.size:,}" for step in result.steps]
    for word in ("transport", "knee", "edge of the range", result.signature[:20]):
        assert word not in short
        assert word in full


@pytest.mark.parametrize("size", [60, 77, 230, 400, 417])
def test_five_rows_contain_any_size(size):
    """At either end of the sizes, the table also has five rows with the chosen size."""
    searched = volt.search(volt.learn_bpe(words_of(1), 500), sizes=range(60, 420, 17), select=size)
    sizes = [int(text.replace(",", "")) for text in sizes_of(text_of(searched))]
    assert size in sizes
    assert len(sizes) == 5
    assert sizes == sorted(sizes)


def test_one_sentence_counts_tokens_and_ids(result, run):
    """`SearchResult.composition` states the size, the kept tokens and the ids; so does `volt
    search`.
    """
    n_kept = result.vocabulary.size
    n_ids = len(result.vocabulary.pieces)
    size = result.best.size
    assert result.composition == (
        f"{n_ids:,} ids for the model ({size:,} tokens, less {size - n_kept:,} never used in output, "
        f"plus {n_ids - n_kept} special)"
    )
    all_kept = volt.search(result.candidates, sizes=[30], select=30)
    assert all_kept.composition == "34 ids for the model (30 tokens, plus 4 special)"
    report = run("search", "corpus.txt", "-o", "v.volt").stderr.decode()
    vocabulary = Vocabulary.load("v.volt")
    assert f"wrote v.volt: {len(vocabulary.pieces):,} ids for the model (" in report
    assert "plus 4 special)" in report


def test_all_and_json_have_every_size(run):
    """`volt search --all` and `--json` list every size; without them, the table has five rows."""
    short, full, data = (
        run("search", "corpus.txt", "-o", "v.volt", *options).stdout.decode()
        for options in ([], ["--all"], ["--json"])
    )
    n = len(json.loads(data)["steps"])
    assert n > 10
    assert (len(sizes_of(short)), len(sizes_of(full))) == (5, n)
    assert "--all adds all sizes" in " ".join(short.split())
    assert "volt trial corpus.txt --epochs 5 --hours 0.1 " in " ".join(short.split())
    assert "--all" not in full


def test_an_extension_explains_balanced():
    """For an extended vocabulary, the reason of `balanced` says that it leaves `utility` out."""
    old = volt.search(volt.learn_bpe(words_of(3, 100), 60), sizes=[70], select=70).vocabulary
    result = volt.search(volt.extend_bpe(old, words_of(4, 300), 300), select="balanced")
    assert result.picks["utility"].size > result.picks["median500"].size == result.pick.size
    assert "leaves utility out" in result.pick.why


CUTS = [
    *product(["whitespace", "unicode", "metaspace"], ["suffix", "prefix", "none"]),
    ("gpt2", "none"),
]


@pytest.mark.parametrize(("pretokenizer", "marker"), CUTS)
def test_no_word_is_shown_with_an_empty_piece(pretokenizer, marker):
    """The pieces of a sample word are not empty, have no markers, and spell the word."""
    text = "বিশ্ববিদ্যালয় িশ িশ strongest low lower lowest"
    words = dict.fromkeys(PreTokenizer(pretokenizer).split(text), 3)
    counts = WordCounts.from_pairs(words, pretokenizer=pretokenizer)
    cuts = cuts_of(volt.search(volt.learn_bpe(counts, n_merges=2, marker=marker)))
    for word, pieces in cuts:
        assert all(pieces.split("|")), pieces
        assert pieces.replace("|", "") in (word, word.removeprefix("▁"))
    assert any("|" in pieces for _, pieces in cuts)


def test_sampled_words_are_long_words_of_the_text():
    """With bytes as atoms, sample words have eight letters or more, and are shown as text."""
    words = [(word, 1) for word in PreTokenizer("bytes").split(TEXT)]
    counts = WordCounts.from_pairs(words, pretokenizer="bytes")
    result = volt.search(volt.learn_bpe(counts, 120))
    cuts = cuts_of(result)
    assert len(cuts) > 3
    for word, pieces in cuts:
        assert word in TEXT.split()
        assert len(word) >= 8
        spelled = pieces.replace("|", "").encode()
        unescaped = re.sub(rb"<0x(..)>", lambda byte: bytes([int(byte[1], 16)]), spelled)
        assert unescaped == word.encode()
    shown = result._repr_html_()
    assert "საქართველო" in shown
    assert "áĥ" not in shown


def searched(run, text, *options):
    """Return what `volt search` of a text prints."""
    Path("text.txt").write_text(text, encoding="utf-8")
    command = ("search", "text.txt", "--level", "bytes", "-o", "x.volt", *options)
    return run(*command).stdout.decode()


def test_the_report_shows_text(run):
    """`volt search --level bytes` prints words as text, but `--json` the vocabulary's pieces."""
    shown = searched(run, TEXT, "--sizes", "280:300:10")
    assert "სიყვარულისთვის" in shown
    assert "áĥ" not in shown
    assert "áĥ" in searched(run, TEXT, "--sizes", "280:300:10", "--json")


def test_control_characters_are_escaped(run):
    """`volt search` prints control characters of words as escapes."""
    shown = searched(run, "\x1b[2J\u202e " * 20, "--sizes", "258:260:1")
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\\x1b" in shown
