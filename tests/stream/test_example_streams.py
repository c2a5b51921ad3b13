"""Each example does what its comment says, with any number of workers."""

from __future__ import annotations

import gzip
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest

from volt.errors import ConfigError, OutputError
from volt.stream.config.configuration import load_config
from volt.stream.example_streams import RECIPES, sentence_pairs, write_recipe
from volt.stream.running.stream import Stream
from volt.vocabulary import Vocabulary

N = 700
Lines = dict[str, list[str]]


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """Return the first lines of every example, without workers."""
    folder = tmp_path_factory.mktemp("examples")
    lines = {}
    for name in RECIPES:
        path, *_ = write_recipe(name, folder / name)
        with Stream.from_config(path) as stream:
            lines[name] = list(islice(stream, N))
    return lines


def test_the_number_of_workers_changes_no_byte(tmp_path):
    """All examples together give the same bytes with 0, 1 and 2 workers."""
    sources = []
    for name in RECIPES:
        path, *_ = write_recipe(name, tmp_path / name)
        for source in load_config(path).sources:
            sources.append(replace(source, name=f"{name}/{source.name}", epochs=None))
    texts = []
    for n_workers in (0, 1, 2):
        with Stream(sources, seed=1, n_workers=n_workers) as stream:
            texts.append(b"".join(stream.blocks(limit=10 * N)))
    assert texts[0].count(b"\n") == 10 * N
    assert texts[0] == texts[1] == texts[2]


def test_mixing_is_one_to_one(examples):
    """At every prefix, half of the lines are back-translated, and tagged."""
    n_tagged = 0
    for n, line in enumerate(examples["mixing"], 1):
        n_tagged += line.startswith("[BT] ")
        assert abs(2 * n_tagged - n) <= 2


def test_case_noise_is_rare_and_changes_only_case(examples):
    """About 5 % of the lines are noisy; apart from case, every line is one of the data."""
    known = {f"{german}\t{english}" for german, english in sentence_pairs()}
    parallel = [line for line in examples["case-noise"] if not line.startswith("[BT]")]
    assert {line.lower() for line in parallel} <= {line.lower() for line in known}
    assert 1 <= sum(line not in known for line in parallel) <= 50


def test_the_url_filter_leaves_lines_with_equal_urls(examples):
    """Of 240 lines, the third whose URLs differ is dropped."""
    for line in examples["url-filter"]:
        left, right = line.split("\t")
        assert [word for word in left.split() if "://" in word] == [
            word for word in right.split() if "://" in word
        ]
    assert len(set(examples["url-filter"])) == 160


def test_subword_sampling_samples_only_the_source(examples, tmp_path):
    """A repeated sentence is cut differently on the source side, and equally on the target side."""
    _, *files = write_recipe("subword-sampling", tmp_path / "x")
    tokens = set(Vocabulary.load(files[-1]).tokens)
    ways = {}
    for line in examples["subword-sampling"]:
        for side in line.split("\t"):
            assert tokens.issuperset(side.split())
            ways.setdefault(side.replace(" ", ""), set()).add(side)
    assert {len(cuts) for text, cuts in ways.items() if text.startswith("the")} == {1}
    assert max(map(len, ways.values())) == 2  # 700 lines are less than two epochs of 480


def test_documents_are_joined_on_both_sides(examples):
    """Both sides have equally many sentences, five at most; some lines have several."""
    sizes = []
    for line in examples["documents"]:
        [size] = {side.count("<sep>") + 1 for side in line.split("\t")}
        sizes.append(size)
    assert max(sizes) <= 5
    assert sizes.count(1) < N


def test_alignments_link_words(examples):
    """The third field links existing positions."""
    for line in examples["alignments"]:
        source, target, links = line.split("\t")
        for link in links.split():
            left, right = map(int, link.split("-"))
            assert left < len(source.split())
            assert right < len(target.split())


def test_offline_ends_after_two_epochs(tmp_path):
    """With epochs, every line of every source comes exactly twice."""
    path, *files = write_recipe("offline", tmp_path / "x")
    with Stream.from_config(path) as stream:
        counts = Counter(stream)
    parallel, backtranslated = (
        gzip.decompress(file.read_bytes()).decode().splitlines() for file in files
    )
    lines = [*parallel, *(f"[BT] {line}" for line in backtranslated)]
    assert counts == dict.fromkeys(lines, 2)


@pytest.mark.parametrize("name", ["mixing", "documents", "subword-sampling"])
def test_files_are_always_the_same(tmp_path, name):
    """Writing an example twice gives the same bytes."""
    first, second = (write_recipe(name, tmp_path / number) for number in "12")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_nothing_is_overwritten(tmp_path):
    """Existing files, unwritable folders and unknown examples are errors."""
    write_recipe("mixing", tmp_path / "1")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="exists"):
        write_recipe("mixing", tmp_path / "1")
    with pytest.raises(ConfigError, match="did you mean mixing"):
        write_recipe("mixin", tmp_path / "2")
    with pytest.raises(OutputError, match="cannot be created"):
        write_recipe("mixing", tmp_path / "file" / "x")
