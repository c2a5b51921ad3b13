"""Unusual white space, "▁" and user tokens that strip white space change only the words of a batch that they change in a
line.
"""

import random
from functools import lru_cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.batches import ids_of, plain_ids
from support.drawn import examples

from volt.encode.encoder import Encoder
from volt.text.byte_alphabet import ALPHABET
from volt.text.patterns.published import NAMED, declared
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

SPACES = [
    "\xa0",
    "\u3000",
    "\u2028",
    "\x85",
    "\u1680",
    "\u200b",
    "\u202f",
    "▁",
    "\t",
    "\x0b",
    "\x1c",
]
FRAGMENTS = [
    *SPACES,
    " ",
    " ",
    "  ",
    "\n",
    "\r\n",
    ";",
    "a",
    "a b",
    "1",
    "р",
    "。",
    "»",
    "<m>",
    "<n>",
]
PRETOKENIZERS = [
    "whitespace",
    "unicode",
    "gpt2",
    "bytes",
    "metaspace",
    "metaspace-runs",
    "metaspace-line",
    "metaspace-if-absent",
    "metaspace-runs-per-segment",
    "regex:[^ ]+|[ ]",
    *(declared(name, is_bytes=True) for name in NAMED),
    *(declared(name, is_bytes=False) for name in ("cl100k", "deepseek3")),
]
NO_USERS = SpecialTokens()
USERS = SpecialTokens(user=("<m>", "<n>"))
STRIPPING = SpecialTokens(user=("<m>", "<n>"), lstrip=("<m>",), rstrip=("<n>",))
any_lines = st.lists(st.lists(st.sampled_from(FRAGMENTS), max_size=9).map("".join), max_size=5)


@lru_cache(maxsize=4)  # an encoder has 25 MB
def encoder(name, special, normalizer):
    """Return an encoder in which any two neighbouring atoms of a word merge, so that ids show where words end."""
    cut = PreTokenizer(name)
    text = "".join(FRAGMENTS).replace(" ", "▁")
    atoms = [ALPHABET[byte] for byte in text.encode()] if cut.is_bytes else list(text)
    atoms = list(dict.fromkeys(atoms))
    merges = tuple(product(atoms, repeat=2))
    tokens = dict.fromkeys([*atoms, *map("".join, merges)])
    options = {"pretokenizer": cut, "normalizer": normalizer, "special": special}
    return Encoder(Vocabulary(merges, tuple(tokens), marker="none", **options))


@pytest.mark.parametrize("name", PRETOKENIZERS)
@pytest.mark.parametrize("special", [NO_USERS, USERS, STRIPPING], ids=["none", "users", "strip"])
@settings(max_examples=examples(40))
@given(lines=any_lines, normalizer=st.sampled_from(["none", "none", "nfkc"]))
def test_unusual_spaces_have_the_ids_of_their_lines(name, special, lines, normalizer):
    """Unusual characters at any place of a line, in a batch and in one string, for new and known
    units, give the ids of the plain path.
    """
    one = encoder(name, special, normalizer)
    expected = plain_ids(one, lines)
    assert ids_of(one.encode_batch(lines, n_threads=1)) == expected
    assert ids_of(one.encode_batch(lines[::-1], n_threads=1)) == expected[::-1]
    text = [line.replace("\n", "").removesuffix("\r") for line in lines]
    data = "".join(f"{line}\r\n" for line in text).encode()
    expected = [
        [one.ids(pieces).tolist()] for pieces in one.encode_lines([f"{line}\r" for line in text])
    ]
    assert [[ids] for ids in ids_of(one.encode_bytes(data, n_threads=1))] == expected


@pytest.mark.parametrize("name", PRETOKENIZERS)
def test_long_units_have_the_ids_of_their_lines(name):
    """Units of any length, encoded by growing working memory, have the ids of the plain path."""
    one = encoder(name, USERS, "none")
    fragments = [
        "a" * 1_500,
        "\xa0 " * 700,
        "▁ " * 900,
        "a;р1" * 800,
        "<m>\u3000 " * 600,
        "\u3000。" * 3_000,
    ]
    batch = [*fragments, " ".join(fragments), "".join(fragments)]
    expected = plain_ids(one, batch)
    for _ in range(2):
        assert ids_of(one.encode_batch(batch, n_threads=1)) == expected


@pytest.mark.parametrize("name", PRETOKENIZERS)
@pytest.mark.parametrize("special", [NO_USERS, USERS, STRIPPING], ids=["none", "users", "strip"])
def test_lines_that_threads_share_have_the_ids_of_their_lines(name, special, monkeypatch):
    """Lines that are divided among threads, at places every few bytes, have the ids of the plain
    path; so they have with dropout, for which lines stay whole.
    """
    monkeypatch.setattr("volt.encode.chunks._SMALLEST", 8)
    one = encoder(name, special, "none")
    rng = random.Random(1)
    batch = ["".join(rng.choices(FRAGMENTS, k=k)) for k in (0, 3, 50, 200, 1, 400)]
    assert ids_of(one.encode_batch(batch, n_threads=2)) == plain_ids(one, batch)
    dropout = {"dropout": 0.5, "seed": 3}
    expected = ids_of(one.encode_batch(batch, n_threads=1, **dropout))
    assert ids_of(one.encode_batch(batch, n_threads=2, **dropout)) == expected
