"""From the stream to the trainer's step: samples of ids, batches of them, and arrays with padding.

    Stream.batches → SampleFormat.samples → Windows → ByTokens, ByPacks → collate → numpy, torch
    └────────────────────────────────────── Steps ──────────────────────────────────────┘

    rule        how the samples of a window become steps: `ByTokens` or `ByPacks`
    stretch     consecutive lines of the stream whose samples are not all used yet

Batches are pure functions of lengths, options, seed, epoch and window. So a state of `Steps`
consists of the stream's state at the start of a window and the number of steps since then; any
number of ranks can resume from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.batches.batching_rules import ByPacks as ByPacks
    from volt.batches.batching_rules import ByTokens as ByTokens
    from volt.batches.collation import Layout as Layout
    from volt.batches.collation import collate as collate
    from volt.batches.collation import collate_packed as collate_packed
    from volt.batches.collation import to_torch as to_torch
    from volt.batches.numbering import Numbering as Numbering
    from volt.batches.packing import Pack as Pack
    from volt.batches.packing import Packs as Packs
    from volt.batches.packing import cut_samples as cut_samples
    from volt.batches.packing import pack as pack
    from volt.batches.samples import Parts as Parts
    from volt.batches.samples import SampleFormat as SampleFormat
    from volt.batches.samples import Samples as Samples
    from volt.batches.samples import joined_samples as joined_samples
    from volt.batches.samples import taken_samples as taken_samples
    from volt.batches.steps import Steps as Steps
    from volt.batches.throughput import Counted as Counted
    from volt.batches.throughput import Progress as Progress
    from volt.batches.throughput import Report as Report
    from volt.batches.throughput import Totals as Totals
    from volt.batches.token_batching import TokenBatches as TokenBatches
    from volt.batches.token_batching import padding_share as padding_share
    from volt.batches.token_batching import token_batches as token_batches

__getattr__, __dir__, __all__ = lazy(__name__)
