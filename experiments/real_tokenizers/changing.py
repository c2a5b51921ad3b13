"""A tokenizer.json of type BPE → the file with one place changed at random.

A change deletes a key, changes a value or its type, swaps or renames tokens, adds or removes tokens, merges and steps, or
puts them in another order. `change_any` is of files of any type.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

BULK = ("vocab", "merges")
VALUES = (None, True, False, 0, 1, 2.5, "", "a", " ", "Ġ", "▁", "</w>", "<unk>", [], {}, ["a", "b"])


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
    """Change one place of a file of type BPE. steps: those of all files' pipelines. Returns a word for it."""
    model = data["model"]
    vocab, merges = model["vocab"], model["merges"]
    one, other = rng.sample([*vocab], 2)
    at, to = rng.randrange(len(merges)), rng.randrange(len(merges))
    kind = rng.choice((*KINDS, *BPE_KINDS))
    if kind in KINDS:
        return change_any(data, kind, rng, steps, {one: vocab[one]})
    if kind == "swap":
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
    return kind


def change_any(
    data: Any, kind: str, rng: random.Random, steps: Sequence[Any], ids: Mapping[str, int]
) -> str:
    """Change one place of a file of any type. ids: of a token. Returns a word for it."""
    [(token, token_id)] = ids.items()
    owner, key = rng.choice([*places(data)])
    if kind == "delete":
        del owner[key]
    elif kind == "value" and key not in BULK:
        alike = [value for value in (*VALUES, token) if type(value) is type(owner[key])]
        owner[key] = rng.choice([*(alike or VALUES), rng.choice(VALUES)])
    elif kind == "option":
        name = rng.choice((*OPTIONS, "unk_token"))
        data["model"][name] = rng.choice(
            (*OPTIONS[name], token) if name == "unk_token" else OPTIONS[name]
        )
    elif kind == "added":
        number, content = rng.choice(
            ((token_id, token), (300_000, rng.choice(("<new>", " ", "ab", "<s"))))
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


KINDS = ("delete", "delete", "value", "value", "option", "option", "added", "flag", "step")
BPE_KINDS = ("swap", "rename", "token", "lost token", "merge", "merge order", "lost merge")
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
OPTIONS: dict[str, tuple[Any, ...]] = {
    "unk_token": (None, "<unk>", "<none>"),
    **dict.fromkeys(("fuse_unk", "byte_fallback", "ignore_merges"), (True, False)),
    **dict.fromkeys(("end_of_word_suffix", "continuing_subword_prefix"), (None, "", "</w>", "##")),
    "dropout": (None, 0.0, 0.5),
}
