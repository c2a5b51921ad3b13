"""Corpora of the trials → the size that each rule picks on the text that was trained on; `picks.json`.

Nothing is tuned: the rules and their grid are the defaults of `volt.search`, beside fixed sizes. `scaling` gets the
language model of the trials (experiments/lm): its weights without the embedding table, and its width.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import volt
from experiments.evidence.grid import DIRECTIONS
from experiments.lm import data as lm_data
from volt.errors import ConfigError
from volt.trial.language_model import CausalTransformer
from volt.trial.training import TrainingRecipe

RULES = ("balanced", "utility", "median500", "knee", "f95", "muv", "renyi")
FIXED = (4_000, 8_000, 32_000)
FILE = "picks.json"


def picks_of(texts: Sequence[Path], model: volt.LanguageModel | None = None) -> dict[str, int]:
    """Return rule → size on some texts; a fixed size is limited by the pieces of the texts."""
    candidates = volt.learn_enough(volt.count_words([str(one) for one in texts]), model=model)
    found = volt.search(candidates, model=model).picks
    named = (*RULES, "scaling") if model else RULES
    most = candidates.n_tokens if candidates.left == 0 else max(FIXED)
    return {rule: found[rule].size for rule in named} | {
        f"always {size:,}": min(size, most) for size in FIXED
    }


def trained_model(recipe: TrainingRecipe) -> volt.LanguageModel:
    """Describe the model of the trainings for the rule `scaling`: weights without the embedding, and width."""
    model = CausalTransformer(recipe.shape(n_ids=1))
    return volt.LanguageModel(
        sum(one.numel() for one in model.parameters()) - recipe.width, recipe.width
    )


def all_picks(data: Path, work: Path) -> dict[str, dict[str, Any]]:
    """Return corpus or direction → the fingerprint of its texts, and rule → size."""
    model, found = trained_model(TrainingRecipe()), dict[str, dict[str, Any]]()
    for name in lm_data.CORPORA:
        texts = lm_data.prepared(data, name, work)
        found[name] = {"text": texts.fingerprint, "picks": picks_of([texts.path("train")], model)}
    for name in DIRECTIONS:
        source, target = name.split("-")
        folder = data / "multi30k"
        files = [folder / f"train.{language}.gz" for language in (source, target)]
        found[name] = {"text": fingerprint(folder, (source, target)), "picks": picks_of(files)}
    return found


def fingerprint(folder: Path, languages: tuple[str, str]) -> str:
    """Return a digest of the pairs that the stored translations learned from and were tested on."""
    digest = hashlib.sha256()
    for split in ("train", "val", "test2016"):
        for language in languages:
            text = gzip.decompress((folder / f"{split}.{language}.gz").read_bytes())
            digest.update(text.removesuffix(b"\n"))
    return digest.hexdigest()[:12]


def read(folder: Path) -> dict[str, Any]:
    path = folder / FILE
    if not path.exists():
        raise ConfigError(
            f"{path}: no such file; python -m experiments.evidence picks --data … writes it"
        )
    try:
        found: Any = json.loads(path.read_bytes())
        for one in found.values():
            if not {*RULES} <= {*one["picks"]} or min(map(int, one["picks"].values())) < 1:
                raise ValueError("a rule or a size is missing")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path}: not a file of `picks` ({error}); write it again") from None
    return dict(found)


def sizes(stored: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    return {name: one["picks"] for name, one in stored.items()}
