"""Laws of counting texts in memory: counts equal those of a column, and errors name the text."""

import threading
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from support.counting import pairs
from support.drawn import examples

from volt import WordCounts, count_words
from volt.count import texts as texts_module
from volt.errors import VoltError
from volt.text.special_tokens import SpecialTokens

TRICKY = st.sampled_from("aabbß é\t\r\n\n\x0b\x1c\x85\xa0\u2003\u3000\u200b\u0301🙂▁\ufeff")
text = st.text(TRICKY | st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


def outcome(call):
    """Return counts and the numbers of lines, or the start of an error."""
    try:
        counts = call()
    except VoltError as error:
        return str(error).partition(";")[2]
    numbers = (counts.n_lines, counts.n_bad_lines, counts.bound)
    return pairs(counts), numbers, counts.normalizer, counts.pretokenizer


@given(
    texts=st.lists(text, max_size=9),
    form=st.sampled_from([list, tuple, iter, np.array, pl.Series, pa.array]),
    options=st.fixed_dictionaries(
        {
            "pretokenizer": st.sampled_from(["whitespace", "unicode", "bytes", "metaspace"]),
            "normalizer": st.sampled_from(["none", "nfkc+lowercase"]),
            "block_size": st.integers(1, 40),
            "min_count": st.sampled_from([1, 1, 2]),
            "special": st.sampled_from([None, SpecialTokens(user=("ab", "a b"))]),
            "errors": st.sampled_from(["replace", "skip"]),
        }
    ),
)
@example(["\ufefflow\n", "a\r"], list, {})
@example(["a b"] * 3, list, {"memory": "1G", "approximate": True})
@example(["a b"] * 3, iter, {"memory": "1G"})
@settings(max_examples=examples(200), deadline=None)
def test_texts_count_like_a_column_of_them(tmp_path_factory, texts, form, options):
    """Texts give the counts and lines of a table's column, for any iterable, options and blocks; a
    text may have several lines."""
    path = tmp_path_factory.getbasetemp() / "texts.parquet"
    parquet.write_table(pa.table({"text": pa.array(texts, pa.string())}), path)
    expected = outcome(lambda: count_words(path, column="text", **options))
    if texts:
        assert outcome(lambda: count_words(texts=form(texts), **options)) == expected


@given(st.lists(text | st.sampled_from(["a\ud800b", "\udfff"]), min_size=1, max_size=9))
@settings(max_examples=examples(50), deadline=None)
def test_lone_surrogates_follow_errors(texts):
    """A text with a lone surrogate is repaired, or skipped and counted as a bad line."""
    repaired = [text.encode(errors="surrogatepass").decode(errors="replace") for text in texts]
    valid = [text for text, other in zip(texts, repaired, strict=True) if text == other]
    counts = count_words(texts=[*texts, "low"], errors="replace")
    assert pairs(counts) == pairs(count_words(texts=[*repaired, "low"]))
    counts = count_words(texts=[*texts, "low"], errors="skip")
    assert pairs(counts) == pairs(count_words(texts=[*valid, "low"]))
    assert (counts.n_lines, counts.n_bad_lines) == (len(texts) + 1, len(texts) - len(valid))


def test_line_ends_within_texts_reach_the_pretokenizer():
    """A text is not divided into lines, so that models which keep line ends learn them."""
    assert count_words(texts=["a\n\nb"], pretokenizer="gpt2").words == ["\n", "a", "b"]
    assert count_words(texts=["a\n\nb", "a"]).n_lines == 2


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["low lower", "low"]),
        pa.chunked_array([["low lower"], [], ["low"]]),
        pa.array(["low lower", "low"], pa.large_string()).dictionary_encode(),
        pl.Series(["low lower", "low"], dtype=pl.Categorical),
        np.array(["low lower", "low"], object),
        {"low lower": 1, "low": 2}.keys(),
    ],
)
def test_arrays_of_texts_are_texts(monkeypatch, array):
    """Arrays of Arrow, Series, arrays of objects and views are iterables of texts."""
    monkeypatch.setattr(texts_module, "_ROWS", 1)
    assert count_words(texts=array).table.rows() == [("low", 2), ("lower", 1)]


class Column:
    """A column of `datasets`: it can be iterated, indexed and measured."""

    def __iter__(self):
        return iter(["low lower", "low"])

    def __getitem__(self, index):
        return list(self)[index]

    def __len__(self):
        return 2


def test_columns_are_texts():
    """An object that yields strings is an iterable of texts."""
    assert count_words(texts=Column()) == count_words(texts=list(Column()))


def test_a_generator_runs_in_the_caller_s_thread_a_block_at_a_time(monkeypatch):
    """A generator is advanced in the caller's thread only, and its texts are not collected first."""
    monkeypatch.setattr(texts_module, "_MOST_NAMES", 2)
    n_counted = [0]
    leads = []

    def lines():
        for number in range(40):
            assert threading.current_thread() is threading.main_thread()
            leads.append(number - n_counted[0])
            yield "low lower"

    def progress(name, n_bytes, total):
        n_counted[0] = n_bytes // len("low lower\n")
        assert (name, total) == ("texts", None)

    counts = count_words(texts=lines(), block_size=20, progress=progress)
    assert (counts.total, n_counted) == (80, [40])
    assert max(leads) <= 5  # two batches, or a block that is prefetched by mistake: more


def test_errors_of_the_generator_are_its_own():
    """An error that the caller's generator raises arrives unchanged."""

    def lines():
        yield "low"
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        count_words(texts=lines())


BAD = {
    "text": ("texts is 'low' (str); did you mean texts=[text]", "low"),
    "path": ("texts is a PosixPath; did you mean texts=[text], or sources=path", Path("low")),
    "bytes": ("texts[1] is b'low' (bytes); did you mean texts[1].decode()?", ["a", b"low"]),
    "null": ("texts[1] is None; remove it or pass errors='skip'", pa.array(["a", None])),
    "nan": ("texts[1] is nan; remove it", pl.Series(["a", float("nan")], dtype=pl.Object)),
    "number": ("texts[70] is 5 (int); give strings", [*"a" * 70, 5]),
    "words": ("texts[0] is a list; give strings", [["low", "lower"]]),
    "row": ("texts[0] is a dict; give strings; name files by sources=, a column", [{"text": "a"}]),
    "path in a list": ("texts[0] is a PosixPath; give strings; name files by", [Path("low")]),
    "surrogate": ("texts[2]: lone surrogate U+D800 at character 1", ["", "a", "b\ud800"]),
    "table": ("texts is a DataFrame; give strings in a list", pl.DataFrame({"text": ["a"]})),
    "mapping": ("texts is a dict; give strings in a list", {"text": 3}),
    "file": ("texts contains names of files, such as 'here.txt'; did you mean sources=", ["here.txt"]),
    "names": ("texts contains names of files", ["here.txt", "."] * 20),
    "no text": ("texts: no words in 0 lines; check the text", []),
    "blank text": ("texts: no words in 1 line; check the text", [" "]),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_texts_are_named_by_their_index(name, tmp_path, monkeypatch):
    """An item that is not a text raises an error with its index and a remedy. So do names of files."""
    monkeypatch.chdir(tmp_path)
    Path("here.txt").touch()
    message, texts = BAD[name]
    with pytest.raises(VoltError) as caught:
        count_words(texts=texts)
    assert message in str(caught.value)


def test_missing_texts_are_skipped_and_counted(tmp_path, monkeypatch):
    """With errors="skip", None and NaN are left out and counted as bad lines; a text that names a
    file is a text among others."""
    monkeypatch.chdir(tmp_path)
    Path("here").touch()
    counts = count_words(texts=["here", None, float("nan"), "low"], errors="skip")
    assert (counts.words, counts.n_lines, counts.n_bad_lines) == (["here", "low"], 4, 2)
    assert count_words(texts=["here\n"]).words == ["here"]


@pytest.mark.parametrize("sources", [["Hello world"], "Hello world", iter(["low", "lower"])])
def test_texts_for_sources_are_never_read_as_texts(sources):
    """A string is a path: the error for a missing file proposes texts=."""
    with pytest.raises(VoltError, match=r"no such file; check the path; did you mean texts=\?"):
        count_words(sources)


@pytest.mark.parametrize(
    "option",
    [
        {"sources": "a.txt"},
        {"fields": 2},
        {"column": "text"},
        {"word_counts": True},
        {"map": lambda function, paths: map(function, paths)},
        {"keep": "folder"},
    ],
)
def test_options_of_files_exclude_texts(option):
    """An option that works only with files is refused, and nothing is read or written."""
    [name] = option
    with pytest.raises(VoltError, match=f"texts exclude .*{name}"):
        count_words(texts=iter(["low"]), **option)


def test_patterns_and_levels_are_those_of_the_command():
    """pattern= and level= choose the pre-tokenizer that PreTokenizer.of_pattern makes."""
    texts = ["It's 12345"]
    counts = count_words(texts=texts, pattern="cl100k")
    assert counts.words == sorted(["It", "'s", "▁", "123", "45"])
    assert count_words(texts=texts, level="bytes") == count_words(texts=texts, pretokenizer="bytes")
    assert isinstance(counts, WordCounts)
