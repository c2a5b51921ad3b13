"""Compile the loops that tests run, once and before they run, so that no two processes compile the same.

conftest calls this before it starts workers. What is cached already is loaded, which takes a second or two.
"""

from __future__ import annotations

import os
import subprocess
import sys

from places import ROOT

JOBS = ("search", "encode")


def warm_up() -> None:
    """Each job in a process of its own, at the same time. Raises CalledProcessError if one fails."""
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        return
    started = [subprocess.Popen([sys.executable, __file__, job], cwd=ROOT) for job in JOBS]
    for process in started:
        if process.wait():
            raise subprocess.CalledProcessError(process.returncode, process.args)


def search() -> None:
    """Compile what counting, learning, searching, samples and every stream run."""
    from volt.kernels.warmup import compile_kernels

    compile_kernels("count", "learn", "parity", "replay", "words", "stream", "samples")


def encode() -> None:
    """What encoding, sampling, decoding, patterns and the steps of streams run."""
    from volt.encode.decoder import Decoder
    from volt.encode.encoder import Encoder
    from volt.kernels.warmup import compile_kernels
    from volt.vocabulary import Vocabulary

    compile_kernels("encode", "dropout", "decode", "steps", "tokens", "batches", "patterns")
    encoder = Encoder(Vocabulary((("l", "o"),), ("l", "o", "lo", "w</w>")))
    for dropout, seed in ((0.0, None), (0.5, 1)):
        encoder.encode_text(b"low\n", separator="@@", dropout=dropout, seed=seed)
        encoder.decode_batch(encoder.encode_batch(["low"], dropout=dropout, seed=seed))
    encoder.encode("low", dropout=0.5, seed=1)
    Decoder.of(encoder.vocabulary).decode_text(b"4 5\n")


if __name__ == "__main__":
    {"search": search, "encode": encode}[sys.argv[1]]()
