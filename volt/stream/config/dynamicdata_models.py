"""The keys of a configuration of OpenNMT-py's dynamicdata loader: the models that check it.

>>> OldInput(src="a.fi", trg="a.en", task="fi_en").size
'auto'
"""

from __future__ import annotations

from typing import Literal

from volt.stream.config.models import Model


class OldShard(Model):
    """How inputs are divided into shards."""

    rootdir: str | None = None
    share_vocab: bool | None = None
    shard_size: int | None = None
    initial_shards: int | None = None
    compress: bool | None = None
    pretokenize: bool | None = None
    predetokenize: bool | None = None


class OldTrain(Model):
    """What is the same for all tasks in training."""

    name: str | None = None
    vocab_path: str | None = None
    segmentation_model: str | None = None
    mixing_weight_schedule: int | list[int] | None = None
    reverse: bool | None = None
    drop_temperature: float | None = None
    reorder_max_dist: float | None = None
    switchout_temperature: float | None = None
    wb_noise_temperature: float | None = None
    insertion_temperature: float | None = None
    seg_n_samples: int | None = None
    seg_theta: float | None = None
    max_len: int | None = None


class OldMeta(Model):
    """What is said of no task in particular."""

    shard: OldShard = OldShard()
    train: OldTrain = OldTrain()


class OldTaskMeta(Model):
    """The languages of a task."""

    src_lang: str | None = None
    trg_lang: str | None = None
    tgt_lang: str | None = None
    extra_prefix: str | None = None


class OldTask(Model):
    """A task."""

    type: Literal["para", "mono"]
    split: Literal["train", "valid"] = "train"
    weight: float | list[float] | None = None
    transforms: list[str] | None = None
    n_shards: int | None = None
    share_inputs: str | None = None
    meta: OldTaskMeta | None = None


class OldInput(Model):
    """A corpus."""

    src: str | None = None
    tgt: str | None = None
    trg: str | None = None
    mono: str | None = None
    task: str
    size: int | Literal["auto"] | None = "auto"


class OldOptions(Model):
    """A whole configuration."""

    meta: OldMeta = OldMeta()
    tasks: dict[str, OldTask]
    inputs: dict[str, OldInput]
