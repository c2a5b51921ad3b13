"""Training data as an endless, exact, resumable stream of lines.

    shards → Source → blocks → transforms ─┐
    shards → Source → blocks → transforms ─┴─ Mixture → Stream → lines

`docs/pages/concepts/words.md` explains the terms of users (source, task, shard, epoch). The terms
of this package:

    line        one sample: fields separated by tabs; field 1 is the source side by convention
    shard       a file of a source, or line-aligned files
    segment     consecutive lines of a shard; an epoch permutes the segments
    share       the lines of an epoch that one rank reads
    block       lines of a share that are read and permuted together
    chunk       lines of a block that are transformed together: all, or at most 1,024 if a transform
                runs Python code
    batch       lines stored as columns, while they pass through the transforms
    turn        one line of the stream, which the mixture assigns to a source
    fault       the record of an unfit line: not UTF-8, too few fields, or refused by a transform
    cursor      the position in a source
    state       the position of a whole stream: its cursors, the mixture, and its configuration

`volt.stream.reading.unread_lines` owns the partition of an epoch: shares, blocks, and the lines
that are unread when the number of ranks changes.

>>> import tempfile
>>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
...     _ = file.write(b"low\\nnew\\n") and file.flush()
...     sorted(Stream([Source("words", (file.name,), epochs=1)], seed=1))
['low', 'new']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.stream.checking.audit import Audit as Audit
    from volt.stream.checking.audit import audit as audit
    from volt.stream.checking.joint_vocabulary import SubwordCounts as SubwordCounts
    from volt.stream.checking.joint_vocabulary import count_subwords as count_subwords
    from volt.stream.checking.plan import Plan as Plan
    from volt.stream.checking.plan import plan as plan
    from volt.stream.checking.trace import DebugLine as DebugLine
    from volt.stream.checking.trace import Trace as Trace
    from volt.stream.checking.trace import debug as debug
    from volt.stream.checking.trace import trace as trace
    from volt.stream.mixing.mixture import Mixture as Mixture
    from volt.stream.mixing.mixture import Sampling as Sampling
    from volt.stream.mixing.schedule import Schedule as Schedule
    from volt.stream.reading.error_policy import ErrorPolicy as ErrorPolicy
    from volt.stream.reading.ranks import from_environment as from_environment
    from volt.stream.reading.source_definition import Checks as Checks
    from volt.stream.reading.source_definition import Source as Source
    from volt.stream.running.checkpoint import load_state as load_state
    from volt.stream.running.checkpoint import save_state as save_state
    from volt.stream.running.merging_states import merge_states as merge_states
    from volt.stream.running.stream import Stream as Stream
    from volt.stream.running.stream_batch import StreamBatch as StreamBatch
    from volt.stream.running.summary import Summary as Summary
    from volt.stream.running.summary import VirtualEpoch as VirtualEpoch
    from volt.stream.running.translation import Translation as Translation
    from volt.stream.transforms.column import Column as Column
    from volt.stream.transforms.line_batch import Batch as Batch
    from volt.stream.transforms.line_batch import LineRng as LineRng
    from volt.stream.transforms.transform import LineFault as LineFault
    from volt.stream.transforms.transform import Transform as Transform

__getattr__, __dir__, __all__ = lazy(__name__)
