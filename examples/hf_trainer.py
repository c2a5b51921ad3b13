"""Train a small model with transformers.Trainer on a stream, and continue exactly from a checkpoint.

    pip install 'volt-vocab[torch]' transformers accelerate
    volt stream example batches -o steps
    python hf_trainer.py steps/stream.yaml --output run --steps 20 --save-every 10
    python hf_trainer.py steps/stream.yaml --output run --steps 40 --resume run/checkpoint-20

After 40 steps, the weights are the same bit for bit as without the interruption (on the same machine, with the same
number of ranks). By default, Trainer resumes by reading all earlier batches again. Set ignore_data_skip=True instead,
and save the state of the stream in each checkpoint. Each batch holds the state after it; the trainer keeps the state of
the last trained batch and writes it before the model. The learning rate is constant, because other schedules depend on
--steps. A DataLoader draws a number from torch's global generator when an iteration starts, after Trainer has restored
the generator: give it a generator of its own, or dropout differs after a resume.

Each rank reads its own batches, so `get_train_dataloader` returns a loader that accelerate does not see. A stream has
no length: set max_steps.

A configuration with two fields trains a translation model, one with `pack` a language model on packed rows. To try the
second, save this as steps/packed.yaml, and train on it in the same way:

    sources:
      parallel: {path: parallel.tsv.gz, transforms: [{keep_fields: {fields: [2]}}]}
    batches: {fields: {text: vocab.volt}, pack: {length: 128, rows: 4}}
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    Trainer,
    TrainingArguments,
)

from volt.batches import ByPacks, Steps
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
        own = torch.Generator()  # the global one has the state of the checkpoint
        n_workers = self.args.dataloader_num_workers
        return DataLoader(self.train_dataset, batch_size=None, num_workers=n_workers, generator=own)

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
        raise ConfigError(
            f"{checkpoint / STATE}: no such file; give a checkpoint of this script"
        ) from None


def arguments_of(batch: dict[str, Any]) -> dict[str, Any]:
    """Rename the arrays of a step for models of transformers.

    The target of a pack is shifted: target[i] follows src_tokens[i]. Causal models of transformers shift labels
    themselves, so move the target back. They ignore the label -100, and the first label of each row.
    """
    net_input = batch["net_input"]
    if "prev_output_tokens" not in net_input:
        labels = batch["target"].masked_fill(~batch["tgt_mask"], -100).roll(1, dims=1)
        return {
            "input_ids": net_input["src_tokens"],
            "position_ids": net_input["position_ids"],
            "labels": labels,
        }
    return {
        "input_ids": net_input["src_tokens"],
        "attention_mask": batch["src_mask"].long(),
        "decoder_input_ids": net_input["prev_output_tokens"],
        "labels": batch["target"].masked_fill(~batch["tgt_mask"], -100),
    }


def small_model(n_tokens: int, *, pack: int | None, width: int = 16) -> PreTrainedModel:
    """Return a model with few parameters: a language model for packed rows of `pack` ids, or a translation model.

    With use_cache=False and without attention_mask, attention stays within the samples of a row, by position_ids.
    """
    if pack is not None:
        sizes = {
            "vocab_size": n_tokens,
            "n_positions": pack,
            "n_embd": width,
            "n_layer": 1,
            "n_head": 2,
        }
        return GPT2LMHeadModel(
            GPT2Config(**sizes, bos_token_id=None, eos_token_id=None, use_cache=False)
        )
    values = {"layers": 1, "attention_heads": 2, "ffn_dim": width}
    sizes = {
        f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in values.items()
    }
    return BartForConditionalGeneration(BartConfig(vocab_size=n_tokens, d_model=width, **sizes))


def train(
    dataset: StreamDataset,
    *,
    n_tokens: int,
    output: Path,
    steps: int,
    save_every: int,
    resume: Path | None = None,
    pack: int | None = None,
    **options: Any,
) -> StreamTrainer:
    """Train until `steps` steps in total.

    pack: the length of packed rows, None for a translation model
    resume: a checkpoint
    options: for TrainingArguments
    """
    if resume is not None:
        dataset.load_state_dict(state_in(resume))
    options.setdefault("lr_scheduler_type", "constant")
    args = TrainingArguments(
        str(output),
        max_steps=steps,
        save_steps=save_every,
        ignore_data_skip=True,
        report_to=[],
        **options,
    )
    torch.manual_seed(args.seed)  # for the weights
    trainer = StreamTrainer(small_model(n_tokens, pack=pack), args, train_dataset=dataset)
    trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
    return trainer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", type=Path, help="YAML file with sources and batches")
    parser.add_argument("--output", type=Path, required=True, help="folder for the checkpoints")
    parser.add_argument("--steps", type=int, required=True, help="total, including earlier runs")
    parser.add_argument("--save-every", type=int, default=500, help="steps between two checkpoints")
    parser.add_argument("--tokens", type=int, default=32_000, help="size of the vocabulary")
    parser.add_argument("--resume", type=Path, help="a checkpoint")
    args = parser.parse_args()
    options = {name: getattr(args, name) for name in ("output", "steps", "save_every", "resume")}
    with Steps.from_config(args.config) as opened:
        rule = opened.rule
    pack = rule.length if isinstance(rule, ByPacks) else None
    train(StreamDataset(args.config, tell=True), n_tokens=args.tokens, pack=pack, **options)


if __name__ == "__main__":
    main()
