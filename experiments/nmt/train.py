"""Train a small Transformer to translate, from raw text to the model, and go on exactly wherever it was stopped.

    python -m experiments.nmt.train --data $VOLT_DATA/multi30k --out run --steps 1000
    torchrun --nproc-per-node 2 -m experiments.nmt.train --data … --out … --steps 1000
    python -m experiments.nmt.translate --data $VOLT_DATA/multi30k --run run

    train.en, train.de → vocabulary search → joint.volt          (data.py)
    stream.yaml → Stream → samples → batches → Steps → arrays    (volt.batches)
    arrays → Transformer → loss → losses.jsonl, checkpoint.pt    (this module, model.py, checkpoints.py)

The same line starts a training and goes on with it, whatever ended it: the last step, Ctrl-C, SIGKILL of the process.
What was done behind the last checkpoint is done again. On a CPU the losses are those of an uninterrupted run, bit for
bit, with any number of workers of the stream; resume_check.py shows it. They follow from the options that a checkpoint
holds (`Recipe`), from --threads and from the number of ranks. Another number of ranks goes on as well: no line is used
twice or left out, but the batches are others.

Each line of losses.jsonl is a step: `loss` in nats per token of the target, with label smoothing; the same as `hex`, so
that bits can be compared; `tokens` of the target; `padding`, the share of both sides that is padding; and `lr`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what deterministic products on a GPU need

import torch
from torch import Tensor, distributed, nn

from experiments.nmt import checkpoints, options
from experiments.nmt.data import CONFIGURATION, VOCABULARY, check_data, prepare
from experiments.nmt.model import Shape, Transformer, smoothed_loss
from experiments.nmt.options import MOST_SEED, MOST_THREADS, at_least, within
from volt.batches import Steps, to_torch
from volt.errors import ConfigError, VoltError
from volt.stream import from_environment
from volt.vocabulary import Vocabulary

RANGES: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("max_tokens", "window", "width", "inner", "heads", "layers", "warmup"), at_least(1)),
    **dict.fromkeys(("dropout", "smoothing"), within(0, 1)),
    **dict.fromkeys(("lr", "clip"), within(0, math.inf)),
    "seed": at_least(0, MOST_SEED),
    "end": at_least(0),
}
CHECKPOINT, LOG = "checkpoint.pt", "losses.jsonl"
LOGGED = ("step", "loss", "hex", "tokens", "padding", "lr")  # what follows from the options, and no seconds


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the losses follow from.

    source, target: the languages
    vocabulary: the rule that chooses its size, or a size
    max_tokens: of a batch, rows times the longest side
    window: how many lines are read for the batches that are made together
    seed: of the stream, the first weights and dropout
    width, inner, heads, layers, dropout: of the model
    smoothing: the share of probability that a label gives to all ids
    lr, warmup: the highest rate of learning, and after how many steps it is reached; then it falls as 1 / √step
    end: the last step, if the rate is to fall evenly and be 0 behind it; 0 for 1 / √step
    clip: the greatest norm of a gradient
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
        """Of the model."""
        return Shape(n_ids, self.width, self.inner, self.heads, self.layers, self.dropout)

    def lr_at(self, step: int) -> float:
        """The rate of learning of a step; steps count from 1.

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
    """A model that learns from the arrays of a step, alone or with other ranks; on a GPU with products of bfloat16."""

    def __init__(self, recipe: Recipe, n_ids: int, *, device: torch.device, world: int) -> None:
        torch.manual_seed(recipe.seed)  # all ranks start with equal weights
        self.recipe, self.device, self.world = recipe, device, world
        self.model = Transformer(recipe.shape(n_ids)).to(device)
        self.products = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9)
        self._scored: nn.Module = nn.parallel.DistributedDataParallel(self.model) if world > 1 else self.model

    def learn(self, arrays: dict[str, Any], step: int) -> dict[str, Any]:
        """Learn from a step; what the log says of it.

        The loss is the mean over the tokens of all ranks. DistributedDataParallel divides the sum of the gradients by
        the number of ranks, hence `world` in front. Raises ConfigError if it is no number any more.
        """
        rows = {name: tensor.to(self.device, non_blocking=True) for name, tensor in tensors(arrays).items()}
        tokens, ids, cells = self._summed(*counts(rows))
        target = rows.pop("target")[rows["tgt_mask"]]
        with self.products:
            loss = smoothed_loss(self._scored(**rows), target, self.recipe.smoothing)
        mean = self._summed(loss.item())[0] / tokens
        if not math.isfinite(mean):
            raise ConfigError(f"step {step:,}: the loss is {mean}; give a lower --lr, and another --out")
        self.optimizer.zero_grad()
        (loss * (self.world / tokens)).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.lr_at(step)
        self.optimizer.step()
        told = {"step": step, "loss": mean, "hex": mean.hex(), "tokens": int(tokens)}
        return told | {"padding": round(1 - ids / cells, 6), "lr": self.recipe.lr_at(step)}

    def _summed(self, *values: float) -> list[float]:
        """The sums over all ranks."""
        if self.world == 1:
            return list(values)
        found = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(found)
        return [*found.tolist()]

    def chances(self) -> list[dict[str, Tensor]]:
        """Where the random numbers of each rank stand."""
        mine = checkpoints.chance(self.device)
        if self.world == 1:
            return [mine]
        found: list[Any] = [None] * self.world
        distributed.all_gather_object(found, mine)
        return found


def tensors(arrays: dict[str, Any]) -> dict[str, Tensor]:
    """What the model takes, and the target."""
    found = to_torch(arrays)
    given = {name: found["net_input"][name] for name in ("src_tokens", "prev_output_tokens")}
    return given | {name: found[name] for name in ("src_mask", "tgt_mask", "target")}


def counts(rows: dict[str, Tensor]) -> tuple[int, int, int]:
    """Tokens of the target, ids of both sides, and places of both sides, padding among them."""
    masks = rows["src_mask"], rows["tgt_mask"]
    n_source, n_target = (int(mask.sum()) for mask in masks)
    return n_target, n_source + n_target, sum(mask.numel() for mask in masks)


def training(
    run: Path, recipe: Recipe, *, n_steps: int, every: int = 100, device: str = "cpu", workers: int = 0,
    rank: int = 0, world: int = 1,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Learn until so many steps have been done over all runs; what the log says of each step that this run does.

    run: the folder, in which `prepare` has been
    every: steps between two checkpoints
    workers: of the stream
    """
    place, path = torch.device(device), run / CHECKPOINT
    with Steps.from_config(run / CONFIGURATION, rank=rank, world=world, n_workers=workers) as steps:
        learner = Learner(recipe, len(Vocabulary.load(run / VOCABULARY)), device=place, world=world)
        torch.manual_seed(recipe.seed + 1 + rank)  # dropout differs between ranks
        if (stored := checkpoints.load(path, asdict(recipe))) is not None:
            checkpoints.fill(learner.model, stored["model"], path)
            go_on(learner, steps, stored, rank)
        with opened_log(run, steps.n, rank) as log:
            for step in stepping(learner, steps, n_steps):
                print(json.dumps({name: step[name] for name in LOGGED}), file=log, flush=True)
                if steps.n % every == 0 or steps.n == n_steps:
                    commit(path, learner, steps, rank)
                yield step


def stepping(learner: Learner, steps: Steps, n_steps: int) -> Iterator[dict[str, Any]]:
    """Learn from step after step, to the end of the stream or of so many steps."""
    arrays = iter(steps)
    while steps.n < n_steps:
        began, waited = time.perf_counter(), steps.totals.seconds
        if (given := next(arrays, None)) is None:
            return
        waited = steps.totals.seconds - waited
        told = learner.learn(given, steps.n)
        yield told | {"waited": waited, "seconds": time.perf_counter() - began}


def opened_log(run: Path, n: int, rank: int) -> TextIO:
    """The log behind its first n lines; the first rank writes it."""
    if rank == 0 and (lost := checkpoints.keep_lines(run / LOG, n)):
        told = f"{lost:,} of the {n:,} steps before the checkpoint are missing, and stay so"
        print(f"note: {run / LOG}: {told}", file=sys.stderr, flush=True)
    return (run / LOG if rank == 0 else Path(os.devnull)).open("a")


def go_on(learner: Learner, steps: Steps, stored: dict[str, Any], rank: int) -> None:
    """Stand where the checkpoint was written; the model does already."""
    learner.optimizer.load_state_dict(stored["optimizer"])
    steps.restore(stored["steps"])
    if rank < len(stored["chances"]):
        checkpoints.restore_chance(stored["chances"][rank], learner.device)


def commit(path: Path, learner: Learner, steps: Steps, rank: int) -> None:
    """Write the checkpoint. The state of the steps is the same for all ranks, so one of them writes it."""
    chances = learner.chances()
    if rank == 0:
        told = {"model": learner.model.state_dict(), "optimizer": learner.optimizer.state_dict()}
        checkpoints.save(path, options=asdict(learner.recipe), steps=steps.state(), chances=chances, **told)


def report(told: Sequence[dict[str, Any]]) -> str:
    """A line about some steps: their mean loss, tokens of the target a second, and the share of time without data."""
    tokens, seconds = sum(one["tokens"] for one in told), sum(one["seconds"] for one in told)
    loss = sum(one["loss"] * one["tokens"] for one in told) / tokens
    waited = sum(one["waited"] for one in told) / seconds
    padding = sum(one["padding"] for one in told) / len(told)
    return (
        f"step {told[-1]['step']:>6,}  {loss:.4f} nats  {tokens / seconds:>8,.0f} tokens/s  "
        f"{padding:.1%} padding  {waited:.2%} waiting for data"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse arguments, prepare what is not there yet, and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="holds train.en, train.de and so on")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the run")
    parser.add_argument("--steps", type=at_least(1), required=True, help="over all runs")
    parser.add_argument("--every", type=at_least(1), default=100, help="steps between two checkpoints")
    parser.add_argument("--device", type=options.device, default="cpu", help="cpu or cuda")
    parser.add_argument(
        "--threads", type=at_least(1, MOST_THREADS), default=2, help="of torch; the bits follow from it"
    )
    parser.add_argument("--workers", type=at_least(0), default=1, help="threads that compute the stream ahead")
    for name, value in asdict(Recipe()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=RANGES.get(name, type(value)), default=value)
    given = parser.parse_args(arguments)
    if given.width % (2 * given.heads):  # half of a head's values are turned by the other half
        told = f"give a width that is a multiple of {2 * given.heads}"
        parser.error(f"argument --heads: {given.heads} heads, width {given.width}: {told}")
    if 0 < given.end <= given.warmup:
        parser.error(f"argument --end: {given.end}: give more than the {given.warmup} steps of --warmup, or 0")
    if 0 < given.end < given.steps:
        told = f"steps {given.end + 1:,} to {given.steps:,} learn nothing: behind --end the rate is 0"
        print(f"note: {told}", file=sys.stderr)
    recipe = Recipe(**{name: getattr(given, name) for name in asdict(Recipe())})
    try:
        with checkpoints.alone(given.out) if from_environment()[0] == 0 else nullcontext():
            train(given, recipe)
    except (VoltError, OSError) as error:
        sys.exit(f"error: {error}")


def train(given: argparse.Namespace, recipe: Recipe) -> None:
    """Train as the arguments say, and tell of it on stderr."""
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(given.threads)
    rank, world = from_environment()
    device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if given.device == "cuda" else given.device
    if world > 1:
        distributed.init_process_group("nccl" if given.device == "cuda" else "gloo")
    if rank == 0 and (given.out / CHECKPOINT).exists():
        check_data(given.data, given.out, (recipe.source, recipe.target))
    elif rank == 0:
        told = prepare(
            given.data, given.out, languages=(recipe.source, recipe.target), rule=recipe.vocabulary,
            max_tokens=recipe.max_tokens, window=recipe.window, seed=recipe.seed,
        )  # fmt: skip
        print(told, file=sys.stderr, flush=True)
    if world > 1:
        distributed.barrier()
    steps = training(
        given.out, recipe, n_steps=given.steps, every=given.every, device=device, workers=given.workers, rank=rank,
        world=world,
    )  # fmt: skip
    recent, has_learned = list[dict[str, Any]](), False
    for step in steps:
        recent.append(step)
        has_learned = True
        if rank == 0 and (step["step"] % given.every == 0 or step["step"] == given.steps):
            print(report(recent), file=sys.stderr, flush=True)
            recent.clear()
    if rank == 0 and not has_learned:
        print(
            f"nothing left to do: {given.out} has had {given.steps:,} steps, or its lines have ended", file=sys.stderr
        )
    if world > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
