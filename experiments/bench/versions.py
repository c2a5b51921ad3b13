"""Two checkouts of VOLT side by side: the same work by turns, whole processes, and the ratio of each pair of runs.

    python experiments/bench/versions.py BEFORE [AFTER] [--repeats 7] [--mb 24]

BEFORE and AFTER are checkouts (default: this one). Both run with this interpreter, on the same files; each has the
folder for its compiled loops that it would have anyway. Only public names that both have are used. A row says how many
times as long AFTER took: the median of the pairs, and the least and greatest. VOLT_DATA may hold multi30k/train.en.gz;
without it the text is the documentation that ships with Python.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parents[2]


def timed(work: Callable[[], object]) -> float:
    """Wall seconds of a call.

    >>> timed(lambda: None) < 1
    True
    """
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def fastest(work: Callable[[], object], times: int = 3) -> float:
    """The least wall seconds of a few calls."""
    return min(timed(work) for _ in range(times))


def encode_rows(folder: Path, name: str) -> Iterator[tuple[str, float]]:
    """Seconds of encoding by encoders that are new, and that know the text."""
    import volt

    text = (folder / "text.txt").read_bytes()
    lines = text.decode().splitlines()[:100_000]
    vocabulary = volt.Vocabulary.load(folder / f"{name}.volt")
    volt.Encoder(vocabulary).encode_bytes(text[:1000])  # loads what is compiled
    encoder = volt.Encoder(vocabulary)
    encoded = encoder.encode_bytes(text)
    for threads, encode in ((n, partial(volt.Encoder.encode_bytes, text=text, n_threads=n)) for n in (1, 2)):
        yield f"encode {name}, new encoder, {threads} threads", fastest(partial(_new, encode, vocabulary))
        yield f"encode {name}, known words, {threads} threads", fastest(partial(encode, encoder))
    yield f"encode {name}, as text", fastest(lambda: encoder.encode_text(text))
    yield f"encode {name}, a list of lines", fastest(lambda: encoder.encode_batch(lines))
    yield f"encode {name}, dropout", fastest(lambda: encoder.encode_bytes(text, dropout=0.1, seed=1), 1)
    yield f"decode {name}", fastest(lambda: encoder.decode_bytes(encoded))


def _new(encode: Callable[[Any], object], vocabulary: Any) -> None:
    import volt

    encode(volt.Encoder(vocabulary))


def search_rows(folder: Path) -> Iterator[tuple[str, float]]:
    """Seconds of the parts of a search."""
    import volt

    path = str(folder / "text.txt")
    volt.search(volt.learn_bpe(volt.count_words(path).min_count(1000), 10), select="knee")  # loads what is compiled
    yield "count", fastest(lambda: volt.count_words(path))
    counts = volt.count_words(path)
    yield "learn 30,000 merges", fastest(lambda: volt.learn_bpe(counts, 30_000))
    candidates = volt.learn_bpe(counts, 30_000)
    yield "search, some thirty sizes", fastest(lambda: volt.search(candidates, select="knee"), 2)


def prepare(folder: Path, n_bytes: int) -> None:
    """A text and two vocabularies."""
    import volt

    source = Path(os.environ.get("VOLT_DATA", ""), "multi30k", "train.en.gz")
    if source.is_file():
        text = gzip.decompress(source.read_bytes())
    else:
        from pydoc_data.topics import topics

        text = "\n".join(topics.values()).encode()
    (folder / "text.txt").write_bytes(text * max(1, n_bytes // len(text)))
    for name, pretokenizer in (("words", "whitespace"), ("bytes", "bytes")):
        counts = volt.count_words(str(folder / "text.txt"), pretokenizer=pretokenizer)
        found = volt.search(volt.learn_bpe(counts, 8_000), sizes=[4_000, 8_000], select="fixed:8000")
        found.vocabulary.save(folder / f"{name}.volt")


def run(checkout: Path, folder: Path) -> dict[str, float]:
    """The rows of one checkout, in processes of their own."""
    path = f"{checkout}:{checkout / 'cli'}"
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": ""}
    child = [sys.executable, __file__, "--child", str(folder)]
    done = subprocess.run(child, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    if Path(found.pop("volt")).resolve() != (checkout / "volt" / "__init__.py").resolve():
        raise SystemExit(f"{checkout}: another volt was imported; is it a checkout?")
    command = [sys.executable, "-m", "volt_cli"]
    for name, words in (("volt --help", ["--help"]), ("volt encode, a line", ["encode", "-m", "words.volt"])):
        found[name] = timed(
            lambda words=words: subprocess.run(
                [*command, *words], env=environment, cwd=folder, input=b"a dog\n", capture_output=True, check=True
            )
        )
    return {str(name): float(seconds) for name, seconds in found.items()}


def main() -> None:
    """Run both by turns and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=HERE)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--mb", type=int, default=24)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, given.mb << 20)
        run(given.before.resolve(), folder), run(given.after.resolve(), folder)  # compile, and fill the disk's cache
        pairs = []
        for turn in range(given.repeats):
            trees = [given.before.resolve(), given.after.resolve()]
            runs = {tree: run(tree, folder) for tree in (trees if turn % 2 else reversed(trees))}
            pairs.append((runs[trees[0]], runs[trees[1]]))
    print(f"{given.repeats} pairs of runs\n")
    print("| row | before, ms | after, ms | after / before | least | greatest |\n|---|--:|--:|--:|--:|--:|")
    for row in pairs[0][0]:
        before, after = ([pair[side][row] for pair in pairs] for side in (0, 1))
        ratios = [b / a for a, b in zip(before, after, strict=True)]
        cells = (1000 * median(before), 1000 * median(after), median(ratios), min(ratios), max(ratios))
        print(f"| {row} | {cells[0]:.1f} | {cells[1]:.1f} | {cells[2]:.3f} | {cells[3]:.3f} | {cells[4]:.3f} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        import volt

        where = Path(sys.argv[2])
        rows = dict(chain(encode_rows(where, "words"), encode_rows(where, "bytes"), search_rows(where)))
        print(json.dumps({"volt": volt.__file__, **rows}))
    else:
        main()
