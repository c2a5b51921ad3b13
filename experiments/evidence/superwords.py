"""What superwords are worth: predictions, trainings that judge them, and a table.

    python -m experiments.evidence.superwords predict --data $VOLT_DATA     superwords/predictions.json
    python -m experiments.evidence.superwords train --data $VOLT_DATA       superwords/CORPUS.jsonl
    python -m experiments.evidence.superwords report                        superwords/TABLE.md

Three corpora are read about once, twice and three times. On each, models learn with 4,000 tokens at byte level, of which
0, 5, 10 or 20 % are superwords, with two seeds. Predictions were committed before the trainings. They extrapolate two
earlier trainings (Multi30k en, 4,000 tokens, 3 million characters, one seed):

    279 superwords    20 % fewer pieces    +1.3 % bits at the same text    −0.6 % at the same operations
    900               23 %                 +3.3 %                          +1.0 %

    same text          + 3 % · (share / 0.2)^0.85
    same operations    that, − 0.1 % for each % of pieces saved
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import volt
from experiments.lm import data as lm_data
from volt.trial.results import Results
from volt.trial.running import Trainings, is_complete
from volt.trial.texts import Texts
from volt.trial.training import TrainingChoice, TrainingRecipe

FOLDER = Path(__file__).parent / "superwords"
SIZE = 4_000
SUPERWORDS = (0, 200, 400, 800)
READ = {"ted-fi": 1, "multi30k-en": 2, "bible-sw": 3}  # epochs
SEEDS = (1, 2)


def saved(texts: Texts) -> dict[int, float]:
    """Return by how many % each number of superwords shortens the training text."""
    path = str(texts.path("train"))
    words = volt.learn_bpe(volt.count_words(path, level="bytes"), SIZE)
    plain = int(words.counts_at(SIZE).sum())
    result = {}
    for number in SUPERWORDS[1:]:
        transition = words.merges_at(SIZE - number)
        both = volt.learn_superwords(words, path, number, transition=transition)
        result[number] = 100 * (1 - int(both.counts_at(SIZE).sum()) / plain)
    return result


def predict(data: Path, work: Path) -> None:
    """Write how many % more bits per character each number of superwords should need."""
    predictions = {}
    for name, epochs in READ.items():
        texts = lm_data.prepared(data, name, work)
        rows = []
        for number, fewer in saved(texts).items():
            same_text = 3 * (number / SIZE / 0.2) ** 0.85
            rows.append(
                {
                    "superwords": number,
                    "fewer_pieces": round(fewer, 1),
                    "same_text": round(same_text, 1),
                    "same_operations": round(same_text - 0.1 * fewer, 1) + 0.0,
                }
            )
        predictions[name] = {"text": texts.fingerprint, "epochs": epochs, "percent": rows}
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps(predictions, indent=1) + "\n"
    (FOLDER / "predictions.json").write_text(text)


def train(data: Path, work: Path) -> None:
    """Run the trainings without a result: all with the first seed, then all with the second."""
    for seed in SEEDS:
        for name, epochs in READ.items():
            texts = lm_data.prepared(data, name, work)
            characters = epochs * texts.characters["train"]
            with Results.open(FOLDER / f"{name}.jsonl", is_complete) as results:
                trainings = Trainings(
                    texts=texts,
                    results=results,
                    recipe=TrainingRecipe(characters=characters, products="float32"),
                    first_seed=SEEDS[0],
                    device="cpu",
                    deadline=time.monotonic() + 36_000,
                    jobs=1,
                    report=lambda line: print(line, flush=True),
                )
                choices = [TrainingChoice(SIZE, seed, number) for number in SUPERWORDS]
                trainings.run(lambda choices=choices: choices)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=("predict", "train"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, default=Path("build/trials"))
    given = parser.parse_args()
    tasks = {"predict": predict, "train": train}
    tasks[given.task](given.data, given.work)


if __name__ == "__main__":
    main()
