"""Outcomes of calls on input that seeds draw: results, or the places and values in errors and notes, without prose."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from golden import digest

from volt.errors import VoltError
from volt.text.byte_alphabet import ALPHABET
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

SPECIAL = (
    SpecialTokens(),
    SpecialTokens(user=("<url>",)),
    SpecialTokens(user=("<url>", "<u", "<url>x"), control=("[A]", "[B]")),
    SpecialTokens(None, "<b>", "<b>", None, user=("<b>",), control=("[A]",)),
    SpecialTokens("[UNK]", None, "</s>", None),
    SpecialTokens(None, None, None, None),
)
CUTS = (
    *["whitespace"] * 5, *["metaspace"] * 3, "unicode", "gpt2", "bytes", "bytes", "regex:[^ ]+", "metaspace-runs",
    "metaspace-line", "split: ?[a-z]+|[^a-z]", r"bytes+split:\p{N}{1,3}+|\P{N}", "split: +[^ ]*|[^ ]+",
    r"regex:\w+", r"bytes+matches:[a-z]+",
)  # fmt: skip
NORMALIZERS = ("none", "none", "none", "nfc", "nfkc", "lowercase", "nfc+lowercase")


def gist(message: str) -> str:
    """Return the first two words of a message, its quoted values and its numbers.

    >>> gist("token 'th' repeats line 4; remove one")
    "token 'th' 4"
    """
    return " ".join(re.findall(r"^\S+ \S+|'[^']*'|\d+", message))


def outcome(call: Callable[[], Any]) -> str:
    """Return what a call returns, or the kind and gist of its error."""
    try:
        result = call()
        return repr([*result] if isinstance(result, Iterator) else result)
    except VoltError as error:
        return f"{type(error).__name__} {gist(str(error))}"


def drawn(n: int, draw: Callable[[Random], Any], first: int = 0) -> str:
    """Return a digest of n outcomes, each of input that a seed draws. first: the first seed"""
    outcomes = (outcome(lambda seed=seed: draw(Random(seed))) for seed in range(first, first + n))
    return digest("\n".join(outcomes).encode())


def described(vocabulary: Vocabulary) -> list[Any]:
    """Return the content of a vocabulary, with the gists of what its provenance says was lost."""
    v, provenance = vocabulary, dict(vocabulary.provenance)
    lost = [*map(gist, provenance.pop("lost", ()))]
    names = v.marker, v.normalizer.name, v.pretokenizer.name, v.merging, v.whole_words, v.byte_fallback
    return [v.merges, v.tokens, v.counts, v.order, v.special, *names, lost, sorted(provenance.items())]


def any_vocabulary(chance: Random, cuts: Sequence[str] = CUTS) -> Vocabulary:
    """Return a vocabulary with any settings, whose merges nothing has learned."""
    cut, marker = chance.choice(cuts), chance.choice(["suffix", "suffix", "prefix", "none"])
    if cut.startswith(("metaspace", "split")):
        marker = chance.choice(["none", "none", marker])
    inner = (
        ["\u3000"] * (chance.random() < 0.1)
        + [*"lowa1@"]
        + ["▁"] * (marker == "prefix" or "metaspace" in cut or "split: +" in cut)
    )
    ends = [f"{letter}</w>" for letter in "lowa"] * (marker == "suffix")
    if cut.startswith("bytes"):
        marker = chance.choice(["none", "none", "none", marker])
        inner, ends = [*ALPHABET], [f"{letter}</w>" for letter in ALPHABET] * (marker == "suffix")
    joined, merges = [*inner[-6:], *ends[-4:]], []
    for _ in range(chance.randint(0, 7)):
        left, right = chance.choice([part for part in joined if "</w>" not in part]), chance.choice(joined)
        merges.append((left, right))
        joined.append(left + right)
    tokens = dict.fromkeys([*inner, *ends, *map("".join, merges)])
    if chance.random() < 0.3:
        tokens = dict.fromkeys(chance.sample([*tokens], len(tokens) - 1))
    whole_words = chance.random() < 0.15
    vocabulary = Vocabulary(
        tuple(merges), (*tokens, *["wow"] * whole_words), marker=marker, pretokenizer=cut,
        counts=tuple(chance.randint(0, 9) for _ in range(len(tokens) + whole_words)) * (chance.random() < 0.3),
        normalizer=chance.choice(NORMALIZERS), special=chance.choice(SPECIAL),
        byte_fallback=chance.random() < 0.3, merging=chance.choice(["pairs", "pairs", "steps", "ranks"]),
        whole_words=whole_words,
    )  # fmt: skip
    return renumbered(vocabulary, chance) if chance.random() < 0.3 else vocabulary


def renumbered(vocabulary: Vocabulary, chance: Random) -> Vocabulary:
    """Return the vocabulary with its special tokens, and unused ids, anywhere among its tokens."""
    order = [*vocabulary.tokens]
    others = [piece for piece in vocabulary.pieces if piece not in set(order)]
    for piece in (*chance.sample(others, len(others)), *[""] * chance.randint(0, 2)):
        order.insert(chance.randint(0, len(order)), piece)
    return replace(vocabulary, order=tuple(order))
