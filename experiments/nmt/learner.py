"""Parallel text, and a translation model that learns from the arrays of a step.

A folder of data holds `train.en`, `train.de`, `val.en` and so on, line by line, plain or compressed.
"""

from __future__ import annotations

import glob
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import volt
from experiments.nmt.model import Transformer
from volt.batches import ByTokens, SampleFormat, Steps, to_torch
from volt.errors import ConfigError
from volt.stream import Source, Stream
from volt.trial.language_model import Shape


@dataclass(frozen=True, slots=True)
class Recipe:
    """The options that losses follow from.

    source, target: the languages;  vocabulary: its size;  max_tokens, window: recorded in keys;  seed: of the stream,
    weights and dropout;  width … dropout: of the model;  smoothing: share of a label's probability for all ids;  lr,
    warmup: the highest learning rate, and the steps until it is reached, after which it falls as 1 / √step;  end: the
    last step of a rate that falls linearly to 0 instead;  clip: the greatest norm of a gradient
    """

    source: str = "en"
    target: str = "de"
    vocabulary: str = "balanced"
    max_tokens: int = 4096
    window: int = 1 << 14
    seed: int = 1
    width: int = 256
    inner: int = 512
    heads: int = 4
    layers: int = 3
    dropout: float = 0.1
    smoothing: float = 0.1
    lr: float = 2e-3
    warmup: int = 400
    end: int = 0
    clip: float = 1.0

    def shape(self, n_ids: int) -> Shape:
        return Shape(n_ids, self.width, self.inner, self.heads, self.layers, self.dropout)

    def lr_at(self, step: int) -> float:
        """Return the learning rate of a step; steps count from 1.

        >>> [Recipe(lr=1.0, warmup=4).lr_at(step) for step in (1, 4, 16)]
        [0.25, 1.0, 0.5]
        >>> [Recipe(lr=1.0, warmup=4, end=7).lr_at(step) for step in (1, 4, 6, 7)]
        [0.25, 1.0, 0.5, 0.25]
        """
        left = math.sqrt(self.warmup / step)
        if self.end:
            left = (self.end + 1 - step) / max(1, self.end + 1 - self.warmup)
        return self.lr * max(0.0, min(step / self.warmup, left))


class Learner:
    """A model that learns from the arrays of a step; on a GPU with products of bfloat16."""

    def __init__(self, recipe: Recipe, n_ids: int, *, device: torch.device) -> None:
        torch.manual_seed(recipe.seed)
        self.recipe, self.device = recipe, device
        self.model = Transformer(recipe.shape(n_ids)).to(device)
        self.products = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9
        )

    def learn(self, arrays: dict[str, Any], step: int) -> tuple[float, int]:
        """Learn from a step; return the loss in nats per token, and the tokens. Raises ConfigError if it diverges."""
        rows = {
            name: tensor.to(self.device, non_blocking=True)
            for name, tensor in tensors(arrays).items()
        }
        target = rows.pop("target")[rows["tgt_mask"]]
        with self.products:
            scores = self.model(**rows)
        loss = F.cross_entropy(
            scores.float(), target, label_smoothing=self.recipe.smoothing, reduction="sum"
        )
        mean = loss.item() / len(target)
        if not math.isfinite(mean):
            raise ConfigError(f"step {step:,}: the loss is {mean}; give a lower --lr")
        self.optimizer.zero_grad()
        (loss * (1 / len(target))).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.lr_at(step)
        self.optimizer.step()
        return mean, len(target)


def tensors(arrays: dict[str, Any]) -> dict[str, Tensor]:
    found = to_torch(arrays)
    inputs = {name: found["net_input"][name] for name in ("src_tokens", "prev_output_tokens")}
    return inputs | {name: found[name] for name in ("src_mask", "tgt_mask", "target")}


def file_of(data: Path, split: str, language: str) -> Path:
    """Return the file of a split in a language, plain or compressed. Raises ConfigError unless there is one."""
    name = glob.escape(f"{split}.{language}")
    files = sorted(data.glob(name)) + sorted(data.glob(f"{name}.*"))
    if len(files) != 1:
        listed = ", ".join(path.name for path in files) or "no such file"
        raise ConfigError(
            f"{data}: {split}.{language}, plain or compressed: {listed}; there must be one"
        )
    return files[0]


def lines_of(data: Path, split: str, language: str) -> list[str]:
    with Stream(
        [Source(split, (str(file_of(data, split, language)),), epochs=1, shuffle="none")]
    ) as lines:
        return list(lines)


def vocabulary_of(data: Path, languages: tuple[str, str], size: int) -> volt.Vocabulary:
    """Search one vocabulary of a size for both languages. Raises CandidateError if the text has fewer pieces."""
    texts = [str(file_of(data, "train", language)) for language in languages]
    return volt.search(volt.learn_enough(volt.count_words(texts)), select=size).vocabulary


def ordered_steps(
    data: Path,
    vocabulary: volt.Vocabulary,
    split: str,
    *,
    languages: tuple[str, str],
    max_tokens: int,
) -> Steps:
    """Return each line of a split once, in batches; the ids of a batch are the numbers of its lines."""
    paths = tuple(str(file_of(data, split, language)) for language in languages)
    lines = Stream([Source(split, paths, names=("src", "tgt"), epochs=1, shuffle="none")])
    samples = SampleFormat({"src": vocabulary, "tgt": vocabulary})
    return Steps(lines, samples, ByTokens(max_tokens=max_tokens, shuffle=False), window="epoch")
