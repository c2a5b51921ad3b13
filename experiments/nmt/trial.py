"""Train one translation model with a vocabulary of some size, and score it on unseen text.

    python -m experiments.nmt.trial --data $VOLT_DATA/multi30k --source de --target en --size 4000

    train.de, train.en → one vocabulary of that size → batches of 16 pairs → Transformer (learner.py, model.py)
    val                → bits per character of the target, ten times on the way
    test2016           → BLEU, chrF and bits per character, with the running mean of the weights of the best val reading

Whatever the size, a batch has as many pairs, so updates and characters are the same. A training ends early when val has
not improved for `patience` readings.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
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
from experiments.nmt.learner import (
    Learner,
    Recipe,
    file_of,
    lines_of,
    ordered_steps,
    tensors,
    vocabulary_of,
)
from experiments.nmt.model import Transformer, search
from volt.batches import ByTokens, SampleFormat, Steps
from volt.errors import ConfigError, VoltError
from volt.stream import ErrorPolicy, Source, Stream

_ANY = 1 << 20  # tokens of a batch: its rows decide
DEV, TEST = "val", "test2016"


@dataclass(frozen=True, slots=True)
class Plan:
    """The course of a trial.

    updates: at most; the learning rate rises for a tenth of them, then falls linearly to 0;  rows: pairs of a batch;
    average: decay of the running mean of the weights;  readings: of val;  patience: readings without a better score
    before the end;  beam: of the scored translations
    """

    updates: int = 10_000
    rows: int = 16
    average: float = 0.997
    readings: int = 10
    patience: int = 3
    beam: int = 4


MODEL = Recipe(width=128, inner=512, heads=4, layers=2, lr=4e-3, warmup=1000)


class Trial:
    """A training that keeps the weights of the best val reading."""

    def __init__(self, data: Path, recipe: Recipe, plan: Plan, *, device: str) -> None:
        self.data, self.recipe, self.plan = data, recipe, plan
        self.languages, self.device = (recipe.source, recipe.target), torch.device(device)
        self.vocabulary = vocabulary_of(data, self.languages, int(recipe.vocabulary))
        for split in DEV, TEST:  # report their faults before hours of learning
            with self.read(split) as steps:
                if not any(True for _ in steps):
                    raise ConfigError(f"{data}: {split} has no lines")
        learned = replace(
            recipe, end=plan.updates, warmup=min(recipe.warmup, max(1, plan.updates // 10))
        )
        self.learner = Learner(learned, len(self.vocabulary), device=self.device)
        self.mean = AveragedModel(
            self.learner.model, multi_avg_fn=get_ema_multi_avg_fn(plan.average)
        )
        self.best: dict[str, torch.Tensor] = {}
        self.updates, self.tokens = 0, 0

    def readings(self) -> Iterator[tuple[int, float]]:
        """Learn, and yield the updates and val's bits per character on the way."""
        at = {
            round(self.plan.updates * n / self.plan.readings)
            for n in range(1, self.plan.readings + 1)
        }
        lowest, since = math.inf, 0
        torch.manual_seed(self.recipe.seed + 1)
        with self.steps() as steps:
            for arrays in steps:
                self.updates += 1
                self.learner.model.train()
                self.tokens += self.learner.learn(arrays, self.updates)[1]
                self.mean.update_parameters(self.learner.model)
                if self.updates not in at:
                    continue
                if not math.isfinite(bits := self.bits(DEV)):
                    raise ConfigError(
                        f"update {self.updates:,}: {bits} bits per character; give a lower --lr"
                    )
                yield self.updates, bits
                since = 0 if bits < lowest else since + 1
                if bits < lowest:
                    lowest = bits
                    self.best = {
                        name: one.clone() for name, one in self.mean.module.state_dict().items()
                    }
                if since == self.plan.patience or self.updates == self.plan.updates:
                    return

    def steps(self) -> Steps:
        paths = tuple(str(file_of(self.data, "train", language)) for language in self.languages)
        source = Source("train", paths, names=("src", "tgt"), shuffle="lines")
        lines = Stream(
            [source], seed=self.recipe.seed, policy=ErrorPolicy(on_fault="skip")
        )  # a line holds a tab
        return Steps(
            lines,
            SampleFormat({"src": self.vocabulary, "tgt": self.vocabulary}),
            ByTokens(max_tokens=_ANY, max_sentences=self.plan.rows, noise=0.1),
            window="epoch",
        )

    def read(self, split: str, *, max_tokens: int = 8192) -> Steps:
        return ordered_steps(
            self.data, self.vocabulary, split, languages=self.languages, max_tokens=max_tokens
        )

    @torch.inference_mode()
    def bits(self, split: str) -> float:
        self.mean.eval()
        nats = 0.0
        with self.read(split) as steps:
            for arrays in steps:
                rows = {name: one.to(self.device) for name, one in tensors(arrays).items()}
                target = rows.pop("target")[rows["tgt_mask"]]
                nats += F.cross_entropy(self.mean.module(**rows), target, reduction="sum").item()
        return (
            nats
            / math.log(2)
            / sum(len(line) + 1 for line in lines_of(self.data, split, self.recipe.target))
        )

    def translated(self, model: Transformer, split: str) -> list[str]:
        encoder, lines, beam = volt.Encoder(self.vocabulary), dict[int, str](), self.plan.beam
        special = self.vocabulary.special
        roles = {name: self.vocabulary.ids[getattr(special, name)] for name in ("eos", "pad")}
        with self.read(split, max_tokens=16384 // beam) as steps:
            for arrays in steps:
                rows = {name: one.to(self.device) for name, one in tensors(arrays).items()}
                most = rows["src_tokens"].shape[1] * 3 // 2 + 10
                found = search(
                    model, rows["src_tokens"], rows["src_mask"], beam=beam, most=most, **roles
                )
                lines |= zip(arrays["id"].tolist(), encoder.decode_batch(found), strict=True)
        return [lines[number] for number in sorted(lines)]

    def scored(self) -> dict[str, Any]:
        """Score the test with the best weights; return scores and signatures."""
        from sacrebleu.metrics import BLEU, CHRF

        self.mean.module.load_state_dict(self.best)
        metrics = BLEU(), CHRF()
        bits, found = self.bits(TEST), self.translated(self.mean.module.eval(), TEST)
        wanted = lines_of(self.data, TEST, self.recipe.target)
        scores = [metric.corpus_score(found, [wanted]) for metric in metrics]
        return {
            "test": round(bits, 5),
            **{one.name: round(one.score, 2) for one in scores},
            "signatures": [str(metric.get_signature()) for metric in metrics],
        }


def fingerprint(data: Path, languages: tuple[str, str]) -> str:
    digest = hashlib.sha256()
    for split in ("train", DEV, TEST):
        for language in languages:
            digest.update("\n".join(lines_of(data, split, language)).encode())
    return digest.hexdigest()[:12]


def trial(data: Path, recipe: Recipe, plan: Plan, *, device: str = "cpu") -> dict[str, Any]:
    """Train once; return readings, scores and costs. Raises ConfigError without sacrebleu."""
    if find_spec("sacrebleu") is None:
        raise ConfigError("translations are scored with sacrebleu; pip install sacrebleu")
    began, text = time.perf_counter(), fingerprint(data, (recipe.source, recipe.target))
    one = Trial(data, recipe, plan, device=device)
    readings = list[tuple[int, float]]()
    for reading in one.readings():
        readings.append(reading)
        print(
            f"{recipe.source}-{recipe.target} {recipe.vocabulary}: {reading}",
            file=sys.stderr,
            flush=True,
        )
    learned = time.perf_counter() - began
    return {
        "text": text,
        "ids": len(one.vocabulary),
        "parameters": sum(part.numel() for part in one.learner.model.parameters()),
        "updates": [updates for updates, _ in readings],
        "dev": [round(bits, 5) for _, bits in readings],
        **one.scored(),
        "tokens": one.tokens,
        "seconds": round(time.perf_counter() - began, 1),
        "tokens_per_second": round(one.tokens / learned),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="holds train.de, train.en, val.de and so on"
    )
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--updates", type=int, default=Plan().updates)
    parser.add_argument("--dropout", type=float, default=MODEL.dropout)
    parser.add_argument("--lr", type=float, default=MODEL.lr)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    recipe = replace(
        MODEL,
        source=given.source,
        target=given.target,
        vocabulary=str(given.size),
        seed=given.seed,
        dropout=given.dropout,
        lr=given.lr,
    )
    try:
        result = trial(given.data, recipe, Plan(updates=given.updates), device=given.device)
    except (VoltError, OSError) as error:
        sys.exit(f"error: {error}")
    print(json.dumps({**asdict(recipe), **result}))


if __name__ == "__main__":
    main()
