"""Pinned values of encoding: pieces, ids, spans, draws of dropout and words of units of each kind of vocabulary."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from support.golden import check

from volt.encode.encoder import Encoder
from volt.encode.reachable import find_neighbours, reach
from volt.encode.units import UnitRule, unit_words
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

WORDS = "split:'(?i:s)|[a-z]?\\d+| ?\\p{L}+|\\s+(?!\\S)|\\s"
KINDS = [  # pre-tokenizer, marker, normalizer
    ("whitespace", "suffix", "none"),
    ("whitespace", "prefix", "nfc"),
    ("metaspace", "none", "lowercase"),
    ("metaspace-runs", "none", "none"),
    ("metaspace-line", "none", "none"),
    ("unicode", "none", "none"),
    ("gpt2", "none", "nfkc"),
    ("gpt2", "suffix", "none"),
    ("bytes", "none", "none"),
    (WORDS, "none", "none"),
    ("regex:[a-c]+|[ ]", "none", "none"),
    ("bytes+split: ?\\p{L}+|\\s", "none", "none"),
    ("matches:[^ ]+", "suffix", "none"),
]
LINES = [
    "as1 asas1 'sas  aas",
    "",
    "É e\u0301sa1\xa0▁a x\U0010f000",
    "\ta\u3000 as1as1 ½ a1's",
    "\U0010f000 \xa0 as1 ",
]
NAMES = [" ".join(kind) for kind in KINDS]
USER = SpecialTokens(user=("as1",))
each_kind = pytest.mark.parametrize("kind", KINDS, ids=NAMES)


def vocabulary(cut, marker, normalizer, **options):
    """Return a vocabulary of a few merges; two ways make one of its tokens, and others are scaffolding."""
    space, accent = ("Ġ", "Ã©") if cut.startswith("bytes") else ("▁", "éA")
    end = "</w>" if marker == "suffix" else ""
    atoms = ["a", "s", "'", "1", space, *accent]
    merges = [("a", "s"), ("'", "s"), ("s", "1"), (space, "a"), ("a", space), (space, space)]
    merges += [("1", "'"), (accent[0], accent[1])]
    merges += [("s", f"a{end}"), ("as", f"a{end}"), ("a", f"sa{end}")]
    tokens = dict.fromkeys([*atoms, *(atom + end for atom in atoms), *map("".join, merges)])
    options = {"special": USER, "pretokenizer": cut, "normalizer": normalizer} | options
    return Vocabulary(tuple(merges), tuple(tokens)[:-1], marker=marker, **options)


@each_kind
def test_texts_have_their_pieces(kind):
    """Pieces, ids, spans and dropout's draws equal golden values, and `encode_text` equals single
    lines.
    """
    made = vocabulary(*kind)
    encoder = Encoder(made)
    fallback = Encoder(vocabulary(*kind, byte_fallback=True, merging="ranks", whole_words=True))
    without_unk = SpecialTokens(None, None, None, None, user=("as1",))
    silent = Encoder(replace(made, special=without_unk))
    rule = UnitRule.of(made)
    text = "\n".join(LINES).encode()
    spans = [span for line in LINES for _, *span in fallback.encode_offsets(line)]
    values = {
        "pieces": encoder.encode_text(text).decode(),
        "silent": silent.encode_text(text, form="ids").decode(),
        "fallback": fallback.encode_text(text, form="ids").decode(),
        "dropped": encoder.encode_text(text, dropout=0.4, seed=5, first=2).decode(),
        "ranks": fallback.encode_text(text, dropout=0.3, seed=2**64 + 1).decode(),
        "spans": " ".join(f"{start}-{end}" for start, end in spans),
        "rule": f"{rule.breaks} {rule.clinging} {rule.keeps_breaks} {rule.marks_first} {rule.units_are_words}",
    }
    check(f"encode {' '.join(kind)}", {name: ascii(value) for name, value in values.items()})
    for one, form in product((encoder, fallback, silent), ("pieces", "ids")):
        lines = one.encode_lines(LINES) if form == "pieces" else map(one.encode_ids, LINES)
        expected = [" ".join(map(str, row)) for row in lines]
        assert one.encode_text(text, form=form).decode().split("\n")[:-1] == expected


@each_kind
def test_tokens_have_their_texts(kind):
    """`reach` returns the golden text of each token, and the golden reason for each unreached one."""
    made = vocabulary(*kind)
    result = reach(made)
    texts = " | ".join(f"{token}: {text}" for token, text in result.texts.items())
    lost = [f"{token}: {why}" for token, why in result.never.items()]
    rows = ["".join(find_neighbours(made)), texts, " | ".join([*lost, *result.undecided])]
    check(f"encode reach {' '.join(kind)}", list(map(ascii, rows)))


def test_units_have_their_words():
    """`unit_words` returns the golden words of units."""
    units = [" a", " b\xa0", "a▁", "\xa0 ", "a\t", " "]
    data = "".join(units).encode()
    ends = np.cumsum([len(unit.encode()) for unit in units])
    rows = {}
    for kind, first in product(KINDS, (0, 1)):
        words = unit_words(vocabulary(*kind), data, ends, np.full(len(units), first, np.uint8))
        row = f"{words.text} {words.lengths} {words.n_words}"
        rows[f"{kind[0]} {kind[1]} {first}"] = ascii(row)
    check("encode units", rows)
