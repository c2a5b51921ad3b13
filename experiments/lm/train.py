"""Train a small language model with a vocabulary of some size; measure bits per character of unseen text.

    python -m experiments.lm.train --data $VOLT_DATA --corpus ted-fi --size 4000

    train.txt → candidates → vocabulary of that size            (volt)
    train.txt → Stream → samples → batches → Steps → arrays     (volt.batches)
    arrays → causal Transformer → loss → bits of dev and test   (this module, model.py)

Every batch is 4 segments of similar length, and every training uses about 5 million characters, so all sizes have the
same updates and characters. The learning rate rises and then stays constant; the running mean of the weights is read
ten times, so one run answers for equal text and for equal compute. A run ends when dev has not improved for `patience`
readings.

bits per character = Σ −log₂ p(id) / characters, with the ends of segments, which are ids (EOS) and characters (\\n).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import volt
from experiments.lm.data import Texts, prepared
from experiments.lm.model import LanguageModel, Shape, operations
from volt.batches import ByTokens, SampleFormat, Steps, to_torch
from volt.errors import ConfigError, VoltError
from volt.stream import Source, Stream

_ANY = 1 << 20  # tokens of a batch: its rows decide


@dataclass(frozen=True, slots=True)
class Recipe:
    """The options of a training, beside the corpus, the vocabulary and the seed.

    characters: to learn from, about;  rows: segments of a batch;  width … dropout: of the model;  lr, warmup: the
    learning rate, and the updates until it is reached;  clip: the greatest norm of a gradient;  average: decay of the
    running mean of the weights;  readings: of dev and test;  patience: readings without a better dev score before the
    end;  products: bfloat16 or float32
    """

    characters: int = 5_000_000
    rows: int = 4
    width: int = 128
    inner: int = 512
    heads: int = 4
    layers: int = 2
    dropout: float = 0.1
    lr: float = 3e-3
    warmup: int = 100
    clip: float = 1.0
    average: float = 0.99
    readings: int = 10
    patience: int = 3
    products: str = "bfloat16"

    def shape(self, n_ids: int) -> Shape:
        return Shape(n_ids, self.width, self.inner, self.heads, self.layers, self.dropout)


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading. characters: learned from, in millions;  operations: of learning;  dev, test: bits per character."""

    characters: float
    operations: float
    dev: float
    test: float


class Judge:
    """A training and its readings."""

    def __init__(self, texts: Texts, vocabulary: volt.Vocabulary, recipe: Recipe, *, seed: int, device: str) -> None:
        torch.manual_seed(seed)
        self.texts, self.vocabulary, self.recipe, self.seed = texts, vocabulary, recipe, seed
        self.device = torch.device(device)
        self.model = LanguageModel(recipe.shape(len(vocabulary))).to(self.device)
        self.mean = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(recipe.average))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=recipe.lr, betas=(0.9, 0.98), weight_decay=0.01)
        self.tokens, self.updates, self.segments, self.operations = 0, 0, 0, 0.0

    def readings(self) -> Iterator[Reading]:
        """Learn, and yield readings until the end. Raises ConfigError if the weights diverge."""
        n_segments, n_characters = self.texts.path("train").read_bytes().count(b"\n"), self.texts.characters["train"]
        of_segment = n_characters / n_segments
        last = max(round(self.recipe.characters / of_segment / self.recipe.rows), self.recipe.readings)
        at = {round(last * n / self.recipe.readings) for n in range(1, self.recipe.readings + 1)}
        best, since = math.inf, 0
        with self.steps("train") as steps:
            for arrays in steps:
                self.learn(arrays)
                if self.updates not in at:
                    continue
                dev, test = (self.bits(split) for split in ("dev", "test"))
                if not math.isfinite(dev + test):
                    raise ConfigError(f"update {self.updates:,}: {dev} bits per character; give a lower --lr")
                yield Reading(self.segments * of_segment / 1e6, self.operations, dev, test)
                best, since = (dev, 0) if dev < best else (best, since + 1)
                if since == self.recipe.patience or self.updates == last:
                    return

    def steps(self, split: str) -> Steps:
        """Return the batches of a text: endless and shuffled for training, once and in order for reading."""
        learns = split == "train"
        how: dict[str, Any] = {"epochs": None, "shuffle": "lines"} if learns else {"epochs": 1, "shuffle": "none"}
        source = Source(split, (str(self.texts.path(split)),), **how)
        return Steps(
            Stream([source], seed=self.seed), SampleFormat({"text": self.vocabulary}),
            ByTokens(max_tokens=_ANY, max_sentences=self.recipe.rows, shuffle=learns), window="epoch",
        )  # fmt: skip

    def learn(self, arrays: dict[str, Any]) -> None:
        self.updates += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.lr * min(1.0, self.updates / self.recipe.warmup)
        self.model.train()
        loss, n_tokens, n_columns = self._nats(self.model, arrays)
        self.optimizer.zero_grad()
        (loss / n_tokens).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimizer.step()
        self.mean.update_parameters(self.model)
        self.tokens += n_tokens
        self.segments += int(arrays["nsentences"])
        self.operations += operations(self.model.shape, n_tokens, n_columns)

    @torch.inference_mode()
    def bits(self, split: str) -> float:
        self.mean.eval()
        with self.steps(split) as steps:
            nats = sum(self._nats(self.mean, arrays)[0].item() for arrays in steps)
        return nats / math.log(2) / self.texts.characters[split]

    def _nats(self, model: nn.Module, arrays: dict[str, Any]) -> tuple[torch.Tensor, int, int]:
        found = to_torch(arrays)
        ids, mask = found["net_input"]["src_tokens"].to(self.device), found["tgt_mask"].to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.recipe.products == "bfloat16"):
            scores = model(ids, mask)
        loss = F.cross_entropy(scores.float(), found["target"].to(self.device)[mask], reduction="sum")
        return loss, int(arrays["ntokens"]), ids.shape[1]


def vocabulary_of(texts: Texts, size: int) -> volt.Vocabulary:
    """Search the vocabulary of a size. Raises CandidateError if the text has fewer pieces."""
    candidates = volt.learn_bpe(volt.count_words([str(texts.path("train"))]), size)
    return volt.search(candidates, sizes=[size], select=size).vocabulary


def trial(texts: Texts, *, size: int, seed: int, recipe: Recipe, device: str = "cpu") -> dict[str, Any]:
    began = time.perf_counter()
    judge = Judge(texts, vocabulary_of(texts, size), recipe, seed=seed, device=device)
    readings = list[Reading]()
    for reading in judge.readings():
        readings.append(reading)
        print(f"{texts.name} {size} seed {seed}: {reading}", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - began
    return {
        "text": texts.fingerprint, "ids": len(judge.vocabulary),
        "parameters": sum(one.numel() for one in judge.model.parameters()),
        "text_characters": texts.characters, "text_bytes": texts.n_bytes, "updates": judge.updates,
        "tokens": judge.tokens,
        "millions": [round(one.characters, 4) for one in readings], "operations": [one.operations for one in readings],
        "dev": [round(one.dev, 5) for one in readings], "test": [round(one.test, 5) for one in readings],
        "seconds": round(seconds, 1), "tokens_per_second": round(judge.tokens / seconds),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="holds multi30k, ted and bible")
    parser.add_argument("--corpus", required=True, help="a name, NAME/N or NAME+NAME: see data.py")
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path("build/trials"), help="holds the texts of each corpus")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=1)
    for name in (changed := ("characters", "width", "inner", "dropout", "lr", "products")):
        parser.add_argument(f"--{name}", type=type(getattr(Recipe(), name)), default=getattr(Recipe(), name))
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    recipe = Recipe(**{name: getattr(given, name) for name in changed})
    try:
        texts = prepared(given.data, given.corpus, given.work)
        found = trial(texts, size=given.size, seed=given.seed, recipe=recipe, device=given.device)
    except (VoltError, OSError) as error:
        sys.exit(f"error: {error}")
    print(json.dumps({"corpus": given.corpus, "size": given.size, "seed": given.seed, **asdict(recipe), **found}))


if __name__ == "__main__":
    main()
