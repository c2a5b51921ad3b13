"""Tokens per second from text, or from indexed ids, to padded batches of torch: VOLT's `Steps` beside three peers.

    VENV/bin/python experiments/bench/steps.py [--seconds 2] [--rounds 3] [--json steps.json]
    VENV/bin/python experiments/bench/steps.py --sides "volt, text" "fairseq, ids"        these alone

VENV holds torch and, for the peers, torchdata, sentencepiece, datasets and transformers; a side whose packages are
missing is told as not installed. VOLT_DATA names the folder of Multi30k. What the peers do is told in steps_peers.py.

All sides read the same training pairs, shuffled, with one BPE vocabulary of both languages, exported to the format of
each library; tokens per row show how alike they cut. Tokens are those of source and target, with an end of sentence and
without padding. Batches have at most --max-tokens places in their longer side, or, where a library has no such batches,
as many rows as these have on the average.

Each run is a process of its own and is measured from its first batch on, for whole epochs that take --seconds or more,
at least one; the time to the first batch, imports and all, is told beside it. Workers are processes of a DataLoader, or
VOLT's threads; each computes with one thread. Rounds go through all sides by turns, so that a change of the machine's
load meets each. Figures are medians, and ratios are medians of the rounds' ratios. CPU seconds are those of all
processes of a side, and change less than wall seconds where other processes are busy; such rows are marked.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from measure import BUSY, MARK, describe, machine, markdown_table, write_json
from rounds import say, threads_env
from rows import Claim
from steps_data import Data, make_data
from steps_sides import SIDES
from stream import end
from texts import temporary_folder

PACKAGES = ("volt-vocab", "numpy", "torch", "torchdata", "sentencepiece", "datasets", "tokenizers", "transformers")
AIMS = {"datasets, text": 3.0, "torchdata, text": 3.0, "fairseq, ids": 1 / 1.5}  # of VOLT from text
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
HEADER = [
    "side", "workers", "tokens/s", "÷ volt, text", "CPU s per M tokens", "padding %", "tokens a row", "tokens a batch",
    "s to the first batch", "epochs",
]  # fmt: skip
Key = tuple[str, int]  # side, workers


@dataclass(frozen=True, slots=True)
class Pass:
    """One run. first: seconds to the first batch;  seconds, cpu: wall and processor seconds from then on;  others:
    cores that other processes kept busy;  batches, rows, tokens, places: what came, as `Counted` says;
    error: why it failed."""

    first: float = 0.0
    seconds: float = 0.0
    cpu: float = 0.0
    others: float = 0.0
    batches: int = 0
    rows: int = 0
    tokens: int = 0
    places: int = 0
    error: str = ""

    @property
    def speed(self) -> float:
        """Tokens per second.

        >>> Pass(seconds=2.0, tokens=10).speed
        5.0
        """
        return self.tokens / self.seconds if self.seconds else 0.0


def run(key: Key, data: Data, *, seconds: float) -> Pass:
    """Measure a side with so many workers once."""
    side, n_workers = key
    script = Path(__file__).with_name("steps_sides.py")
    command = [sys.executable, str(script), side, str(data.folder), str(n_workers), str(seconds)]
    environment = {**os.environ, **threads_env(1), **OFFLINE}
    with tempfile.TemporaryFile() as complaints:
        start = time.time()
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=complaints, start_new_session=True
        )
        try:
            assert process.stdout
            told = next((line for line in process.stdout if line.startswith(b"{")), None)
        finally:
            end(process)  # loaders without end do not end by themselves
        complaints.seek(0)
        *_, last = complaints.read().decode(errors="replace").strip().split("\n")
    if told is None:
        return Pass(error=last or f"exit {process.returncode}")
    found = json.loads(told)
    return Pass(**found | {"first": found["first"] - start})


def run_rounds(
    keys: Sequence[Key], data: Data, *, n_rounds: int, seconds: float, budget: float
) -> dict[Key, list[Pass]]:
    """All sides by turns; none again that has failed, or would take more than `budget` seconds in all."""
    found = {key: [Pass(error=error)] if (error := missing(key[0])) else list[Pass]() for key in keys}
    for turn in range(n_rounds):
        for key, done in found.items():
            spent = sum(one.first + one.seconds for one in done)
            if not any(one.error for one in done) and not (turn and spent * (1 + 1 / turn) > budget):
                done.append(run(key, data, seconds=seconds))
                told = done[-1].error or f"{done[-1].speed:,.0f} tokens/s, {done[-1].others:.1f} cores busy elsewhere"
                say(f"{turn + 1}/{n_rounds}  {key[0]}, {key[1]} workers: {told}")
    return found


def missing(side: str) -> str:
    """What to tell of a side whose packages are not here."""
    names = [name for name in ("torch", *SIDES[side].needs) if find_spec(name) is None]
    return f"not installed: {', '.join(names)}" if names else ""


def ratio(found: Mapping[Key, Sequence[Pass]], key: Key, other: Key) -> float | None:
    """How many times as fast one side is as another: the median of the rounds.

    >>> runs = {("a", 1): [Pass(seconds=1.0, tokens=6)], ("b", 1): [Pass(seconds=1.0, tokens=2)]}
    >>> ratio(runs, ("a", 1), ("b", 1)), ratio(runs, ("a", 1), ("c", 1))
    (3.0, None)
    """
    pairs = [
        (one, two)
        for one, two in zip(found.get(key, ()), found.get(other, ()), strict=False)
        if one.speed and two.speed
    ]
    return median(one.speed / two.speed for one, two in pairs) if pairs else None


def claims(found: Mapping[Key, Sequence[Pass]]) -> Iterator[Claim]:
    """What is aimed at, and what was found."""
    for side, n in found:
        if side in AIMS:
            told = ratio(found, ("volt, text", n), (side, n))
            yield Claim(f"{n} worker{'s' * (n > 1)}: volt, text ÷ {side}", AIMS[side], told and round(told, 2))


def cells(key: Key, found: Mapping[Key, Sequence[Pass]], n_rows: int) -> list[str]:
    """A row of the table."""
    runs = found[key]
    if error := next((one.error for one in runs if one.error), ""):
        return [key[0], str(key[1]), error, *[""] * (len(HEADER) - 3)]

    def middle(name: str) -> float:
        return median(getattr(one, name) for one in runs)

    mark = MARK if middle("others") > BUSY else ""
    against = ratio(found, key, ("volt, text", key[1]))
    return [
        key[0],
        f"{key[1]}{mark}",
        f"{middle('speed'):,.0f}",
        "–" if against is None else f"{against:.2f}",
        f"{median(1e6 * one.cpu / one.tokens for one in runs):.2f}",
        f"{median(100 * (1 - one.tokens / one.places) for one in runs):.1f}",
        f"{median(one.tokens / one.rows for one in runs):.2f}",
        f"{median(one.tokens / one.batches for one in runs):,.0f}",
        f"{middle('first'):.1f}",
        f"{middle('rows') / n_rows:.0f}",
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--seconds", type=float, default=2, help="how long a run is measured at least")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--budget", type=float, default=30, help="seconds of all rounds of a side, which then has fewer"
    )
    parser.add_argument("--max-tokens", type=int, default=4096, help="places of a batch in its longer side")
    parser.add_argument("--size", type=int, default=8000, help="of the vocabulary")
    parser.add_argument("--languages", nargs=2, default=["de", "en"], help="source and target")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with temporary_folder() as folder:
        data = make_data(folder, languages=given.languages, size=given.size, max_tokens=given.max_tokens)
        keys = [(side, n) for side in given.sides for n in SIDES[side].workers]
        facts = machine(*(name for name in PACKAGES if name == "volt-vocab" or find_spec(name)))
        found = run_rounds(keys, data, n_rounds=given.rounds, seconds=given.seconds, budget=given.budget)
    aims = list(claims(found))
    print(describe(facts), "", markdown_table(HEADER, [cells(key, found, data.n_rows) for key in keys]), "", sep="\n")
    if any(one.others > BUSY for runs in found.values() for one in runs):
        print(f"{MARK} Other processes kept more than {BUSY} cores busy meanwhile.\n")
    told = [
        [
            one.name,
            f"≥ {one.wanted:.2f}",
            "not measured" if one.found is None else f"{one.found:.2f}",
            "yes" if one.holds else "no",
        ]
        for one in aims
    ]
    print(markdown_table(["figure", "aim", "found", ""], told))
    if given.json:
        write_json(given.json, as_data(facts, data.n_rows, found, aims))


def as_data(
    facts: Mapping[str, Any], n_rows: int, found: Mapping[Key, Sequence[Pass]], aims: Sequence[Claim]
) -> dict[str, Any]:
    """All figures as JSON values."""
    runs = [{"side": side, "n_workers": n, "runs": [asdict(one) for one in done]} for (side, n), done in found.items()]
    return {"machine": facts, "rows_of_an_epoch": n_rows, "sides": runs, "claims": [asdict(one) for one in aims]}


if __name__ == "__main__":
    main()
