"""Files of tokenizers, each changed in one place → whether VOLT's ids are still those of tokenizers, or it says so.

    python -m experiments.real_tokenizers.mutating DIR [--text FILE …] [--n 2000] [--merges 1500] [--seed 34]

DIR holds files of tokenizers that are JSON, of type BPE. Each is cut to its first merges, so that thousands of changes
take minutes; its pipeline and its other tokens stay. A change deletes a key, changes a value or its type,
swaps or renames tokens, adds or removes tokens, merges and steps, or puts them in another order. The outcome is

    equal       every line has the ids that tokenizers gives
    announced   some differ, and the import has a note on text that it does not have of the unchanged file
    refused     VOLT refuses the file with an error of its own
    damaged     tokenizers refuses it
    silent      some lines differ that do not differ with the unchanged file, and no note is new
    fault       VOLT raises something else

The exit status is 1 if anything is silent or at fault.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.real_tokenizers.comparing import Rows, differing_lines, smallest
from experiments.real_tokenizers.originals import _huggingface, one_thread
from experiments.real_tokenizers.texts import hostile_lines, prose_lines
from volt import Encoder, read_vocabulary
from volt.errors import VoltError

BULK = ("vocab", "merges")
VALUES = (None, True, False, 0, 1, 2.5, "", "a", " ", "Ġ", "▁", "</w>", "<unk>", [], {}, ["a", "b"])
NO_TEXT = (
    "that no merge makes: kept",
    "adds to a line",
    "Truncation",
    "Padding",
    "decode",
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


def shortened(data: Any, n_merges: int) -> Any:
    """The file with its first merges alone, and the tokens that these or no merges make, numbered without gaps."""
    model, rows = (
        data["model"],
        [row.split(" ") if isinstance(row, str) else row for row in data["model"]["merges"]],
    )
    later = {"".join(row) for row in rows[n_merges:]} - {"".join(row) for row in rows[:n_merges]}
    added = {row["content"]: row["id"] for row in data["added_tokens"]}
    ids = {
        token: number for token, number in {**model["vocab"], **added}.items() if token not in later
    }
    new = {token: number for number, token in enumerate(sorted(ids, key=ids.__getitem__))}
    vocab = {token: new[token] for token in model["vocab"] if token in new}
    merges = [row for row in rows[:n_merges] if later.isdisjoint(row)]
    numbered = [row | {"id": new[row["content"]]} for row in data["added_tokens"]]
    return data | {"added_tokens": numbered, "model": model | {"vocab": vocab, "merges": merges}}


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container below a value, with the key of an entry; the tokens and the merges of a model as one entry."""
    for key in (
        list(value)
        if isinstance(value, dict)
        else range(len(value))
        if isinstance(value, list)
        else ()
    ):
        yield value, key
        if key not in BULK:
            yield from places(value[key])


def change(data: Any, rng: random.Random, steps: Sequence[Any]) -> str:
    """Change one place of a file. steps: those of all files' pipelines. Returns a word for it."""
    model, (owner, key) = data["model"], rng.choice([*places(data)])
    vocab, merges = model["vocab"], model["merges"]
    one, other, at, to = (
        *rng.sample([*vocab], 2),
        rng.randrange(len(merges)),
        rng.randrange(len(merges)),
    )
    kind = rng.choice(KINDS)
    if kind == "delete":
        del owner[key]
    elif kind == "value" and key not in BULK:
        alike = [value for value in (*VALUES, one) if type(value) is type(owner[key])]
        owner[key] = rng.choice([*(alike or VALUES), rng.choice(VALUES)])
    elif kind == "option":
        name = rng.choice((*OPTIONS, "unk_token"))
        model[name] = rng.choice((*OPTIONS[name], one) if name == "unk_token" else OPTIONS[name])
    elif kind == "swap":
        vocab[one], vocab[other] = vocab[other], vocab[one]
    elif kind == "rename":
        vocab[one + rng.choice(("a", "Ġ", "▁", "</w>"))] = vocab.pop(one)
    elif kind == "token":
        vocab[one + other] = 1 + max(vocab.values()) if rng.random() < 0.9 else vocab[one]
    elif kind == "lost token":
        del vocab[one]
        merges[:] = [row for row in merges if one not in (*row, "".join(row))]
    elif kind == "merge":
        vocab.setdefault(one + other, 1 + max(vocab.values()))
        merges.insert(at, [one, other])
    elif kind == "merge order":
        merges[at], merges[to] = merges[to], rng.choice((merges[at], merges[at][::-1]))
    elif kind == "lost merge":
        del merges[at]
    elif kind == "added":
        number, content = rng.choice(
            ((vocab[one], one), (300_000, rng.choice(("<new>", " ", "ab", "<s"))))
        )
        data["added_tokens"].append(
            {"id": number, "content": content} | {flag: rng.random() < 0.3 for flag in FLAGS}
        )
    elif kind == "flag" and data["added_tokens"]:
        row = rng.choice(data["added_tokens"])
        flag = rng.choice(FLAGS)
        row[flag] = not row[flag]
    elif kind == "step":
        section, several = rng.choice(
            (("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers"))
        )
        now = data.get(section)
        rows = [] if now is None else [*now[several]] if now["type"] == "Sequence" else [now]
        rows.insert(rng.randint(0, len(rows)), json.loads(json.dumps(rng.choice(steps))))
        rows = rng.sample(rows, rng.choice((len(rows), len(rows), len(rows) - 1)))
        data[section] = {"type": "Sequence", several: rows}
    return f"{kind} {key}" if kind in ("delete", "value") else kind


KINDS = (
    *(
        "delete",
        "delete",
        "value",
        "value",
        "option",
        "option",
        "swap",
        "rename",
        "token",
        "lost token",
        "merge",
    ),
    *("merge order", "lost merge", "added", "flag", "step"),
)
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
OPTIONS: dict[str, tuple[Any, ...]] = {
    "unk_token": (None, "<unk>", "<none>"),
    **dict.fromkeys(("fuse_unk", "byte_fallback", "ignore_merges"), (True, False)),
    **dict.fromkeys(("end_of_word_suffix", "continuing_subword_prefix"), (None, "", "</w>", "##")),
    "dropout": (None, 0.0, 0.5),
}


def outcome(
    data: Any, lines: Sequence[str], folder: Path, before: Outcome | None = None
) -> Outcome:
    """Read a file with both libraries, and compare. before: the outcome of the unchanged file"""
    path = folder / "a.json"
    path.write_text(json.dumps(data))
    if not survives(lambda: _huggingface(path).encode(lines)):
        return Outcome("damaged")
    theirs = _huggingface(path).encode
    try:
        vocabulary = read_vocabulary(path, format="huggingface")
        encoder, notes = Encoder(vocabulary), frozenset(vocabulary.notes)
    except VoltError as error:
        return Outcome("refused", text=str(error).replace(str(path), ""))
    except Exception as error:  # the campaign counts every fault
        return Outcome("fault", text=f"{type(error).__name__}: {error}")

    def ours(texts: Sequence[str]) -> Rows:
        return [encoder.ids(pieces).tolist() for pieces in encoder.encode_lines(texts)]

    differing = frozenset(differing_lines(lines, ours, theirs))
    if not differing:
        return Outcome("equal", notes=notes)
    text = smallest(
        min((lines[n] for n in differing), key=len), lambda text: ours([text]) != theirs([text])
    )
    if before is None or differing <= before.lines:
        return Outcome("announced" if before else "unchanged", differing, notes, text)
    is_new = any(not any(part in note for part in NO_TEXT) for note in notes - before.notes)
    return Outcome("announced" if is_new else "silent", differing, notes - before.notes, text)


def outcomes(
    files: Sequence[tuple[str, Any]], lines: Sequence[str], n: int, rng: random.Random, folder: Path
) -> Iterator[tuple[str, str, Outcome]]:
    """The name of a file, the change, and what came of it; n times."""
    steps = [
        step
        for _, data in files
        for step in (data.get("normalizer"), data.get("pre_tokenizer"))
        if step
    ]
    before = {name: outcome(data, lines, folder) for name, data in files}
    for number in range(n):
        name, data = files[number % len(files)]
        changed = json.loads(json.dumps(data))
        kind = change(changed, rng, steps)
        yield name, kind, outcome(changed, lines, folder, before[name])


def survives(call: Callable[[], object]) -> bool:
    """Check whether a call succeeds in a process of its own: some files make tokenizers panic or end the process."""
    if not (child := os.fork()):
        status = 1
        try:
            call()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def main() -> int:
    """Print the outcomes that are not as they should be, then how many there are of each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, help="corpora for the prose")
    parser.add_argument("--n", type=int, default=2_000)
    parser.add_argument("--merges", type=int, default=1_500)
    parser.add_argument("--lines", type=int, default=400)
    parser.add_argument("--seed", type=int, default=34)
    parser.add_argument("--verbose", action="store_true", help="print what is announced, too")
    asked = parser.parse_args()
    one_thread()
    files = [
        (path.name, shortened(json.loads(path.read_text()), asked.merges))
        for path in sorted(asked.folder.glob("*"))
    ]
    lines = [*prose_lines(asked.lines // 2, asked.data), *hostile_lines(asked.lines // 2)]
    found, rng = Counter[str](), random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        for name, change, one in outcomes(files, lines, asked.n, rng, Path(folder)):
            found[one.kind] += 1
            if one.kind in ("silent", "fault") or (asked.verbose and one.kind == "announced"):
                sys.stdout.write(
                    f"{one.kind}: {name}, {change}: {one.text!r}, {sorted(one.notes)}\n"
                )
    sys.stdout.write(", ".join(f"{kind} {n:,}" for kind, n in sorted(found.items())) + "\n")
    return int(found["silent"] + found["fault"] > 0)


if __name__ == "__main__":
    sys.exit(main())
