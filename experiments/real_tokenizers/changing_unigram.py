"""A unigram model, in a .model of sentencepiece or a tokenizer.json → the model with some places changed at random.

A change gives pieces other scores or types, adds pieces that occur in lines, removes pieces, permutes ids, swaps or damages
the table of characters, and sets the options of training and normalisation.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from experiments.real_tokenizers.changing import KINDS, change_any

SPACE = "▁"
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # types of a piece
ODD_PIECES = (
    "<s>",
    "<0x41>",
    "▁",
    "▁▁",
    "▁▁▁",
    " ",
    "a b",
    "e\u0301",
    "😀",
    "ﬁ",
    "ſ",
    "\t",
    "\x00",
    "",
    "Ａ",
    "\ufffd",
)
NORMALIZATION = ("add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces")
TRAINING = (
    "byte_fallback",
    "treat_whitespace_as_suffix",
    "split_by_whitespace",
    "split_by_unicode_script",
    "split_by_number",
    "split_digits",
    "allow_whitespace_only_pieces",
)


class Pool(NamedTuple):
    """Lines of text, tables of characters and steps of pipelines, collected from all files."""

    lines: Sequence[str]
    tables: Sequence[bytes]
    steps: Sequence[Any]


def shortened(model: Any, n_pieces: int) -> Any:
    """Return a copy of a .model with its first normal pieces, and all others that are one character or not normal."""
    result = type(model)()
    result.CopyFrom(model)
    del result.pieces[:]
    n_normal = 0
    for piece in model.pieces:
        n_normal += piece.type == NORMAL
        if piece.type != NORMAL or n_normal <= n_pieces or len(piece.piece) == 1:
            result.pieces.append(piece)
    return result


def shortened_json(data: Any, n_pieces: int) -> Any:
    """Return a tokenizer.json with its first pieces, those of one character, and its added tokens, numbered without gaps."""
    model = data["model"]
    added = {row["content"] for row in data["added_tokens"]}
    numbers = [
        number
        for number, (piece, _) in enumerate(model["vocab"])
        if number < n_pieces or len(piece) == 1 or piece in added or piece.startswith("<0x")
    ]
    vocab = [model["vocab"][number] for number in numbers]
    ids = {piece: number for number, (piece, _) in enumerate(vocab)}
    rows = []
    for row in data["added_tokens"]:
        rows.append(row | {"id": ids.setdefault(row["content"], len(ids))})
    unk_id = model.get("unk_id")
    if unk_id is not None:
        unk_id = numbers.index(unk_id)
    return data | {"added_tokens": rows, "model": model | {"vocab": vocab, "unk_id": unk_id}}


def new_score(kind: str, score: float, rng: random.Random) -> float:
    """Return another score of a piece, by the kind of change."""
    if kind == "rounded":
        return float(round(score))
    if kind == "half":
        return round(2 * score) / 2
    if kind == "equal":
        return -1.0
    if kind == "positive":
        return -score
    if kind == "zero":
        return 0.0
    if kind == "large":
        return score * 1e4
    if kind == "tiny":
        return score * 1e-6
    return rng.choice((score, -score, 0.0, -0.0, score * 100, score * 1e-3, -1e5, 1e5))


SCORES = ("rounded", "half", "equal", "positive", "zero", "large", "tiny", "mixed")
BAD_SCORES = (float("nan"), float("inf"), -float("inf"), 3e38, -3e38)


def part_of_line(lines: Sequence[str], rng: random.Random, *, spans_words: bool = False) -> str:
    """Return some characters of a line, with "▁" for spaces."""
    for _ in range(100):
        line = rng.choice(lines)
        start = rng.randrange(len(line) + 1)
        part = line[start : start + rng.randint(1, 8)].replace(" ", SPACE)
        if part and (not spans_words or SPACE in part[1:].lstrip(SPACE)):
            return part
    return "a▁b"


def piece_text(lines: Sequence[str], rng: random.Random) -> str:
    """Return the text of a new piece: a part of a line, or an odd one."""
    return part_of_line(lines, rng) if rng.random() < 0.8 else rng.choice(ODD_PIECES)


def change_model(model: Any, rng: random.Random, pool: Pool) -> str:
    """Change a .model in one to three ways. Returns words for them."""
    return ", ".join(_change_model(model, rng, pool) for _ in range(rng.choice((1, 1, 2, 3))))


def _change_model(model: Any, rng: random.Random, pool: Pool) -> str:
    kind = rng.choice(MODEL_KINDS)
    pieces, spec, trainer = model.pieces, model.normalizer_spec, model.trainer_spec
    normal = [piece for piece in pieces if piece.type == NORMAL]
    detail = ""
    if kind == "normalisation":
        detail = rng.choice(NORMALIZATION[:2] * 4 + NORMALIZATION)
        setattr(spec, detail, not getattr(spec, detail))
    elif kind == "training":
        detail = rng.choice(TRAINING)
        setattr(trainer, detail, not getattr(trainer, detail))
    elif kind == "bytes":
        detail = _change_bytes(model, rng)
    elif kind == "scores":
        detail = rng.choice(SCORES)
        for piece in normal:
            piece.score = new_score(detail, piece.score, rng)
    elif kind == "bad score" and normal:
        piece = rng.choice(normal)
        piece.score = rng.choice(BAD_SCORES)
        detail = f"{piece.piece!r} {piece.score}"
    elif kind == "table":
        table = spec.precompiled_charsmap
        tables = (b"", table[: rng.randrange(len(table) + 1)], *3 * tuple(pool.tables))
        spec.precompiled_charsmap = rng.choice(tables)
        detail = f"{len(spec.precompiled_charsmap)} bytes"
    elif kind == "type":
        piece = rng.choice(pieces)
        piece.type = rng.choice((NORMAL, CONTROL, USER, UNUSED))
        detail = f"{piece.piece!r} {piece.type}"
    elif kind == "unused":
        for piece in normal:
            if rng.random() < 0.2:
                piece.type = UNUSED
    elif kind in NEW_TYPES:
        detail = _add_pieces(pieces, NEW_TYPES[kind], rng, pool.lines, spans_words=kind == "inner")
    elif kind == "permuted":
        order = [*pieces]
        rng.shuffle(order)
        copies = [type(piece).FromString(piece.SerializeToString()) for piece in order]
        del pieces[:]
        pieces.extend(copies)
    elif kind == "lost":
        share = rng.choice((0.0, 0.1, 0.5))
        lost = rng.choice((SPACE, "e", normal[0].piece if normal else ""))
        for number in reversed(range(len(pieces))):
            piece = pieces[number]
            if piece.type == NORMAL and (piece.piece == lost or rng.random() < share):
                del pieces[number]
        detail = f"{lost!r} and {share:.0%}"
    elif kind == "unknown":
        [*unknown] = [piece for piece in pieces if piece.type == UNKNOWN]
        piece = unknown[0] if unknown else pieces[0]
        detail = rng.choice(("text", "score", "surface", "second", "none"))
        if detail == "text":
            piece.piece = rng.choice(("<UNK>", "e", "▁", "▁unk"))
            trainer.unk_piece = rng.choice((piece.piece, "<unk>"))
        elif detail == "score":
            piece.score = rng.choice((-100.0, -1.0, 5.0))
        elif detail == "surface":
            trainer.unk_surface = rng.choice(("", "?", " a "))
        elif detail == "second":
            pieces.add(piece="<unk2>", score=0.0, type=UNKNOWN)
        else:
            piece.type = CONTROL
    elif kind == "field":
        owner = rng.choice((model, spec, trainer, rng.choice(pieces)))
        fields = [field.name for field, _ in owner.ListFields() if field.name != "pieces"]
        detail = rng.choice(fields or ["denormalizer_spec"])
        owner.ClearField(detail)
    return f"{kind} {detail}".strip()


def _change_bytes(model: Any, rng: random.Random) -> str:
    """Add the 256 pieces of bytes, or remove them; some changes contradict the option."""
    pieces, trainer = model.pieces, model.trainer_spec
    numbers = [number for number, piece in enumerate(pieces) if piece.type == BYTE]
    for number in reversed(numbers):
        del pieces[number]
    if not numbers:
        for byte in range(256):
            pieces.add(piece=f"<0x{byte:02X}>", score=rng.choice((0.0, -1.0)), type=BYTE)
    trainer.byte_fallback = not numbers
    detail = "removed" if numbers else "added"
    if rng.random() < 0.2:
        trainer.byte_fallback = not trainer.byte_fallback
        detail += " against the option"
    if not numbers and rng.random() < 0.2:
        del pieces[-1]
        detail += " but one"
    return detail


def _add_pieces(
    pieces: Any,
    types: Sequence[int],
    rng: random.Random,
    lines: Sequence[str],
    *,
    spans_words: bool,
) -> str:
    """Add pieces that occur in lines. Returns their texts."""
    known = {piece.piece for piece in pieces}
    texts = []
    for _ in range(rng.choice((1, 3, 20))):
        text = part_of_line(lines, rng, spans_words=True) if spans_words else piece_text(lines, rng)
        if text in known and rng.random() < 0.95:
            continue
        known.add(text)
        texts.append(text)
        score = rng.choice((0.0, -3.0, -8.5, 1.0))
        pieces.insert(
            rng.randrange(len(pieces) + 1),
            type(pieces[0])(piece=text, score=score, type=rng.choice(types)),
        )
    return repr(texts[:3])


NEW_TYPES = {
    "user": (USER,),
    "control": (CONTROL,),
    "normal": (NORMAL,),
    "inner": (NORMAL, NORMAL, NORMAL, USER, UNUSED),
    "any": (NORMAL, CONTROL, USER, UNUSED),
}
MODEL_KINDS = (
    *(
        "normalisation",
        "normalisation",
        "training",
        "bytes",
        "scores",
        "scores",
        "bad score",
        "table",
        "table",
        "type",
    ),
    *(
        "unused",
        "user",
        "user",
        "control",
        "normal",
        "inner",
        "any",
        "permuted",
        "lost",
        "unknown",
        "field",
    ),
)


def change_json(data: Any, rng: random.Random, pool: Pool) -> str:
    """Change one place of a tokenizer.json with a unigram model. Returns a word for it."""
    model = data["model"]
    vocab = model["vocab"]
    kind = rng.choice((*KINDS, *JSON_KINDS))
    number = rng.randrange(len(vocab))
    if kind in KINDS and kind != "option":
        return change_any(data, kind, rng, pool.steps, {vocab[number][0]: number})
    detail = ""
    if kind == "option":
        detail = rng.choice(("unk_id", "byte_fallback"))
        values = (None, 0, 1, number, len(vocab)) if detail == "unk_id" else (True, False, None)
        model[detail] = rng.choice(values)
    elif kind == "scores":
        detail = rng.choice(SCORES)
        for row in vocab:
            row[1] = new_score(detail, row[1], rng)
    elif kind == "score":
        vocab[number][1] = rng.choice((0, 0.0, 5.0, -1e300, 1e5, -12.345678901234567890123))
    elif kind == "piece":
        text = piece_text(pool.lines, rng)
        vocab.append([text, rng.choice((0.0, -3.0, -8.5))])
        detail = repr(text)
    elif kind == "inner":
        text = part_of_line(pool.lines, rng, spans_words=True)
        vocab.append([text, -3.0])
        detail = repr(text)
    elif kind == "lost":
        lost = rng.choice((SPACE, "e", vocab[number][0]))
        vocab[:] = [row for row in vocab if row[0] != lost]
        detail = repr(lost)
    elif kind == "permuted":
        unknown = vocab[model["unk_id"] or 0]
        rng.shuffle(vocab)
        model["unk_id"] = vocab.index(unknown)
        for row in data["added_tokens"]:
            same = [n for n, (text, _) in enumerate(vocab) if text == row["content"]]
            row["id"] = same[0] if same else row["id"]
    elif kind == "bytes":
        known = {text for text, _ in vocab}
        vocab += [
            [f"<0x{byte:02X}>", -9.0] for byte in range(256) if f"<0x{byte:02X}>" not in known
        ]
        model["byte_fallback"] = True
    elif kind == "metaspace":
        data["pre_tokenizer"] = {
            "type": "Metaspace",
            "replacement": SPACE,
            "prepend_scheme": rng.choice(("always", "first", "never")),
            "split": rng.random() < 0.5,
        }
        detail = f"{data['pre_tokenizer']['prepend_scheme']} {data['pre_tokenizer']['split']}"
    return f"{kind} {detail}".strip()


JSON_KINDS = (
    "scores",
    "score",
    "piece",
    "inner",
    "lost",
    "permuted",
    "bytes",
    "metaspace",
    "metaspace",
)
