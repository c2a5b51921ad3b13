"""Segmenters return the best segmentations of words; errors in their files name the place and the remedy."""

import math
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volt.errors import MissingLibraryError, VocabularyError
from volt.formats.registry import listed_pieces, read_vocabulary
from volt.kernels.bpe_tables import MOST
from volt.stream.transforms.nbest_segmenters import (
    LexiconSegmenter,
    check_table_size,
    read_model,
    read_table,
)

LEXICONS = st.dictionaries(
    st.text("abc▁", min_size=1, max_size=3), st.sampled_from([1.0, 2.0, 4.0, 8.0]), min_size=1
)
WORDS = st.text("abcd▁", min_size=1, max_size=6)
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path):
    """A function that writes a file."""

    def write_file(text):
        path = tmp_path / "file.tsv"
        path.write_text(text, newline="", encoding="utf-8")
        return path

    return write_file


def splits(word):
    """Yield all ways to split a word into pieces."""
    if not word:
        yield ()
    for end in range(1, len(word) + 1):
        for rest in splits(word[end:]):
            yield (word[:end], *rest)


def scored_splits(counts, word):
    """Return every segmentation into pieces of a lexicon and unknown characters, with its score."""
    total = sum(counts.values())
    unknown = math.log(min(counts.values()) / total) - 10
    scores = {piece: math.log(count / total) for piece, count in counts.items()}
    scores = dict.fromkeys(word, unknown) | scores
    known = [pieces for pieces in splits(word) if scores.keys() >= set(pieces)]
    return {pieces: sum(map(scores.__getitem__, pieces)) for pieces in known}


@given(LEXICONS, WORDS, st.integers(1, 12))
def test_a_lexicon_returns_the_n_best(counts, word, n):
    """LexiconSegmenter returns the n distinct segmentations of highest score, best first, as an
    enumeration of all segmentations finds them."""
    expected = scored_splits(counts, word)
    [best] = LexiconSegmenter.from_counts(counts).best([word], n)
    scores = [each.score for each in best]
    assert scores == pytest.approx(sorted(expected.values(), reverse=True)[:n])
    assert scores == pytest.approx([expected[each.pieces] for each in best])
    assert len({each.pieces for each in best}) == len(best) == min(n, len(expected))


def test_ties_have_a_rule():
    """LexiconSegmenter puts the segmentation with the longer last piece first if scores are equal."""
    segmenter = LexiconSegmenter.from_counts(dict.fromkeys(["a", "b", "c", "ab", "bc"], 1.0))
    best = [each.pieces for each in segmenter.best(["abc"], 3)[0]]
    assert best == [("a", "bc"), ("ab", "c"), ("a", "b", "c")]


def test_long_words_are_quick():
    """LexiconSegmenter splits a word of 5,000 characters, because its memory is proportional to the
    word's length."""
    assert len(LexiconSegmenter.from_counts({"a": 3.0, "aa": 1.0}).best(["a" * 5_000], 3)[0]) == 3


def test_tables_of_pieces_have_a_limit():
    """check_table_size accepts the greatest number of rows, and refuses one more."""
    check_table_size(MOST)
    message = rf"^its table would have {MOST + 1:,} rows, and the limit is {MOST:,}; "
    with pytest.raises(VocabularyError, match=message):
        check_table_size(MOST + 1)


def test_counts_may_be_fractions_and_have_exponents(write):
    """read_model, lists for noise and vocabularies accept counts with fractions and exponents; a
    subword with count 0 does not occur."""
    segmenter = read_model(write("2.5\t▁lo\r\n\r\n0.0\t▁low\r\n1e-3\tw\r\n"))
    assert segmenter.best(["▁low"], 1)[0][0].pieces == ("▁lo", "w")
    path = write("9.87e-05\tcat\n3e5\tdog\n2\tcow\n1.5E+2\tlow\xa0er\n")
    words = ["cat", "dog", "cow", "low\xa0er"]
    assert listed_pieces(path) == words
    best = read_model(path).best(words, 1)
    assert [[each.pieces for each in scored] for scored in best] == [[(word,)] for word in words]
    codes = path.with_name("codes")
    codes.write_text("#version: 0.2\nc a\nca t</w>\n")
    vocabulary = read_vocabulary(write("9.87e-05\tca\n3e5\tcat</w>\n2\tc\n"), merges=codes)
    assert (vocabulary.tokens, vocabulary.counts) == (("ca", "cat</w>", "c"), (1, 300_001, 2))


LEXICON_LINE = "`count<TAB>subword`"
TABLE_LINE = "`word<TAB>subword subword …`"
BAD_MODELS = {
    "1\ta\nx\tb\n": rf":2: 'x\\tb' is not {LEXICON_LINE}",
    "1\ta\n-1\tb\n": ":2: ",
    "1\ta\nnan\tb\n": ":2: ",
    "1\ta\ninf\tb\n": ":2: ",
    "1\ta\n1\t\n": ":2: ",
    "1\ta\n1\tb c\n": ":2: ",
    "1\ta\n2 b\n": ":2: ",
    "1\ta\n\n2\ta\n": ":3: the subword 'a' repeats line 1; remove one",
    "0\ta\n": ": no subword has a count above 0",
    **dict.fromkeys(
        ("", "\n\r\n", "\ufeff"), ": the file is empty; give one with lines `count<TAB>"
    ),
    **{
        f"1\ta\n{count}\tb\n": r":2: the count .* is above 1e.300; divide all counts"
        for count in ("1e308", "1e301", "9" * 305)
    },
}
BAD_TABLES = {
    "low\tlo w\nlower\n": f":2: 'lower' is not {TABLE_LINE}; fix the line",
    "low\t \n": ":1: ",
    "\tlow\n": ":1: ",
    "a b\ta b\n": ":1: ",
    "low\tlo\tw\n": ":1: ",
    "low\tlo w\n\nlow\tl ow\n": ":3: the word 'low' repeats line 1; remove one",
    **dict.fromkeys(
        ("", "\n\r\n", "\ufeff"), ": the file is empty; give one with lines `word<TAB>"
    ),
}


@pytest.mark.parametrize("text", BAD_MODELS)
def test_errors_in_a_lexicon_name_the_line(write, text):
    """read_model refuses an invalid lexicon with the file, the line and the remedy."""
    with pytest.raises(VocabularyError, match=f"file.tsv{BAD_MODELS[text]}"):
        read_model(write(text))


@pytest.mark.parametrize("text", BAD_TABLES)
def test_errors_in_a_table_name_the_line(write, text):
    """read_table refuses an invalid table with the file, the line and the remedy."""
    with pytest.raises(VocabularyError, match=f"file.tsv{BAD_TABLES[text]}"):
        read_table(write(text))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1\ta\n\xff\tb\n", ":2: not UTF-8"),
        (pickle.dumps([1]), ": a pickle, which could run any code; .*: morfessor -l"),
    ],
)
def test_models_must_be_text(tmp_path, data, message):
    """read_model refuses a pickle without loading it, and bytes that are not UTF-8."""
    path = tmp_path / "file.tsv"
    path.write_bytes(data)
    with pytest.raises(VocabularyError, match=f"file.tsv{message}"):
        read_model(path)


def test_large_counts_can_be_summed(write):
    """read_model sums the largest permitted counts without overflow; lists with larger counts are
    refused, too."""
    [[best]] = read_model(write("1e300\ta\n1e300\tb\n")).best(["a"], 1)
    assert best.score == pytest.approx(-math.log(2))
    with pytest.raises(VocabularyError, match=r"file.tsv:2: the count .* is above 1e.300"):
        listed_pieces(write("1\ta\n1e301\tb\n"))
    message = rf"file.tsv:3: is not {LEXICON_LINE}, as the lines before it are"
    with pytest.raises(VocabularyError, match=message):
        read_vocabulary(write("3\tcat\n2.5\tdog\nmany\tcow\n1\tlow\n"))


SPELLED = """low lo w|▁low ▁lo w|low ▁lo w|▁low ▁ l ow|low lo@@ w|low l@@ ow</w>|low lo w</w>|\
low lo￭ w|low lo ￭w|a@@b a@@ b|@@ @@|▁ ▁"""
MISSPELLED = "low hi gh|low lo|low lo w w|Low lo w|low lo ▁w|low lo</w> w|low lo w@@"


@pytest.mark.parametrize("row", SPELLED.split("|"))
def test_pieces_spell_their_word(write, row):
    """read_table accepts pieces that spell the word apart from the usual tools' markers."""
    word, _, pieces = row.partition(" ")
    [[best]] = read_table(write(f"{word}\t{pieces}\n")).best([word], 1)
    assert " ".join(best.pieces) == pieces


@pytest.mark.parametrize("row", MISSPELLED.split("|"))
def test_misspelled_words_are_refused(write, row):
    """read_table refuses pieces that do not spell their word, because they could not be joined
    again."""
    word, _, pieces = row.partition(" ")
    message = rf"file.tsv:2: the pieces '{pieces}' do not spell the word '{word}'; g"
    with pytest.raises(VocabularyError, match=message):
        read_table(write(f"new\tn ew\n{word}\t{pieces}\n"))


MODEL = "# from training\n2 cat + s\n3 dog + s\n5 walk + ing\n"


def test_a_morfessor_model_segments_as_the_package(write):
    """MorfessorSegmenter returns the n best segmentations with the scores of the package's
    commands, without smoothing."""
    pytest.importorskip("morfessor", reason="needs the package morfessor")
    segmenter = read_model(write(MODEL))
    model = segmenter.model
    [first, second, *_], _ = segmenter.best(["cats", "dogs"], 5)
    pieces, cost = model.viterbi_segment("cats", 0, 30)
    assert first.pieces == tuple(pieces) == ("cat", "s")
    assert first.score == pytest.approx(-cost)
    assert second.pieces == tuple("cats")
    assert second.score < first.score


@pytest.mark.parametrize("line", ["x cat + s", "0 cat", "3", "2 cat +  + s"])
def test_errors_in_a_morfessor_model_name_the_line(write, line):
    """read_model refuses an invalid line of a Morfessor model, and names both formats."""
    pytest.importorskip("morfessor", reason="needs the package morfessor")
    with pytest.raises(VocabularyError, match=r"file.tsv:5: .* is neither `count morph"):
        read_model(write(f"{MODEL}{line}\n"))


def test_morfessor_models_need_the_package(write, monkeypatch):
    """read_model says how to install the package morfessor if it is missing."""
    monkeypatch.setitem(sys.modules, "morfessor", None)
    message = r"morfessor is not installed; pip install 'volt-vocab\[morfessor\]'"
    with pytest.raises(MissingLibraryError, match=message):
        read_model(write(MODEL))
