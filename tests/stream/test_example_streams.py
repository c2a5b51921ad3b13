"""`write_recipe`: each example does what its comment says, with any number of workers."""

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


def test_workers_do_not_change_the_examples(tmp_path):
    """All examples together yield equal bytes with 0, 1 and 2 workers."""
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


def test_the_mixing_example_is_half_back_translated(examples):
    """In the example `mixing`, after any number of lines, half of them are back-translated, and
    tagged."""
    n_tagged = 0
    for n, line in enumerate(examples["mixing"], 1):
        n_tagged += line.startswith("[BT] ")
        assert abs(2 * n_tagged - n) <= 2


def test_case_noise_is_rare_and_changes_only_case(examples):
    """In the example `case-noise`, about 5 % of the lines are noisy, and differ from the data only
    in case."""
    known = {f"{german}\t{english}" for german, english in sentence_pairs()}
    parallel = [line for line in examples["case-noise"] if not line.startswith("[BT]")]
    assert {line.lower() for line in parallel} <= {line.lower() for line in known}
    assert 1 <= sum(line not in known for line in parallel) <= 50


def test_the_url_filter_example_drops_different_urls(examples):
    """The example `url-filter` drops 80 of 240 lines, those whose URLs differ."""
    for line in examples["url-filter"]:
        left, right = line.split("\t")
        assert [word for word in left.split() if "://" in word] == [
            word for word in right.split() if "://" in word
        ]
    assert len(set(examples["url-filter"])) == 160


def test_the_subword_sampling_example_samples_the_source_side(examples, tmp_path):
    """In the example `subword-sampling`, a repeated sentence is segmented differently on the source
    side only."""
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
    """In the example `documents`, both sides of a line have equally many sentences, one to five."""
    sizes = []
    for line in examples["documents"]:
        [size] = {side.count("<sep>") + 1 for side in line.split("\t")}
        sizes.append(size)
    assert max(sizes) <= 5
    assert sizes.count(1) < N


def test_the_alignments_example_links_words(examples):
    """In the example `alignments`, the third field links existing positions."""
    for line in examples["alignments"]:
        source, target, links = line.split("\t")
        for link in links.split():
            left, right = map(int, link.split("-"))
            assert left < len(source.split())
            assert right < len(target.split())


def test_the_offline_example_ends_after_two_epochs(tmp_path):
    """The example `offline` yields every line of every source exactly twice."""
    path, *files = write_recipe("offline", tmp_path / "x")
    with Stream.from_config(path) as stream:
        counts = Counter(stream)
    parallel, backtranslated = (
        gzip.decompress(file.read_bytes()).decode().splitlines() for file in files
    )
    lines = [*parallel, *(f"[BT] {line}" for line in backtranslated)]
    assert counts == dict.fromkeys(lines, 2)


@pytest.mark.parametrize("name", ["mixing", "documents", "subword-sampling"])
def test_examples_are_reproducible(tmp_path, name):
    """write_recipe writes equal bytes each time."""
    first, second = (write_recipe(name, tmp_path / number) for number in "12")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_examples_do_not_overwrite_files(tmp_path):
    """write_recipe refuses existing files, unwritable folders and unknown examples."""
    write_recipe("mixing", tmp_path / "1")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="exists"):
        write_recipe("mixing", tmp_path / "1")
    with pytest.raises(ConfigError, match="did you mean mixing"):
        write_recipe("mixin", tmp_path / "2")
    with pytest.raises(OutputError, match="cannot be created"):
        write_recipe("mixing", tmp_path / "file" / "x")
