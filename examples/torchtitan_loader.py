"""VOLT's packed rows as the dataloader of torchtitan's Trainer, and a tiny loop that resumes as torchtitan does.

    pip install 'volt-vocab[torch]'; pip install torchtitan
    python torchtitan_loader.py packed.yaml --tokens 512 --steps 20 --save half.pt
    python torchtitan_loader.py packed.yaml --tokens 512 --steps 40 --resume half.pt --save whole.pt

packed.yaml: a stream with `batches: {fields: {text: v.volt}, pack: {length: 32, rows: 4}}`. In a torchtitan
configuration, `dataloader=VoltLoader.Config(dataset_path="packed.yaml")`; local_batch_size is `rows`, and seq_len
`length`. The loader's state is saved with torch.distributed.checkpoint (DCP), as in torchtitan. It is the same for all
ranks, so that, unlike torchtitan's own loaders, it resumes with another data-parallel degree, and no token is read twice
or lost. After 40 steps, the weights are the same bit for bit as without the interruption.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed import checkpoint
from torchtitan.components.dataloader import BaseDataLoader

from volt.ext.torch import StreamDataset


class VoltLoader(BaseDataLoader):
    """Yield ({"input": …, "positions": …}, labels); positions start anew in each sample, and labels at padding are -100."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        pass

    def __init__(self, config: Config, *, dp_rank: int, dp_world_size: int, **options: Any) -> None:
        self.dataset = StreamDataset(config.dataset_path, rank=dp_rank, world=dp_world_size)

    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
        for step in self.dataset:
            net_input = step["net_input"]
            inputs = {"input": net_input["src_tokens"], "positions": net_input["position_ids"]}
            yield inputs, step["target"].masked_fill(~step["tgt_mask"], -100)

    def state_dict(self) -> dict[str, str]:
        """Return the stream's state as one text: DCP, which saves it, loads only keys that a new loader has, too."""
        return {"stream": json.dumps(self.dataset.state_dict())}

    def load_state_dict(self, state_dict: dict[str, str]) -> None:
        if state_dict:  # torchtitan gives an empty one if a checkpoint has none
            self.dataset.load_state_dict(state_dict["stream"])


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
    loader = VoltLoader.Config(dataset_path=args.config).build(dp_rank=0, dp_world_size=1)
    first = 0
    if args.resume:
        saved = torch.load(args.resume)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        checkpoint.load({"dataloader": loader}, checkpoint_id=f"{args.resume}.loader", no_dist=True)
        first = saved["step"]

    batches = iter(loader)
    for _ in range(first, args.steps):
        inputs, labels = next(batches)
        loss = nn.functional.cross_entropy(model(inputs["input"]).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save({**state, "step": args.steps}, args.save)
    checkpoint.save({"dataloader": loader}, checkpoint_id=f"{args.save}.loader", no_dist=True)
    print(f"{args.steps} steps, loss {loss:.3f}")


if __name__ == "__main__":
    main()
