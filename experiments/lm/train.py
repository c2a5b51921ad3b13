"""Train one language model of volt.trial.training on a corpus of the trials, and print the result as JSON.

python -m experiments.lm.train --data $VOLT_DATA --corpus ted-fi --size 4000
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from experiments.lm.data import prepared
from volt.errors import VoltError
from volt.trial.training import TrainingRecipe, results_so_far

CHANGED = ("characters", "width", "inner", "dropout", "lr", "products")  # options of the recipe


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="holds multi30k, ted and bible")
    parser.add_argument("--corpus", required=True, help="a name, NAME/N or NAME+NAME: see data.py")
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--work", type=Path, default=Path("build/trials"), help="holds the texts of each corpus"
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=1)
    for name in CHANGED:
        parser.add_argument(
            f"--{name}",
            type=type(getattr(TrainingRecipe(), name)),
            default=getattr(TrainingRecipe(), name),
        )
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    recipe, found = (
        TrainingRecipe(**{name: getattr(given, name) for name in CHANGED}),
        dict[str, Any](),
    )
    try:
        texts = prepared(given.data, given.corpus, given.work)
        for found in results_so_far(
            texts, size=given.size, seed=given.seed, recipe=recipe, device=given.device
        ):
            last = {name: found[name][-1] for name in ("millions", "dev", "test")}
            print(
                f"{given.corpus} {given.size} seed {given.seed}: {last}",
                file=sys.stderr,
                flush=True,
            )
    except (VoltError, OSError) as error:
        sys.exit(f"error: {error}")
    print(
        json.dumps(
            {
                "corpus": given.corpus,
                "size": given.size,
                "seed": given.seed,
                **asdict(recipe),
                **found,
            }
        )
    )


if __name__ == "__main__":
    main()
