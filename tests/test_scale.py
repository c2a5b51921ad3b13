"""The plan for corpora that are too large for this machine: its law, its formulas, its simulation, and its commands."""

from __future__ import annotations

import doctest
import gzip
import os
from dataclasses import replace
from importlib import import_module
from math import gamma, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import volt
from experiments.bench.measure import Run
from experiments.scale.__main__ import main
from experiments.scale.check import Step, foretold
from experiments.scale.heaps import Law, fit
from experiments.scale.open_text import SHIFT, ranks, spelled, texts, write_open_text
from experiments.scale.plan import Cluster, Rates, levels, plan, rates_of
from experiments.scale.sample import Point, cut, measured
from experiments.scale.simulate import Trouble, simulate
from volt.errors import ConfigError, CorpusError

MODULES = ("heaps", "open_text", "options", "sample", "plan", "simulate", "check", "__main__")
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


def test_a_sample_that_is_too_small_says_nothing_of_memory():
    """Neither does the plan, whose seconds are the same."""
    points = [Point(n, n // 100, n // 200, n, n / 1e8, n / 1e9, n / 1e6, 1e-8, 9, 9, 9) for n in (10**4, 10**5, 10**6)]
    rates = rates_of(points)
    assert (rates.counted, rates.learned) == (None, None)
    found, known = (plan(one, Cluster(2, 2), 4e10) for one in (rates, replace(rates, counted=1.0, learned=1.0)))
    assert found.memory == dict.fromkeys(("counting", "adding", "learning"))
    assert replace(found, memory={}) == replace(known, memory={})
    first = Step(100, Run(1, 1, 288, 0), 9, 9, 9, 9, 1, 288)
    assert foretold(first, rates, 1000, first.run, 50).peak is None


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


def test_machines_that_die_before_a_shard_is_counted_are_told():
    """Where there is no end in sight, it is said."""
    with pytest.raises(
        ConfigError, match=r"with 1e\+09 deaths per machine and hour counting never ends: .* give fewer"
    ):
        simulate(Trouble(0, 1e9), seed=0, n_machines=4, n_cores=2, n_shards=64, shard_seconds=10, levels=[])


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
    assert grown.count("0.0 to 0.1 MB") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("predict a.txt --rounds 0", "argument --rounds: give a whole number from 1 to 100,000, not '0'"),
        ("predict a.txt --machines 0.5", "argument --machines: give a whole number from 1 to 10,000, not '0.5'"),
        ("predict a.txt --deaths -1", "argument --deaths: give a number from 0 to 1e+15, not '-1'"),
        ("predict a.txt --spread nan", "argument --spread: give a number from 0 to 10, not 'nan'"),
        ("predict a.txt --memory 64Q", "argument --memory: give a number above 0, such as 64, 2.5M, 10G or 1T"),
        ("check a.txt --base 0.5", "argument --base: give a byte or more"),
        ("check a.txt --growth 1 0", "argument --growth: give a whole number from 1"),
        ("draw a.txt --beta 1", "argument --beta: give a number from 0.1 to 0.8"),
        ("predict", "the following arguments are required: corpus"),
    ],
)
def test_misuse_of_the_commands_is_one_line(capsys, arguments, message):
    """It says what to give, and the status is 2."""
    with pytest.raises(SystemExit) as told:
        main(arguments.split())
    said = capsys.readouterr().err
    assert told.value.code == 2
    assert said.startswith(message)
    assert said.endswith(" --help\n")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing", None, "no such file; give a plain text"),
        ("empty", b"", "is empty; give a text"),
        (
            "packed",
            gzip.compress(b"low\n" * 500, mtime=0),
            "is packed, and its first bytes are no sample of it; give it unpacked",
        ),
        ("short", b"low\n" * 9_999, "39,996 bytes, and 80,000 are asked for; give a longer corpus"),
    ],
)
def test_a_corpus_that_is_none_is_refused_by_its_name(tmp_path, name, content, message):
    """Before anything is measured."""
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SystemExit) as told:
        main(["check", str(path), "--base", "40K", "--growth", "2"])
    assert told.value.code == f"{path}: {message}"


def test_damage_is_told_of_the_corpus_and_nothing_is_left(tmp_path, monkeypatch):
    """Not of the copy that was measured, which is gone; what a killed run left is removed as well."""
    scratch, corpus, line = tmp_path / "scratch", tmp_path / "corpus.txt", tmp_path / "line.txt"
    left = scratch / f"volt-{os.getuid()}-left"
    left.mkdir(parents=True)
    monkeypatch.setenv("TMPDIR", str(scratch))
    corpus.write_bytes(b"low\n" * 100 + b"l\xf6w\n" + b"low\n" * 9_000)
    line.write_text("low " * 10_000)
    for path, message in (
        (corpus, f"{corpus}:101: invalid UTF-8 byte 0xf6 at column 2; convert the file"),
        (line, f"{line}: its first 40,000 bytes have too few lines to be measured in 4 sizes; give shorter lines"),
    ):
        with pytest.raises(SystemExit) as told:
            main(["predict", str(path), "--merges", "5", "-o", str(tmp_path / "plan.md")])
        assert str(told.value.code).startswith(message)
    assert not [*scratch.iterdir()]


@pytest.mark.parametrize("beta", [0.5, 0.7, 0.8])
def test_text_that_is_drawn_has_the_words_that_heaps_law_foretells(beta):
    """Γ(1 - β) (c n)^β distinct words of n, to within 4 in 100, with any seed."""
    n = 1 << 20
    for seed in (1, 2):
        found = len(np.unique(ranks(np.random.default_rng(seed).random(n), beta=beta)))
        c = (1 / beta - 1) * (SHIFT + 1) ** (1 / beta - 1)
        assert found == pytest.approx(gamma(1 - beta) * (c * n) ** beta, rel=0.04)


@given(st.lists(st.integers(0, 2**62), min_size=2, unique=True))
def test_each_rank_has_a_spelling_of_its_own(drawn):
    """As many words as ranks, none empty."""
    text = spelled(np.array(drawn), np.full(len(drawn), 32, np.uint8))
    assert len(set(text.split())) == len(drawn)
    assert text == b" ".join(text.split()) + b" "


def test_a_text_is_whole_lines_of_its_seed(tmp_path):
    """At least the bytes that are asked for, at most a line more, and the start of a longer one."""
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path, n_bytes, seed in zip(paths, (4_000_000, 50_000, 50_000), (1, 1, 2), strict=True):
        main(["draw", str(path), "--bytes", str(n_bytes), "--seed", str(seed)])
        assert n_bytes <= path.stat().st_size < n_bytes + 2_000
        assert path.read_bytes().endswith(b"\n")
    long, short, other = (path.read_bytes() for path in paths)
    assert long.startswith(short)
    assert not long.startswith(other)
    (line_end := tmp_path / "line").write_bytes(next(texts(seed=1, beta=0.7)))
    write_open_text(tmp_path / "exact", (end := line_end.read_bytes().index(b"\n") + 1), seed=1, beta=0.7)
    assert (tmp_path / "exact").stat().st_size == end


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_plan_run(name):
    """What the docstrings show is so."""
    assert not doctest.testmod(import_module(f"experiments.scale.{name}")).failed
