"""The trials in the order of their information: coarse sizes of every corpus, finer ones, then further seeds.

    lm   a language model on one text (experiments/lm):       corpus × size × seed

The results of the kind nmt are of a translation model with one vocabulary for both sides, which is no longer trained;
the trial of a translation is now `volt trial --source FILE --target FILE`, with a vocabulary for each side.

A trial's key names everything its result follows from: the text's fingerprint, the size, the seed and the recipe.

>>> trials = list(grid(corpora=["ted-fi", "bible-sw"], seeds=2))
>>> [(one.corpus, one.size, one.seed) for one in trials[:3]], len(trials)
([('ted-fi', 1000, 1), ('bible-sw', 1000, 1), ('ted-fi', 4000, 1)], 28)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import volt
from experiments.lm import data as lm_data
from volt.trial.training import TrainingRecipe

ROUNDS = ((1_000, 4_000, 16_000), (2_000, 8_000), (500, 32_000))  # the first tells most
DIRECTIONS = ("de-en", "en-fr")
LARGEST = 32_000
LONGER = {"characters": 20_000_000}  # the options of the trials in longer/
OPTIONS: dict[str, Callable[[str], Any]] = {  # of the recipe, and how each is read
    "characters": int,
    "width": int,
    "inner": int,
    "dropout": float,
    "lr": float,
    "products": str,
}
TRANSLATION = {  # the recipe of the stored translations, as their keys have it
    "updates": 10_000,
    "rows": 16,
    "average": 0.997,
    "readings": 10,
    "patience": 3,
    "beam": 4,
    "max_tokens": 4096,
    "window": 16_384,
    "width": 128,
    "inner": 512,
    "heads": 4,
    "layers": 2,
    "dropout": 0.1,
    "smoothing": 0.1,
    "lr": 0.004,
    "warmup": 1000,
    "clip": 1.0,
}


@dataclass(frozen=True, slots=True)
class Trial:
    """A training.

    kind: lm, or nmt of a stored one;  corpus: a name, or a direction such as de-en;  options: changes of its recipe
    """

    kind: str
    corpus: str
    size: int
    seed: int
    options: tuple[tuple[str, Any], ...] = ()

    def command(self, data: Path, work: Path, *, device: str) -> list[str]:
        options = {"size": self.size, "seed": self.seed, "device": device, **dict(self.options)}
        options |= {"data": data, "corpus": self.corpus, "work": work}
        return [
            sys.executable,
            "-m",
            "experiments.lm.train",
            *(f"--{name}={value}" for name, value in options.items()),
        ]

    def key(self, fingerprint: str) -> str:
        """Name everything the result follows from.

        >>> Trial("lm", "ted-fi", 4000, 1, (("characters", 100),)).key("0a1b")[:56]
        'lm|ted-fi|text:0a1b|size:4000|seed:1|characters:100|rows'
        """
        recipe = asdict(TrainingRecipe()) if self.kind == "lm" else TRANSLATION
        parts = {"text": fingerprint, "size": self.size, "seed": self.seed}
        parts |= {**recipe, **dict(self.options)}
        return "|".join(
            [self.kind, self.corpus, *(f"{name}:{value}" for name, value in parts.items())]
        )


def grid(
    *,
    corpora: Sequence[str] = (),
    sizes: Sequence[int] = (),
    seeds: int = 2,
    options: Mapping[str, Any] | None = None,
    most: Mapping[str, int] | None = None,
) -> Iterator[Trial]:
    """Return all trials, each once, in the order of their information.

    corpora, sizes: limit them;  options: of the recipe;  most: pieces of corpora, which stand for larger sizes
    """
    trials = dict[Trial, None]()
    others = tuple(size for size in sizes if size not in {one for near in ROUNDS for one in near})
    chosen = tuple((options or {}).items())
    for seed, near in product(range(1, seeds + 1), (*ROUNDS, others)):
        for size, corpus in product(near, corpora or lm_data.CORPORA):
            if size <= LARGEST and size in (sizes or near):
                capped = min(size, (most or {}).get(corpus, size))
                trials.setdefault(Trial("lm", corpus, capped, seed, chosen))
    return iter(trials)


class Corpus(NamedTuple):
    """A corpus. text: the fingerprint of its texts;  most: its pieces, up to the largest size."""

    text: str
    most: int

    @classmethod
    def of(cls, name: str, data: Path, work: Path) -> Corpus:
        texts = lm_data.prepared(data, name, work)
        candidates = volt.learn_bpe(volt.count_words([str(texts.path("train"))]), LARGEST)
        return cls(texts.fingerprint, min(candidates.n_tokens, LARGEST))
