"""Hostile texts, every pair of a marker and a pre-tokenizer, and encoders that are built once for
each.
"""

import re
from functools import cache

import naive
from hypothesis import settings
from hypothesis import strategies as st
from support.drawn import examples
from support.exports import learn
from support.merges import LINES, merge_lists, word_counts

from volt.encode.encoder import Encoder
from volt.text.normalizer import Normalizer
from volt.vocabulary import Vocabulary

FEW = settings(deadline=None, max_examples=examples(60))
USER = ("<url>", "<URL>", "<0x4", "é▁!", "abc", "ab", "@@")
CORPUS = [
    *LINES,
    "don't low lower newest widest </w> a</w> <unk> <0x41> @@ x▁y </s> the the the ab abc abcd",
]
# (marker, pre-tokeniser): what is lossless up to white space, and what is lossless entirely
JOINED = [("suffix", "whitespace"), ("prefix", "whitespace")]
_KEPT = ("metaspace", "metaspace-runs", "metaspace-line", "unicode", "gpt2", r"regex:[^ ]+|[ ]+")
LOSSLESS = [("none", name) for name in _KEPT]
SCHEMES = JOINED + LOSSLESS
NORMALIZERS = ["none", "nfc", "nfkc+lowercase"]

MARKUP = """</w> a</w> @@ ▁ ▁▁ <0x41> <0xE2> <unk> <s> </s> <pad> <url> <URL> <ur l> ab abc abab c a < / w > the low
    lowest don't 42 Σ ΑΣ ﬁ é e\u0301 가 ㄱ 😀 İ ß ½"""
characters = st.characters(codec="utf-8") | st.sampled_from(
    "\U0010f000\U0010f003\U0010fffd"
)  # tokens hide so
spaces = [" ", "  ", "\t", "\n", "\r", "\x1c", "\x85", "\u3000", "\u200b", "\0"]
fragments = st.sampled_from([*MARKUP.split(), *spaces])
texts = st.lists(fragments | characters, max_size=12).map("".join)
schemes = st.sampled_from(SCHEMES)


@cache
def vocabulary(
    marker="suffix",
    pretokenizer="whitespace",
    normalizer="none",
    user=(),
    byte_fallback=False,
):
    """Learn a vocabulary from a few lines; it has all atoms and all tokens."""
    return learn(
        CORPUS,
        marker,
        pretokenizer,
        normalizer,
        n_merges=120,
        user=user,
        byte_fallback=byte_fallback,
    )


@cache
def encoder(*args, **options):
    """Return the encoder of `vocabulary(…)`."""
    return Encoder(vocabulary(*args, **options))


def spelled(text, normalizer, pretokenizer, marker, user=()):
    """Return the text that decoding the ids of a text must give.

    User tokens stay, and other text is normalised. "▁" becomes a space where it stands for one. A
    pre-tokenizer that drops white space leaves single spaces.
    """
    parts = [text]
    if user:
        longest_first = sorted(user, key=len, reverse=True)
        parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", text)
    normal = Normalizer.parse(normalizer).normalize
    text = "".join(part if part in user else normal(part) for part in parts)
    if pretokenizer == "whitespace":
        text = " ".join(text.split())
    if (marker, pretokenizer) == ("suffix", "whitespace"):
        return text
    return text.replace("▁", " ")


@st.composite
def vocabularies(draw):
    """Draw words, and a vocabulary of learned or arbitrary merges, with some of their results as
    tokens.
    """
    if draw(st.booleans()):
        words, merges, marker = draw(merge_lists())
    else:
        words = draw(word_counts())
        marker = draw(st.sampled_from(["suffix", "prefix", "none"]))
        merges = naive.learn(words, draw(st.integers(0, 30)), marker, 1)
    atoms = {atom for word in words for atom in naive.atoms(word, marker)}
    tokens = list(dict.fromkeys([*sorted(atoms), *map("".join, merges)]))
    kept = tuple(draw(st.permutations(tokens))[: draw(st.integers(0, len(tokens)))])
    return [*words], Vocabulary(merges=tuple(merges), tokens=kept, marker=marker)
