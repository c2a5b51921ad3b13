"""Train a small translation model with transformers.Trainer on a stream, and continue exactly from a checkpoint.

    pip install 'volt-vocab[torch]' transformers accelerate
    volt stream example batches -o steps
    python hf_trainer.py steps/stream.yaml --output run --steps 20 --save-every 10
    python hf_trainer.py steps/stream.yaml --output run --steps 40 --resume run/checkpoint-20

By default, Trainer resumes by reading all earlier batches again. Set ignore_data_skip=True instead, and save the state
of the stream in each checkpoint. Each batch holds the state after it; the trainer keeps the state of the last trained
batch and writes it before the model. The learning rate is constant, because other schedules depend on --steps.

Each rank reads its own batches, so `get_train_dataloader` returns a loader that accelerate does not see. A stream has
no length: set max_steps.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader
from transformers import BartConfig, BartForConditionalGeneration, Trainer, TrainingArguments

from volt.errors import ConfigError
from volt.ext.torch import StreamDataset
from volt.files.atomic import make_folder, write_atomic

STATE = "stream.json"  # next to the model in each checkpoint


class StreamTrainer(Trainer):
    """A Trainer on a StreamDataset with tell=True."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.stream_state = ""  # after the last trained batch

    def get_train_dataloader(self) -> DataLoader:
        return DataLoader(self.train_dataset, batch_size=None, num_workers=self.args.dataloader_num_workers)

    def _save_checkpoint(self, model: Any, trial: Any, *args: Any, **options: Any) -> None:
        folder = Path(self.args.output_dir, f"checkpoint-{self.state.global_step}")
        if self.args.should_save:  # the state is the same for all ranks
            make_folder(folder)
            with write_atomic(folder / STATE) as file:
                file.write(self.stream_state.encode())
        super()._save_checkpoint(model, trial, *args, **options)

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **options: Any) -> Any:
        self.stream_state = inputs.pop("state", self.stream_state)
        return super().compute_loss(model, arguments_of(inputs), *args, **options)


def state_in(checkpoint: Path) -> str:
    """Read the state of the stream from a checkpoint. Raises ConfigError if it is missing."""
    try:
        return (checkpoint / STATE).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"{checkpoint / STATE}: no such file; give a checkpoint of this script") from None


def arguments_of(batch: dict[str, Any]) -> dict[str, Any]:
    """Rename the arrays of a step for models of transformers."""
    net_input = batch["net_input"]
    return {
        "input_ids": net_input["src_tokens"], "attention_mask": batch["src_mask"].long(),
        "decoder_input_ids": net_input["prev_output_tokens"],
        "labels": batch["target"].masked_fill(~batch["tgt_mask"], -100),
    }  # fmt: skip


def small_model(n_tokens: int, *, width: int = 16) -> BartForConditionalGeneration:
    """Return a model with few parameters."""
    values = {"layers": 1, "attention_heads": 2, "ffn_dim": width}
    sizes = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in values.items()}
    return BartForConditionalGeneration(BartConfig(vocab_size=n_tokens, d_model=width, **sizes))


def train(
    dataset: StreamDataset, *, n_tokens: int, output: Path, steps: int, save_every: int, resume: Path | None = None,
    **options: Any,
) -> StreamTrainer:  # fmt: skip
    """Train until `steps` steps in total. resume: a checkpoint;  options: for TrainingArguments"""
    if resume is not None:
        dataset.load_state_dict(state_in(resume))
    options.setdefault("lr_scheduler_type", "constant")
    args = TrainingArguments(
        str(output), max_steps=steps, save_steps=save_every, ignore_data_skip=True, report_to=[], **options
    )
    trainer = StreamTrainer(small_model(n_tokens), args, train_dataset=dataset)
    trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
    return trainer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path, help="YAML file with sources and batches")
    parser.add_argument("--output", type=Path, required=True, help="folder for the checkpoints")
    parser.add_argument("--steps", type=int, required=True, help="total, including earlier runs")
    parser.add_argument("--save-every", type=int, default=500, help="steps between two checkpoints")
    parser.add_argument("--tokens", type=int, default=32_000, help="size of the vocabulary")
    parser.add_argument("--resume", type=Path, help="a checkpoint")
    args = parser.parse_args()
    options = {name: getattr(args, name) for name in ("output", "steps", "save_every", "resume")}
    train(StreamDataset(args.config, tell=True), n_tokens=args.tokens, **options)


if __name__ == "__main__":
    main()
