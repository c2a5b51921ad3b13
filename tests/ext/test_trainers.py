"""Trainers of others on a stream: a run that resumes trains on the batches that would have come, each once."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from loaders import torch
from places import ROOT
from steps_of_streams import TOKENS, given, steps_of, written

from volt.errors import ConfigError
from volt.ext.torch import StreamDataset

EXAMPLES = Path(__file__).parents[2] / "examples"
N = 60  # lines of the stream
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of libraries, about each other


@pytest.fixture
def make(tmp_path: Path) -> Callable[[], StreamDataset]:
    """Makes a dataset without end that tells its states."""
    written(tmp_path, N)  # before workers are there, which would write it at once
    return partial(StreamDataset, partial(steps_of, tmp_path, N, epochs=None), rank=0, world=1, tell=True)


def expected(folder: Path, n: int) -> list[list[int]]:
    """The lines of the first n steps."""
    return given(steps_of(folder, N, epochs=None), n)


@pytest.mark.parametrize("n_workers", [0, 2])
def test_transformers_trainer_goes_on(tmp_path: Path, make: Callable[[], StreamDataset], n_workers: int) -> None:
    """A checkpoint of Trainer holds the state behind the last batch that was trained on."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate, which Trainer needs, is not installed")
    example = runpy.run_path(str(EXAMPLES / "hf_trainer.py"))
    seen: list[list[int]] = []
    names = example["StreamTrainer"].compute_loss.__globals__
    names["arguments_of"] = watched(names["arguments_of"], seen)
    options: dict[str, Any] = {
        "n_tokens": len(TOKENS), "output": tmp_path / "run", "save_every": 4, "use_cpu": True, "disable_tqdm": True,
        "dataloader_num_workers": n_workers, "gradient_accumulation_steps": 2,
    }  # fmt: skip
    example["train"](make(), steps=6, **options)
    assert seen == expected(tmp_path, 12)
    seen.clear()
    example["train"](make(), steps=8, resume=tmp_path / "run" / "checkpoint-4", **options)
    assert seen == expected(tmp_path, 16)[8:]


def test_a_checkpoint_without_a_state_of_the_stream_is_reported(tmp_path: Path) -> None:
    """It names the file that is missing; a state that is there is read as it was written."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    example = runpy.run_path(str(EXAMPLES / "hf_trainer.py"))
    with pytest.raises(ConfigError, match=r"stream.json: no such file; give a checkpoint of this script"):
        example["state_in"](tmp_path / "checkpoint-4")
    (tmp_path / "stream.json").write_text("{}")
    assert example["state_in"](tmp_path) == "{}"


@pytest.mark.parametrize("n_workers", [0, 2])
def test_lightning_goes_on(tmp_path: Path, make: Callable[[], StreamDataset], n_workers: int) -> None:
    """A checkpoint of Lightning holds the state behind the last batch that was trained on, though it fetches ahead."""
    pytest.importorskip("lightning", reason="lightning is not installed")
    example = runpy.run_path(str(EXAMPLES / "lightning_loop.py"))
    seen: list[list[int]] = []

    class Watching(example["SmallModel"]):
        def training_step(self, batch: dict[str, Any], batch_idx: int) -> torch.Tensor:
            seen.append(batch["id"].tolist())
            return super().training_step(batch, batch_idx)

    options: dict[str, Any] = {
        "output": tmp_path / "run", "save_every": 4, "n_workers": n_workers, "logger": False, "accelerator": "cpu",
        "enable_progress_bar": False, "enable_model_summary": False,
    }  # fmt: skip
    example["train"](make(), model=Watching(len(TOKENS)), steps=6, **options)
    assert seen == expected(tmp_path, 6)
    seen.clear()
    [checkpoint] = (tmp_path / "run").glob("*step=4*.ckpt")
    example["train"](make(), model=Watching(len(TOKENS)), steps=9, resume=checkpoint, **options)
    assert seen == expected(tmp_path, 9)[4:]


def example_data(dataset: StreamDataset) -> Any:
    """The data module of the example, over a dataset."""
    return runpy.run_path(str(EXAMPLES / "lightning_loop.py"))["StreamData"](dataset)


def page_data(dataset: StreamDataset) -> Any:
    """The data module that the page about trainers shows, over a dataset."""
    page = (ROOT / "docs" / "pages" / "how-to" / "stream-into-a-trainer.md").read_text(encoding="utf-8")
    [block] = re.findall(r'```python title="needs lightning"\n(.*?)```', page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(block, names)  # as the test of the pages does
    names["StreamDataset"] = lambda config, tell: dataset
    return names["StreamData"]("stream.yaml")


@pytest.mark.parametrize("data_of", [example_data, page_data])
def test_data_of_lightning_is_saved_before_its_first_batch(
    tmp_path: Path, make: Callable[[], StreamDataset], data_of: Callable[[StreamDataset], Any]
) -> None:
    """A state that was saved before the first batch, of a start or after a load, is loaded like any other."""
    pytest.importorskip("lightning", reason="lightning is not installed")
    start, read = data_of(make()), data_of(make())
    read.load_state_dict(json.loads(json.dumps(start.state_dict())))
    batches = iter(read.train_dataloader())
    seen = [read.on_after_batch_transfer(next(batches), 0)["id"].tolist() for _ in range(3)]
    loaded, again = data_of(make()), data_of(make())
    loaded.load_state_dict(read.state_dict())
    again.load_state_dict(loaded.state_dict())
    seen += [batch["id"].tolist() for batch in islice(again.train_dataloader(), 4)]
    assert seen == expected(tmp_path, 7)


def watched(function: Callable[[dict[str, Any]], Any], seen: list[list[int]]) -> Callable[[dict[str, Any]], Any]:
    """A function of a batch that notes the batch's lines."""

    def watching(batch: dict[str, Any]) -> Any:
        seen.append(batch["id"].tolist())
        return function(batch)

    return watching
