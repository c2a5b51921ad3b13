"""Trainers of other libraries on a stream: a resumed run trains on the next batches, and ends with
the weights of an uninterrupted run."""

import json
import random
import re
import runpy
from functools import partial
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
from support.loaders import torch
from support.places import ROOT
from support.steps_of_streams import TOKENS, given, steps_of, written

from volt.batches import Samples, collate_packed
from volt.batches.collation import to_torch
from volt.batches.packing import cut_samples
from volt.errors import ConfigError
from volt.ext.torch import StreamDataset

EXAMPLES = Path(__file__).parents[2] / "examples"
N = 60  # lines of the stream
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
]  # libraries warn of each other


@pytest.fixture
def make(tmp_path):
    """Return a function that makes an endless dataset whose batches contain its states."""
    written(tmp_path, N)  # before workers are there, which would write it at once
    return partial(
        StreamDataset, partial(steps_of, tmp_path, N, epochs=None), rank=0, world=1, tell=True
    )


def expected(folder, n):
    """Return the lines of the first n steps."""
    return given(steps_of(folder, N, epochs=None), n)


def hf_example():
    """Run the example with transformers, or skip the test. Return its names."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate, which Trainer needs, is not installed")
    return runpy.run_path(str(EXAMPLES / "hf_trainer.py"))


def weights_of(model):
    """Copy a model's weights."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def assert_equal_weights(first, second):
    """Check that weights are equal bit for bit."""
    assert first.keys() == second.keys()
    assert [name for name, value in first.items() if not torch.equal(value, second[name])] == []


@pytest.mark.parametrize(("n_workers", "packed"), [(0, False), (2, False), (0, True)])
def test_a_run_of_transformers_trainer_resumes(tmp_path, n_workers, packed):
    """A checkpoint of examples/hf_trainer.py contains the state after the last batch of training.

    A resumed run ends with the weights of an uninterrupted run, although the model has dropout.
    """
    example = hf_example()
    seen = []
    names = example["StreamTrainer"].compute_loss.__globals__
    names["arguments_of"] = watched(names["arguments_of"], seen)
    options = {
        "n_tokens": len(TOKENS),
        "save_every": 4,
        "use_cpu": True,
        "disable_tqdm": True,
        "dataloader_num_workers": n_workers,
        "gradient_accumulation_steps": 2,
        "pack": 32 if packed else None,
    }

    def run(output, *, steps, resume=None):
        config = partial(steps_of, tmp_path, N, packed=packed, epochs=None)
        data = StreamDataset(config, rank=0, world=1, tell=True)
        torch.rand(steps)  # earlier draws do not matter
        trainer = example["train"](
            data, output=tmp_path / output, steps=steps, resume=resume, **options
        )
        return weights_of(trainer.model)

    written(tmp_path, N)
    whole = run("whole", steps=8)
    batches = given(steps_of(tmp_path, N, packed=packed, epochs=None), 16)
    assert seen == batches
    seen.clear()
    run("run", steps=6)
    assert seen == batches[:12]
    seen.clear()
    resumed = run("run", steps=8, resume=tmp_path / "run" / "checkpoint-4")
    assert seen == batches[8:]
    assert_equal_weights(resumed, whole)


def test_labels_of_packs_are_the_next_ids_of_the_same_sample():
    """With the arguments of examples/hf_trainer.py, a model's loss is the loss of its logits and
    the step's target, except for each row's last position. The logits of a sample do not depend on
    the other samples."""
    example = hf_example()
    samples = cut_samples(Samples.of({"text": [[5, 6, 7, 8, 9, 2], [10, 2], [11, 12, 2]]}), 4)
    step = to_torch(collate_packed(samples, [[3, 1], [0, 2]], length=8, pad=0, eos=2))
    torch.manual_seed(1)
    model = example["small_model"](20, pack=8).eval()
    with torch.no_grad():
        found = model(**example["arguments_of"](step))
    target = step["target"].masked_fill(~step["tgt_mask"], -100)[:, :-1]
    expected = torch.nn.functional.cross_entropy(
        found.logits[:, :-1].flatten(0, 1), target.flatten()
    )
    assert float(found.loss) == pytest.approx(float(expected), rel=1e-6)
    flat = step["net_input"]["src_tokens"].flatten()
    bounds = step["net_input"]["cu_seqlens"].tolist()
    with torch.no_grad():
        alone = [model(flat[start:end][None]).logits[0] for start, end in pairwise(bounds)]
    torch.testing.assert_close(found.logits.flatten(0, 1), torch.cat(alone))


@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("n_workers", [0, 1])
def test_a_dataset_in_a_plain_trainer_is_refused(tmp_path, make, n_workers, columns):
    """transformers.Trainer on a `StreamDataset` raises an error that names the method to override.

    Without it, the trainer would remove all arrays of a batch.
    """
    example = hf_example()
    from transformers import Trainer, TrainingArguments

    options = {
        "use_cpu": True,
        "disable_tqdm": True,
        "report_to": [],
        "max_steps": 1,
    }
    options |= {"remove_unused_columns": columns, "dataloader_num_workers": n_workers}
    arguments = TrainingArguments(str(tmp_path / "run"), **options)
    trainer = Trainer(
        example["small_model"](len(TOKENS), pack=None), arguments, train_dataset=make()
    )
    with pytest.raises(ConfigError, match="override its get_train_dataloader to return DataLoader"):
        trainer.train()


def test_a_checkpoint_without_a_state_of_the_stream_is_reported(tmp_path):
    """examples/hf_trainer.py names the missing state file of a checkpoint, and reads an existing
    one unchanged."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    example = runpy.run_path(str(EXAMPLES / "hf_trainer.py"))
    with pytest.raises(
        ConfigError, match=r"stream.json: no such file; give a checkpoint of this script"
    ):
        example["state_in"](tmp_path / "checkpoint-4")
    (tmp_path / "stream.json").write_text("{}")
    assert example["state_in"](tmp_path) == "{}"


@pytest.mark.parametrize("n_workers", [0, 2])
def test_a_run_of_lightning_resumes(tmp_path, make, n_workers):
    """A checkpoint of examples/lightning_loop.py contains the state after the last batch of
    training, although Lightning prefetches. A resumed run ends with the weights of an uninterrupted
    run."""
    pytest.importorskip("lightning", reason="lightning is not installed")
    example = runpy.run_path(str(EXAMPLES / "lightning_loop.py"))
    seen = []

    class Watching(example["SmallModel"]):
        def training_step(self, batch, batch_idx):
            seen.append(batch["id"].tolist())
            return super().training_step(batch, batch_idx)

    options = {
        "save_every": 4,
        "n_workers": n_workers,
        "logger": False,
        "accelerator": "cpu",
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }

    def run(output, *, steps, resume=None):
        torch.manual_seed(1 if resume is None else 2)
        model = Watching(len(TOKENS))
        example["train"](
            make(), model=model, output=tmp_path / output, steps=steps, resume=resume, **options
        )
        return weights_of(model)

    whole = run("whole", steps=9)
    assert seen == expected(tmp_path, 9)
    seen.clear()
    run("run", steps=6)
    assert seen == expected(tmp_path, 6)
    seen.clear()
    [checkpoint] = (tmp_path / "run").glob("*step=4*.ckpt")
    resumed = run("run", steps=9, resume=checkpoint)
    assert seen == expected(tmp_path, 9)[4:]
    assert_equal_weights(resumed, whole)


def example_data(dataset):
    """Return the data module of the example, with a dataset."""
    return runpy.run_path(str(EXAMPLES / "lightning_loop.py"))["StreamData"](dataset)


def page_data(dataset):
    """Return the data module of the page about trainers, with a dataset."""
    page = (ROOT / "docs" / "pages" / "how-to" / "stream-into-a-trainer.md").read_text(
        encoding="utf-8"
    )
    [block] = re.findall(r'```python title="needs lightning"\n(.*?)```', page, re.DOTALL)
    names = {}
    exec(block, names)  # as the test of the pages does
    names["StreamDataset"] = lambda config, tell: dataset
    return names["StreamData"]("stream.yaml")


@pytest.mark.parametrize("data_of", [example_data, page_data])
@pytest.mark.parametrize("n_workers", [0, 1])
def test_loaders_of_examples_draw_no_numbers(make, data_of, n_workers):
    """The examples' loaders leave the global random generators of torch, NumPy and Python
    unchanged, so dropout is the same after a resume."""
    pytest.importorskip("lightning", reason="lightning is not installed")
    data = data_of(make())
    data.n_workers = n_workers
    before = generators()
    batches = iter(data.train_dataloader())
    data.on_after_batch_transfer(next(batches), 0)
    again = data_of(make())
    again.load_state_dict(data.state_dict())
    next(iter(again.train_dataloader()))
    assert generators() == before


def generators():
    """Return the states of the global random generators."""
    numpy_state = repr(np.random.get_state())  # noqa: NPY002
    return torch.get_rng_state().tolist(), numpy_state, random.getstate()


@pytest.mark.parametrize("data_of", [example_data, page_data])
def test_a_state_before_the_first_batch_resumes(tmp_path, make, data_of):
    """The state of the examples' data module for Lightning can be saved before the first batch, at
    the start or after loading."""
    pytest.importorskip("lightning", reason="lightning is not installed")
    start = data_of(make())
    read = data_of(make())
    read.load_state_dict(json.loads(json.dumps(start.state_dict())))
    batches = iter(read.train_dataloader())
    seen = [read.on_after_batch_transfer(next(batches), 0)["id"].tolist() for _ in range(3)]
    loaded = data_of(make())
    again = data_of(make())
    loaded.load_state_dict(read.state_dict())
    again.load_state_dict(loaded.state_dict())
    seen += [batch["id"].tolist() for batch in islice(again.train_dataloader(), 4)]
    assert seen == expected(tmp_path, 7)


def watched(function, seen):
    """Return the function of a batch, which also records the lines of the batch."""

    def watching(batch):
        seen.append(batch["id"].tolist())
        return function(batch)

    return watching
