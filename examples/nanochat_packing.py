"""VOLT's packed rows with the interface of nanochat's loader, which crops documents: here, no token is lost.

    pip install 'volt-vocab[torch]'
    python nanochat_packing.py packed.yaml --tokens 512 --steps 20 --save half.pt
    python nanochat_packing.py packed.yaml --tokens 512 --steps 40 --resume half.pt --save whole.pt

packed.yaml: a stream with `batches: {fields: {text: v.volt}, pack: {length: 2048, rows: 8, on_long: split}}`.
nanochat's base_train.py iterates over (inputs, targets, state_dict), and gives the state back as `resume_state_dict`:
use `loader` in place of its tokenizing_distributed_data_loader_with_state_bos_bestfit. nanochat fills every row by
cropping documents, and resumes at about the same place of the data. VOLT packs whole documents, splits those that are
longer than a row, pads the rest, and resumes at the same batch. `targets` is -1 at padding, which nanochat's loss ignores.
base_train.py saves when it has read, but not yet used, the next batch, as the loop below does: so each batch comes with
the state that gives this batch again. It logs three keys of the state, and writes it as JSON.
After 40 steps, the weights are the same bit for bit as without the interruption.
"""

import argparse
import json
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from volt.ext.torch import StreamDataset

Batch = tuple[torch.Tensor, torch.Tensor, dict[str, Any]]


def loader(
    config: str,
    *,
    device: str | torch.device = "cpu",
    resume_state_dict: dict[str, Any] | None = None,
) -> Iterator[Batch]:
    """Yield the rows of each step, (rows, length) both, and the state before it. The id before a document is eos."""
    dataset = StreamDataset(config)  # the rank comes from torch.distributed or torchrun
    if resume_state_dict is not None:
        dataset.load_state_dict(resume_state_dict["stream"])
    state = dataset.state_dict()
    for number, step in enumerate(dataset):
        inputs = step["net_input"]["src_tokens"].to(device)
        targets = step["target"].masked_fill(~step["tgt_mask"], -1).to(device)
        yield inputs, targets, {"epoch": 1, "pq_idx": 0, "rg_idx": number, "stream": state}
        state = dataset.state_dict()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", help="YAML file with sources and packed batches")
    parser.add_argument("--tokens", type=int, required=True, help="more than the largest id")
    parser.add_argument("--steps", type=int, required=True, help="total, including earlier runs")
    parser.add_argument("--save", required=True, help="the checkpoint to write after the last step")
    parser.add_argument("--resume", help="a checkpoint")
    args = parser.parse_args()

    torch.manual_seed(1)
    model = nn.Sequential(nn.Embedding(args.tokens, 16), nn.Linear(16, args.tokens))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    saved = {"step": 0, "loader": "null"}
    if args.resume:
        saved = torch.load(args.resume)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])

    batches = loader(args.config, resume_state_dict=json.loads(saved["loader"]))
    inputs, targets, state = next(batches)
    for _ in range(saved["step"], args.steps):
        logits = model(inputs)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        inputs, targets, state = next(batches)
        optimizer.step()
    weights = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save({**weights, "loader": json.dumps(state), "step": args.steps}, args.save)
    print(f"{args.steps} steps, loss {loss:.3f}")


if __name__ == "__main__":
    main()
