"""From the stream to the trainer's step: samples of ids, and batches of them as arrays with padding.

    Stream.batches → SampleFormat.samples → rows of a batch → collate → numpy, or torch with the same memory

The words of this package:

    sample      the ids of a line's fields, between BOS and EOS, and the line's number in the stream
    source      the first field of a sample, which a model reads; target is the second, which it learns to write
    row         one sample in a batch, filled up with padding
    pack        several samples in one row, for a language model

>>> import tempfile
>>> from volt import Stream, Vocabulary
>>> from volt.stream import Source
>>> words = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "w</w>"))
>>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
...     _ = file.write(b"low\\tlo\\nlow low\\tlow\\n") and file.flush()
...     with Stream([Source("pairs", (file.name,), epochs=1, shuffle="none")]) as stream:
...         samples = [SampleFormat({"src": words, "tgt": words}).samples(batch) for batch in stream.batches()]
>>> step = collate(joined_samples(samples), [0, 1], pad=3, eos=2)
>>> step["net_input"]["src_tokens"].tolist(), step["id"].tolist()
([[3, 3, 6, 7, 2], [6, 7, 6, 7, 2]], [0, 1])
"""

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
