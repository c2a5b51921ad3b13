"""Named texts: every file has one name, and texts that do not fit each other are reported."""

import gzip
import os
from collections import Counter
from pathlib import Path

import pytest

from volt.comparison.texts import (
    NamedText,
    are_aligned,
    choose_sample_lines,
    match_names,
    note_unseen_characters,
    read_sources,
)
from volt.count.word_counts import WordCounts
from volt.errors import CorpusError
from volt.files.table_rows import TextColumns


def source(name, **words):
    return NamedText(name, words)


def test_an_existing_file_precedes_a_name(tmp_path, monkeypatch):
    """An existing file named a=b.txt is read, and not parsed as the name a."""
    monkeypatch.chdir(tmp_path)
    Path("a=b.txt").write_text("low lower\n")
    [text] = read_sources(["a=b.txt"], {})
    assert (text.name, text.counts.total) == ("a=b", 2)


def test_reading_counts_words_and_selects_lines(tmp_path):
    """`read_sources` returns the counts and characters of a file, and a few of its lines."""
    lines = [f"this is line number {number} of a file that has many lines" for number in range(50)]
    path = tmp_path / "train.en.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    text = read_sources([f"en={path}"], {})[0]
    assert text.counts.n_lines == 50
    assert text.counts.total == 50 * 12
    assert text.characters == Counter("".join(lines).replace(" ", ""))
    assert 1 < len(text.lines) <= 4
    assert set(text.lines) <= set(lines)
    assert text.files == (str(path),)


def test_odd_files_have_few_samples(tmp_path):
    """`choose_sample_lines` returns no lines of stdin, a pipe and an empty file, and cuts a huge line."""
    lines = TextColumns()
    (tmp_path / "empty").write_text("")
    os.mkfifo(tmp_path / "pipe")
    assert choose_sample_lines(str(tmp_path / "pipe"), lines) == ()
    (tmp_path / "huge").write_text("x" * 100_000)
    assert choose_sample_lines("-", lines) == ()
    assert choose_sample_lines(str(tmp_path / "empty"), lines) == ()
    assert choose_sample_lines(str(tmp_path / "huge"), lines) == ("x" * 160,)


def test_a_missing_or_empty_file_is_reported(tmp_path):
    """The error of `read_sources` names a file that is missing or has no words."""
    (tmp_path / "empty.txt").write_text("\n\n")
    for name in ("empty.txt", "nowhere.txt"):
        with pytest.raises(CorpusError, match=name):
            read_sources([str(tmp_path / name)], {})


def test_heldout_texts_are_matched_by_name():
    """`match_names` pairs held-out texts with sources by name, a single text with a single source,
    and reports the others."""
    only, notes = match_names(["train"], [source("test", a=1)])
    assert only[0].name == "train"
    assert not notes
    both, notes = match_names(["en", "de"], [source("en", a=1), source("fr", a=1)])
    assert [text.name for text in both] == ["en", "fr"]
    of_french, of_german = notes
    assert "'fr'" in of_french
    assert "'de'" in of_german
    assert match_names(["en", "de"], [source("all", a=1)])[1][0].startswith("held-out 'all'")
    assert not match_names([], [])[1]


def test_unseen_scripts_are_noted():
    """From 1 % unseen characters on, `note_unseen_characters` states their share, number and
    script."""
    known = [source("en", abc=5), source("de", abd=1)]
    note = note_unseen_characters(known, source("ru", да=1, a=1))
    assert all(part in note for part in ("66.7 %", "2 distinct", "CYRILLIC"))
    assert note_unseen_characters(known, source("en", abcd=5)) is None
    assert note_unseen_characters(known, source("en", a=199, é=1)) is None


def test_alignment_means_equally_many_lines():
    """`are_aligned` is true for several texts with equally many lines."""
    with_lines = [
        NamedText(name, WordCounts(source(name, a=1).counts.table, n_lines=5))
        for name in ("en", "de")
    ]
    assert are_aligned(with_lines)
    assert not are_aligned(with_lines[:1])
    assert not are_aligned([with_lines[0], source("de", a=1)])
    assert not are_aligned([source("en", a=1), source("de", a=1)])
