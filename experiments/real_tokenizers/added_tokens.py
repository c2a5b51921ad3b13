"""Added tokens of tokenizer.json files → ids of chats and of tokens amid white space, and decoded text, compared.

    python -m experiments.real_tokenizers.added_tokens DIR [--lines N] [--rows N] [--only NAME …]

Each tokenizer.json in DIR is read by VOLT and by `tokenizers`. Compared are the ids of prompts (of chats whose marks
the file has) and of random lines of added tokens, white space and words: in batches, and some lines alone, with spans,
and as UTF-8 text; and the text of random rows of ids, a third of them of bytes, with `skip_special` and without. A
result is "equal", "announced" (the import has a note on the difference) or the number of lines that differ. The exit
status is 1 if some lines differ without a note.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import volt
from experiments.real_tokenizers.finding import find
from experiments.real_tokenizers.mutating import NO_TEXT
from experiments.real_tokenizers.table import table
from volt.errors import VoltError
from volt.text.byte_alphabet import BYTE_TOKENS

SPACES = (" ", "  ", "   ", "\n", "\n\n", "\t", " \n", "\r\n", "\u00a0", "\u3000", "\x1c", "")
WORDS = ("Hello", "a", "world", " the", "é", "中文", "😀", "don't", "12345", "!?", "x")
CHATS = {  # the name of a chat → its prompts; a file has them if it has their marks
    "Phi-3": (
        "<|user|>\nHello<|end|>\n<|assistant|>\n",
        "<|system|>\nBe kind. <|end|>\n<|user|>\n\n  How?\n<|end|>\n<|assistant|>\nSo:\n\n1. a\n<|end|>\n",
    ),
    "Llama 3": (
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "Qwen": ("<|im_start|>user\nHello  <|im_end|>\n<|im_start|>assistant\n",),
    "Gemma": ("<bos><start_of_turn>user\nHello<end_of_turn>\n<start_of_turn>model\n",),
    "Llama 2": ("<s>[INST] Hello [/INST] Hi </s><s>[INST] Bye [/INST]",),
    "DeepSeek": ("<｜begin▁of▁sentence｜><｜User｜>Hello<｜Assistant｜>Hi<｜end▁of▁sentence｜>",),
    "RoBERTa": ("<s>a <mask> b</s></s>c  <mask>.</s>",),
}
MARKS = {
    "Phi-3": ("<|user|>", "<|end|>", "<|assistant|>"),
    "Llama 3": ("<|start_header_id|>", "<|eot_id|>"),
    "Qwen": ("<|im_start|>", "<|im_end|>"),
    "Gemma": ("<start_of_turn>", "<end_of_turn>"),
    "Llama 2": ("<s>", "</s>"),
    "DeepSeek": ("<｜User｜>", "<｜Assistant｜>"),
    "RoBERTa": ("<s>", "<mask>"),
}
SILENT = (*NO_TEXT, "dropout", "which no text needs")  # notes that announce no other ids


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one comparison: number of lines, how many differ, and whether the import announces it."""

    n: int
    n_differing: int = 0
    is_announced: bool = False
    example: str = ""

    @property
    def text(self) -> str:
        """The outcome in a word, or a number.

        >>> Outcome(3).text, Outcome(3, 2).text, Outcome(3, 2, is_announced=True).text
        ('equal', '2 of 3 differ', 'announced (2 of 3)')
        """
        if not self.n:
            return "–"
        share = f"{self.n_differing:,} of {self.n:,}"
        if not self.n_differing:
            return "equal"
        return f"announced ({share})" if self.is_announced else f"{share} differ"


def compared(
    ours: Sequence[Any], theirs: Sequence[Any], lines: Sequence[Any], *, notes: Sequence[str]
) -> Outcome:
    """Compare results line by line. notes: those that may announce a difference"""
    differing = [n for n, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other]
    example = ""
    if differing:
        number = differing[0]
        example = f"{lines[number]!r}: {ours[number]!r}, {theirs[number]!r} there"
    return Outcome(len(lines), len(differing), bool(notes), example)


def encodings(
    encoder: volt.Encoder, real: Any, lines: list[str], notes: list[str]
) -> Iterator[Outcome]:
    """Compare ids of batches, of single lines, of spans and of text, with the ids of the library."""
    theirs = [one.ids for one in real.encode_batch(lines, add_special_tokens=False)]
    yield compared(
        [ids.tolist() for ids in encoder.encode_batch(lines)], theirs, lines, notes=notes
    )
    some, expected = lines[::5], theirs[::5]
    yield compared(
        [encoder.encode_ids(line).tolist() for line in some], expected, some, notes=notes
    )
    spans = encoder.encode_spans(some)
    rows = [spans.ids[first:last].tolist() for first, last in pairwise(spans.offsets)]
    yield compared(rows, expected, some, notes=notes)
    whole = [n for n, line in enumerate(lines) if "\n" not in line]
    text = "".join(f"{lines[n]}\n" for n in whole).encode()
    written = encoder.encode_text(text, form="ids").decode().split("\n")[:-1]
    rows = [[int(number) for number in row.split()] for row in written]
    yield compared(rows, [theirs[n] for n in whole], [lines[n] for n in whole], notes=notes)


def decodings(
    encoder: volt.Encoder, real: Any, rows: list[list[int]], notes: list[str]
) -> Iterator[Outcome]:
    """Compare decoded text, with special tokens and without, of batches and of some rows alone."""
    for skip in (False, True):
        theirs = real.decode_batch(rows, skip_special_tokens=skip)
        yield compared(encoder.decode_batch(rows, skip_special=skip), theirs, rows, notes=notes)
        some = rows[::5]
        yield compared(
            [encoder.decode_ids(row, skip_special=skip) for row in some],
            theirs[::5],
            some,
            notes=notes,
        )


def lines_of(added: Sequence[str], n: int, rng: random.Random) -> list[str]:
    """Return random lines of added tokens, white space and words."""
    parts = [*added[:50], *added[-50:]] or WORDS
    return [
        "".join(rng.choice(rng.choice((parts, SPACES, SPACES, WORDS))) for _ in range(10))
        for _ in range(n)
    ]


def rows_of(vocabulary: volt.Vocabulary, n: int, rng: random.Random) -> list[list[int]]:
    """Return random rows of ids: any ids, a third with special tokens, and a third with byte tokens."""
    known = [n for n, piece in enumerate(vocabulary.pieces) if piece]
    special = [vocabulary.ids[token] for token in vocabulary.special.all] or known
    letters = [vocabulary.ids[token] for token in BYTE_TOKENS if token in vocabulary.ids] or known
    kinds = ((known,), (known, special), (known, letters))
    return [
        [rng.choice(rng.choice(kinds[row % 3])) for _ in range(rng.randint(1, 9))]
        for row in range(n)
    ]


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the worst of several outcomes."""
    return max(
        outcomes,
        key=lambda one: (one.n_differing > 0 and not one.is_announced, one.n_differing, one.n),
    )


def outcomes_of(path: Path, *, n_lines: int, n_rows: int) -> tuple[dict[str, Outcome], str]:
    """Compare one file. Returns the outcome of each column, and why VOLT refuses the file, if it does."""
    from tokenizers import Tokenizer

    rng = random.Random(7)
    try:
        vocabulary = volt.read_vocabulary(path)
    except VoltError as error:
        return {}, str(error).replace(str(path), "")
    real, encoder = Tokenizer.from_file(str(path)), volt.Encoder(vocabulary)
    real.no_padding()
    real.no_truncation()
    lost = vocabulary.provenance["lost"]
    notes = [note for note in lost if not any(part in note for part in SILENT)]
    decoding = [note for note in lost if "decode" in note]
    added = [row["content"] for row in json.loads(path.read_text())["added_tokens"]]
    prompts = [
        line for name, lines in CHATS.items() if {*MARKS[name]} <= {*added} for line in lines
    ]
    lines = lines_of(added, n_lines, rng)
    rows = rows_of(vocabulary, n_rows, rng)
    decoded = list(decodings(encoder, real, rows, decoding))
    return {
        "prompts": joined([*encodings(encoder, real, prompts, notes)]),
        "added tokens": joined([*encodings(encoder, real, lines, notes)]),
        "decoded": joined(decoded[:2]),
        "decoded, skip_special": joined(decoded[2:]),
    }, ""


def main(given: Sequence[str] | None = None) -> int:
    """Print the table, and an example of each difference; 1 if a difference is not announced."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "folder", type=Path, help="where tokenizer.json files are, at any depth; or one file"
    )
    parser.add_argument("--lines", type=int, default=1_000, help="random lines of each file")
    parser.add_argument("--rows", type=int, default=1_500, help="random rows of ids of each file")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="files whose names contain one of these"
    )
    asked = parser.parse_args(given)
    names, counts = ("prompts", "added tokens", "decoded", "decoded, skip_special"), Counter[str]()
    lines, examples = list[list[str]](), list[str]()
    for found in find(asked.folder):
        if found.kind != "tokenizer.json" or not any(part in found.name for part in asked.only):
            continue
        outcomes, refused = outcomes_of(found.path, n_lines=asked.lines, n_rows=asked.rows)
        lines.append(
            [
                found.name,
                *(outcomes[name].text if outcomes else f"refused: {refused}" for name in names),
            ]
        )
        counts.update(
            one.text.split(" ")[0] if one.n_differing == 0 or one.is_announced else "different"
            for one in outcomes.values()
        )
        examples += [
            f"{found.name}, {name}: {one.example}" for name, one in outcomes.items() if one.example
        ]
        sys.stderr.write(" | ".join(lines[-1]) + "\n")
    sys.stdout.write(table(["file", *names], lines) + "\n\n")
    sys.stdout.write("\n".join(example[:300] for example in examples) + "\n\n")
    sys.stdout.write(", ".join(f"{kind} {n:,}" for kind, n in sorted(counts.items())) + "\n")
    return int(counts["different"] > 0)


if __name__ == "__main__":
    sys.exit(main())
