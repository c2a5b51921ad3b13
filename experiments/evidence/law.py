"""The best size as a function of the text and of the length of training: candidate rules, predictions, regrets.

    python -m experiments.evidence.law features --data $VOLT_DATA CORPUS …    texts → law/features.json
    python -m experiments.evidence.law predict CORPUS …                       sizes → law/predictions.json
    python -m experiments.evidence.law report                                 regrets → law/REGRETS.md

C is the characters of the training text, D the characters read in training, E = D/C the epochs. The constants of a rule
are chosen on trials; each corpus is judged by the constants that the other corpora choose. Predictions are committed
before the trials that judge them. A score is the test's bits per character at the best dev reading up to D.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import volt
from experiments.evidence.results import read
from experiments.evidence.tables import FLOOR, smooth_best
from experiments.lm import data as lm_data
from volt.trial.results import Curve, score

HOME = Path(__file__).parent
FOLDER = HOME / "law"
TRIALS = ("lm.jsonl", "longer/lm.jsonl", "law/lm.jsonl")
GRID = [
    round(125 * 2 ** (n / 4)) for n in range(41)
]  # sizes whose code lengths are stored, 125 to 128,000
LEAST = 2e6  # characters read by the trials that choose constants; before, all models have hardly begun to learn
READS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 15.0, 20.0)  # D, in million characters
Features = Mapping[str, Any]
Rule = Callable[[Features, float], float]  # a text and D → size


def features(data: Path, work: Path, name: str) -> dict[str, Any]:
    """Return what a rule may know of a text.

    bits: size → the code length of the text in that vocabulary, n log₂ n − Σ n_j log₂ n_j, without the table's cost
    """
    texts = lm_data.prepared(data, name, work)
    counts = volt.count_words([str(texts.path("train"))])
    candidates = volt.learn_bpe(counts, GRID[-1])
    sizes = [size for size in GRID if candidates.smallest <= size <= candidates.n_tokens]
    at = np.searchsorted(candidates.sizes_after(), sizes, side="right") - 1
    n = candidates.curve(lambda counts, _: counts)[at]
    code = (
        n * np.log2(n)
        - candidates.curve(lambda counts, _: counts * np.log2(np.maximum(counts, 1)))[at]
    )
    return {
        "text": texts.fingerprint,
        "C": texts.characters["train"],
        "bytes": texts.n_bytes["train"],
        "words": int(counts.total),
        "types": int(counts.n_words),
        "atoms": int(candidates.n_atoms),
        "most": int(candidates.n_tokens),
        "picks": {
            rule: pick.size for rule, pick in volt.search(volt.learn_enough(counts)).picks.items()
        },
        "pieces": dict(zip(map(str, sizes), n.astype(int).tolist(), strict=True)),
        "bits": dict(zip(map(str, sizes), code.round().astype(int).tolist(), strict=True)),
    }


# Rules without a free constant
FIXED: dict[str, Rule] = {
    "trained": lambda text, read: volt.Training(read=read).size(text["C"]),
    "trained, planned for half of D": lambda text, read: volt.Training(read=read / 2).size(
        text["C"]
    ),
    "trained, planned for twice D": lambda text, read: volt.Training(read=read * 2).size(text["C"]),
    "7 √(C/E), up to 20 epochs": lambda text, read: (
        7 * text["C"] / max(read, text["C"] / 20) ** 0.5
    ),
    "always 4,000": lambda text, read: 4_000,
    "balanced": lambda text, read: text["picks"]["balanced"],
    "knee": lambda text, read: text["picks"]["knee"],
    "max(√(utility·knee), median500)": lambda text, read: max(
        (text["picks"]["utility"] * text["picks"]["knee"]) ** 0.5, text["picks"]["median500"]
    ),
}
FLOORS: dict[str, Callable[[Features], float]] = {
    "": lambda text: 0,
    "2·atoms": lambda text: 2 * text["atoms"],
    "utility": lambda text: text["picks"]["utility"],
    "500": lambda text: 500,
    "1,000": lambda text: 1_000,
}
KS = np.geomspace(0.5, 100, 107).tolist()  # 5 % apart


@dataclass(frozen=True, slots=True)
class Family:
    """Rules with constants. sizes: constants, text, D → size;  constants: all that are tried"""

    sizes: Callable[[tuple[float, ...], Features, float], float]
    constants: Sequence[tuple[float, ...]]


def saved(text: Features) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return sizes, and the bits that the doubling up to each saves, for each new type."""
    code = {int(size): value for size, value in text["bits"].items()}
    sizes = [size for size in code if size // 2 in code or round(size / 2) in code]
    halves = [code.get(size // 2, code.get(round(size / 2), 0)) for size in sizes]
    return np.array(sizes), np.array(
        [2 * (half - code[size]) / size for size, half in zip(sizes, halves, strict=True)]
    )


def description_length(k: float, text: Features, read: float) -> float:
    """Return the size at which a doubling saves k·√D bits for each new type, interpolated over logarithms."""
    sizes, gains = saved(text)
    gains = np.minimum.accumulate(np.maximum(gains, 1e-9))
    return float(np.exp(np.interp(-np.log(k * read**0.5), -np.log(gains), np.log(sizes))))


FAMILIES = {
    "k·C/√D": Family(lambda c, text, read: c[0] * text["C"] / read**0.5, [(k,) for k in KS]),
    "k·√(C/max(E, 2))": Family(
        lambda c, text, read: c[0] * (text["C"] / max(read / text["C"], 2)) ** 0.5,
        [(k,) for k in KS],
    ),
    "k·√(C/max(E, 1))": Family(
        lambda c, text, read: c[0] * (text["C"] / max(read / text["C"], 1)) ** 0.5,
        [(k,) for k in KS],
    ),
    "k·C^a·D^b": Family(
        lambda c, text, read: c[0] * 1000 * (text["C"] / 1e6) ** c[1] * (read / 1e6) ** c[2],
        [
            *product(
                np.geomspace(1, 20, 31).tolist(),
                np.arange(0.3, 1.21, 0.1),
                np.arange(-0.7, 0.01, 0.1),
            )
        ],
    ),
    "MDL: bits saved for each new type ≥ k·√D": Family(
        lambda c, text, read: description_length(c[0], text, read), [(k / 100,) for k in KS]
    ),
}


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """The scores of the sizes of a corpus when training ends at D or before, by its dev readings.

    planned: D;  read: the characters at the best dev reading of the best size, at most D
    """

    corpus: str
    width: int
    planned: float
    read: float
    curve: Curve

    def regret(self, size: float) -> float:
        """Return the loss against the best size tried, in per cent."""
        return 100 * (self.curve.at(round(size)) / self.curve.best - 1)


def points(rows: Sequence[Mapping[str, Any]]) -> list[Point]:
    """Return the points at all D that every size of a corpus has reached, or ended before by its dev readings."""
    by_corpus: dict[tuple[str, int], dict[int, list[Mapping[str, Any]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in rows:
        by_corpus[row["corpus"], row["width"]][row["size"]].append(row)
    result = list[Point]()
    for (corpus, width), by_size in by_corpus.items():
        for reading in READS:
            scores, ends = dict[int, list[float]](), dict[int, float]()
            for size, alike in sorted(by_size.items()):
                usable = [row for row in alike if has_reached(row, reading)]
                scores[size] = [score(row, reading) for row in usable]
                ends[size] = max((best_reading(row, reading) for row in usable), default=0.0)
            scores = {size: found for size, found in scores.items() if found}
            if len(scores) >= 3:
                found = tuple(np.array(one) for one in scores.values())
                curve = Curve(corpus, np.array([*scores]), found)
                best = ends[int(curve.sizes[np.argmin(curve.means)])]
                result.append(Point(corpus, width, reading * 1e6, min(best, reading) * 1e6, curve))
    return result


def best_reading(row: Mapping[str, Any], read: float) -> float:
    """Return the characters at the best dev reading up to D, in millions."""
    n = sum(one <= 1.02 * read for one in row["millions"])
    return float(row["millions"][int(np.argmin(row["dev"][:n]))])


def has_reached(row: Mapping[str, Any], read: float) -> bool:
    return row["millions"][0] <= 1.02 * read and (
        row["millions"][-1] >= 0.98 * read or len(row["dev"]) < row["readings"]
    )


def floored(family: Family, floor: str, constants: tuple[float, ...]) -> Rule:
    return lambda text, read: max(family.sizes(constants, text, read), FLOORS[floor](text))


def size_of(rule: Rule, text: Features, read: float) -> int:
    """Return a rule's size, limited by the text's atoms and by all of its merges."""
    return round(min(max(rule(text, read), text["atoms"] + 1), text["most"]))


def judged(known: Sequence[Point], texts: Mapping[str, Features]) -> dict[str, dict[Point, float]]:
    """Return rule → point → regret, the constants chosen without the point's corpus, and its parts and wholes."""
    result = {
        name: {
            point: point.regret(size_of(rule, texts[point.corpus], point.read)) for point in known
        }
        for name, rule in FIXED.items()
    }
    for (name, family), floor in product(FAMILIES.items(), FLOORS):
        all_regrets = regrets(family, floor, known, texts)
        label = f"max({floor}, {name})" if floor else name
        result[label] = {}
        for at, point in enumerate(known):
            others = np.array(
                [other.read >= LEAST and not related(point.corpus, other.corpus) for other in known]
            )
            chosen = int(np.argmin(criterion(all_regrets[:, others]))) if others.any() else 0
            result[label][point] = float(all_regrets[chosen, at])
    return result


def regrets(
    family: Family, floor: str, known: Sequence[Point], texts: Mapping[str, Features]
) -> NDArray[np.float64]:
    """Return the regret of all constants at all points, (n_constants, n_points)."""
    result = list[NDArray[np.float64]]()
    for point in known:
        text, curve = texts[point.corpus], point.curve
        rules = [floored(family, floor, constants) for constants in family.constants]
        sizes = [size_of(rule, text, point.read) for rule in rules]
        result.append(
            100 * (np.interp(np.log(sizes), np.log(curve.sizes), curve.means) / curve.best - 1)
        )
    return np.array(result).T


def criterion(found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rate constants: the mean regret, and a fifth of the worst."""
    result: NDArray[np.float64] = found.mean(axis=1) + found.max(axis=1) / 5
    return result


def related(one: str, other: str) -> bool:
    """Check whether two corpora share a text.

    >>> related("ted-fi/8", "ted-fi+ted-et"), related("ted-fi", "ted-et")
    (True, False)
    """
    return bool({*lm_data.parse(one)[0]} & {*lm_data.parse(other)[0]})


def chosen(
    known: Sequence[Point], texts: Mapping[str, Features]
) -> dict[str, tuple[tuple[float, ...], Rule]]:
    """Return the constants of each rule that suit all points best, and the rule."""
    result, known = (
        dict[str, tuple[tuple[float, ...], Rule]](),
        [point for point in known if point.read >= LEAST],
    )
    for (name, family), floor in product(FAMILIES.items(), FLOORS):
        constants = family.constants[
            int(np.argmin(criterion(regrets(family, floor, known, texts))))
        ]
        label = f"max({floor}, {name})" if floor else name
        result[label] = (constants, floored(family, floor, constants))
    return result


def stored_rows() -> list[dict[str, Any]]:
    return [row for name in TRIALS for row in read(HOME / name)]


def stored_texts() -> dict[str, Features]:
    path = FOLDER / "features.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def predict(names: Sequence[str]) -> None:
    """Write the constants that the trials so far choose, and each rule's sizes for some corpora at each D."""
    texts, known = stored_texts(), points(stored_rows())
    rules = {name: rule for name, (_, rule) in chosen(known, texts).items()} | FIXED
    sizes = {
        name: {
            rule: [size_of(made, texts[name], read * 1e6) for read in READS]
            for rule, made in rules.items()
        }
        for name in names
    }
    constants = {name: found for name, (found, _) in chosen(known, texts).items()}
    document = {
        "trials": len(stored_rows()),
        "reads": READS,
        "constants": constants,
        "sizes": sizes,
    }
    write(FOLDER / "predictions.json", json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def report() -> None:
    """Write the mean regret of each rule with its 95 % interval, and the worst one, by bed and by D.

    The interval is a bootstrap over corpora, of which parts and wholes are one. The floor is the loss of the best size
    of a smooth fit through the scores. Rules whose floor never decides have the regrets of those without, and no row.
    """
    rows = stored_rows()
    texts, known = stored_texts(), points(rows)
    epochs = {point: point.read / texts[point.corpus]["C"] for point in known}
    found = {FLOOR: {point: point.regret(smooth_best(point.curve)) for point in known}} | judged(
        known, texts
    )
    beds: dict[str, Callable[[Point, float], bool]] = {
        "all": lambda point, epochs: True,
        "D ≤ 1 M": lambda point, epochs: point.planned <= 1e6,
        "D ≥ 2 M, E < 1": lambda point, epochs: point.planned >= 2e6 and epochs < 1,
        "D ≥ 2 M, 1 ≤ E < 8": lambda point, epochs: point.planned >= 2e6 and 1 <= epochs < 8,
        "E ≥ 8": lambda point, epochs: epochs >= 8,
        "stopped early": lambda point, epochs: point.read < 0.9 * point.planned,
        "parts": lambda point, epochs: "/" in point.corpus,
        "joined": lambda point, epochs: "+" in point.corpus,
    }
    hours = sum(row["seconds"] for row in rows) / 3600
    lines = [
        f"{len(rows)} trainings, {hours:.1f} hours of one core. Loss against the best size tried in %: mean (95 %)"
    ]
    lines[0] += " / worst, and the number of points.\n"
    lines += [f"| rule | {' | '.join(beds)} |", f"|---|{'---|' * len(beds)}"]
    for rule, by_point in sorted(
        found.items(), key=lambda item: float(np.mean([*item[1].values()]))
    ):
        chosen = [
            [point for point in by_point if holds(point, epochs[point])] for holds in beds.values()
        ]
        cells = [cell({point: by_point[point] for point in some}) for some in chosen]
        if not any(line.endswith(f" | {' | '.join(cells)} |") for line in lines):
            lines.append(f"| {rule} | {' | '.join(cells)} |")
    write(FOLDER / "REGRETS.md", "\n".join(lines) + "\n")


def cell(regrets: Mapping[Point, float]) -> str:
    """Return a mean, its interval over drawn groups of corpora, the worst value, and how many there are."""
    if not regrets:
        return "–"
    groups = defaultdict[str, list[float]](list)
    for point, value in regrets.items():
        groups[min(lm_data.parse(point.corpus)[0])].append(value)
    values = [*groups.values()]
    drawn = np.random.default_rng(1).integers(len(values), size=(2_000, len(values)))
    means = [np.mean([value for one in row for value in values[one]]) for row in drawn]
    low, high = np.percentile(means, (2.5, 97.5))
    every = [*regrets.values()]
    return f"{np.mean(every):.2f} ({low:.2f}–{high:.2f}) / {max(every):.2f}, {len(every)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=("features", "predict", "report"))
    parser.add_argument("corpora", nargs="*")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, default=Path("build/trials"))
    given = parser.parse_intermixed_args()
    if given.task == "features":
        texts = dict(stored_texts())
        for name in given.corpora:
            texts[name] = features(given.data, given.work, name)
            write(FOLDER / "features.json", json.dumps(texts, indent=1) + "\n")
    elif given.task == "predict":
        predict(given.corpora)
    else:
        report()


if __name__ == "__main__":
    main()
