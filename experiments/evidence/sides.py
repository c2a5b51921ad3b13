"""Do translation models gain from a size for each side? Predictions, trainings to test them, and a table.

    python -m experiments.evidence.sides predict --data $VOLT_DATA             sides/predictions.json
    python -m experiments.evidence.sides train --data $VOLT_DATA --jobs 2      sides/DIRECTION.jsonl
    python -m experiments.evidence.sides report --data $VOLT_DATA              sides/TABLE.md

For each direction of translation, five pairs of sizes are trained with two seeds. Three ways to choose sizes are compared:

    one size     4,000 tokens for both sides, the size that lost least on average in earlier trainings (TABLES.md)
    claim        arXiv 2511.03383: with a source of 4,000 to 32,000 tokens, a target of 500 to 2,000 is better, by 5.3,
                 4.5 and 0.7 chrF++ with 50,000, 100,000 and 500,000 pairs
    trained      the pair nearest to what VOLT's rule `trained` picks for each side alone

Predictions were committed before the trainings. They say how the bits per character differ from one size for both:

    bits      a target of another size costs as many % as in language models of the same text (lm.jsonl), and
              halving the source costs 0.5 %. So equal sizes of German and English would cost 2.9 % at 2,000 tokens;
              earlier translations, of longer trainings (nmt.jsonl), had 2.4 %
    chrF++    − 0.4 for each % of bits, as BLEU in nmt.jsonl
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.evidence.curves import MEASURES, curves
from experiments.evidence.results import read
from experiments.evidence.superwords import table_lines
from volt.choose.rules import TRAINED
from volt.choose.training_law import Training
from volt.errors import ConfigError, missing
from volt.files.atomic import make_folder, write_atomic
from volt.trial.results import Results, Row, TrainingChoice, parse, score
from volt.trial.running import PAIRS as ROWS
from volt.trial.running import Trainings, is_complete
from volt.trial.schedule import Point
from volt.trial.sides import score_translations
from volt.trial.superwords import compare
from volt.trial.texts import Texts, fingerprint, read_pairs, write_texts
from volt.trial.training import TrainingRecipe, translated

FOLDER = Path(__file__).parent / "sides"
EPOCHS = {"multi30k-de-en": 3, "multi30k-en-de": 3, "bible-sw-uk": 5}  # direction → epochs
ONE_SIZE = (4_000, 4_000)  # with which the others are compared
CLAIMED = ((4_000, 500), (4_000, 1_000), (4_000, 2_000))
PAIRS = (ONE_SIZE, *CLAIMED, (2_000, 2_000))
SEEDS = (1, 2)
CLAIM = {"50,000": 5.3, "100,000": 4.5, "500,000": 0.7}  # pairs → how much more chrF++
HALVED_SOURCE = 0.5  # % of bits
CHRF = -0.4  # for each % of bits


def files_of(data: Path, direction: str, work: Path) -> tuple[str, str]:
    """Return the paths of source and target; a Bible's are written, with the verses of both languages."""
    corpus, *languages = direction.split("-")
    if corpus == "multi30k":
        source, target = (str(data / corpus / f"train.{language}.gz") for language in languages)
        return source, target
    verses = [verses_of(data / corpus / f"{language}.tsv.gz") for language in languages]
    shared = [name for name in verses[0] if name in verses[1]]
    make_folder(work)
    paths = []
    for language, texts in zip(languages, verses, strict=True):
        path = work / f"{direction}.{language}"
        with write_atomic(path) as file:
            file.write("".join(f"{texts[name]}\n" for name in shared).encode())
        paths.append(str(path))
    return paths[0], paths[1]


def verses_of(path: Path) -> dict[str, str]:
    """Return the name of each verse, such as b.MAT.1.1, and its text."""
    verses = {}
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            name, _, text = line.partition("\t")
            verses[name] = " ".join(text.split())
    return verses


def prepared(data: Path, direction: str, work: Path) -> Texts:
    """Write the texts of a direction into a folder named by their fingerprint."""
    encoded = read_pairs(*files_of(data, direction, work), report=note)
    return write_texts(encoded, work / f"{direction}-{fingerprint(encoded)}")


def predict(data: Path, work: Path) -> None:
    """Write what each way to choose sizes says, and how the bits of each pair should differ."""
    usual = MEASURES["text"]
    curve_of = {curve.corpus: curve for curve in curves(read(FOLDER.parent / "lm.jsonl"), usual)}
    predictions = {}
    for direction, epochs in EPOCHS.items():
        texts = prepared(data, direction, work)
        length = Training(epochs=epochs)
        picks = [length.size(texts.characters[name]) for name in ("train.src", "train")]
        corpus, _, language = direction.split("-")
        curve = curve_of[f"{corpus}-{language}"]
        rows = []
        for source, target in PAIRS:
            halvings = math.log2(ONE_SIZE[0] / source)
            more = 100 * (curve.at(target) / curve.at(ONE_SIZE[1]) - 1) + HALVED_SOURCE * halvings
            expected = {"bits": round(more, 1), "chrF++": round(CHRF * more, 1) + 0.0}
            rows.append({"source": source, "target": target, **expected})
        predictions[direction] = {
            "text": texts.fingerprint,
            "pairs": texts.path("train").read_bytes().count(b"\n"),
            "epochs": epochs,
            "one size": ONE_SIZE,
            "claim": {"best among": CLAIMED, "chrF++ by number of pairs": CLAIM},
            TRAINED: {"picks": picks, "nearest": nearest(picks)},
            "expected": rows,
        }
    make_folder(FOLDER)
    (FOLDER / "predictions.json").write_text(json.dumps(predictions, indent=1) + "\n")


def nearest(sizes: Sequence[int]) -> Point:
    """Return the pair whose sizes are the fewest doublings from others.

    >>> nearest([3000, 2500])
    (4000, 2000)
    """

    def distance(pair: Point) -> float:
        return sum(abs(math.log(size / other)) for size, other in zip(sizes, pair, strict=True))

    return min(PAIRS, key=distance)


def train(
    data: Path, work: Path, folder: Path = FOLDER, *, jobs: int = 1, hours: float = 10
) -> None:
    """Run the trainings without a result, one direction after the other.

    folder: holds the results
    jobs: the number of trainings at a time
    hours: trainings that would end later do not start
    """
    seconds = 3600 * hours
    deadline = time.monotonic() + seconds
    for direction, epochs in EPOCHS.items():
        texts = prepared(data, direction, work)
        characters = round(epochs * texts.characters["train"])
        with Results.open(folder / f"{direction}.jsonl", is_complete) as results:
            trainings = Trainings(
                texts=texts,
                results=results,
                recipe=TrainingRecipe(characters=characters, rows=ROWS, products="float32"),
                first_seed=SEEDS[0],
                device="cpu",
                seconds=seconds,
                deadline=deadline,
                jobs=jobs,
                report=note,
            )
            choices = [
                TrainingChoice(target, seed, source=source)
                for seed in SEEDS
                for source, target in PAIRS
            ]
            trainings.run(lambda choices=choices: choices)


def results(texts: Texts, path: Path, predicted: Mapping[str, Any]) -> tuple[list[Row], str]:
    """Return the results of a direction with BLEU and chrF++, and the signatures of these.

    texts: of the direction
    path: holds the results
    predicted: the predictions of the direction
    """
    rows = parse(path.read_bytes(), path, is_complete)
    if {texts.fingerprint, *(row["text"] for row in rows)} != {predicted["text"]}:
        raise ConfigError(
            f"{path}: the results or the data are of another text than the predictions"
        )
    lines = texts.path("test").read_text(encoding="utf-8").splitlines()
    scored, signatures = score_translations(rows, [lines[number] for number in translated(texts)])
    if not signatures:
        raise missing("sacrebleu", extra="translation")
    return scored, ", ".join(f"{name} {text}" for name, text in signatures.items())


def scores_of(
    rows: Sequence[Row], measure: Callable[[Row], float]
) -> dict[Point, dict[int, float]]:
    """Return pair → seed → score, in the order of PAIRS."""
    scores = {pair: dict[int, float]() for pair in PAIRS}
    for row in rows:
        scores[TrainingChoice.of(row).point][row["seed"]] = measure(row)
    return {pair: by_seed for pair, by_seed in scores.items() if by_seed}


def differences(scores: Mapping[Point, Mapping[int, float]]) -> dict[Point, str]:
    """Return how much greater the scores of each pair are than those of the first one, with intervals.

    scores: as from `scores_of`

    >>> list(differences({(4000, 4000): {1: 50.0, 2: 51.0}, (4000, 500): {1: 52.0, 2: 52.0}}).values())
    ['', '+1.5 ± 6.4']
    """
    first, *_ = scores.values()
    percent = {}  # `compare` returns % of the first pair's scores, which are made 100 here
    for pair, by_seed in scores.items():
        percent[pair] = {seed: 100 + value - first[seed] for seed, value in by_seed.items()}
    shown = {}
    for pair, difference in compare(percent).items():
        margin = "" if difference.margin is None else f" ± {difference.margin:.1f}"
        shown[pair] = f"{difference.more:+.1f}{margin}" if shown else ""
    return shown


def report(data: Path, work: Path, folder: Path = FOLDER) -> None:
    """Write what was predicted and what was measured. folder: holds predictions and results"""
    heads = ("direction", "epochs", "source", "target", "said by", "bits/character", "more %")
    heads += ("predicted", "chrF++", "more", "predicted", "BLEU", "seeds")
    lines = table_lines(heads)
    seconds = 0.0
    signatures = ""
    for direction, predicted in json.loads((folder / "predictions.json").read_text()).items():
        path = folder / f"{direction}.jsonl"
        if not path.exists():
            continue
        rows, signatures = results(prepared(data, direction, work), path, predicted)
        seconds += sum(row["seconds"] for row in rows)
        lines += [f"| {direction} | {line}" for line in table(rows, predicted)]
    text = (
        "Bits per character of unseen target text, and chrF++ and BLEU of 300 translations at most. More: "
        "than with one size for both, ± half the 95 % interval, Student's, from the variance between two "
        f"seeds of the pairs of a direction.\n\n{signatures}\n\n"
        f"{seconds / 3600:.1f} hours of a core that others used, too."
    )
    (folder / "TABLE.md").write_text("\n".join([*lines, "", text]) + "\n")


def table(rows: Sequence[Row], predicted: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a direction, none before its first training with one size for both.

    rows: of the direction, with BLEU and chrF++
    predicted: its predictions
    """
    seeds = {row["seed"] for row in rows if TrainingChoice.of(row).point == ONE_SIZE}
    rows = [row for row in rows if row["seed"] in seeds]
    if not rows:
        return
    expected_of = {(row["source"], row["target"]): row for row in predicted["expected"]}
    chrf = scores_of(rows, itemgetter("chrF++"))
    more_chrf = differences(chrf)
    bleu = scores_of(rows, itemgetter("BLEU"))
    for pair, bits in compare(scores_of(rows, score)).items():
        more_bits = expected_bits = expected_chrf = ""
        if pair != ONE_SIZE:
            more_bits = str(bits)
            expected_bits = f"{expected_of[pair]['bits']:+}"
            expected_chrf = f"{expected_of[pair]['chrF++']:+}"
        cells = [predicted["epochs"], *pair, said_by(pair, predicted)]
        cells += [f"{bits.bits:.4f}", more_bits, expected_bits]
        cells += [f"{fmean(chrf[pair].values()):.1f}", more_chrf[pair], expected_chrf]
        cells += [f"{fmean(bleu[pair].values()):.1f}", len(bleu[pair])]
        yield f"{' | '.join(map(str, cells))} |"


def said_by(pair: Point, predicted: Mapping[str, Any]) -> str:
    """Return the ways to choose sizes that give a pair. predicted: the predictions of a direction"""
    chosen = {
        "one size": [predicted["one size"]],
        "claim": predicted["claim"]["best among"],
        TRAINED: [predicted[TRAINED]["nearest"]],
    }
    return ", ".join(name for name, pairs in chosen.items() if pair in map(tuple, pairs))


def note(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=("predict", "train", "report"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("build/trials"))
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time (default 1)")
    parser.add_argument("--hours", type=float, default=10.0, help="of `train` (default 10)")
    options = parser.parse_args()
    if options.task == "train":
        train(options.data, options.work, jobs=options.jobs, hours=options.hours)
        return
    tasks = {"predict": predict, "report": report}
    tasks[options.task](options.data, options.work)


if __name__ == "__main__":
    main()
