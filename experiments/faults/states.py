"""Damaged states, and runs that go on with other ranks: a stream refuses a state, or gives exactly what was left.

    python -m experiments.faults.states                     500 damaged states, 100 runs of changing ranks
    python -m experiments.faults.states --states 50 --runs 5 --seed 7

damaged     states of a stream of three sources (filters, one to many, many to one, a schedule of weights, two epochs
            in), one of them merged from three ranks. Bytes of the file are flipped, cut and doubled; values are
            changed, left out and added; of what changes the structure, or a number, the checksum is made right again.
            A state must be refused with a StreamError when it is loaded, restored or read on from, or give the lines
            that the undisturbed stream gives
ranks       finite streams of 1 to 7 ranks are stopped anywhere, their states merged, and other ranks go on, several
            times: the lines of all runs together are those of the epochs, each as often

Damage to a number with a right checksum is a forgery rather than a fault: another place of the same stream, which a
state may well name. Such states are counted apart, as elsewhere.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from volt.errors import StreamError
from volt.stream import Batch, Chance, Schedule, Source, Stream, load_state, merge_states, save_state
from volt.stream.running.state import checksum

N_LINES = 300  # that are read on from a state
OTHERS: tuple[Any, ...] = (None, True, -1, 1.5, 1 << 62, 1e999, "", "1", [], {}, "9" * 99, 10**400, [[[]]])


@dataclass(frozen=True, slots=True)
class Sometimes:
    """Gives each line not at all, once or twice."""

    name: str = "sometimes"

    def __call__(self, batch: Batch, chance: Chance) -> Batch:
        """The batch, some lines of which are there twice."""
        copies = chance.integers(batch.origins, 0, 2).tolist()
        return batch.take([row for row, n in enumerate(copies) for _ in range(n)])


def sources(folder: Path, epochs: int | None) -> list[Source]:
    """Three small sources, written to a folder."""
    found = []
    for name, n, weight in (("a", 23, 2.0), ("b", 11, Schedule(((0, 1.0), (40, 3.0)))), ("c", 12, 0.5)):
        path = folder / f"{name}.tsv"
        path.write_text("".join(f"{name}-{i}\t{name.upper()} {i}\n" for i in range(n)))
        steps = () if name == "b" else (Sometimes(),)
        found.append(Source(name, (str(path),), weight, steps, block_lines=5, split_lines=3, epochs=epochs))
    return found


def damaged_states(folder: Path, *, n: int, seed: int) -> Iterator[tuple[str, str]]:
    """What became of each damaged state: how it was damaged, and refused, equal, elsewhere or a finding."""
    draw, own = random.Random(seed), sources(folder, None)
    states = list(_states(own))
    lines = [_rest(own, state) for state in states]
    for _ in range(n):
        which, kind = draw.randrange(len(states)), draw.choice(("bytes", "value", "number", "structure"))
        path = folder / "state.json"
        save_state(states[which], path)
        path.write_bytes(_damaged(draw, kind, path.read_bytes()))
        yield kind, _outcome(own, path, lines[which], kind)


def _states(own: list[Source]) -> Iterator[dict[str, Any]]:
    for n in (0, 1, 37, 200):
        with Stream(own, seed=1) as stream:
            stream.skip(n)
            yield stream.state()
    yield merge_states([_stopped(own, rank, 3, n) for rank, n in enumerate((5, 80, 33))])


def _stopped(own: list[Source], rank: int, world: int, n: int) -> dict[str, Any]:
    with Stream(own, seed=1, rank=rank, world=world) as stream:
        stream.skip(n)
        return stream.state()


def _rest(own: list[Source], state: dict[str, Any]) -> list[str]:
    with Stream(own, seed=1) as stream:
        stream.restore(state)
        return list(islice(stream, N_LINES))


def _outcome(own: list[Source], path: Path, lines: list[str], kind: str) -> str:
    try:
        found = _rest(own, load_state(path))
    except StreamError:
        return "refused"
    except Exception as error:
        return f"FOUND {type(error).__name__}: {error}"
    if found == lines:
        return "equal"
    return "elsewhere" if kind == "number" else "FOUND other lines"


def _damaged(draw: random.Random, kind: str, data: bytes) -> bytes:
    if kind == "bytes":
        at, most = draw.randrange(len(data)), draw.randrange(1, 9)
        flipped = bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]
        return data[:at] + draw.choice((flipped, b"", data[at : at + most] + data[at:]))
    stored = json.loads(data)
    while (changed := _changed(draw, kind, deepcopy(stored))) == stored:
        pass
    if kind != "value" and "checksum" in changed:
        changed["checksum"] = checksum(changed)
    return json.dumps(changed).encode()


def _changed(draw: random.Random, kind: str, stored: dict[str, Any]) -> dict[str, Any]:
    """kind: "value" changes any value, "number" a whole number a little, "structure" drops, adds or retypes."""
    holders = [one for one in _holders(stored) if one]
    holder = draw.choice(holders)
    key = draw.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    if kind == "number":
        if isinstance(holder[key], int):
            holder[key] += draw.choice((-5, -1, 1, 5, 99, 1 << 40))
    elif kind == "value" or draw.random() < 0.4:
        holder[key] = draw.choice([other for other in OTHERS if type(other) is not type(holder[key])])
    elif draw.random() < 0.5:
        del holder[key]
    elif isinstance(holder, dict):
        holder[draw.choice(("x", "lines", "", "block", "deal"))] = holder[key]
    else:
        holder.append(holder[key])
    return stored


def _holders(value: Any) -> Iterator[Any]:
    """Nested mappings and lists. What a configuration says is compared with the stream's, value by value."""
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _holders(inner)


def changing_ranks(folder: Path, *, n: int, seed: int) -> Iterator[str]:
    """What became of each run: equal, or a finding."""
    draw, own = random.Random(seed), sources(folder, 3)
    whole = Counter[str]()
    with Stream(own, seed=1, ends="drop") as stream:
        whole.update(stream)
    for _ in range(n):
        worlds = [draw.randint(1, 7) for _ in range(draw.randint(1, 5))]
        try:
            found = _given(own, worlds, draw)
        except StreamError as error:
            yield f"FOUND {error}"
            continue
        lost, repeated = (whole - found).total(), (found - whole).total()
        yield f"FOUND {lost} lost, {repeated} repeated, {worlds}" if lost or repeated else "equal"


def _given(own: list[Source], worlds: list[int], draw: random.Random) -> Counter[str]:
    """The lines that ranks give, the last of them all that are left."""
    found, state = Counter[str](), None
    for number, world in enumerate(worlds):
        states = []
        for rank in range(world):
            with Stream(own, seed=1, ends="drop", rank=rank, world=world) as stream:
                if state is not None:
                    stream.restore(state)
                found.update(islice(stream, None if number == len(worlds) - 1 else draw.randint(0, 40)))
                states.append(stream.state())
        state = merge_states(states)
    return found


def main() -> int:
    """Run both parts; 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m experiments.faults.states", description="Damaged states.")
    parser.add_argument("--states", type=int, default=500, metavar="N", help="how many damaged states (500)")
    parser.add_argument("--runs", type=int, default=100, metavar="N", help="how many runs of changing ranks (100)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="what is drawn follows from it (1)")
    options, start = parser.parse_args(), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        damaged = Counter(damaged_states(Path(name), n=options.states, seed=options.seed))
        ranks = Counter(("ranks", told) for told in changing_ranks(Path(name), n=options.runs, seed=options.seed))
    for (kind, told), count in sorted((damaged + ranks).items()):
        print(f"{kind:10} {told:10} {count:6,}")
    print(f"seed {options.seed}, {time.monotonic() - start:.1f} s")
    return int(any(told.startswith("FOUND") for _, told in damaged + ranks))


if __name__ == "__main__":
    sys.exit(main())
