"""Train a small language model from a pipe, and stop and go on without a line lost or used twice.

    volt stream example subword-sampling -o run && cp experiments/stream/ids.yaml run/
    volt stream run run/ids.yaml --resume --state run/state.json --ack run/used.txt -q |
        python experiments/stream/train.py run --lines 20000

The same two lines start the training and go on with it, whatever ended it: the end of the stream, a signal, SIGKILL of
either process, a power cut. The model is that of an uninterrupted run.

How: lines are ids of pieces, and a step takes the next --batch-lines of them. Every --steps steps, the model is written
to `model-N.npz`, then N, the number of lines used so far, to `used.txt`, by a rename: that is the commit. Whoever comes
later, trainer and stream alike, goes on from the N that `used.txt` holds; a step that was not committed has not
happened. Lines at the end that do not fill a batch, or of which a part is missing, are left for the next run.

The model is a neural n-gram model (Bengio et al. 2003): P(w | u, v) = softmax(W tanh(H [e_u; e_v]) + b), trained with
Adagrad. It is there to have a loss that falls; everything around it is what any trainer would do.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for matrices this small, threads only wait for each other

import numpy as np
from numpy.typing import NDArray

from volt.files.atomic import write_atomic
from volt.vocabulary import Vocabulary

CONTEXT = 2  # ids before the one that is predicted
Floats = NDArray[np.float32]
Parameters = dict[str, Floats]


@dataclass(slots=True)
class Model:
    """parameters, and the sums of their squared gradients;  n_lines: lines used;  digest: of those lines, in order."""

    parameters: Parameters
    squares: Parameters
    n_lines: int = 0
    digest: str = ""
    losses: list[float] = field(default_factory=list)

    @classmethod
    def new(cls, n_ids: int, *, width: int, seed: int) -> Model:
        """A model that knows nothing. The id `n_ids` stands before the beginning of a sentence."""
        rng = np.random.default_rng(seed)
        shapes = {"E": (n_ids + 1, width), "H": (CONTEXT * width, width), "W": (width, n_ids), "b": (n_ids,)}
        parameters = {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
        return cls(parameters, {name: np.full_like(value, 1e-6) for name, value in parameters.items()})


def load(folder: Path) -> Model | None:
    """The model that was last committed, if there is one."""
    used = folder / "used.txt"
    if not used.exists():
        return None
    with np.load(folder / f"model-{int(used.read_text())}.npz") as stored:
        parts = [
            {name.split("/")[1]: stored[name] for name in stored if name.startswith(kind)} for kind in ("p/", "s/")
        ]
        return Model(*parts, **json.loads(str(stored["about"])))


def commit(model: Model, folder: Path) -> None:
    """Write the model, then the number of lines that it has used; then older models can go."""
    about = json.dumps({"n_lines": model.n_lines, "digest": model.digest, "losses": model.losses})
    arrays: dict[str, Any] = {f"p/{name}": value for name, value in model.parameters.items()}
    arrays |= {f"s/{name}": value for name, value in model.squares.items()}
    path = folder / f"model-{model.n_lines}.npz"
    with write_atomic(path) as file:
        np.savez(file, about=np.array(about), **arrays)
    with write_atomic(folder / "used.txt") as file:
        file.write(b"%d\n" % model.n_lines)
    for other in set(folder.glob("model-*.npz")) - {path}:
        other.unlink()


def batches(pipe: BinaryIO, n_lines: int) -> Iterator[list[bytes]]:
    """So many lines at a time; a batch that is not full, or has a broken line, is not given."""
    while len(lines := list(islice(pipe, n_lines))) == n_lines and lines[-1].endswith(b"\n"):
        yield lines


def examples(lines: list[bytes], first: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lines of ids → contexts (n, CONTEXT) and what follows them (n,), of each field by itself."""
    contexts, followers = list[list[int]](), list[int]()
    for sentence in (side.split() for line in lines for side in line.split(b"\t")):
        ids = [first] * CONTEXT + [int(number) for number in sentence]
        contexts += [ids[place : place + CONTEXT] for place in range(len(sentence))]
        followers += ids[CONTEXT:]
    return np.array(contexts), np.array(followers)


def loss_and_gradients(parameters: Parameters, lines: list[bytes]) -> tuple[float, Parameters]:
    """Mean negative log-probability in nats per piece, and its gradients."""
    table, hidden, out = parameters["E"], parameters["H"], parameters["W"]
    contexts, followers = examples(lines, len(table) - 1)
    inputs = table[contexts].reshape(len(contexts), -1)
    states = np.tanh(inputs @ hidden)
    scores = states @ out + parameters["b"]
    scores -= scores.max(axis=1, keepdims=True)
    probs = np.exp(scores)
    probs /= probs.sum(axis=1, keepdims=True)
    rows = np.arange(len(followers))
    loss = -float(np.log(probs[rows, followers] + 1e-30).mean())
    probs[rows, followers] -= 1
    probs /= len(followers)
    back = (probs @ out.T) * (1 - states**2)
    of_table = np.zeros_like(table)
    np.add.at(of_table, contexts.ravel(), (back @ hidden.T).reshape(-1, table.shape[1]))
    return loss, {"E": of_table, "H": inputs.T @ back, "W": states.T @ probs, "b": probs.sum(axis=0)}


def step(model: Model, lines: list[bytes], *, rate: float) -> None:
    """Learn from a batch."""
    loss, gradients = loss_and_gradients(model.parameters, lines)
    for name, gradient in gradients.items():
        model.squares[name] += gradient**2
        model.parameters[name] -= rate * gradient / np.sqrt(model.squares[name])
    model.n_lines += len(lines)
    model.digest = blake2b(model.digest.encode() + b"".join(lines), digest_size=16).hexdigest()
    model.losses.append(round(loss, 4))


def train(arguments: argparse.Namespace) -> None:
    """Learn from stdin until it ends, or so many lines have been used over all runs."""
    folder: Path = arguments.folder
    model = load(folder)
    if model is None:
        n_ids = len(Vocabulary.load(folder / "vocab.volt").ids)
        model = Model.new(n_ids, width=arguments.width, seed=arguments.seed)
    n_steps = len(model.losses)
    if model.n_lines < arguments.lines:
        for lines in batches(sys.stdin.buffer, arguments.batch_lines):
            step(model, lines, rate=arguments.rate)
            done = model.n_lines >= arguments.lines
            if done or len(model.losses) % arguments.steps == 0:
                commit(model, folder)
                recent = model.losses[-arguments.steps :]
                print(f"{model.n_lines:>9,} lines  {np.mean(recent):.3f} nats per piece", flush=True)
            if done:
                break
    print(f"{len(model.losses) - n_steps:,} steps in this run, {model.n_lines:,} lines in all", flush=True)


def main() -> None:
    """Parse arguments and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="holds vocab.volt, and will hold the model and used.txt")
    parser.add_argument("--lines", type=int, default=1 << 62, help="end when so many have been used over all runs")
    parser.add_argument("--batch-lines", type=int, default=32)
    parser.add_argument("--steps", type=int, default=20, help="steps between two commits")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
