"""Files of tokenizers, each changed → whether VOLT's ids are still those of their library, or it says so.

    python -m experiments.real_tokenizers.mutating DIR … [--text FILE …] [--n 2000] [--pieces 1500] [--seed 34]

The folders hold files of tokenizers: JSON of type BPE or Unigram, and unigram models of sentencepiece. Each is cut to its
first merges or pieces, so that thousands of changes take minutes; its pipeline and its other tokens stay. `changing` and
`changing_unigram` describe the changes. The outcome is

    equal       every line has the ids that the library gives
    announced   some differ, and the import has a note on text that it does not have of the unchanged file
    refused     VOLT refuses the file with an error of its own
    damaged     the library refuses it
    unchanged   some lines of the unchanged file differ
    silent      some lines differ that do not differ with the unchanged file, and no note is new
    fault       VOLT raises something else

The exit status is 1 if anything is silent or at fault.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.real_tokenizers import changing, changing_unigram
from experiments.real_tokenizers.changing_unigram import Pool
from experiments.real_tokenizers.comparing import Rows, differing_lines, smallest
from experiments.real_tokenizers.finding import kind_of
from experiments.real_tokenizers.originals import Original, _huggingface, _sentencepiece, one_thread
from experiments.real_tokenizers.texts import hostile_lines, prose_lines
from volt import Encoder, read_vocabulary
from volt.errors import VoltError

PATIENCE = 100  # CPU seconds
UNIGRAM = 1  # model type of sentencepiece
NO_TEXT = (
    "that no merge makes: kept",
    "adds to a line",
    "Truncation",
    "Padding",
    "decode",
    "Decoding",
)  # notes on no line of text


class Outcome(NamedTuple):
    """The outcome of a change.

    notes: of the import.
    text: the shortest text with other ids, or the error.
    """

    kind: str
    lines: frozenset[int] = frozenset()
    notes: frozenset[str] = frozenset()
    text: str = ""


class Format(NamedTuple):
    """A format of files: how a file is cut, changed, written and opened, and VOLT's name for it."""

    shorten: Callable[[Any, int], Any]
    change: Callable[[Any, random.Random, Pool], str]
    to_bytes: Callable[[Any], bytes]
    open: Callable[[Path], Original]
    name: str


def _json_bytes(data: Any) -> bytes:
    return json.dumps(data).encode()


def _change_bpe(data: Any, rng: random.Random, pool: Pool) -> str:
    return changing.change(data, rng, pool.steps)


FORMATS = {
    "BPE": Format(changing.shortened, _change_bpe, _json_bytes, _huggingface, "huggingface"),
    "Unigram": Format(
        changing_unigram.shortened_json,
        changing_unigram.change_json,
        _json_bytes,
        _huggingface,
        "huggingface",
    ),
    "model": Format(
        changing_unigram.shortened,
        changing_unigram.change_model,
        lambda model: bytes(model.SerializeToString()),
        _sentencepiece,
        "sentencepiece",
    ),
}


def format_of(data: Any) -> Format:
    """Return the format of a file's content."""
    if not isinstance(data, dict):
        return FORMATS["model"]
    return FORMATS["Unigram" if isinstance(data["model"].get("vocab"), list) else "BPE"]


def read_files(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the names and contents of the files that can be changed."""
    for path in sorted(folder.iterdir()):
        kind = kind_of(path) if path.is_file() else None
        if kind == "tokenizer.json":
            data = json.loads(path.read_text())
            if "merges" in data["model"] or isinstance(data["model"]["vocab"], list):
                yield path.name, data
        elif kind == "sentencepiece":
            from sentencepiece import sentencepiece_model_pb2

            model = sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
            if model.trainer_spec.model_type == UNIGRAM:
                yield path.name, model


def outcome(
    data: Any,
    lines: Sequence[str],
    folder: Path,
    before: Outcome | None = None,
    kind: Format | None = None,
) -> Outcome:
    """Read a file with both libraries, and compare. before: the outcome of the unchanged file"""
    kind = kind or format_of(data)
    path = folder / "changed"
    path.write_bytes(kind.to_bytes(data))
    if not survives(lambda: kind.open(path).encode(lines)):
        return Outcome("damaged")
    theirs = kind.open(path).encode
    if hangs(lambda: Encoder(read_vocabulary(path, format=kind.name)).encode_batch(lines)):
        return Outcome("fault", text=f"takes more than {PATIENCE} CPU s")
    try:
        vocabulary = read_vocabulary(path, format=kind.name)
        encoder, notes = Encoder(vocabulary), frozenset(vocabulary.notes)
        encoder.encode_batch(lines)
    except VoltError as error:
        return Outcome("refused", text=str(error).replace(str(path), ""))
    except Exception as error:  # the campaign counts every fault
        return Outcome("fault", text=f"{type(error).__name__}: {error}")

    def ours(texts: Sequence[str]) -> Rows:
        encoded = encoder.encode_batch(texts)
        return [row.tolist() for row in np.split(encoded.ids, encoded.offsets[1:-1])]

    differing = frozenset(differing_lines(lines, ours, theirs))
    if not differing:
        return Outcome("equal", notes=notes)
    text = smallest(
        min((lines[n] for n in differing), key=len), lambda text: ours([text]) != theirs([text])
    )
    example = f"{text!r}: {ours([text])[0]}, {theirs([text])[0]} there"
    if before is None or differing <= before.lines:
        return Outcome("announced" if before else "unchanged", differing, notes, example)
    is_new = any(not any(part in note for part in NO_TEXT) for note in notes - before.notes)
    return Outcome("announced" if is_new else "silent", differing, notes - before.notes, example)


def outcomes(
    files: Sequence[tuple[str, Any]],
    lines: Sequence[str],
    n: int,
    rng: random.Random,
    folder: Path,
    keep: Path | None = None,
) -> Iterator[tuple[str, str, Outcome]]:
    """The name of a file, the change, and what came of it; n times. keep: a folder for files whose ids differ."""
    contents = [data for _, data in files]
    jsons = [data for data in contents if isinstance(data, dict)]
    models = [data for data in contents if not isinstance(data, dict)]
    sections = [data.get(name) for data in jsons for name in ("normalizer", "pre_tokenizer")]
    tables = {model.normalizer_spec.precompiled_charsmap for model in models}
    pool = Pool(lines, sorted(tables), [step for step in sections if step])
    before = {}
    for name, data in files:
        before[name] = outcome(data, lines, folder)
        yield name, "unchanged", before[name]
    for number in range(n):
        name, data = files[number % len(files)]
        changed = copy.deepcopy(data)
        kind = format_of(data)
        change = kind.change(changed, rng, pool)
        result = outcome(changed, lines, folder, before[name], kind)
        if keep and result.kind in ("silent", "fault"):
            (keep / f"{number}-{name}").write_bytes(kind.to_bytes(changed))
        yield name, change, result


def survives(call: Callable[[], object]) -> bool:
    """Check whether a call succeeds in a process of its own: some files make tokenizers panic or end the process."""
    return status_of(call) == 0


def hangs(call: Callable[[], object]) -> bool:
    """Check whether a call takes longer than PATIENCE in a process of its own."""
    return os.WTERMSIG(status_of(call)) == signal.SIGPROF


def status_of(call: Callable[[], object]) -> int:
    """Return how a process ends that calls a function."""
    if not (child := os.fork()):
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        status = 1
        try:
            with suppress(Exception):
                call()
                status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def main() -> int:
    """Print the outcomes that are not as they should be, then how many there are of each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR")
    parser.add_argument(
        "--text", type=Path, nargs="+", default=[], help="texts, one line each line"
    )
    parser.add_argument("--data", type=Path, help="corpora for the prose")
    parser.add_argument("--n", type=int, default=2_000)
    parser.add_argument("--pieces", type=int, default=1_500, help="merges or pieces of each file")
    parser.add_argument(
        "--lines", type=int, default=400, help="lines that are made, and of each text"
    )
    parser.add_argument("--only", choices=FORMATS, nargs="+", default=[*FORMATS])
    parser.add_argument("--seed", type=int, default=34)
    parser.add_argument("--verbose", action="store_true", help="print every outcome")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write files with other ids here")
    asked = parser.parse_args()
    one_thread()
    files = []
    for folder in asked.folders:
        for name, data in read_files(folder):
            kind = format_of(data)
            if kind in [FORMATS[name] for name in asked.only]:
                files.append((name, kind.shorten(data, asked.pieces)))
    lines = [*prose_lines(asked.lines // 2, asked.data), *hostile_lines(asked.lines // 2)]
    rng = random.Random(asked.seed)
    for path in asked.text:
        read = path.read_bytes().decode().split("\n")[:-1]
        lines += rng.sample(read, min(asked.lines, len(read)))
    counts = Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for name, change, one in outcomes(
            files, lines, asked.n, rng, Path(folder), keep=asked.keep
        ):
            if change != "unchanged" or one.kind == "unchanged":
                counts[one.kind] += 1
            if one.kind in ("silent", "fault", "unchanged") or asked.verbose:
                print(f"{one.kind}: {name}, {change}: {one.text}, {sorted(one.notes)}", flush=True)
    print(", ".join(f"{kind} {n:,}" for kind, n in sorted(counts.items())))
    return int(counts["silent"] + counts["fault"] > 0)


if __name__ == "__main__":
    sys.exit(main())
