"""From the stream to the trainer's step: samples of ids, and batches of them as arrays with padding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.batches.collating import collate as collate
    from volt.batches.collating import collate_packed as collate_packed
    from volt.batches.collating import to_torch as to_torch
    from volt.batches.numbering import Numbering as Numbering
    from volt.batches.samples import SampleFormat as SampleFormat
    from volt.batches.samples import Samples as Samples
    from volt.batches.samples import joined_samples as joined_samples

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "collating": ("collate", "collate_packed", "to_torch"),
        "numbering": ("Numbering",),
        "samples": ("SampleFormat", "Samples", "joined_samples"),
    },
)
