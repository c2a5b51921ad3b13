"""Do language models gain from superwords? Predictions, trainings to test them, and a table.

    python -m experiments.evidence.superwords predict --data $VOLT_DATA     superwords/predictions.json
    python -m experiments.evidence.superwords train --data $VOLT_DATA       superwords/CORPUS.jsonl
    python -m experiments.evidence.superwords report                        superwords/TABLE.md

Trainings read three corpora about once, twice and three times. All models have 4,000 tokens at byte level, of which
0, 5, 10 or 20 % are superwords, and two seeds. Predictions were committed before the trainings. They extrapolate two
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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import volt
from experiments.lm import data as lm_data
from volt.errors import ConfigError
from volt.trial.results import Results, TrainingChoice, parse
from volt.trial.running import Trainings, is_complete
from volt.trial.superwords import SuperwordResult
from volt.trial.texts import Texts
from volt.trial.training import TrainingRecipe

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
                    seconds=36_000,
                    deadline=time.monotonic() + 36_000,
                    jobs=1,
                    joins=True,
                    report=lambda line: print(line, flush=True),
                )
                choices = [TrainingChoice(SIZE, seed, number) for number in SUPERWORDS]
                trainings.run(lambda choices=choices: choices)


def results(name: str, predicted: Mapping[str, Any]) -> SuperwordResult:
    """Return the result of a corpus, from the stored rows. predicted: its predictions"""
    path = FOLDER / f"{name}.jsonl"
    rows = parse(path.read_bytes(), path, is_complete)
    if any(row["text"] != predicted["text"] for row in rows):
        raise ConfigError(f"{path}: its rows are of another text than the predictions")
    read = rows[0]["characters"]
    return SuperwordResult(
        rows=tuple(rows),
        size=SIZE,
        n_characters=read // predicted["epochs"],
        requested=read,
        characters=read,
        left=(),
    )


def report() -> None:
    """Write what was predicted and what was measured, in %: of pieces saved, and of bits per character."""
    heads = ("corpus", "epochs", "superwords", "with a space", "seeds", "fewer pieces", "predicted")
    heads += ("same text", "predicted", "same operations", "predicted")
    lines = table_lines(heads)
    shorter = table_lines(("corpus", "epochs", "superwords", "same text", "same operations"))
    predictions = json.loads((FOLDER / "predictions.json").read_text())
    seconds = 0.0
    for name, predicted in predictions.items():
        result = results(name, predicted)
        seconds += sum(row["seconds"] for row in result.rows)
        without, *numbers = result.numbers
        for number, expected in zip(numbers, predicted["percent"], strict=True):
            saved = 100 * (1 - number.pieces_per_character / without.pieces_per_character)
            cells = (
                name,
                predicted["epochs"],
                number.superwords,
                number.crossing,
                number.seeds,
                f"{saved:.1f}",
                expected["fewer_pieces"],
                number.same_text,
                f"{expected['same_text']:+}",
                number.same_operations,
                f"{expected['same_operations']:+}",
            )
            lines.append(f"| {' | '.join(map(str, cells))} |")
        for part in (1 / 3, 2 / 3):
            early = replace(result, characters=round(part * result.characters))
            epochs = f"{part * predicted['epochs']:.2f}"
            for number in early.numbers[1:]:
                differences = (number.same_text, number.same_operations)
                cells = (name, epochs, number.superwords, *differences)
                shorter.append(f"| {' | '.join(map(str, cells))} |")
    note = (
        "Bits per character of unseen text: by how many % more than without superwords; ± half the 95 % "
        "interval, Student's, from the variance between two seeds of the three numbers of a corpus.\n"
        f"{seconds / 3600:.1f} hours of a core that others used, too.\n\n"
        "The same trainings, if they had ended earlier:"
    )
    (FOLDER / "TABLE.md").write_text("\n".join([*lines, "", note, "", *shorter]) + "\n")


def table_lines(heads: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(heads)} |", "| --- |" + " --: |" * (len(heads) - 1)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=("predict", "train", "report"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, default=Path("build/trials"))
    options = parser.parse_args()
    if options.task == "report":
        report()
        return
    tasks = {"predict": predict, "train": train}
    tasks[options.task](options.data, options.work)


if __name__ == "__main__":
    main()
