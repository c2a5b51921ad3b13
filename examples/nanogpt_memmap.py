"""Train a tiny language model on nanoGPT's memory-mapped ids, and continue exactly from a checkpoint.

    pip install volt-vocab torch
    volt search corpus.txt --select fixed:500 -o v.volt
    volt binarize -m v.volt corpus.txt -o train --dtype u16
    python nanogpt_memmap.py train.bin --tokens 512 --steps 20 --save half.pt
    python nanogpt_memmap.py train.bin --tokens 512 --steps 40 --resume half.pt --save whole.pt

`train.bin` is nanoGPT's format: uint16 ids without a header. nanoGPT's own train.py reads it unchanged; it draws blocks
from torch's global generator, whose state is not in its checkpoints, so that a resumed run reads other blocks. Here,
the number of a step is the seed of its blocks. After 40 steps, the weights are the same bit for bit as without the
interruption.
"""

import argparse

import numpy as np
import torch
from torch import nn


def blocks_of(ids: np.ndarray, step: int, *, n_blocks: int = 4, length: int = 32) -> torch.Tensor:
    """Return (n_blocks, length + 1) ids from random places, which depend on the step alone."""
    drawn = np.random.default_rng(step).integers(len(ids) - length, size=n_blocks)
    return torch.from_numpy(
        np.stack([ids[start : start + length + 1] for start in drawn]).astype(np.int64)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ids", help="the .bin of volt binarize --dtype u16")
    parser.add_argument("--tokens", type=int, required=True, help="more than the largest id")
    parser.add_argument("--steps", type=int, required=True, help="total, including earlier runs")
    parser.add_argument("--save", required=True, help="the checkpoint to write after the last step")
    parser.add_argument("--resume", help="a checkpoint")
    args = parser.parse_args()

    torch.manual_seed(1)
    model = nn.Sequential(nn.Embedding(args.tokens, 16), nn.Linear(16, args.tokens))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    first = 0
    if args.resume:
        saved = torch.load(args.resume)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]

    ids = np.memmap(args.ids, dtype=np.uint16, mode="r")
    for step in range(first, args.steps):
        blocks = blocks_of(ids, step)
        loss = nn.functional.cross_entropy(
            model(blocks[:, :-1]).flatten(0, 1), blocks[:, 1:].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": args.steps},
        args.save,
    )
    print(f"{args.steps} steps, loss {loss:.3f}")


if __name__ == "__main__":
    main()
