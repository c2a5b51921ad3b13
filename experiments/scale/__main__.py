"""What a corpus too large for this machine would cost many machines: foretold from a sample, checked on what fits here.

    python -m experiments.scale predict CORPUS [--bytes 1T] [--machines 64] [--cores 16] [--network 10G] [-o PLAN.md]
    python -m experiments.scale check CORPUS [--base 2.5M] [--growth 1 10 100] [--level bytes] [-o RESULTS.md]
    python -m experiments.scale draw TEXT [--bytes 250M] [--seed 1] [--beta 0.7]

`predict` measures the corpus's first bytes in growing sizes (sample.py), fits Heaps' law (heaps.py), fills in the
formulas (plan.py), and lets machines be slow and die (simulate.py). `check` runs `volt search` on a corpus that grows,
beside what its smallest size foretold (check.py). `draw` writes a text for it
in which new words never stop coming (open_text.py). K, M, G and T are thousands; the network's figure is bits a second.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

from experiments.bench.measure import describe, machine, markdown_table
from experiments.scale.check import Step, exponent, searched, steps
from experiments.scale.open_text import write_open_text
from experiments.scale.options import options
from experiments.scale.plan import Cluster, Plan, Rates, plan, rates_of
from experiments.scale.sample import measured
from experiments.scale.simulate import Trouble, simulate
from volt.errors import CorpusError, VoltError, shown_path
from volt.files.atomic import check_writable, write_atomic
from volt.files.scratch import scratch_folder
from volt.files.whole import is_packed

SHARD = 256e6
UNKNOWN = "–"
LINE = 100  # bytes, of which a search costs what any does


def predict(given: argparse.Namespace) -> Iterator[str]:
    """The parts of a plan."""
    sizes = [int(min(given.sample, given.corpus.stat().st_size) / part) for part in (64, 16, 4, 1)]
    with scratch_folder() as folder:
        points = measured(
            given.corpus, folder, sizes=sizes, n_merges=given.merges, min_count=given.min_count, level=given.level
        )
    rates = rates_of(points)
    cluster = Cluster(given.machines, given.cores, given.memory, given.network / 8, given.disk)
    found = plan(rates, cluster, given.bytes)
    yield f"# {given.bytes / 1e12:g} TB on {cluster.n_machines} machines of {cluster.n_cores} cores"
    facts = describe(machine("volt-vocab", "polars", "numba"))
    yield f"{facts}. Sample: the first {sizes[-1] / 1e6:,.1f} MB."
    rows = [
        [f"{p.n_bytes / 1e6:,.2f}", f"{p.n_words:,}", f"{p.n_kept:,}", f"{p.count:.2f}", f"{p.learn:.2f}",
         f"{p.learned / 1e6:,.0f}"] for p in points
    ]  # fmt: skip
    yield markdown_table(["sample, MB", "distinct", "kept", "count, CPU s", "learn, CPU s", "peak MB"], rows)
    yield markdown_table(["rate", "is"], told_rates(rates, given.bytes))
    yield markdown_table(["step", "s"], told_seconds(found))
    header = ["memory of a machine", "GB", f"than {cluster.memory / 1e9:g} GB"]
    yield markdown_table(header, told_memory(found, cluster))
    rows = [
        [f"{x.pairs:,}", f"{x.words / 1e6:,.1f}", f"{x.sent / 1e9:,.1f}", f"{x.seconds:,.1f}"] for x in found.levels
    ]
    yield markdown_table(["pairs added", "million words in each", "sent, GB", "s of a pair"], rows, n_text=0)
    yield f"Shuffled in all: {found.shuffled / 1e9:,.1f} GB. {simulated(given, found, cluster)}"


def told_rates(rates: Rates, n_bytes: float) -> Iterator[list[str]]:
    """Rows: the laws with their intervals, and the rates."""
    for name, law in (("distinct words", rates.words), ("words kept", rates.kept)):
        least, most = (n / 1e6 for n in law.interval(n_bytes))
        betas = [law.beta, *(beta for _, beta in law.others)]
        told = f"{law.k:.3g} n^{law.beta:.3f} (β {min(betas):.3f} to {max(betas):.3f})"
        yield [f"{name}, n bytes", told]
        yield [f"{name} at the end", f"{law(n_bytes) / 1e6:,.0f} million ({least:,.0f} to {most:,.0f})"]
    yield ["counting, a core", f"{1 / rates.count / 1e6:,.1f} MB/s"]
    yield ["encoding, a core", f"{1 / rates.encode / 1e6:,.1f} MB/s"]
    yield ["adding, a row", f"{rates.add * 1e9:,.0f} ns"]
    yield ["learning, a word", f"{rates.learn * 1e6:,.2f} µs"]
    for name, figure in (("on the wire", rates.wire), ("counted", rates.counted), ("learned from", rates.learned)):
        yield [f"a word {name}", UNKNOWN if figure is None else f"{figure:,.0f} bytes"]


def told_seconds(found: Plan) -> list[list[str]]:
    """Rows: the steps and their sum."""
    named = {
        "counting": found.counting, "adding tables": found.adding, "spilling": found.spilling,
        "learning": found.learning, "encoding": found.encoding, "all": found.total,
    }  # fmt: skip
    return [[name, f"{seconds:,.1f}"] for name, seconds in named.items()]


def told_memory(found: Plan, cluster: Cluster) -> Iterator[list[str]]:
    """Rows: the steps, what each needs, and whether it is more than there is."""
    for name, n_bytes in found.memory.items():
        if n_bytes is None:
            yield [name, UNKNOWN, "give a larger --sample"]
        else:
            yield [name, f"{n_bytes / 1e9:,.1f}", "more" * (n_bytes > cluster.memory)]


def simulated(given: argparse.Namespace, found: Plan, cluster: Cluster) -> str:
    """A sentence on counting and adding where machines are slow and die."""
    n_shards = cluster.n_parts * max(1, round(given.bytes / SHARD / cluster.n_parts))
    times = [
        simulate(
            Trouble(given.spread, given.deaths), seed=seed, n_machines=cluster.n_machines, n_cores=cluster.n_cores,
            n_shards=n_shards, shard_seconds=found.counting * cluster.n_parts / n_shards,
            levels=[(level.seconds, level.sent > 0) for level in found.levels],
        )
        for seed in range(given.rounds)
    ]  # fmt: skip
    formula = found.counting + found.adding
    return (
        f"Counting and adding take {formula:,.1f} s by the formula; simulated {given.rounds} times with {n_shards:,} "
        f"shards, spread of speed {given.spread:g} and {given.deaths:g} deaths per machine and hour: median "
        f"{median(times):,.1f} s, 95 of 100 within {np.quantile(times, 0.95):,.1f} s."
    )


def check(given: argparse.Namespace) -> Iterator[str]:
    """The parts of a check."""
    yield f"# `volt search --level {given.level}` on a corpus that grows"
    yield f"{describe(machine('volt-vocab', 'polars', 'numba'))}. Foretold from the smallest size alone."
    with scratch_folder() as folder:
        growth = sorted({1, *given.growth})
        found = list(
            steps(given.corpus, folder, base=int(given.base), growth=growth, n_merges=given.merges, level=given.level)
        )
        start = searched(given.corpus, folder, LINE, given.level)[1].cpu
    header = ["MB", "distinct", "foretold", "interval", "CPU s", "foretold", "wall s", "peak MB", "foretold"]
    yield markdown_table(header, [told_step(step) for step in found], n_text=0)
    pairs = [*pairwise(found), *([(found[0], found[-1])] if len(found) > 2 else [])]
    rows = [
        [f"{one.n_bytes / 1e6:,.1f} to {other.n_bytes / 1e6:,.1f} MB", *told_exponents(one, other, start)]
        for one, other in pairs
    ]
    yield markdown_table(["exponent of CPU seconds", "whole", f"without {start:.2f} s of start"], rows)


def told_exponents(one: Step, other: Step, start: float) -> list[str]:
    """Of the whole, and without the start; a dash where the start is all there is."""
    found = exponent(one, other), exponent(one, other, start=start)
    return [UNKNOWN if number is None else f"{number:.3f}" for number in found]


def told_step(step: Step) -> list[str]:
    """A row of the check."""
    return [
        f"{step.n_bytes / 1e6:,.1f}", f"{step.n_words:,}", f"{step.words:,.0f}",
        f"{step.least:,.0f} to {step.most:,.0f}",
        f"{step.run.cpu:.1f}", f"{step.cpu:.1f}", f"{step.run.wall:.1f}", f"{step.run.peak:,.0f}",
        UNKNOWN if step.peak is None else f"{step.peak:,.0f}",
    ]  # fmt: skip


def draw(given: argparse.Namespace) -> None:
    """Write a text."""
    write_open_text(given.text, int(given.bytes), seed=given.seed, beta=given.beta)


def check_corpus(path: Path) -> None:
    """Raise CorpusError unless it is a plain file that holds something."""
    if not path.is_file():
        raise CorpusError(f"{shown_path(path)}: no such file; give a plain text")
    if is_packed(path, kind=CorpusError):
        raise CorpusError(f"{shown_path(path)}: is packed, and its first bytes are no sample of it; give it unpacked")
    if not path.stat().st_size:
        raise CorpusError(f"{shown_path(path)}: is empty; give a text")


def write_parts(given: argparse.Namespace, *, parts: Callable[[argparse.Namespace], Iterator[str]]) -> None:
    """Write what a command finds in a corpus."""
    check_corpus(given.corpus)
    if given.output:
        check_writable(given.output)
    text = "\n\n".join(parts(given)) + "\n"
    if not given.output:
        sys.stdout.write(text)
        return
    with write_atomic(given.output) as file:
        file.write(text.encode())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command."""
    commands = {"predict": partial(write_parts, parts=predict), "check": partial(write_parts, parts=check)}
    given = options(commands | {"draw": draw}, about=__doc__).parse_args(arguments)
    try:
        given.run(given)
    except (VoltError, ValueError) as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
