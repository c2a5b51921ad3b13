"""Measure which share of tokens nanochat's packing crops, beside VOLT's, on a million drawn lengths.

    python experiments/cropping.py

nanochat's rule (its dataloader at 92d63d4): a row takes the largest document of a buffer that fits;
if none fits, it takes the shortest and crops it. VOLT splits documents that are longer than a row,
and pads the rest of a row.
"""

from bisect import bisect_right, insort
from itertools import islice

import numpy as np

from volt.batches import pack

BUFFER = 1000  # documents
LENGTHS = 1024, 2048  # ids in a row


def cropped_share(sizes: list[int], length: int) -> float:
    """Return the share of ids that cropping drops, in all rows that start with a full buffer."""
    room_of_row = length + 1  # the targets are one id later
    documents = iter(sizes)
    buffer = sorted(islice(documents, BUFFER))
    n_taken = 0
    n_cropped = 0
    while len(buffer) == BUFFER:
        room = room_of_row
        while room and buffer:
            index = bisect_right(buffer, room) - 1
            size = buffer.pop(max(index, 0))
            n_taken += size
            n_cropped += max(size - room, 0)
            room -= min(size, room)
            for document in islice(documents, 1):
                insort(buffer, document)
    return n_cropped / n_taken


def main() -> None:
    drawn = np.random.default_rng(1).lognormal(6.5, 1, 1_000_000).astype(np.int64) + 1
    for length in LENGTHS:
        cropped = cropped_share((drawn + 1).tolist(), length)  # with bos
        packs = pack(drawn, length, on_long="split", seed=1)
        lost = 1 - packs.segments.sizes.sum() / drawn.sum()
        split = (drawn > length).mean()
        print(f"{length} ids: nanochat crops {cropped:.1%}; VOLT loses {lost:.1%}, ", end="")
        print(f"pads {packs.padding_share:.2%}, splits {split:.1%} of documents")


if __name__ == "__main__":
    main()
