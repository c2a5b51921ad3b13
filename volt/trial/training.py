"""Train a small language model with a vocabulary of some size, and measure bits per character.

    train.txt → candidates → vocabulary of the size             (volt)
    train.txt → Stream → samples → batches → Steps → arrays     (volt.batches)
    arrays → causal Transformer → loss → bits of dev and test   (this module, language_model.py)

Or train a translation model (translation_model.py) with two vocabularies, of train.src and of
train.tgt. Its bits are those of the target, and at the end it translates some pairs of test.

Every batch has 4 segments (lines of the text), or 32 pairs, of similar length, and every training
reads equally many characters, so all sizes have the same number of updates. The learning rate
rises, and then stays constant. Ten times during the training, a reading measures dev and test with the running mean
of the weights; so one training also answers for shorter ones. The training ends early if dev has
not improved for `patience` readings.

    bits per character = Σ −log₂ p(id) / characters

over the ids of a text, with an end-of-segment id for each line end, which counts as a character.

As a process, `python -m volt.trial.training JSON`, with the arguments of `results_so_far`, prints a
line of JSON after each reading.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from volt.arguments import shortened
from volt.batches.batching_rules import ByTokens
from volt.batches.collation import Layout, to_torch
from volt.batches.samples import SampleFormat
from volt.batches.steps import Steps
from volt.choose.report import crosses_space
from volt.choose.search import search
from volt.choose.superwords import learn_superwords
from volt.count.corpus import count_words
from volt.encode.encoder import Encoder
from volt.errors import ConfigError, VoltError, missing
from volt.learn.bpe import learn_bpe
from volt.stream import Source, Stream
from volt.text.pretokenizer import Level
from volt.trial.language_model import CausalTransformer, Shape
from volt.trial.texts import SIDES, Texts
from volt.trial.translation_model import TranslationTransformer, translate
from volt.vocabulary import Vocabulary

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
except ImportError:
    raise missing("torch", extra="torch") from None

MOST_TRANSLATED = 300  # pairs of test that a training translates
_NO_LIMIT = 1 << 20  # tokens of a batch, which is limited by its number of rows


@dataclass(frozen=True, slots=True)
class TrainingRecipe:
    """The options of a training, except the corpus, the vocabulary and the seed.

    characters: about how many characters to learn from
    rows: the number of segments of a batch, or of pairs
    width, inner, heads, layers, dropout: the model, see `Shape`
    lr: the learning rate
    warmup: the number of updates until the learning rate is reached
    clip: the greatest norm of a gradient
    average: the decay of the running mean of the weights
    readings: how often the model's dev score is measured, at equal distances
    patience: the number of readings without a better dev score after which the training ends
    products: the type of matrix products, "bfloat16" or "float32"
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
    """One measurement of a model.

    millions: the millions of characters that it has learned from
    operations: the floating-point operations of learning
    dev, test: bits per character
    """

    millions: float
    operations: float
    dev: float
    test: float


class Trainer:
    """A model in training: a language model, or a translation model of texts with two sides.

    vocabularies: side of the texts → its vocabulary
    mean: the model with the running mean of the weights, which readings measure
    best: the model with these weights at the best reading
    n_updates, n_tokens, n_segments, n_operations: what the model has learned so far
    learning_seconds, reading_seconds: the time of learning, and of readings
    """

    def __init__(
        self,
        texts: Texts,
        vocabularies: Mapping[str, Vocabulary],
        recipe: TrainingRecipe,
        *,
        seed: int,
        device: str,
    ) -> None:
        torch.manual_seed(seed)
        self.texts = texts
        self.vocabularies = vocabularies
        self.recipe = recipe
        self.seed = seed
        self.device = torch.device(device)
        self.model = model_of(vocabularies, recipe).to(self.device)
        self.mean = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(recipe.average))
        self.best: Any = self.mean.module
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=recipe.lr, betas=(0.9, 0.98), weight_decay=0.01
        )
        self.n_updates = 0
        self.n_tokens = 0
        self.n_segments = 0
        self.n_operations = 0.0
        self.learning_seconds = 0.0
        self.reading_seconds = 0.0

    def train(self) -> Iterator[Reading]:
        """Learn until the training ends, and yield the readings on the way.

        Raises ConfigError if the weights diverge.
        """
        n_segments = self.texts.path("train").read_bytes().count(b"\n")
        characters_per_segment = self.texts.characters["train"] / n_segments
        n_readings = self.recipe.readings
        n_updates = round(self.recipe.characters / characters_per_segment / self.recipe.rows)
        n_updates = max(n_updates, n_readings)
        read_after = {round(n_updates * n / n_readings) for n in range(1, n_readings + 1)}

        best = math.inf
        n_since_best = 0
        resumed_at = time.perf_counter()
        with self.steps("train") as steps:
            for arrays in steps:
                self.learn(arrays)
                if self.n_updates not in read_after:
                    continue

                learned_at = self.clock()
                dev = self.measure_bits("dev")
                test = self.measure_bits("test")
                self.learning_seconds += learned_at - resumed_at
                resumed_at = self.clock()
                self.reading_seconds += resumed_at - learned_at
                if not math.isfinite(dev + test):
                    raise ConfigError(
                        f"update {self.n_updates:,}: {dev} bits per character; give a lower lr"
                    )

                millions = self.n_segments * characters_per_segment / 1e6
                yield Reading(millions, self.n_operations, dev, test)
                n_since_best += 1
                if dev < best:
                    best = dev
                    n_since_best = 0
                    self.best = deepcopy(self.mean.module)
                if n_since_best == self.recipe.patience or self.n_updates == n_updates:
                    return

    def clock(self) -> float:
        """Wait until the device has finished, and return the seconds of a clock."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def steps(self, split: str) -> Steps:
        """Return batches of a text: of train, shuffled and without end; of the others, in order."""
        learns = split == "train"
        sides = self.texts.sides
        source = Source(
            split,
            tuple(map(str, self.texts.paths(split))),
            names=sides if len(sides) > 1 else (),
            epochs=None if learns else 1,
            shuffle="lines" if learns else "none",
        )
        return Steps(
            Stream([source], seed=self.seed),
            SampleFormat(self.vocabularies),
            ByTokens(max_tokens=_NO_LIMIT, max_sentences=self.recipe.rows, shuffle=learns),
            window="epoch",
            layout=Layout(left_pad_source=False),
        )

    def learn(self, arrays: dict[str, Any]) -> None:
        """Update the weights by one batch."""
        self.n_updates += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.lr * min(1.0, self.n_updates / self.recipe.warmup)
        self.model.train()
        inputs, loss = self._nats(self.model, arrays)
        n_tokens = int(arrays["ntokens"])
        self.optimizer.zero_grad()
        (loss / n_tokens).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimizer.step()
        self.mean.update_parameters(self.model)
        self.n_tokens += n_tokens
        self.n_segments += int(arrays["nsentences"])
        self.n_operations += self.model.operations(*inputs)

    @torch.inference_mode()
    def measure_bits(self, split: str) -> float:
        """Return the bits per character of a text."""
        self.mean.eval()
        with self.steps(split) as steps:
            nats = sum(self._nats(self.mean, arrays)[1].item() for arrays in steps)
        return nats / math.log(2) / self.texts.characters[split]

    def _nats(
        self, model: nn.Module, arrays: dict[str, Any]
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return the inputs of the model for a batch, and Σ −ln p(id) of the target."""
        inputs = self._inputs(arrays)
        target = to_torch(arrays)["target"].to(self.device)[inputs[-1]]
        is_bfloat16 = self.recipe.products == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=is_bfloat16):
            scores = model(*inputs)
        return inputs, F.cross_entropy(scores.float(), target, reduction="sum")

    def _inputs(self, arrays: dict[str, Any]) -> list[torch.Tensor]:
        """Return the inputs of the model for a batch; the last is the mask of the target."""
        batch = to_torch(arrays)
        inputs = batch["net_input"]
        tensors = [inputs["src_tokens"], batch["tgt_mask"]]
        if "src_mask" in batch:
            tensors[1:1] = [batch["src_mask"], inputs["prev_output_tokens"]]
        return [tensor.to(self.device) for tensor in tensors]

    def translate(self) -> list[str]:
        """Translate the pairs of test whose numbers are `translated`, by the best weights."""
        vocabulary = self.vocabularies["tgt"]
        encoder = Encoder(vocabulary)
        eos = vocabulary.ids[str(vocabulary.special.eos)]
        numbers = translated(self.texts)
        lines = dict[int, str]()
        self.best.eval()
        with self.steps("test") as steps:
            for arrays in steps:
                source_ids, source_mask, target_ids, _ = self._inputs(arrays)
                is_chosen = arrays["id"] % numbers.step == 0
                if is_chosen.any():
                    rows = translate(
                        self.best,
                        source_ids[is_chosen],
                        source_mask[is_chosen],
                        eos=eos,
                        most=2 * target_ids.shape[1],
                    )
                    chosen = arrays["id"][is_chosen].tolist()
                    lines |= zip(chosen, encoder.decode_batch(rows), strict=True)
        return [lines[number] for number in numbers]


def translated(texts: Texts) -> range:
    """Return the numbers of the pairs of test that are translated, at equal distances."""
    n_pairs = texts.path("test").read_bytes().count(b"\n")
    return range(0, n_pairs, math.ceil(n_pairs / MOST_TRANSLATED))


def model_of(vocabularies: Mapping[str, Vocabulary], recipe: TrainingRecipe) -> Any:
    """Return a new model: of language for one vocabulary, of translation for source and target."""
    *source, target = (len(vocabulary) for vocabulary in vocabularies.values())
    if source:
        return TranslationTransformer(recipe.shape(target), *source)
    return CausalTransformer(recipe.shape(target))


def vocabulary_of(path: Path, size: int, superwords: int | None = None) -> Vocabulary:
    """Return the vocabulary of a size that is learned from a text.

    superwords: see `TrainingChoice`
    Raises CandidateError if the text does not give so many tokens.
    """
    level: Level = "characters" if superwords is None else "bytes"
    candidates = learn_bpe(count_words(str(path), level=level), size)
    if superwords:
        transition = candidates.merges_at(size - superwords)
        candidates = learn_superwords(candidates, str(path), superwords, transition=transition)
    return search(candidates, sizes=[size], select=size).vocabulary


def results_so_far(
    texts: Texts,
    *,
    size: int,
    seed: int,
    recipe: TrainingRecipe,
    superwords: int | None = None,
    source: int | None = None,
    device: str = "cpu",
) -> Iterator[dict[str, Any]]:
    """Train, and yield the result so far after each reading, as JSON data; the last is complete.

    size, seed, superwords, source: see `TrainingChoice`
    `volt.trial.results` says what the lists millions, dev and test contain.
    """
    began = time.perf_counter()
    readings = list[Reading]()
    vocabulary = vocabulary_of(texts.path("train"), size, superwords)
    vocabularies = {texts.sides[-1]: vocabulary}
    if source is not None:
        source_path, _ = texts.paths("train")
        vocabularies = {"src": vocabulary_of(source_path, source), **vocabularies}
    crosses = partial(crosses_space, is_bytes=vocabulary.pretokenizer.is_bytes)
    trainer = Trainer(texts, vocabularies, recipe, seed=seed, device=device)
    for reading in trainer.train():
        readings.append(reading)
        seconds = time.perf_counter() - began
        result = {
            "text": texts.fingerprint,
            "ids": len(vocabulary),
            "crossing": sum(map(crosses, vocabulary.tokens)),
            "parameters": sum(weight.numel() for weight in trainer.model.parameters()),
            "text_characters": texts.characters,
            "text_bytes": texts.n_bytes,
            "updates": trainer.n_updates,
            "tokens": trainer.n_tokens,
            "millions": [round(reading.millions, 4) for reading in readings],
            "operations": [reading.operations for reading in readings],
            "dev": [round(reading.dev, 5) for reading in readings],
            "test": [round(reading.test, 5) for reading in readings],
            "seconds": round(seconds, 3),
            "learning_seconds": round(trainer.learning_seconds, 3),
            "reading_seconds": round(trainer.reading_seconds, 3),
            "tokens_per_second": round(trainer.n_tokens / seconds),
        }
        yield result
    if source is not None:
        translations = trainer.translate()
        seconds = round(time.perf_counter() - began, 3)
        yield {**result, "translations": translations, "seconds": seconds}


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


def results_of(options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the `results_so_far` of a command.

    options: its arguments, with the path of a folder instead of texts
    """
    sides = SIDES if "source" in options else ("txt",)
    texts = Texts.read(Path(options.pop("folder")), sides)
    recipe = TrainingRecipe(**options.pop("recipe"))
    return results_so_far(texts, recipe=recipe, **options)


def main() -> None:
    """Train with the arguments in JSON on the command line, and print the results so far."""
    torch.set_num_threads(1)
    try:
        for result in results_of(json.loads(sys.argv[1])):
            print(json.dumps(result), flush=True)  # noqa: T201
    except (VoltError, OSError, RuntimeError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
