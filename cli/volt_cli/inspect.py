"""`volt inspect`: what a vocabulary file contains, and how it splits a text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from volt.errors import ConfigError, shown
from volt_cli.console import Phases, loading, prepare_kernels, print_result
from volt_cli.io import certify, count_text, load_model
from volt_cli.options import Json, Model, Pattern, argument, expand_inputs, option

if TYPE_CHECKING:
    from volt.vocabulary import Vocabulary

Speller = Callable[[str], str]  # token → what is shown
Row = tuple[str, list[str], str]  # label, words, what separates the words
MAX_SHOWN_VALUE = 1000  # characters of a setting, or of an entry of the provenance
MAX_LISTED = 24  # special tokens
_RUN = re.compile(r"(.)\1{7,}", re.DOTALL)  # eight or more of one character
UNREACHED = {  # reason in volt.encode.reachable → its description
    "merges": "never the result of merging",
    "scores": "spelled by other tokens of a greater sum",
    "normalizer": "changed by the normalizer",
    "user tokens": "hidden by user tokens",
    "pretokenizer": "never within one pre-token",
    "undecided": "not produced by any text that was tried",
}


def inspect(
    model: Model,
    text: Annotated[list[str] | None, argument("TEXT", "Text to split.")] = None,
    n: Annotated[int, option("N", "Number of tokens to list.", "-n")] = 10,
    pattern: Pattern = None,
    on: Annotated[
        list[str] | None,
        option(
            "FILE",
            "Texts to encode: their pieces, and how few any vocabulary of this size needs at least; "
            "may be repeated.",
            "--on",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a vocabulary contains, and how it splits a text.

    Prints sizes, settings, provenance, the most frequent (of a unigram model, the likeliest) and the
    longest tokens, and tokens that no text can produce. --on takes seconds to minutes.
    """
    from volt.display import LabelledText

    if n < 0:
        raise ConfigError(f"-n {n}: give 0 or more tokens to list")
    line = " ".join(text or [])
    if not line.isprintable() and any("\ud800" <= character <= "\udfff" for character in line):
        raise ConfigError("TEXT is not UTF-8; convert it, for example with iconv")
    texts = expand_inputs(on) if on else []
    with loading():
        vocabulary = load_model(model, texts=texts, pattern=pattern)
    phases = Phases()
    prepare_kernels(phases, "words")
    with loading():
        data = _collect_data(model, vocabulary, line, n)
    if texts:
        data["on"] = _certify(vocabulary, texts, phases)
    rows = [*_rows(data, line, n, _choose_speller(vocabulary))]
    width = max(len(name) for name, _, _ in rows) + 2
    parts = (
        LabelledText(f"{name.replace('_', ' '):{width}}", words, gap=gap)
        for name, words, gap in rows
    )
    print_result(data, *parts, as_json=as_json, indent=1)


def _collect_data(model: Path, vocabulary: Vocabulary, line: str, n: int) -> dict[str, Any]:
    from volt.choose.report import vocabulary_data
    from volt.encode.encoder import Encoder
    from volt.encode.reachable import reach
    from volt.urls import bare

    result = reach(vocabulary)
    reasons = {**result.never, **dict.fromkeys(result.undecided, "undecided")}
    unreachable = dict[str, list[str]]()
    for why in UNREACHED:
        tokens = [token for token, reason in reasons.items() if reason == why]
        if tokens:
            unreachable[why] = tokens
    order = "most_frequent"
    values: Sequence[float] = vocabulary.counts or [0] * vocabulary.size
    if vocabulary.is_unigram and not vocabulary.counts:
        order = "most_likely"
        values = vocabulary.scores
    valued = list(zip(vocabulary.tokens, values, strict=True))
    ordinary = valued
    if values is vocabulary.scores:  # user-defined symbols of sentencepiece have scores above 0
        ordinary = [row for row in valued if row[1] <= 0]
    return {
        "file": bare(str(model)),
        "fingerprint": vocabulary.fingerprint,
        **vocabulary_data(vocabulary),
        **_superword_data(vocabulary),
        "provenance": dict(vocabulary.provenance),
        order: sorted(ordinary, key=lambda row: -row[1])[:n],
        "longest": sorted(valued, key=lambda row: (-len(row[0]), -row[1]))[:n],
        "unreachable": unreachable,
        "pieces": Encoder(vocabulary).encode(line) if line else [],
    }


def _superword_data(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the number of tokens that cross a space, and the number of the first merge that makes
    one, from 1; nothing if no token does.
    """
    from volt.choose.report import crosses_space

    if not vocabulary.pretokenizer.keeps_spaces:
        return {}
    crosses = partial(crosses_space, is_bytes=vocabulary.pretokenizer.is_bytes)
    n_tokens = sum(map(crosses, vocabulary.tokens))
    if not n_tokens:
        return {}
    ranks = (rank for rank, made in enumerate(vocabulary.made, 1) if crosses(made))
    return {"superwords": n_tokens, "first_superword": next(ranks, None)}


def _certify(vocabulary: Vocabulary, texts: list[str], phases: Phases) -> dict[str, Any]:
    """Return the certificate of a vocabulary on texts, as data."""
    counts = count_text(
        texts,
        phases,
        normalizer=vocabulary.normalizer,
        pretokenizer=vocabulary.pretokenizer,
        special=vocabulary.special,
    )
    return certify(vocabulary, counts, phases).data


def _choose_speller(vocabulary: Vocabulary) -> Speller:
    """Return a function that spells a token for display; only tokens of bytes are changed."""
    special = set(vocabulary.special.all)
    is_bytes = vocabulary.pretokenizer.is_bytes

    def spell(token: str) -> str:
        return shown(_show_bytes(token) if is_bytes and token not in special else token)

    return spell


def _show_bytes(token: str) -> str:
    """Return a token of bytes as text; a long run of a character becomes the character and a count.

    >>> print(_show_bytes("ĠlowÃ"), _show_bytes("Ġ" * 81 + "x"))
    ␣low<0xC3> ␣×81x
    """
    from volt.text.byte_alphabet import readable

    text = readable(token).replace(" ", "␣")
    return _RUN.sub(lambda run: f"{run[1]}×{len(run[0])}", text)


def _rows(data: dict[str, Any], line: str, n: int, spell: Speller) -> Iterator[Row]:
    for name, value in data.items():
        if name == "provenance":
            yield from _provenance_rows(value)
        elif name in ("most_frequent", "most_likely", "longest"):
            yield name, [f"{spell(token)} {_format_value(number)}" for token, number in value], "  "
        elif name == "unreachable":
            yield from _unreachable_rows(value, n, spell)
        elif name == "pieces":
            if line:
                yield "cut", [*map(spell, value)], " "
        elif name == "superwords":
            text = f"{value:,} cross a space"
            if data["first_superword"]:
                text += f", the first made by merge {data['first_superword']:,}"
            yield name, text.split(" "), " "
        elif name == "first_superword":
            continue
        elif name == "on":
            yield name, value["text"].split(" "), " "
        elif isinstance(value, list):
            listed = [shown(token) for token in value[:MAX_LISTED]]
            if len(value) > MAX_LISTED:
                listed.append(f"… {len(value) - MAX_LISTED:,} others")
            yield name, listed or ["none"], " "
        else:
            yield name, _format_value(value).split(" "), " "


def _provenance_rows(provenance: dict[str, Any]) -> Iterator[Row]:
    from volt.display import at_bars

    for key, entry in provenance.items():
        text = _format_value(entry)
        if key == "signature":
            yield key, at_bars(text), ""
        else:
            yield shown(key), text.split(" "), " "


def _unreachable_rows(unreachable: dict[str, list[str]], n: int, spell: Speller) -> Iterator[Row]:
    if not unreachable:
        yield "unreachable", ["none"], " "
    for why, tokens in unreachable.items():
        message = f"{len(tokens):,} {UNREACHED[why]}"
        if n:
            message += ":"
        listed = [spell(token) for token in tokens[:n]]
        if 0 < n < len(tokens):
            listed.append("…")
        yield "unreachable", [*message.split(" "), *listed], " "


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return shown(" ".join(value), MAX_SHOWN_VALUE)  # sentences, such as what an import has lost
    if isinstance(value, int):
        return f"{value:,}"
    return shown(value, MAX_SHOWN_VALUE)
