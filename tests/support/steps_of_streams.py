"""Streams of pairs or of single texts, and the training steps that they give."""

import random
from collections.abc import Mapping
from itertools import islice

from support.streams import write_lines

from volt.batches import ByPacks, ByTokens, SampleFormat, Steps
from volt.stream import Source, Stream

TOKENS = ["<pad>", "</s>", "<unk>", *(f"w{number}" for number in range(40))]
PAIRS = SampleFormat({"src": TOKENS, "tgt": TOKENS})
TEXTS = SampleFormat({"text": TOKENS})
TOKEN_RULE = ByTokens(max_tokens=128, multiple=2)
PACK_RULE = ByPacks(length=32, rows=2)


def written(folder, n, *, name="pairs", longest=20):
    """Write n pairs of random words to a file, unless it exists, and return its path."""
    path = folder / f"{name}-{n}-{longest}.tsv"
    drawn = random.Random(f"{name} {n}")

    def side():
        return " ".join(drawn.choice(TOKENS[3:]) for _ in range(drawn.randint(1, longest)))

    if not path.exists():
        write_lines(path, [f"{side()}\t{side()}" for _ in range(n)])
    return str(path)


def stream_of(folder, n, *, epochs=1, longest=20, **options):
    """Return a stream of n pairs, in blocks of few lines."""
    return Stream(
        [Source("pairs", (written(folder, n, longest=longest),), epochs=epochs, block_lines=32)],
        seed=1,
        **options,
    )


def steps_of(folder, n, *, packed=False, epochs=1, **options):
    """Return the steps of n pairs, or of their first sides in packs."""
    stream = stream_of(folder, n, epochs=epochs, n_workers=options.pop("n_workers", 0))
    options.setdefault("window", 50)
    if packed:
        return Steps(stream, TEXTS, PACK_RULE, **options)
    return Steps(stream, PAIRS, TOKEN_RULE, **options)


def given(steps, n=None):
    """Return the line numbers in each of the next n steps; in all steps if n is None."""
    return [step["id"].tolist() for step in islice(steps, n)]


def flat(arrays):
    """Return all arrays of a step, bit for bit."""
    for name, value in arrays.items():
        if isinstance(value, Mapping):
            yield from flat(value)
        else:
            yield name, value.tobytes() if hasattr(value, "tobytes") else str(value).encode()


def bits(steps, n=None):
    """Return the arrays of each of the next n steps, bit for bit; of all steps if n is None."""
    return [list(flat(step)) for step in islice(steps, n)]
