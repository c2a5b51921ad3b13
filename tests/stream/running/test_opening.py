"""Who owns what is opened: files are loaded once a stream, nothing outlives it, and copies start with nothing."""

from __future__ import annotations

import os
import pickle

from hypothesis import given
from hypothesis import strategies as st
from support.streams import numbered

from volt.stream.config.configuration import load_config
from volt.stream.reading.source_definition import Source
from volt.stream.running.stream import Stream
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.subwords import Encode
from volt.stream.transforms.transform import LoadedFiles, SharedCache, loaded
from volt.stream.transforms.user_code import User
from volt.vocabulary import Vocabulary

COUNTING = """
from pathlib import Path
here = Path(__file__).parent / "runs"
here.write_text(here.read_text() + "x" if here.exists() else "x")
def same(fields): return fields
"""


@given(st.integers(1, 4), st.lists(st.integers(0, 6), max_size=40))
def test_kept_values_are_those_of_their_keys(most, keys):
    """Whatever has been let go, a key's value is its own, and a key asked for twice in a row is made once."""
    kept, made = SharedCache(most=most), list[int]()
    for key in keys:
        assert kept.get(key, lambda key=key: made.append(key) or key) == key
        before = len(made)
        assert kept.get(key, lambda: -1) == key
        assert len(made) == before
    if len(set(keys)) <= most:
        assert sorted(made) == sorted(set(keys))


def test_a_changed_file_is_loaded_again(tmp_path):
    """A file is read once while it stays as it is."""
    path, files, read = tmp_path / "a", LoadedFiles(), list[str]()

    def load(path):
        read.append(path.read_text())
        return read[-1]

    path.write_text("one")
    assert [files.load(path, load), files.load(path, load)] == ["one", "one"]
    path.write_text("three")
    assert (files.load(path, load), read) == ("three", ["one", "three"])


def test_a_second_stream_takes_the_vocabulary_that_is_there_now(tmp_path):
    """Nothing of a stream outlives it: with another vocabulary in the same place, the next one encodes with that."""
    path, shards, found = tmp_path / "vocab.volt", numbered(tmp_path, "a", 3), list[set[str]]()
    for merges in ((("a", "-"),), (("-", "0"),)):
        tokens = ("a", "-", "0", "1", "2", "A", " ", *("".join(merge) for merge in merges))
        Vocabulary(merges=merges, tokens=tokens).save(path)
        os.utime(path, ns=(1, 1 + len(found)))
        source = Source("a", shards, transforms=(Encode(vocabulary=path, fields=(1,)),), epochs=1)
        with Stream([source]) as stream:
            found.append({piece for line in stream for piece in line.split("\t")[0].split(" ")})
    assert "a-" in found[0] - found[1]


def test_a_users_file_runs_once_for_a_whole_stream(tmp_path):
    """Checking a configuration and reading from two sources by the same file runs it once."""
    (tmp_path / "mine.py").write_text(COUNTING)
    paths = [*numbered(tmp_path, "a", 3), *numbered(tmp_path, "b", 3)]
    sources = "".join(
        f"  s{i}: {{path: {path}, epochs: 1, transforms: [user: {{file: mine.py, function: same}}]}}\n"
        for i, path in enumerate(paths)
    )
    (tmp_path / "stream.yaml").write_text(f"sources:\n{sources}")
    with Stream.from_config(tmp_path / "stream.yaml") as stream:
        assert stream.skip(4) == 4
    assert (tmp_path / "runs").read_text() == "x"
    load_config(tmp_path / "stream.yaml")
    assert (tmp_path / "runs").read_text() == "xx"


def test_copies_start_with_nothing_and_share_what_they_load(tmp_path):
    """Sources that travel together to a worker hold no loaded file, and load into one place there."""
    path = tmp_path / "mine.py"
    path.write_text(COUNTING)
    transforms = (User(file=path, function="same"),)
    sources = [Source(name, numbered(tmp_path, name, 3), transforms=transforms) for name in "ab"]
    stream = Stream(sources)
    stream.skip(6)
    copies = pickle.loads(pickle.dumps(stream.sources))
    assert copies[0].files is copies[1].files
    assert (tmp_path / "runs").read_text() == "x"
    assert [copy.transforms[0].name for copy in copies] == ["user", "user"]
    assert (tmp_path / "runs").read_text() == "xx"


def test_what_is_inside_a_choice_is_opened_too(tmp_path):
    """A transform with a file is opened wherever it stands, and its signature is that of the file."""
    path = tmp_path / "mine.py"
    path.write_text(COUNTING)
    declared = Choice((Variant(1.0, (User(file=path, function="same"),)),))
    made = loaded(declared, LoadedFiles())
    path.unlink()
    assert isinstance(made, Choice)
    assert made.variants[0].transforms[0].name == "user"
