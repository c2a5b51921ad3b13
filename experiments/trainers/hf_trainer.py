"""Train a small translation model with transformers.Trainer on steps of a stream, and go on exactly from a checkpoint.

    python experiments/trainers/hf_trainer.py stream.yaml --output run --steps 1000
    python experiments/trainers/hf_trainer.py stream.yaml --output run --steps 2000 --resume run/checkpoint-1000

Trainer would resume by reading all batches again that it has had. Say ignore_data_skip=True instead, and keep the state
of the stream in each checkpoint: here a batch tells the state behind it, the trainer notes that of the batch it has
trained on, and writes it into the checkpoint before the model, so no model is without it. The steps of a resumed run
are those that would have come.

Trainer needs accelerate as well: pip install transformers accelerate. The rate of learning is constant, since another
schedule follows from --steps, and a run that is continued with more steps would not be the one that had them at first.

What Trainer must not do is lay out batches itself, or deal them out to ranks, for each rank reads its own: so
`get_train_dataloader` gives a loader of its own, which accelerate does not see. A stream has no length: say max_steps.
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

STATE = "stream.json"  # beside the model in each checkpoint


class StreamTrainer(Trainer):
    """A Trainer whose batches are those of `train_dataset`, a StreamDataset that tells its states."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.stream_state = ""  # behind the last batch that was trained on

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
    """The state of the stream in a checkpoint. Raises ConfigError if there is none."""
    try:
        return (checkpoint / STATE).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        found = f"{checkpoint / STATE}: no such file, so nobody knows where the data stood"
        raise ConfigError(f"{found}; give a checkpoint of this script") from None


def arguments_of(batch: dict[str, Any]) -> dict[str, Any]:
    """The arrays of a step, by the names that models of transformers give them."""
    net_input = batch["net_input"]
    return {
        "input_ids": net_input["src_tokens"], "attention_mask": batch["src_mask"].long(),
        "decoder_input_ids": net_input["prev_output_tokens"],
        "labels": batch["target"].masked_fill(~batch["tgt_mask"], -100),
    }  # fmt: skip


def small_model(n_tokens: int, *, width: int = 16) -> BartForConditionalGeneration:
    """A model of few parameters, for batches whose padding is masked."""
    sizes = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", 1), ("attention_heads", 2), ("ffn_dim", width))
    }
    return BartForConditionalGeneration(BartConfig(vocab_size=n_tokens, d_model=width, **sizes))


def train(
    dataset: StreamDataset, *, n_tokens: int, output: Path, steps: int, save_every: int, resume: Path | None = None,
    **options: Any,
) -> StreamTrainer:  # fmt: skip
    """Train for so many steps in all; resume: the checkpoint to go on from. options: of TrainingArguments"""
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
    parser.add_argument("--output", type=Path, required=True, help="folder of the checkpoints")
    parser.add_argument("--steps", type=int, required=True, help="in all, those before a checkpoint among them")
    parser.add_argument("--save-every", type=int, default=500, help="steps between two checkpoints")
    parser.add_argument("--tokens", type=int, default=32_000, help="of the vocabulary")
    parser.add_argument("--resume", type=Path, help="the checkpoint to go on from")
    told = parser.parse_args()
    train(
        StreamDataset(told.config, tell=True), n_tokens=told.tokens, output=told.output, steps=told.steps,
        save_every=told.save_every, resume=told.resume,
    )  # fmt: skip


if __name__ == "__main__":
    main()
