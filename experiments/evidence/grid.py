"""The trials in the order of their information: coarse sizes of every corpus, finer ones, then further seeds.

    lm   a language model on one text (experiments/lm):       corpus × size × seed
    nmt  a translation (experiments/nmt/trial.py):            direction × size × seed

A trial's key names everything its result follows from: the text's fingerprint, the size, the seed and the recipe.

>>> trials = list(grid(["lm"], corpora=["ted-fi", "bible-sw"], seeds=2))
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
from experiments.nmt import trial as nmt
from experiments.nmt.learner import file_of
from volt.trial.training import TrainingRecipe

KINDS = ("lm", "nmt")
ROUNDS = ((1_000, 4_000, 16_000), (2_000, 8_000), (500, 32_000))  # the first tells most
DIRECTIONS = ("de-en", "en-fr")
LARGEST = {"lm": 32_000, "nmt": 16_000}
NAMED = {"lm": tuple(lm_data.CORPORA), "nmt": DIRECTIONS}
LONGER = {"characters": 20_000_000}  # the options of the trials in longer/
OPTIONS: dict[str, dict[str, Callable[[str], Any]]] = {  # of the recipes, and how each is read
    "lm": {
        "characters": int,
        "width": int,
        "inner": int,
        "dropout": float,
        "lr": float,
        "products": str,
    },
    "nmt": {"updates": int, "dropout": float, "lr": float},
}
_DERIVED = (
    "source",
    "target",
    "vocabulary",
    "seed",
    "end",
)  # by the corpus, the size, the seed and the updates


@dataclass(frozen=True, slots=True)
class Trial:
    """A training. kind: lm or nmt;  corpus: a name, or a direction such as de-en;  options: changes of its recipe."""

    kind: str
    corpus: str
    size: int
    seed: int
    options: tuple[tuple[str, Any], ...] = ()

    def command(self, data: Path, work: Path, *, device: str) -> list[str]:
        options = {"size": self.size, "seed": self.seed, "device": device, **dict(self.options)}
        if self.kind == "lm":
            options |= {"data": data, "corpus": self.corpus, "work": work}
        else:
            source, target = self.corpus.split("-")
            options |= {"data": data / "multi30k", "source": source, "target": target}
        module = "experiments.lm.train" if self.kind == "lm" else "experiments.nmt.trial"
        return [
            sys.executable,
            "-m",
            module,
            *(f"--{name}={value}" for name, value in options.items()),
        ]

    def key(self, fingerprint: str) -> str:
        """Name everything the result follows from.

        >>> Trial("lm", "ted-fi", 4000, 1, (("characters", 100),)).key("0a1b")[:56]
        'lm|ted-fi|text:0a1b|size:4000|seed:1|characters:100|rows'
        """
        recipe = (
            asdict(TrainingRecipe())
            if self.kind == "lm"
            else asdict(nmt.Plan()) | asdict(nmt.MODEL)
        )
        parts = {"text": fingerprint, "size": self.size, "seed": self.seed}
        parts |= {
            name: value
            for name, value in (recipe | dict(self.options)).items()
            if name not in _DERIVED
        }
        return "|".join(
            [self.kind, self.corpus, *(f"{name}:{value}" for name, value in parts.items())]
        )


def grid(
    kinds: Sequence[str] = KINDS,
    *,
    corpora: Sequence[str] = (),
    sizes: Sequence[int] = (),
    seeds: int = 2,
    options: Mapping[str, Any] | None = None,
    most: Mapping[str, int] | None = None,
) -> Iterator[Trial]:
    """Return all trials, each once, in the order of their information.

    corpora, sizes: limit them;  options: of the recipes;  most: pieces of corpora, which stand for larger sizes
    """
    trials = dict[Trial, None]()
    others = tuple(size for size in sizes if size not in {one for near in ROUNDS for one in near})
    for seed, near in product(range(1, seeds + 1), (*ROUNDS, others)):
        for kind in kinds:
            chosen = tuple(
                (name, value) for name, value in (options or {}).items() if name in OPTIONS[kind]
            )
            for size, corpus in product(near, named(kind, corpora)):
                if size <= LARGEST[kind] and size in (sizes or near):
                    capped = min(size, (most or {}).get(corpus, size))
                    trials.setdefault(Trial(kind, corpus, capped, seed, chosen))
    return iter(trials)


def named(kind: str, corpora: Sequence[str]) -> Sequence[str]:
    """Return the corpora of a kind, or its usual ones if no corpora are given.

    >>> named("lm", ["ted-fi/8", "de-en"]), named("nmt", ())
    (['ted-fi/8'], ('de-en', 'en-fr'))
    """
    return (
        [name for name in corpora if (name in DIRECTIONS) == (kind == "nmt")]
        if corpora
        else NAMED[kind]
    )


class Corpus(NamedTuple):
    """A corpus or direction. text: the fingerprint of its texts;  most: its pieces, up to the largest size."""

    text: str
    most: int

    @classmethod
    def of(cls, name: str, data: Path, work: Path) -> Corpus:
        if name not in DIRECTIONS:
            texts = lm_data.prepared(data, name, work)
            return cls(texts.fingerprint, _pieces([texts.path("train")]))
        source, target = name.split("-")
        folder = data / "multi30k"
        files = [file_of(folder, "train", language) for language in (source, target)]
        return cls(nmt.fingerprint(folder, (source, target)), _pieces(files))


def _pieces(texts: Sequence[Path]) -> int:
    largest = max(LARGEST.values())
    return min(
        volt.learn_bpe(volt.count_words([str(text) for text in texts]), largest).n_tokens, largest
    )
