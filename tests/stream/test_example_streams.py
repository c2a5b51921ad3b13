"""The examples: each runs as it is written, gives what its comment says, and the same with any number of workers."""

from __future__ import annotations

import gzip
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from volt.errors import ConfigError, OutputError
from volt.stream.config.configuration import load_config
from volt.stream.example_streams import RECIPES, sentence_pairs, write_recipe
from volt.stream.running.stream import Stream
from volt.vocabulary import Vocabulary

N = 700


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The first lines of every example, without workers."""
    folder = tmp_path_factory.mktemp("examples")
    found = {}
    for name in RECIPES:
        path, *_ = write_recipe(name, folder / name)
        with Stream.from_config(path) as stream:
            found[name] = list(islice(stream, N))
    return found


def test_workers_change_nothing(tmp_path: Path) -> None:
    """Byte for byte the same lines without workers, with one and with two, of all examples at once."""
    sources = []
    for name in RECIPES:
        path, *_ = write_recipe(name, tmp_path / name)
        sources += [
            replace(source, name=f"{name}/{source.name}", epochs=None)
            for source in load_config(path).sources
        ]
    found = []
    for n_workers in (0, 1, 2):
        with Stream(sources, seed=1, n_workers=n_workers) as stream:
            found.append(b"".join(stream.blocks(limit=10 * N)))
    assert found[0].count(b"\n") == 10 * N
    assert found[0] == found[1] == found[2]


def test_mixing_is_one_to_one(examples: dict[str, list[str]]) -> None:
    """Half of the lines are back-translated and tagged, at every prefix."""
    tagged = [line.startswith("[BT] ") for line in examples["mixing"]]
    assert all(abs(2 * sum(tagged[:n]) - n) <= 2 for n in range(N))


def test_case_noise_is_rare_and_changes_case_alone(examples: dict[str, list[str]]) -> None:
    """About 5 % of the lines are noisy, and without regard to case every line is one of the data."""
    known = {f"{german}\t{english}" for german, english in sentence_pairs()}
    parallel = [line for line in examples["case-noise"] if not line.startswith("[BT]")]
    lowered = {line.lower() for line in known}
    assert all(line.lower() in lowered for line in parallel)
    assert 1 <= sum(line not in known for line in parallel) <= 50


def test_url_filter_leaves_lines_with_equal_urls(examples: dict[str, list[str]]) -> None:
    """The URLs of both sides are the same; lines with other URLs do not come."""
    for line in examples["url-filter"]:
        left, right = (
            Counter(word for word in side.split() if "://" in word) for side in line.split("\t")
        )
        assert left == right
    assert len(set(examples["url-filter"])) == 160  # of 240, each third has URLs that do not match


def test_subword_sampling_samples_the_source_alone(
    examples: dict[str, list[str]], tmp_path: Path
) -> None:
    """A sentence that comes again is cut differently on the source side and the same on the target side."""
    write_recipe("subword-sampling", tmp_path / "x")
    vocabulary = Vocabulary.load(tmp_path / "x" / "vocab.volt")
    pieces = {
        piece for line in examples["subword-sampling"] for piece in line.replace("\t", " ").split()
    }
    assert pieces <= set(vocabulary.tokens)
    ways: dict[str, set[str]] = {}
    for line in examples["subword-sampling"]:
        source, target = line.split("\t")
        ways.setdefault(source.replace(" ", ""), set()).add(source)
        ways.setdefault(target.replace(" ", ""), set()).add(target)
    assert {len(found) for text, found in ways.items() if text.startswith("the")} == {1}
    assert max(map(len, ways.values())) == 2  # 700 lines are less than two epochs of 480


def test_documents_join_what_belongs_together(examples: dict[str, list[str]]) -> None:
    """Both sides have equally many sentences, at most five; some lines hold several."""
    counts = Counter(line.split("\t")[0].count("<sep>") + 1 for line in examples["documents"])
    assert all(
        len({side.count("<sep>") for side in line.split("\t")}) == 1
        for line in examples["documents"]
    )
    assert max(counts) <= 5
    assert counts[1] < N


def test_alignments_point_to_words(examples: dict[str, list[str]]) -> None:
    """The third field links positions that exist."""
    for line in examples["alignments"]:
        source, target, links = line.split("\t")
        for i, j in (link.split("-") for link in links.split()):
            assert int(i) < len(source.split())
            assert int(j) < len(target.split())


def test_offline_ends_after_two_epochs(tmp_path: Path) -> None:
    """With epochs and without a limit, every line of every source comes exactly twice."""
    path, parallel, backtranslated = write_recipe("offline", tmp_path / "x")
    with Stream.from_config(path) as stream:
        found = Counter(stream)
    lines = gzip.decompress(parallel.read_bytes()).decode().splitlines()
    lines += [
        f"[BT] {line}"
        for line in gzip.decompress(backtranslated.read_bytes()).decode().splitlines()
    ]
    assert found == dict.fromkeys(lines, 2)


def test_the_same_files_every_time_and_none_overwritten(tmp_path: Path) -> None:
    """Writing twice gives the same bytes; writing over a file, or an unknown example, is an error."""
    for name in ("mixing", "documents", "subword-sampling"):
        first, second = (write_recipe(name, tmp_path / name / str(turn)) for turn in (1, 2))
        assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    with pytest.raises(OutputError, match="exists"):
        write_recipe("mixing", tmp_path / "mixing" / "1")
    with pytest.raises(ConfigError, match="did you mean mixing"):
        write_recipe("mixin", tmp_path / "other")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be created"):
        write_recipe("mixing", tmp_path / "file" / "x")
