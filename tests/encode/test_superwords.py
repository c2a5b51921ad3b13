"""Laws of superwords: tokens across spaces, found in two steps, are those of merging whole pre-tokens."""

import json
from dataclasses import replace
from itertools import chain, pairwise

import naive
import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.patterns import any_texts, patterns

from volt.encode.batch_encoder import BatchEncoder
from volt.encode.chunks import Chunk, chunks_of
from volt.encode.encoder import Encoder
from volt.encode.pretokens import split_lines
from volt.encode.rendering import Rendering
from volt.encode.score_tables import tables_of
from volt.encode.superwords import SuperwordEncoder, SuperwordTables
from volt.encode.word_tables import join_words
from volt.errors import ConfigError
from volt.text.byte_alphabet import ALPHABET
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

SUPERBPE = r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)"
PRETOKENIZERS = [
    f"split:{SUPERBPE}",
    r"split:[\s\S]+",
    r"split:[^-]+|-+",
    r'splits:["--", {"pattern": "1{1,3}", "from_end": true}]',
    f'splits:["[ab]b", {json.dumps(SUPERBPE)}]',
    "metaspace-line",
    "metaspace-line-if-absent",
    "metaspace-line-per-segment",
]
BYTES = [f"bytes+{name}" for name in PRETOKENIZERS if name.startswith("split")]
SPACE, BYTE_SPACE = "▁", "Ġ"
KINDS = ["ids", "marked ids", "pieces", "id text"]
TEXT = st.text("aaabbb   --1▁\n\r\tx\U0010c001é", max_size=30)
LINES = st.lists(TEXT, max_size=4)


@st.composite
def vocabularies(draw, mergings=("pairs", "steps", "ranks")):
    """Return a vocabulary of few atoms with merges across spaces, in which tokens are made twice."""
    pretokenizer = draw(st.sampled_from(PRETOKENIZERS + BYTES))
    space = BYTE_SPACE if pretokenizer in BYTES else SPACE
    tokens = ["a", "b", "-", "1", space, "x"]
    n_atoms = draw(st.integers(5, 6))  # "x" may be unknown, like "é"
    tokens = tokens[:n_atoms]
    merges = dict[tuple[str, str], None]()
    places = st.integers(0, 40)
    for left, right in draw(st.lists(st.tuples(places, places), max_size=20)):
        pair = tokens[left % len(tokens)], tokens[right % len(tokens)]
        merges[pair] = None
        if "".join(pair) not in tokens and len("".join(pair)) < 9:
            tokens.append("".join(pair))
        elif "".join(pair) not in tokens:
            del merges[pair]
    merging = draw(st.sampled_from(mergings))
    ranked = list(merges)
    if merging == "steps":
        ranked = draw(st.permutations(ranked))
    if merging == "ranks":
        ranked = list({"".join(pair): pair for pair in ranked}.values())
    n_kept = draw(st.integers(n_atoms, len(tokens)))
    users = draw(st.sampled_from([(), (), ("ab-",), ("a a",), ("\n",)]))
    return Vocabulary(
        merges=tuple(ranked),
        tokens=tuple(tokens[:n_kept]),
        marker="none",
        pretokenizer=pretokenizer,
        merging=merging,
        special=SpecialTokens(user=users),
        byte_fallback=space == SPACE and draw(st.booleans()),
        fuse_unk=draw(st.booleans()),
        normalizer=draw(
            st.sampled_from([Normalizer(), Normalizer(), Normalizer("nfkc", lowercase=True)])
        ),
    )


def values_of(encoder, lines):
    """Return the values of each line, in chunks of two lines."""
    texts = [line.encode() for line in lines]
    result = []
    chunks = [Chunk(b"".join(t + b"\xff" for t in texts[i : i + 2]), 0xFF) for i in (0, 2)]
    for part in encoder.encode(chunks, n_threads=1):
        result += [row.tolist() for row in np.split(part.values, part.ends)[:-1]]
    return result


@settings(max_examples=examples(400), deadline=None)
@given(vocabulary=vocabularies(), lines=LINES, kind=st.sampled_from(KINDS))
def test_two_steps_give_what_merging_whole_pretokens_gives(vocabulary, lines, kind):
    """Ids, marked ids and text equal those that one merging of each whole pre-token gives."""
    tables = tables_of(vocabulary)
    superwords = SuperwordTables.of(tables)
    fast = SuperwordEncoder(superwords, Rendering(kind, tables), limit=3)
    slow = BatchEncoder(tables, Rendering(kind, tables), limit=3)
    assert values_of(fast, lines) == values_of(slow, lines)
    assert values_of(fast, lines) == values_of(slow, lines)  # with the units in the cache
    for line in lines:
        assert fast.encode_line(line).tolist() == slow.encode_line(line).tolist()


@settings(max_examples=examples(200), deadline=None)
@given(vocabulary=vocabularies(mergings=("pairs",)), line=st.text("aaabbb   --1", max_size=30))
def test_pieces_equal_those_of_a_naive_twin(vocabulary, line):
    """The pieces of known characters equal those of a naive twin that merges whole pre-tokens."""
    plain = replace(vocabulary, normalizer=Normalizer(), special=SpecialTokens())
    words = plain.pretokenizer.split(line, hidden=False)
    merges = list(plain.merges)
    expected = [naive.encode(word, merges, set(plain.tokens), "none") for word in words]
    tables = tables_of(plain)
    encoder = SuperwordEncoder(SuperwordTables.of(tables), Rendering("pieces", tables), limit=9)
    text = encoder.encode_line(line).tobytes().decode()
    assert text.split() == list(chain.from_iterable(expected))


@settings(max_examples=examples(200), deadline=None)
@given(vocabulary=vocabularies(), lines=LINES)
def test_stretches_are_pretokens(vocabulary, lines):
    """`encode_stretches` gives the tokens of each pre-token that is not empty, as their indices."""
    vocabulary = replace(vocabulary, special=SpecialTokens(), byte_fallback=False)
    tables = tables_of(vocabulary)
    words = list(chain.from_iterable(split_lines(vocabulary, lines)))
    symbols, ends = tables.segment(*join_words(words))
    index_of = {token: index for index, token in enumerate(vocabulary.tokens)}
    strings = [tables.tokens[symbol] if symbol >= 0 else "" for symbol in symbols.tolist()]
    text = b"".join(line.encode() + b"\xff" for line in lines)
    chunks = chunks_of(text, separator=0xFF, size=9)
    parts = list(Encoder(vocabulary).encode_stretches(chunks, n_threads=1))
    found = [part.tolist() for part, _ in parts]
    assert list(chain.from_iterable(found)) == [index_of.get(string, -1) for string in strings]
    sizes = [size for _, ends in parts for size in np.diff(ends, prepend=0).tolist()]
    assert sizes == np.diff(ends, prepend=0).tolist()


@settings(max_examples=examples(60), deadline=None)
@given(pattern=patterns, lines=st.lists(any_texts, max_size=4))
def test_stretches_of_any_pattern_are_pretokens(pattern, lines):
    """`encode_stretches` gives the bytes of each pre-token of any pattern, for new and known units."""
    try:
        vocabulary = Vocabulary((), ALPHABET, marker="none", pretokenizer=f"bytes+split:{pattern}")
        encoder = Encoder(vocabulary)
        words = list(chain.from_iterable(split_lines(vocabulary, lines)))
    except ConfigError:
        reject()
    text = b"".join(line.encode() + b"\xff" for line in lines)
    for _ in range(2):
        found = list[str]()
        for tokens, ends in encoder.encode_stretches(chunks_of(text, separator=0xFF)):
            characters = [ALPHABET[token] for token in tokens.tolist()]
            bounds = pairwise([0, *ends.tolist()])
            found += ["".join(characters[start:end]) for start, end in bounds]
        assert found == words


def test_a_vocabulary_without_spaces_in_words_has_no_stretches():
    """`encode_stretches` refuses a vocabulary whose pre-tokens end at spaces, and names a remedy."""
    encoder = Encoder(Vocabulary(merges=(), tokens=("a",)))
    with pytest.raises(ConfigError, match=r"cannot contain spaces.*metaspace-line"):
        list(encoder.encode_stretches([Chunk(b"a\n")]))


def test_only_vocabularies_that_gain_are_encoded_in_two_steps():
    """An encoder takes two steps if units repeat more often than pre-tokens, and otherwise one."""

    def takes_two(pretokenizer, merges=()):
        vocabulary = Vocabulary(
            merges, ("a", "Ġ", "▁"), marker="none", pretokenizer=PreTokenizer(pretokenizer)
        )
        tables = SuperwordTables.of(tables_of(vocabulary))
        return tables is not None and tables.is_faster

    assert takes_two(f"bytes+split:{SUPERBPE}")
    assert takes_two("metaspace-line")
    assert not takes_two("metaspace")
    assert not takes_two("bytes")
    assert not takes_two("bytes+split:[^ ]+| +")
    assert not takes_two("regex:a+")
