"""Train a small translation model with Lightning on steps of a stream, and continue exactly from a checkpoint.

    pip install 'volt-vocab[torch]' lightning
    volt stream example batches -o steps
    python lightning_loop.py steps/stream.yaml --output run --steps 20
    python lightning_loop.py steps/stream.yaml --output run --steps 40 --resume run/last.ckpt

It prints the total number of steps and the last loss: `20 steps, loss …`, then `40 steps, loss …`. The second run
continues with the batch after the last one of the first run, and ends with the weights of a run without interruption.
For a model that draws random numbers, such as dropout, only the batches are the same, because Lightning does not save
the state of random generators. If you save it, a DataLoader needs a generator of its own, as here: it draws from it
when an iteration starts.

Lightning saves the state of a LightningDataModule in its checkpoints, and prefetches one batch. So do not save the
loader's state, which is one step ahead, but the state stored in the batch that is being trained on: `StreamData` keeps
it when the batch is moved to its device. Each rank reads its own batches, so Lightning must not distribute the batches
of one loader: use_distributed_sampler=False.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from lightning import LightningDataModule, LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader

from volt.ext.torch import StreamDataset


class StreamData(LightningDataModule):
    """Batches of `dataset`, a StreamDataset with tell=True."""

    def __init__(self, dataset: StreamDataset, *, n_workers: int = 0) -> None:
        super().__init__()
        self.dataset, self.n_workers, self.state = dataset, n_workers, dataset.state_dict()

    def train_dataloader(self) -> DataLoader:
        own = torch.Generator()
        return DataLoader(self.dataset, batch_size=None, num_workers=self.n_workers, generator=own)

    def on_after_batch_transfer(self, batch: dict[str, Any], dataloader_idx: int) -> dict[str, Any]:
        self.state = batch.pop("state", self.state)
        return batch

    def state_dict(self) -> dict[str, Any]:
        return {"stream": self.state}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.state = state_dict["stream"]
        self.dataset.load_state_dict(self.state)


class SmallModel(LightningModule):
    """A translation model with few parameters, which predicts from the mean of the source and the previous token."""

    def __init__(self, n_tokens: int, *, width: int = 16) -> None:
        super().__init__()
        self.tokens, self.out = (
            torch.nn.Embedding(n_tokens, width),
            torch.nn.Linear(width, n_tokens),
        )

    def training_step(self, batch: dict[str, Any], batch_idx: int) -> torch.Tensor:
        net_input, mask = batch["net_input"], batch["src_mask"].unsqueeze(-1)
        source = (self.tokens(net_input["src_tokens"]) * mask).sum(1, keepdim=True) / mask.sum(
            1, keepdim=True
        )
        found = self.out(torch.tanh(source + self.tokens(net_input["prev_output_tokens"])))
        loss = torch.nn.functional.cross_entropy(
            found[batch["tgt_mask"]], batch["target"][batch["tgt_mask"]]
        )
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adagrad(self.parameters(), lr=0.1)


def train(
    dataset: StreamDataset,
    *,
    model: LightningModule,
    output: Path,
    steps: int,
    save_every: int,
    resume: Path | None = None,
    n_workers: int = 0,
    **options: Any,
) -> Trainer:
    """Train until `steps` steps in total. resume: a checkpoint;  options: for Trainer"""
    saving = ModelCheckpoint(
        output, save_last=True, every_n_train_steps=save_every, save_top_k=-1, filename="{step}"
    )
    callbacks = [saving, *options.pop("callbacks", [])]
    trainer = Trainer(
        max_steps=steps,
        max_epochs=-1,
        use_distributed_sampler=False,
        callbacks=callbacks,
        **options,
    )
    trainer.fit(model, StreamData(dataset, n_workers=n_workers), ckpt_path=resume)
    return trainer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", type=Path, help="YAML file with sources and batches")
    parser.add_argument("--output", type=Path, required=True, help="folder for the checkpoints")
    parser.add_argument(
        "--steps", type=int, required=True, help="total, including steps before a checkpoint"
    )
    parser.add_argument("--save-every", type=int, default=10, help="steps between two checkpoints")
    parser.add_argument("--tokens", type=int, default=32_000, help="size of the vocabulary")
    parser.add_argument("--resume", type=Path, help="a checkpoint")
    parser.add_argument(
        "--seed", type=int, default=1, help="for the initial weights; a checkpoint stores its own"
    )
    args = parser.parse_args()
    seed_everything(args.seed, verbose=False)
    trainer = train(
        StreamDataset(args.config, tell=True),
        model=SmallModel(args.tokens),
        output=args.output,
        steps=args.steps,
        save_every=args.save_every,
        resume=args.resume,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    print(f"{trainer.global_step} steps, loss {trainer.callback_metrics['loss']:.3f}")


if __name__ == "__main__":
    main()
