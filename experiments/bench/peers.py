"""One library and one tokenizer in a process of its own → figures of what it encodes, as JSON.

    OTHER/bin/python experiments/bench/peers.py versions
    OTHER/bin/python experiments/bench/peers.py '{"library": "gigatoken", "model": …, "texts": …, "works": ["lines"]}'

encode.py describes the works. The interpreter needs only the library: nothing of VOLT is imported for a peer. Seconds are
CPU seconds of this process; with several threads they are wall seconds. Results are compared by digest, after the clock.
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import time
from array import array
from base64 import b64decode
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any

N_CALLS = 500  # of one timing of a call; the best of ROUNDS counts
ROUNDS = 7
QUICK = 0.3  # seconds
ALPHA, N_BEST = 0.1, 16  # of drawn paths
Calls = dict[str, Callable[..., Any]]
Ids = Iterable[int]
# A string without and with words that tokenizers split; calls are timed on its first 10, 73 and 500 characters.
LINE = "The quick brown fox jumps over the lazy dog, doesn't it? Yes, 2026 times. "
LENGTHS = (10, 73, 500)
SPACES = {"U+00A0": "\u00a0", "U+3000": "\u3000", "U+2028": "\u2028", "U+0085": "\u0085"}


def open_volt(model: str, pattern: str, threads: int) -> Calls:
    import volt

    encoder = volt.Encoder(volt.read_vocabulary(model))
    lines = partial(encoder.encode_batch, n_threads=threads)
    sample = partial(encoder.encode_batch, alpha=ALPHA, seed=1, n_threads=threads)
    return {
        "ids": encoder.encode_ids,
        "document": encoder.encode_ids if threads == 1 else lambda text: lines([text]).ids,
        "pieces": encoder.encode,
        "count": encoder.count,
        "decode": encoder.decode_ids,
        "lines": lines,
        "rows": lambda encoded: [encoded.ids[a:b] for a, b in pairwise(encoded.offsets.tolist())],
        "spans": encoder.encode_spans,
        "decode lines": encoder.decode_batch,
        "sample": sample,
        "sample of best": partial(sample, nbest=N_BEST),
    }


def open_tokenizers(model: str, pattern: str, threads: int) -> Calls:
    """Call tokenizers: 1.0 has no offsets, and returns lines at once without `encode_batch_fast`."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(model)
    encode = partial(tokenizer.encode, add_special_tokens=False)
    is_new = not hasattr(tokenizer, "encode_batch_fast")
    batch = tokenizer.encode_batch if is_new else tokenizer.encode_batch_fast
    decode = partial(tokenizer.decode, skip_special_tokens=False)
    calls = {
        "ids": lambda text: encode(text).ids,
        "count": lambda text: len(encode(text)),
        "decode": decode,
        "lines": partial(batch, add_special_tokens=False),
        "rows": lambda lines: [line.ids for line in lines],
    }
    if is_new:
        calls["pieces"] = partial(tokenizer.tokenize, add_special_tokens=False)
        calls["decode lines"] = lambda rows: [decode(row) for row in rows]
    else:
        calls["pieces"] = lambda text: encode(text).tokens
        with_offsets = partial(tokenizer.encode_batch, add_special_tokens=False)
        calls["spans"] = lambda lines: [line.offsets for line in with_offsets(lines)]
        calls["decode lines"] = partial(tokenizer.decode_batch, skip_special_tokens=False)
    return calls


def open_gigatoken(model: str, pattern: str, threads: int) -> Calls:
    import gigatoken

    tokenizer = gigatoken.Tokenizer(model)
    return {
        "ids": tokenizer.encode,
        "count": lambda text: len(tokenizer.encode(text)),
        "decode": lambda ids: tokenizer.decode(ids).decode(),
        "lines": partial(tokenizer.encode_batch, parallel=threads > 1),
        "rows": lambda lines: lines.to_list(),
        "decode lines": lambda rows: [tokenizer.decode(row).decode() for row in rows],
    }


def open_fastokens(model: str, pattern: str, threads: int) -> Calls:
    from fastokens._native import Tokenizer

    tokenizer = Tokenizer.from_file(model)
    encode = partial(tokenizer.encode, add_special_tokens=False)
    return {
        "ids": lambda text: encode(text).ids,
        "count": lambda text: len(encode(text).ids),
        "decode": tokenizer.decode,
        "lines": partial(tokenizer.encode_batch, add_special_tokens=False),
        "rows": lambda lines: [line.ids for line in lines],
        "decode lines": tokenizer.decode_batch,
    }


def open_splintr(model: str, pattern: str, threads: int) -> Calls:
    import splintr

    tokenizer = splintr.from_json(model)
    return {
        "ids": tokenizer.encode_raw,
        "count": lambda text: len(tokenizer.encode_raw(text)),
        "decode": tokenizer.decode,
        "decode lines": tokenizer.decode_batch,
    }


def open_tiktoken(model: str, pattern: str, threads: int) -> Calls:
    import tiktoken

    rows = (line.split() for line in Path(model).read_bytes().splitlines())
    ranks = {b64decode(token): int(rank) for token, rank in rows}
    encoding = tiktoken.Encoding("bench", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return {
        "ids": encoding.encode_ordinary,
        "count": lambda text: len(encoding.encode_ordinary(text)),
        "decode": encoding.decode,
        "lines": partial(encoding.encode_ordinary_batch, num_threads=threads),
        "rows": list,
        "decode lines": partial(encoding.decode_batch, num_threads=threads),
    }


def open_sentencepiece(model: str, pattern: str, threads: int) -> Calls:
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_file=model)
    sample = partial(processor.Encode, enable_sampling=True, alpha=ALPHA, num_threads=threads)
    return {
        "ids": processor.Encode,
        "pieces": partial(processor.Encode, out_type=str),
        "count": lambda text: len(processor.Encode(text)),
        "decode": processor.Decode,
        "lines": partial(processor.Encode, num_threads=threads),
        "rows": list,
        "decode lines": partial(processor.Decode, num_threads=threads),
        "sample": partial(sample, nbest_size=-1),
        "sample of best": partial(sample, nbest_size=N_BEST),
    }


# by name: how to open a tokenizer, its distribution, and the kind of file that it reads
LIBRARIES = {
    "volt": (open_volt, "volt-vocab", "any"),
    "tokenizers": (open_tokenizers, "tokenizers", "json"),
    "gigatoken": (open_gigatoken, "gigatoken", "json"),
    "fastokens": (open_fastokens, "fastokens", "json"),
    "splintr": (open_splintr, "splintr-rs", "json"),
    "tiktoken": (open_tiktoken, "tiktoken", "tiktoken"),
    "sentencepiece": (open_sentencepiece, "sentencepiece", "model"),
}


def versions() -> dict[str, str]:
    """Return the versions of the libraries that this interpreter has."""
    result = {}
    for name, (_, distribution, _) in LIBRARIES.items():
        try:
            result[name] = version(distribution)
        except PackageNotFoundError:
            continue
    return result


def digest_of_ids(ids: Ids) -> str:
    return hashlib.sha256(array("i", map(int, ids)).tobytes()).hexdigest()


def digest_of_rows(rows: Iterable[Ids]) -> str:
    """Return a digest of the ids of lines and of where lines end."""
    digest = hashlib.sha256()
    for row in rows:
        ids = array("i", map(int, row))
        digest.update(b"%d:" % len(ids) + ids.tobytes())
    return digest.hexdigest()


class Bench:
    """The figures of one library: rows of work, unit, value, digest of the result, stages."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task = task
        self.texts: dict[str, str] = task["texts"]
        self.threads: int = task.get("threads", 1)
        self.clock = time.process_time if self.threads == 1 else time.perf_counter
        self.figures: list[dict[str, Any]] = []
        self.calls = self.open()

    def open(self) -> Calls:
        """Open the tokenizer, and encode a word, so that what happens once has happened."""
        opener, _, _ = LIBRARIES[self.task["library"]]
        calls = opener(self.task["model"], self.task.get("pattern", ""), self.threads)
        calls["ids"]("a line")
        if "lines" in calls:
            calls["lines"](["a line"])
        return calls

    def read(self, name: str) -> str:
        return Path(self.texts[name]).read_bytes().decode()

    def repeated(self, call: Callable[..., Any], argument: Any) -> tuple[Any, float, float]:
        """Call for the first time, and again; return the result and both seconds. Quick calls count with the best of 3."""
        result, first = self.timed(call, argument)
        n = 3 if first < QUICK else 1
        return result, first, min(self.timed(call, argument)[1] for _ in range(n))

    def add(self, work: str, unit: str, value: float, digest: str = "", **more: Any) -> None:
        figure = {"work": work, "unit": unit, "value": value, "digest": digest}
        self.figures.append({**figure, **more})

    def timed(self, call: Callable[..., Any], argument: Any) -> tuple[Any, float]:
        start = self.clock()
        result = call(argument)
        return result, self.clock() - start

    def load(self) -> None:
        """Report what this process has used until now: it has only encoded a word."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
        self.add("load and first line, CPU", "s", time.process_time())
        self.add("load and first line, memory", "MB", peak)

    def calls_of_one_string(self) -> None:
        for length in LENGTHS:
            text = (LINE * length)[:length].rstrip()
            ids = list(map(int, self.calls["ids"](text)))
            arguments = {"ids": text, "pieces": text, "count": text, "decode": ids}
            for name, argument in arguments.items():
                if name in self.calls:
                    seconds = self.time_call(self.calls[name], argument)
                    digest = digest_of_ids(ids) if name in ("ids", "count") else ""
                    self.add(f"one string of {length}: {name}", "µs", 1e6 * seconds, digest)

    def time_call(self, call: Callable[..., Any], argument: Any) -> float:
        best = float("inf")
        for _ in range(ROUNDS):
            start = self.clock()
            for _ in range(N_CALLS):
                call(argument)
            best = min(best, (self.clock() - start) / N_CALLS)
        return best

    def document(self) -> None:
        call = self.calls.get("document", self.calls["ids"])
        self.halves("one document", call, digest_of_ids)

    def lines(self) -> None:
        if "lines" in self.calls:
            rows = self.calls["rows"]
            self.halves(
                "lines",
                self.calls["lines"],
                lambda result: digest_of_rows(rows(result)),
                split=True,
            )

    def halves(
        self,
        work: str,
        call: Callable[..., Any],
        digest: Callable[[Any], str],
        *,
        split: bool = False,
    ) -> None:
        """Encode held-out text for the first time, one half after the other, and again."""
        for half in ("first half", "second half"):
            text = self.read(half)
            argument = text.split("\n") if split else text
            n_bytes = len(text.encode())
            result, first, again = self.repeated(call, argument)
            found = digest(result)
            stages = {"known words": again / first, "new words": max(0.0, 1 - again / first)}
            self.add(
                f"{work}, {half}, first time", "MB/s", n_bytes / 1e6 / first, found, stages=stages
            )
            shares = self.stages(call, argument)
            self.add(f"{work}, {half}, again", "MB/s", n_bytes / 1e6 / again, found, stages=shares)

    def stages(self, call: Callable[..., Any], argument: Any) -> dict[str, float]:
        """Return the functions of VOLT in which a call takes its time; nothing for a peer."""
        if self.task["library"] != "volt":
            return {}
        from measure import stages

        return stages(partial(call, argument))

    def code(self) -> None:
        """Encode a long document of code, with the threads of the task."""
        call = self.calls.get("document", self.calls["ids"])
        text = self.read("code")
        n_bytes = len(text.encode())
        result, first, again = self.repeated(call, text)
        found = digest_of_ids(result)
        work = f"code as one document, {self.threads} threads"
        self.add(f"{work}, first time", "MB/s", n_bytes / 1e6 / first, found)
        self.add(f"{work}, again", "MB/s", n_bytes / 1e6 / again, found)

    def spans(self) -> None:
        if "spans" in self.calls:
            text = self.read("sample")
            lines = text.split("\n")
            _, _, seconds = self.repeated(self.calls["spans"], lines)
            self.add("lines with spans, again", "MB/s", len(text.encode()) / 1e6 / seconds)

    def spaces(self) -> None:
        """Encode a document that has one unusual space before a space; the slowest counts."""
        call = self.calls.get("document", self.calls["ids"])
        text = self.read("sample")
        middle = text.index(" ", len(text) // 2)
        seconds = []
        digests = []
        for space in SPACES.values():
            changed = text[:middle] + space + text[middle:]
            result, _, again = self.repeated(call, changed)
            digests.append(digest_of_ids(result))
            seconds.append(again)
        speed = len(text.encode()) / 1e6 / max(seconds)
        self.add("one document with an unusual space, again", "MB/s", speed, " ".join(digests))

    def decode(self) -> None:
        if "decode lines" in self.calls:
            text = self.read("sample")
            if "lines" in self.calls:
                rows = self.calls["rows"](self.calls["lines"](text.split("\n")))
            else:
                rows = [self.calls["ids"](line) for line in text.split("\n")]
            rows = [list(map(int, row)) for row in rows]
            decoded, _, seconds = self.repeated(self.calls["decode lines"], rows)
            found = hashlib.sha256("\n".join(decoded).encode()).hexdigest()
            self.add("lists of ids → text", "MB/s", len(text.encode()) / 1e6 / seconds, found)

    def sampling(self) -> None:
        """Encode lines with drawn paths."""
        text = self.read("sample")
        lines = text.removesuffix("\n").split("\n")
        for name, paths in (("sample", "all paths"), ("sample of best", f"the best {N_BEST}")):
            if name in self.calls:
                _, first, again = self.repeated(self.calls[name], lines)
                work = f"lines, drawn from {paths}"
                for when, seconds in (("first time", first), ("again", again)):
                    self.add(f"{work}, {when}", "MB/s", len(text.encode()) / 1e6 / seconds)


WORKS = {
    "load": Bench.load,
    "one string": Bench.calls_of_one_string,
    "document": Bench.document,
    "lines": Bench.lines,
    "code": Bench.code,
    "spans": Bench.spans,
    "spaces": Bench.spaces,
    "decode": Bench.decode,
    "sampling": Bench.sampling,
}


def main(given: str) -> None:
    if given == "versions":
        print(json.dumps(versions()))
        return
    task = json.loads(given)
    bench = Bench(task)
    for name in task["works"]:
        WORKS[name](bench)
    print(json.dumps({"figures": bench.figures}))


if __name__ == "__main__":
    main(sys.argv[1])
