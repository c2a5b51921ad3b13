"""Translate a split of the data with a model that train.py left, by beam search, and score it.

    python -m experiments.nmt.translate --data $VOLT_DATA/multi30k --run run --split val --beam 4 > val.out

The translations go to stdout, a line each, in the order of the file, as text without a trace of pieces. With sacrebleu
installed, BLEU and chrF go to stderr, each beside its signature. A beam of 1 is greedy search. The whole target is
computed anew for each piece, which is the plainest way and not the fastest.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from experiments.nmt import checkpoints, options
from experiments.nmt.data import VOCABULARY, lines_of, ordered_steps
from experiments.nmt.model import Transformer
from experiments.nmt.options import MOST_THREADS, at_least
from experiments.nmt.train import CHECKPOINT, Recipe, tensors
from volt.encode.encoder import Encoder
from volt.errors import ConfigError, VoltError
from volt.vocabulary import Vocabulary


@torch.inference_mode()
def search(model: Transformer, src_tokens: Tensor, src_mask: Tensor, *, eos: int, pad: int, beam: int = 4,
           most: int = 200, power: float = 1.0) -> list[list[int]]:  # fmt: skip
    """The best translation of each row that a beam finds, without EOS.

    src_tokens, src_mask: (rows, n)
    beam: how many beginnings of each translation are kept
    most: the most pieces of a translation
    power: a translation is judged by log p / length ^ power

    A beginning that has ended stays in the beam with its score, and is followed by padding alone.
    """
    rows, device = len(src_tokens), src_tokens.device
    source = model.encode(src_tokens, src_mask).repeat_interleave(beam, 0)
    mask = src_mask.repeat_interleave(beam, 0)
    found = torch.full((rows * beam, 1), eos, device=device)
    sums = torch.full((rows, beam), -torch.inf, device=device)
    sums[:, 0] = 0.0  # the others are the same beginning
    ended = torch.zeros(rows * beam, dtype=torch.bool, device=device)
    for _ in range(most):
        states = model.decode(found, source, mask)[:, -1]
        logs = model.scores(states).log_softmax(-1)
        logs[:, pad] = -torch.inf
        logs[ended] = -torch.inf
        logs[ended, pad] = 0.0
        sums, chosen = (sums.reshape(-1, 1) + logs).reshape(rows, -1).topk(beam)
        before, pieces = chosen // logs.shape[1], chosen % logs.shape[1]
        kept = (before + torch.arange(rows, device=device)[:, None] * beam).reshape(-1)
        found = torch.cat([found[kept], pieces.reshape(-1, 1)], dim=1)
        ended = ended[kept] | (pieces.reshape(-1) == eos)
        if bool(ended.all()):
            break
    lengths = (found[:, 1:] != pad).sum(1).reshape(rows, beam)
    best = (sums / lengths**power).argmax(1) + torch.arange(rows, device=device) * beam
    return [[piece for piece in row if piece not in (eos, pad)] for row in found[best, 1:].tolist()]


class System(NamedTuple):
    """What translates: the model of the last checkpoint, how it was trained, and its vocabulary."""

    model: Transformer
    recipe: Recipe
    encoder: Encoder

    @classmethod
    def load(cls, run: Path, device: torch.device) -> Self:
        """That of a run. Raises ConfigError if there is none yet."""
        if not (run / CHECKPOINT).exists():
            raise ConfigError(f"{run / CHECKPOINT}: no such file; train first")
        stored = checkpoints.read(run / CHECKPOINT, device)
        vocabulary = Vocabulary.load(run / VOCABULARY)
        try:
            recipe = Recipe(**stored["options"])
        except TypeError as error:
            raise ConfigError(f"{run / CHECKPOINT}: not of this train.py ({error}); train again") from None
        model = Transformer(recipe.shape(len(vocabulary))).to(device).eval()
        checkpoints.fill(model, stored["model"], run / CHECKPOINT)
        return cls(model, recipe, Encoder(vocabulary))


def translated(system: System, steps: Iterable[dict[str, Any]], *, device: torch.device, beam: int = 4) -> list[str]:
    """The translations of all lines, in the order of their numbers."""
    vocabulary, lines = system.encoder.vocabulary, dict[int, str]()
    roles = {"eos": vocabulary.ids[vocabulary.special.eos], "pad": vocabulary.ids[vocabulary.special.pad]}
    for arrays in steps:
        rows = {name: tensor.to(device) for name, tensor in tensors(arrays).items()}
        most = rows["src_tokens"].shape[1] * 3 // 2 + 10
        found = search(system.model, rows["src_tokens"], rows["src_mask"], beam=beam, most=most, **roles)
        lines |= zip(arrays["id"].tolist(), system.encoder.decode_batch(found), strict=True)
    return [lines[number] for number in sorted(lines)]


def scores(found: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """BLEU and chrF, with their signatures; none if sacrebleu is not installed."""
    if find_spec("sacrebleu") is None:
        return ["no score: pip install sacrebleu"]
    from sacrebleu.metrics import BLEU, CHRF

    metrics = BLEU(), CHRF()
    results = [metric.corpus_score([*found], [[*wanted]]) for metric in metrics]
    return [
        f"{result.name} {result.score:.2f}  {metric.get_signature()}"
        for metric, result in zip(metrics, results, strict=True)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse arguments, translate and score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="holds val.en, val.de and so on")
    parser.add_argument("--run", type=Path, required=True, help="the folder of the training")
    parser.add_argument("--split", default="val")
    parser.add_argument("--beam", type=at_least(1), default=4)
    parser.add_argument("--max-tokens", type=at_least(1), default=16384, help="of a batch, times the beam")
    parser.add_argument("--device", type=options.device, default="cpu")
    parser.add_argument("--threads", type=at_least(1, MOST_THREADS), default=2)
    given = parser.parse_args(arguments)
    if given.max_tokens < given.beam:
        parser.error(f"argument --max-tokens: {given.max_tokens}: give {given.beam} or more, the beam")
    torch.set_num_threads(given.threads)
    try:
        system = System.load(given.run, device := torch.device(given.device))
        languages, most = (system.recipe.source, system.recipe.target), given.max_tokens // given.beam
        with ordered_steps(given.data, given.run, given.split, languages=languages, max_tokens=most) as steps:
            found = translated(system, steps, device=device, beam=given.beam)
        wanted = lines_of(given.data, given.split, system.recipe.target)
    except (VoltError, OSError) as error:
        sys.exit(f"error: {error}")
    print("\n".join(found))
    for line in scores(found, wanted):
        print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
