"""Train a tiny translation model with Ray Train, each worker on its share of a stream, and continue exactly.

    pip install 'volt-vocab[torch,ray]'; pip install 'ray[train]'
    volt stream example batches -o steps
    python ray_train.py steps/stream.yaml --tokens 512 --workers 2 --steps 20 --save half.pt
    python ray_train.py steps/stream.yaml --tokens 512 --workers 2 --steps 40 --resume half.pt --save whole.pt

Ray Train starts the workers and connects them with torch.distributed, from which StreamDataset takes the rank. The
state of the stream is the same for all workers, so worker 0 saves it, and any number of workers continues. After 40
steps, the weights are the same bit for bit as without the interruption (with as many workers).
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import ray
import torch
from ray.train import Checkpoint, RunConfig, ScalingConfig, report
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn

from volt.ext.torch import StreamDataset


class SmallModel(nn.Module):
    """Predict each target token from the mean of the source and the previous token."""

    def __init__(self, n_tokens: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, 16)
        self.out = nn.Linear(16, n_tokens)

    def forward(self, batch: dict[str, Any]) -> torch.Tensor:
        net_input = batch["net_input"]
        mask = batch["src_mask"][:, :, None]
        source = (self.tokens(net_input["src_tokens"]) * mask).sum(1, keepdim=True) / mask.sum(
            1, keepdim=True
        )
        return self.out(torch.tanh(source + self.tokens(net_input["prev_output_tokens"])))


def train_worker(args: dict[str, Any]) -> None:
    """Train until args["steps"] steps in total, and save the last one."""
    torch.manual_seed(1)
    model = SmallModel(args["tokens"])
    dataset = StreamDataset(args["config"])  # rank and world from Ray Train
    saved = None
    if args["resume"]:
        saved = torch.load(args["resume"])
        model.load_state_dict(saved["model"])
        dataset.load_state_dict(saved["stream"])
    model = prepare_model(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    step = 0
    if saved is not None:
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]

    batches = iter(dataset)
    while step < args["steps"]:
        batch = next(batches)
        mask = batch["tgt_mask"]
        loss = nn.functional.cross_entropy(model(batch)[mask], batch["target"][mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1

    weights = getattr(model, "module", model).state_dict()  # of one worker, or of several
    state = {"model": weights, "optimizer": optimizer.state_dict(), "stream": dataset.state_dict()}
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if dataset.rank == 0:
            torch.save({**state, "step": step}, Path(folder, "state.pt"))
            checkpoint = Checkpoint.from_directory(folder)
        report({"step": step, "loss": loss.item()}, checkpoint=checkpoint)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", type=Path, help="YAML file with sources and batches")
    parser.add_argument("--tokens", type=int, required=True, help="more than the largest id")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--steps", type=int, required=True, help="total, including earlier runs")
    parser.add_argument("--save", required=True, help="the checkpoint to write after the last step")
    parser.add_argument("--resume", type=Path, help="a checkpoint")
    args = parser.parse_args()

    settings = {**vars(args), "config": args.config.resolve()}
    if args.resume:
        settings["resume"] = args.resume.resolve()
    ray.init(num_cpus=args.workers, include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        trainer = TorchTrainer(
            train_worker,
            train_loop_config=settings,
            scaling_config=ScalingConfig(num_workers=args.workers, resources_per_worker={"CPU": 1}),
            run_config=RunConfig(name="run", storage_path=folder),
        )
        result = trainer.fit()
        with result.checkpoint.as_directory() as saved:
            shutil.copy(Path(saved, "state.pt"), args.save)
    print(f"{result.metrics['step']} steps, loss {result.metrics['loss']:.3f}")


if __name__ == "__main__":
    main()
