"""The plan for corpora that are too large for this machine: its law, its formulas, its simulation, and its commands."""

from __future__ import annotations

import doctest
from importlib import import_module
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import volt
from experiments.scale.__main__ import main
from experiments.scale.heaps import Law, fit
from experiments.scale.plan import Cluster, Rates, levels, plan
from experiments.scale.sample import cut, measured
from experiments.scale.simulate import Trouble, simulate
from volt.errors import CorpusError

MODULES = ("heaps", "sample", "plan", "simulate", "check", "__main__")
RATES = Rates(Law(10, 0.6), Law(2, 0.5), 1e-8, 2e-8, 1e-7, 3e-6, 12.0, 1e8, 400.0, 800.0)


@given(st.floats(0.1, 100), st.floats(0.1, 1.0))
def test_a_law_is_found_again_and_has_no_interval(k, beta):
    """Sizes on a power law give its k and β, and every other fit agrees."""
    sizes = [1e4, 1e5, 1e6, 1e7]
    law = fit(sizes, [k * n**beta for n in sizes])
    assert law.k == pytest.approx(k)
    assert law.beta == pytest.approx(beta)
    assert law.interval(1e12) == pytest.approx((law(1e12), law(1e12)))


def test_text_that_bends_lies_within_the_interval_and_below_the_fit():
    """Where β falls, the interval's lower end is nearer to what comes."""
    sizes = [1e4, 1e5, 1e6, 1e7]
    bent = [10 * n ** (0.8 - 0.01 * log2(n)) for n in sizes]
    law = fit(sizes, bent)
    least, most = law.interval(1e9)
    assert least < law(1e9) < most
    assert abs(least - 10 * 1e9 ** (0.8 - 0.01 * log2(1e9))) < abs(law(1e9) - 10 * 1e9 ** (0.8 - 0.01 * log2(1e9)))


@pytest.mark.parametrize(("sizes", "words"), [((1, 2), (1, 2)), ((1, 2, 3), (0, 1, 2))])
def test_what_has_no_law_is_refused(sizes, words):
    """Too few sizes, or one without words."""
    with pytest.raises(ValueError, match="at least three, each with words"):
        fit(sizes, words)


@given(st.integers(1, 70), st.integers(1, 20))
@settings(deadline=None)
def test_the_tree_adds_all_tables(n_machines, n_cores):
    """One table fewer for each pair, until one is left; only what lies on different machines is sent."""
    found = list(levels(RATES, Cluster(n_machines, n_cores), 1e12))
    assert sum(level.pairs for level in found) == n_machines * n_cores - 1
    assert sum(level.pairs for level in found if level.sent) == n_machines - 1
    for level in found:
        assert level.sent in (0, pytest.approx(level.pairs * 12 * level.words))
        assert level.seconds == pytest.approx(2e-7 * level.words + level.sent / level.pairs / 1.25e9)


def test_the_pieces_of_a_plan_by_hand():
    """Two machines of two cores: each figure as the formulas say it, and the whole is their sum."""
    cluster = Cluster(2, 2, memory=1e9, network=1e6, disk=1e9)
    found = plan(RATES, cluster, 4e10)
    assert found.counting == pytest.approx(100)
    assert found.encoding == pytest.approx(200)
    v1, v2, v4 = (10 * n**0.6 for n in (1e10, 2e10, 4e10))
    assert found.adding == pytest.approx(2e-7 * (v1 + v2) + 12 * v2 / 1e6)
    assert found.shuffled == pytest.approx(12 * v2)
    assert found.learning == pytest.approx(3e-6 * 2 * 4e10**0.5)
    assert found.memory == pytest.approx(
        {"counting": 1e8 + 800 * v1, "adding": 1e8 + 400 * v4, "learning": 1e8 + 1600 * 4e10**0.5}
    )
    over = sum(found.memory[name] - 1e9 for name in ("counting", "adding"))
    assert over > 0
    assert found.spilling == pytest.approx(2 * over / 1e9)
    assert found.total == pytest.approx(100 + 200 + found.adding + found.spilling + found.learning)


def test_a_slow_disk_sets_the_pace():
    """A machine counts no faster than it reads."""
    assert plan(RATES, Cluster(2, 2, disk=1e6), 4e10).counting == pytest.approx(2e4)


@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 3), st.integers(0, 99))
@settings(deadline=None, max_examples=30)
def test_a_simulation_without_trouble_is_the_formula(n_machines, n_cores, rounds, seed):
    """Equal speeds, no deaths and as many shards on each core give the seconds of the plan."""
    found = plan(RATES, Cluster(n_machines, n_cores), 1e10)
    n_shards = n_machines * n_cores * rounds
    seconds = simulate(
        Trouble(0, 0), seed=seed, n_machines=n_machines, n_cores=n_cores, n_shards=n_shards,
        shard_seconds=found.counting / rounds, levels=[(level.seconds, level.sent > 0) for level in found.levels],
    )  # fmt: skip
    assert seconds == pytest.approx(found.counting + found.adding)


def test_trouble_costs_time_and_the_same_seed_gives_the_same():
    """Machines that die count again what they had counted; a lone one that dies for sure waits for its restart."""

    def run(trouble: Trouble, seed: int) -> float:
        return simulate(trouble, seed=seed, n_machines=4, n_cores=2, n_shards=64, shard_seconds=10, levels=[])

    assert run(Trouble(0, 0), 1) == 80
    deadly = [run(Trouble(0, 20), seed) for seed in range(20)]
    assert min(deadly) >= 80
    assert max(deadly) > 100
    assert deadly == [run(Trouble(0, 20), seed) for seed in range(20)]
    assert len({run(Trouble(0.3, 0), seed) for seed in range(5)}) == 5


@pytest.mark.parametrize("seed", range(8))
def test_one_machine_counts_all_in_one_life(seed):
    """Alone, a machine is done when a life is first long enough for every shard; the lives before it are lost."""
    random = np.random.default_rng(seed)
    random.normal(0, 0, 1)
    expected = 0.0
    while (life := random.exponential(3600 / 60)) < 50:
        expected += life + 120
    found = simulate(Trouble(0, 60), seed=seed, n_machines=1, n_cores=1, n_shards=5, shard_seconds=10, levels=[])
    assert found == pytest.approx(expected + 50)


def test_a_sample_is_whole_lines_and_counts_what_count_words_counts(tmp_path):
    """Samples end where lines do, hold no more than asked unless a line is longer, and their words are the text's."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"wörd{number} and {number % 97}\n" for number in range(4000)), encoding="utf-8")
    size = cut(corpus, tmp_path / "part.txt", 5000)
    assert 4900 < size <= 5000
    assert corpus.read_bytes().startswith(part := (tmp_path / "part.txt").read_bytes())
    assert part.endswith(b"\n")
    assert cut(corpus, tmp_path / "line.txt", 3) == len("wörd0 and 0\n".encode())
    with pytest.raises(CorpusError, match="give a longer corpus"):
        cut(corpus, tmp_path / "no.txt", corpus.stat().st_size + 1)
    (point,) = measured(corpus, tmp_path, sizes=[5000], n_merges=50, min_count=2, level="characters")
    counts = volt.count_words(tmp_path / "part.txt")
    assert (point.n_bytes, point.n_words, point.n_kept) == (size, counts.n_words, counts.min_count(2).n_words)
    assert 0 < point.start <= point.counted <= point.learned


@pytest.mark.slow
def test_the_commands_write_their_tables(tmp_path):
    """Both, on a tiny corpus, as a user calls them."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"word{number} and number {number % 97}\n" for number in range(4000)))
    main(["predict", str(corpus), "--merges", "50", "--rounds", "3", "-o", str(tmp_path / "plan.md")])
    told = (tmp_path / "plan.md").read_text()
    assert told.startswith("# 1 TB on 64 machines of 16 cores")
    assert "| all " in told
    assert "simulated 3 times" in told
    main(["check", str(corpus), "--base", "40K", "--growth", "2", "--merges", "50", "-o", str(tmp_path / "grown.md")])
    grown = (tmp_path / "grown.md").read_text()
    distinct = [line.split("|")[2].strip() for line in grown.splitlines() if line.count("|") == 10][2:]
    sizes = [cut(corpus, tmp_path / f"{size}.txt", size) for size in (40_000, 80_000)]
    assert len(sizes) == len(distinct)
    assert distinct == [f"{volt.count_words(tmp_path / f'{size}.txt').n_words:,}" for size in (40_000, 80_000)]
    assert "0.0 to 0.1 MB" in grown
    with pytest.raises(SystemExit, match="no such file"):
        main(["predict", str(tmp_path / "missing")])


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_plan_run(name):
    """What the docstrings show is so."""
    assert not doctest.testmod(import_module(f"experiments.scale.{name}")).failed
