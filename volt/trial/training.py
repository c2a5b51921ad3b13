"""Train a small language model with a vocabulary of some size; measure bits per character.

    train.txt → candidates → vocabulary of that size            (volt)
    train.txt → Stream → samples → batches → Steps → arrays     (volt.batches)
    arrays → causal Transformer → loss → bits of dev and test   (this module, language_model.py)

Every batch is 4 segments of similar length, and every training reads equally many characters, so
all sizes have the same updates and characters. The learning rate rises and then stays constant; the
running mean of the weights is read ten times, so one run answers for shorter trainings, too. A run
ends when dev has not improved for `patience` readings.

bits per character = Σ −log₂ p(id) / characters, with the ends of segments, which are ids (EOS) and
characters (\\n).

`python -m volt.trial.training JSON`, with the arguments of `results_so_far`, prints a line of JSON
for each reading.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from volt.arguments import shortened
from volt.batches.batching_rules import ByTokens
from volt.batches.collation import to_torch
from volt.batches.samples import SampleFormat
from volt.batches.steps import Steps
from volt.choose.search import search
from volt.count.corpus import count_words
from volt.errors import ConfigError, VoltError, missing
from volt.learn.bpe import learn_bpe
from volt.stream import Source, Stream
from volt.trial.language_model import CausalTransformer, Shape, operations
from volt.trial.texts import Texts
from volt.vocabulary import Vocabulary

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
except ImportError:
    raise missing("torch", extra="torch") from None

_ANY = 1 << 20  # tokens of a batch: its rows decide


@dataclass(frozen=True, slots=True)
class TrainingRecipe:
    """The options of a training, except the corpus, the vocabulary and the seed.

    characters: to learn from, about;  rows: segments of a batch;  width … dropout: of the model
    lr, warmup: the learning rate, and the updates until it is reached
    clip: the greatest norm of a gradient;  average: decay of the running mean of the weights
    readings: of dev and test;  patience: readings without a better dev score before the end
    products: bfloat16 or float32
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
    """One measurement of dev and test, in bits per character.

    characters: learned from, in millions;  operations: of learning
    """

    characters: float
    operations: float
    dev: float
    test: float


class Trainer:
    """A training and its readings."""

    def __init__(
        self,
        texts: Texts,
        vocabulary: Vocabulary,
        recipe: TrainingRecipe,
        *,
        seed: int,
        device: str,
    ) -> None:
        torch.manual_seed(seed)
        self.texts = texts
        self.vocabulary = vocabulary
        self.recipe = recipe
        self.seed = seed
        self.device = torch.device(device)
        self.model = CausalTransformer(recipe.shape(len(vocabulary))).to(self.device)
        self.mean = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(recipe.average))
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=recipe.lr, betas=(0.9, 0.98), weight_decay=0.01
        )
        self.tokens = 0
        self.updates = 0
        self.segments = 0
        self.operations = 0.0
        self.learning_seconds = 0.0
        self.reading_seconds = 0.0

    def readings(self) -> Iterator[Reading]:
        """Learn, and yield readings until the end. Raises ConfigError if the weights diverge."""
        n_segments = self.texts.path("train").read_bytes().count(b"\n")
        characters_per_segment = self.texts.characters["train"] / n_segments
        n_readings = self.recipe.readings
        n_updates = round(self.recipe.characters / characters_per_segment / self.recipe.rows)
        n_updates = max(n_updates, n_readings)
        read_after = {round(n_updates * n / n_readings) for n in range(1, n_readings + 1)}

        best = math.inf
        n_since_best = 0
        clock = time.perf_counter()
        with self.steps("train") as steps:
            for arrays in steps:
                self.learn(arrays)
                if self.updates not in read_after:
                    continue

                learned = self.clock()
                dev = self.bits("dev")
                test = self.bits("test")
                self.learning_seconds += learned - clock
                clock = self.clock()
                self.reading_seconds += clock - learned
                if not math.isfinite(dev + test):
                    raise ConfigError(
                        f"update {self.updates:,}: {dev} bits per character; give a lower lr"
                    )

                millions = self.segments * characters_per_segment / 1e6
                yield Reading(millions, self.operations, dev, test)
                n_since_best += 1
                if dev < best:
                    best = dev
                    n_since_best = 0
                if n_since_best == self.recipe.patience or self.updates == n_updates:
                    return

    def clock(self) -> float:
        """Return the seconds of a clock, when the device has finished."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def steps(self, split: str) -> Steps:
        """Return the batches of a text: endless and shuffled for training, once and in order for reading."""
        learns = split == "train"
        path = str(self.texts.path(split))
        if learns:
            source = Source(split, (path,), epochs=None, shuffle="lines")
        else:
            source = Source(split, (path,), epochs=1, shuffle="none")
        return Steps(
            Stream([source], seed=self.seed),
            SampleFormat({"text": self.vocabulary}),
            ByTokens(max_tokens=_ANY, max_sentences=self.recipe.rows, shuffle=learns),
            window="epoch",
        )

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
        batch = to_torch(arrays)
        ids = batch["net_input"]["src_tokens"].to(self.device)
        mask = batch["tgt_mask"].to(self.device)
        target = batch["target"].to(self.device)[mask]
        is_bfloat16 = self.recipe.products == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=is_bfloat16):
            scores = model(ids, mask)
        loss = F.cross_entropy(scores.float(), target, reduction="sum")
        return loss, int(arrays["ntokens"]), ids.shape[1]


def vocabulary_of(texts: Texts, size: int) -> Vocabulary:
    """Return the vocabulary of a size. Raises CandidateError if the text has fewer pieces."""
    candidates = learn_bpe(count_words([str(texts.path("train"))]), size)
    return search(candidates, sizes=[size], select=size).vocabulary


def results_so_far(
    texts: Texts, *, size: int, seed: int, recipe: TrainingRecipe, device: str = "cpu"
) -> Iterator[dict[str, Any]]:
    """Train, and yield the result after each reading, as JSON data; the last result is complete.

    millions: characters read until each reading, in millions
    dev, test: bits per character at each reading
    """
    began = time.perf_counter()
    readings = list[Reading]()
    trainer = Trainer(texts, vocabulary_of(texts, size), recipe, seed=seed, device=device)
    for reading in trainer.readings():
        readings.append(reading)
        seconds = time.perf_counter() - began
        yield {
            "text": texts.fingerprint,
            "ids": len(trainer.vocabulary),
            "parameters": sum(weight.numel() for weight in trainer.model.parameters()),
            "text_characters": texts.characters,
            "text_bytes": texts.n_bytes,
            "updates": trainer.updates,
            "tokens": trainer.tokens,
            "millions": [round(reading.characters, 4) for reading in readings],
            "operations": [reading.operations for reading in readings],
            "dev": [round(reading.dev, 5) for reading in readings],
            "test": [round(reading.test, 5) for reading in readings],
            "seconds": round(seconds, 3),
            "learning_seconds": round(trainer.learning_seconds, 3),
            "reading_seconds": round(trainer.reading_seconds, 3),
            "tokens_per_second": round(trainer.tokens / seconds),
        }


def usable_device(name: str) -> str:
    """Return the device that a name such as "auto" stands for.

    Raises ConfigError if PyTorch cannot use it.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError, TypeError):
        raise ConfigError(
            f"device {shortened(repr(name))} cannot be used here; choose auto or cpu"
        ) from None
    return name


def main() -> None:
    options = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    texts = Texts.read(Path(options.pop("folder")))
    recipe = TrainingRecipe(**options.pop("recipe"))
    try:
        for result in results_so_far(texts, recipe=recipe, **options):
            print(json.dumps(result), flush=True)  # noqa: T201
    except (VoltError, OSError, RuntimeError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
