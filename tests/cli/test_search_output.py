"""Without -o, `volt search` replaces only vocabularies of the same corpus."""

import shutil
from itertools import product
from pathlib import Path

import pytest

from volt.vocabulary import Vocabulary


def test_a_rerun_replaces_only_its_own_vocabulary(run):
    """Without -o, `volt search` replaces corpus.volt only if it was made from the same corpus, or
    with --force."""
    run("search corpus.txt -q")
    first = Path("corpus.volt").read_bytes()
    run("search corpus.txt -q --normalizer lowercase --min-count 2 --pretokenizer unicode")
    second = Path("corpus.volt").read_bytes()
    assert second != first
    shutil.copy("corpus.txt", "same.txt")
    text = Path("corpus.txt").read_text()
    as_many_lines = text.replace("cat", "lion")
    as_many_bytes = text.replace("\n", " ", 1).replace("cat", "dog")
    for other, options in product((as_many_lines, as_many_bytes), ("", "--json")):
        Path("corpus.txt").write_text(other)
        message = run(f"search corpus.txt {options}", status=2).message
        assert "corpus.volt: exists, but was made from another corpus" in message
        assert "choose another file with -o, or replace it with --force" in message
        assert Path("corpus.volt").read_bytes() == second
    run("search corpus.txt -q --force")
    third = Path("corpus.volt").read_bytes()
    assert third != second
    run("search same.txt -q -o corpus.volt")  # with -o, the user has chosen the file
    assert Path("corpus.volt").read_bytes() != third


@pytest.mark.parametrize("content", [b"notes", b"", b'{"volt": 1}', None])
def test_a_file_that_no_search_made_is_not_replaced(content, run):
    """Without -o, `volt search` refuses to replace notes, damaged files and imported vocabularies."""
    path = Path("corpus.volt")
    if content is None:
        Vocabulary(merges=(("t", "h"),), tokens=("t", "h", "th")).save(path)
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    assert "corpus.volt: exists, but " in run("search corpus.txt", status=2).message
    assert path.read_bytes() == before
