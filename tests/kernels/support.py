"""Values of lines as the loops take them: views into one buffer; and outputs that are exactly full."""

from random import Random

import numpy as np

GUARD = 0xEE  # after each output
Views = tuple[np.ndarray, np.ndarray, np.ndarray]
Values = list[bytes | None]


def bytes_of(data):
    return np.frombuffer(data, np.uint8)


def views(values, rng, spare=0):
    """Put values in random order into one buffer, with bytes between them, and `spare` times five bytes at the end."""
    data = bytearray()
    starts = np.zeros(len(values), np.int64)
    sizes = np.full(len(values), -1)
    for index in rng.sample(range(len(values)), len(values)):
        data += b"\t a\n"[: rng.randint(0, 4)]
        value = values[index]
        if value is not None:
            starts[index] = len(data)
            sizes[index] = len(value)
            data += value
    return bytes_of(bytes(data) + b" \ta\n" * spare), starts, sizes


def drawn(seed, letters, n=40):
    """Yield a generator and values: missing and empty ones, and some about as long as a block of 64 bytes."""
    rng = Random(seed)
    for _ in range(n):
        sizes = rng.choices([0, 1, 2, 7, 8, 9, 20, 61, 64, 66, 130], k=rng.randint(0, 5))
        values = ["".join(rng.choices(letters, k=size)).encode() for size in sizes]
        yield rng, [None if rng.random() < 0.2 else value for value in values]


def texts(data, starts, sizes):
    pairs = zip(starts.tolist(), sizes.tolist(), strict=True)
    return [None if size < 0 else bytes(data[start : start + size]) for start, size in pairs]


def room(n):
    return np.full(n + 9, GUARD, np.uint8)


def written(out):
    """Return the bytes of an array from `room`; nothing may be written after them."""
    assert out[-9:].tolist() == [GUARD] * 9
    return bytes(out[:-9])
