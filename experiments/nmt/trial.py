"""One trial: a vocabulary of a given size, a training of so many updates, and scores of text that was not seen.

    python -m experiments.nmt.trial --data $VOLT_DATA/multi30k --source de --target en --size 4000

    train.de, train.en → one vocabulary of that size → batches of 16 pairs → Transformer (train.py)
    val                → bits per character of the target, ten times on the way
    test2016           → BLEU, chrF and bits per character, of the running mean of the weights that val liked best

Whatever the size, a batch is as many pairs, so the updates and the characters are the same. A training ends early when
val has not become better for as many readings as `patience`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import volt
from experiments.nmt import options
from experiments.nmt.data import VOCABULARY, file_of, lines_of, ordered_steps, searched
from experiments.nmt.options import MOST_SEED, MOST_THREADS, at_least, within
from experiments.nmt.train import Learner, Recipe, tensors
from experiments.nmt.translate import System, scores, translated
from volt.batches import ByTokens, SampleFormat, Steps
from volt.encode.encoder import Encoder
from volt.errors import ConfigError, VoltError
from volt.files.atomic import make_folder
from volt.stream import Policy, Source, Stream

_ANY = 1 << 20  # tokens of a batch: its rows decide
DEV, TEST = "val", "test2016"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a trial follows from, beside the data, the languages, the size, the seed and the model.

    updates: at most; the rate of learning rises for a tenth of them, then falls evenly, and is 0 behind the last
    rows: pairs of a batch
    average: how much of the running mean of the weights an update keeps
    readings: of val on the way
    patience: how many readings val may not become better
    beam: of the translations that are scored
    """

    updates: int = 10_000
    rows: int = 16
    average: float = 0.997
    readings: int = 10
    patience: int = 3
    beam: int = 4


MODEL = Recipe(width=128, inner=512, heads=4, layers=2, lr=4e-3, warmup=1000)


class Trial:
    """A training that keeps the weights that val liked best."""

    def __init__(self, data: Path, run: Path, recipe: Recipe, plan: Plan, *, device: str) -> None:
        self.data, self.run, self.recipe, self.plan = data, run, recipe, plan
        self.languages, self.device = (recipe.source, recipe.target), torch.device(device)
        self.vocabulary = vocabulary_of(data, self.languages, int(recipe.vocabulary))
        make_folder(run)
        self.vocabulary.save(run / VOCABULARY)
        for split in DEV, TEST:  # whose faults are to be told before hours of learning
            with self.read(split) as steps:
                if not any(True for _ in steps):
                    raise ConfigError(f"{data}: {split} has no lines")
        learned = replace(recipe, end=plan.updates, warmup=min(recipe.warmup, max(1, plan.updates // 10)))
        self.learner = Learner(learned, len(self.vocabulary), device=self.device, world=1)
        self.mean = AveragedModel(self.learner.model, multi_avg_fn=get_ema_multi_avg_fn(plan.average))
        self.best: dict[str, torch.Tensor] = {}
        self.updates, self.tokens = 0, 0

    def readings(self) -> Iterator[dict[str, float]]:
        """Learn, and yield what val says on the way."""
        at = {round(self.plan.updates * n / self.plan.readings) for n in range(1, self.plan.readings + 1)}
        lowest, since = math.inf, 0
        torch.manual_seed(self.recipe.seed + 1)
        with self.steps() as steps:
            for arrays in steps:
                self.updates += 1
                self.learner.model.train()
                self.tokens += self.learner.learn(arrays, self.updates)["tokens"]
                self.mean.update_parameters(self.learner.model)
                if self.updates not in at:
                    continue
                if not math.isfinite(bits := self.bits(DEV)):
                    raise ConfigError(f"update {self.updates:,}: {bits} bits per character; give a lower --lr")
                yield {"updates": self.updates, "bits": bits}
                since = 0 if bits < lowest else since + 1
                if bits < lowest:
                    lowest = bits
                    self.best = {name: one.clone() for name, one in self.mean.module.state_dict().items()}
                if since == self.plan.patience or self.updates == self.plan.updates:
                    return

    def steps(self) -> Steps:
        """The batches to learn from, without end."""
        paths = tuple(str(file_of(self.data, "train", language)) for language in self.languages)
        source = Source("train", paths, names=("src", "tgt"), shuffle="lines")
        lines = Stream([source], seed=self.recipe.seed, policy=Policy(on_fault="skip"))  # a line holds a tab
        return Steps(
            lines, SampleFormat({"src": self.vocabulary, "tgt": self.vocabulary}),
            ByTokens(max_tokens=_ANY, max_sentences=self.plan.rows, noise=0.1), window="epoch",
        )  # fmt: skip

    def read(self, split: str, *, max_tokens: int = 8192) -> Steps:
        """The batches of a text, in the order of its lines."""
        return ordered_steps(self.data, self.run, split, languages=self.languages, max_tokens=max_tokens)

    @torch.inference_mode()
    def bits(self, split: str) -> float:
        """Bits per character of the target, ends of lines among the characters."""
        self.mean.eval()
        nats = 0.0
        with self.read(split) as steps:
            for arrays in steps:
                rows = {name: one.to(self.device) for name, one in tensors(arrays).items()}
                target = rows.pop("target")[rows["tgt_mask"]]
                nats += F.cross_entropy(self.mean.module(**rows), target, reduction="sum").item()
        return nats / math.log(2) / sum(len(line) + 1 for line in lines_of(self.data, split, self.recipe.target))

    def scored(self) -> dict[str, Any]:
        """Scores of the test with the best weights, each beside its signature."""
        self.mean.module.load_state_dict(self.best)
        bits = self.bits(TEST)
        system = System(self.mean.module.eval(), self.recipe, Encoder(self.vocabulary))
        with self.read(TEST, max_tokens=16384 // self.plan.beam) as steps:
            found = translated(system, steps, device=self.device, beam=self.plan.beam)
        told = scores(found, lines_of(self.data, TEST, self.recipe.target))
        named = [line.split(maxsplit=2) for line in told]
        return {
            "test": round(bits, 5), **{name: float(score) for name, score, _ in named},
            "signatures": [signature for _, _, signature in named],
        }  # fmt: skip


def vocabulary_of(data: Path, languages: tuple[str, str], size: int) -> volt.Vocabulary:
    """One vocabulary of that size for both sides. Raises CandidateError if the text has not as many pieces."""
    return searched([file_of(data, "train", language) for language in languages], str(size)).vocabulary


def fingerprint(data: Path, languages: tuple[str, str]) -> str:
    """Of the texts of both sides."""
    digest = hashlib.sha256()
    for split in ("train", DEV, TEST):
        for language in languages:
            digest.update("\n".join(lines_of(data, split, language)).encode())
    return digest.hexdigest()[:12]


def trial(data: Path, recipe: Recipe, plan: Plan, *, device: str = "cpu") -> dict[str, Any]:
    """Readings and scores of one training, and what it took. Raises ConfigError if sacrebleu is not installed."""
    if find_spec("sacrebleu") is None:
        raise ConfigError("translations are scored with sacrebleu; pip install sacrebleu")
    began, text = time.perf_counter(), fingerprint(data, (recipe.source, recipe.target))
    with tempfile.TemporaryDirectory(prefix="volt-trial-") as folder:
        one = Trial(data, Path(folder), recipe, plan, device=device)
        readings = list[dict[str, float]]()
        for reading in one.readings():
            readings.append(reading)
            print(f"{recipe.source}-{recipe.target} {recipe.vocabulary}: {reading}", file=sys.stderr, flush=True)
        learned = time.perf_counter() - began
        found = one.scored()
    return {
        "text": text, "ids": len(one.vocabulary),
        "parameters": sum(part.numel() for part in one.learner.model.parameters()),
        "updates": [int(reading["updates"]) for reading in readings],
        "dev": [round(reading["bits"], 5) for reading in readings], **found, "tokens": one.tokens,
        "seconds": round(time.perf_counter() - began, 1), "tokens_per_second": round(one.tokens / learned),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse arguments, train once, and print the result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="holds train.de, train.en, val.de and so on")
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--size", type=at_least(1), required=True)
    parser.add_argument("--seed", type=at_least(0, MOST_SEED), default=1)
    parser.add_argument("--updates", type=at_least(1), default=Plan().updates)
    parser.add_argument("--dropout", type=within(0, 1), default=MODEL.dropout)
    parser.add_argument("--lr", type=within(0, 1), default=MODEL.lr)
    parser.add_argument("--device", type=options.device, default="cpu")
    parser.add_argument("--threads", type=at_least(1, MOST_THREADS), default=1)
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    recipe = replace(
        MODEL, source=given.source, target=given.target, vocabulary=str(given.size), seed=given.seed,
        dropout=given.dropout, lr=given.lr,
    )  # fmt: skip
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that its folder goes with it
    try:
        found = trial(given.data, recipe, Plan(updates=given.updates), device=given.device)
    except (VoltError, OSError) as error:
        sys.exit(f"error: {error}")
    print(json.dumps({**asdict(recipe), **found}))


if __name__ == "__main__":
    main()
