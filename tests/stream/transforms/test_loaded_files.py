"""`SharedCache` and `LoadedFiles`: threads and transforms share values, and each value is computed once."""

import os
import pickle
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st
from support.streams import numbered

from volt.stream.config.configuration import load_config
from volt.stream.reading.source_definition import Source
from volt.stream.running.stream import Stream
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.subwords import Encode
from volt.stream.transforms.transform import LoadedFiles, SharedCache, open_transform
from volt.stream.transforms.user_code import User
from volt.vocabulary import Vocabulary

# a user's file that counts how often it is run
COUNTING = """
from pathlib import Path
here = Path(__file__).parent / "runs"
here.write_text(here.read_text() + "x" if here.exists() else "x")
def same(fields): return fields
"""


@given(st.integers(1, 4), st.lists(st.integers(0, 6), max_size=40))
def test_a_cache_returns_the_value_of_each_key(most, keys):
    """SharedCache.get returns the value of its key, and computes it once for requests in a row."""
    cache = SharedCache(most=most)
    computed = []
    for key in keys:
        assert cache.get(key, lambda key=key: computed.append(key) or key) == key
        assert cache.get(key, lambda: -1) == key
    if len(set(keys)) <= most:
        assert sorted(computed) == sorted(set(keys))


class Large:
    """Stands for a file in memory."""


def test_threads_compute_a_shared_value_once():
    """Four threads that request a value of a SharedCache at the same time get the same object."""
    cache = SharedCache(most=1)
    computed = []
    start = threading.Barrier(4)

    def compute():
        time.sleep(0.02)
        computed.append(Large())
        return computed[-1]

    def request(_):
        start.wait()
        return cache.get("a", compute)

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(request, range(4))) == set(computed)
    assert len(computed) == 1


def test_a_cache_drops_the_old_value_before_it_computes_the_next():
    """A SharedCache of one value never holds two values, so that memory has one large file at a time."""
    cache = SharedCache(most=1)
    old = weakref.ref(cache.get("a", Large))
    assert old() is not None
    assert cache.get("b", lambda: old() is None)


def test_a_file_is_loaded_again_when_it_has_changed(tmp_path):
    """LoadedFiles.load calls the loader again only after the file has changed."""
    path = tmp_path / "a"
    files = LoadedFiles()
    loaded = []

    def load(path):
        loaded.append(path.read_text())
        return loaded[-1]

    path.write_text("one")
    assert [files.load(path, load), files.load(path, load)] == ["one", "one"]
    path.write_text("three")
    assert (files.load(path, load), loaded) == ("three", ["one", "three"])


def test_each_stream_loads_its_files_anew(tmp_path):
    """A second stream uses the current vocabulary at a path, not the vocabulary that the first stream loaded."""
    path = tmp_path / "vocab.volt"
    shards = numbered(tmp_path, "a", 3)
    pieces = []
    for merges in ((("a", "-"),), (("-", "0"),)):
        tokens = ("a", "-", "0", "1", "2", "A", " ", *("".join(merge) for merge in merges))
        Vocabulary(merges=merges, tokens=tokens).save(path)
        os.utime(path, ns=(1, 1 + len(pieces)))
        source = Source("a", shards, transforms=(Encode(vocabulary=path, fields=(1,)),), epochs=1)
        with Stream([source]) as stream:
            pieces.append({piece for line in stream for piece in line.split("\t")[0].split(" ")})
    assert "a-" in pieces[0] - pieces[1]


def test_a_users_file_runs_once_for_a_stream(tmp_path):
    """Two sources of a stream that use one Python file run it once; another load_config runs it again."""
    (tmp_path / "mine.py").write_text(COUNTING)
    paths = [*numbered(tmp_path, "a", 3), *numbered(tmp_path, "b", 3)]
    options = "epochs: 1, transforms: [user: {file: mine.py, function: same}]"
    sources = "".join(f"  s{i}: {{path: {path}, {options}}}\n" for i, path in enumerate(paths))
    (tmp_path / "stream.yaml").write_text(f"sources:\n{sources}")
    with Stream.from_config(tmp_path / "stream.yaml") as stream:
        assert stream.skip(4) == 4
    assert (tmp_path / "runs").read_text() == "x"
    load_config(tmp_path / "stream.yaml")
    assert (tmp_path / "runs").read_text() == "xx"


def test_pickled_sources_load_and_share_their_files_anew(tmp_path):
    """Pickled sources contain no loaded file; after unpickling, they share the files that they load."""
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


def test_a_transform_inside_a_choice_is_opened(tmp_path):
    """open_transform loads the files of transforms inside a choice, which later work without the files."""
    path = tmp_path / "mine.py"
    path.write_text(COUNTING)
    choice = Choice((Variant(1.0, (User(file=path, function="same"),)),))
    opened = open_transform(choice, LoadedFiles())
    path.unlink()
    assert isinstance(opened, Choice)
    assert opened.variants[0].transforms[0].name == "user"
