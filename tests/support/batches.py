"""Hard texts, encoders of every kind of vocabulary, and the slow path of encoding that batches must
agree with.
"""

from itertools import chain

from hypothesis import strategies as st

from volt.count.word_counts import WordCounts
from volt.encode.encoder import Encoder
from volt.encode.pretokens import split_lines
from volt.learn.bpe import learn_bpe
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN, SpecialTokens
from volt.vocabulary import Vocabulary

PRETOKENIZERS = (
    "whitespace",
    "unicode",
    "gpt2",
    "metaspace",
    "metaspace-runs",
    "metaspace-line",
    "bytes",
    r"regex:\w+|\s",
    r"regex:[a-z]+",
)
NORMAL = (
    "nfkc+lowercase",
    "nfkc",
    "nfkc+lowercase",
    "nfc",
    "nfkc",
    "nfc+lowercase",
    "lowercase",
    "nfkc",
    "nfc",
)
# patterns that match all text, at the level of characters and of bytes, so that user tokens part units
PATTERNS = (
    r"split:\s*[\r\n]|\s+(?!\S)| ?\w+|\s+| ?[^\s\w]+",
    r"bytes+matches: ?\w+|\s+(?!\S)|\s|[^\s\w]+",
)
MARKERS = {"whitespace": "suffix", r"regex:[a-z]+": "prefix"}
TEXT = "low lower newest widest slow-lowest «est» <url> ab ba ae\u0301 über ΣΑΣ it's 42 20 ... // naïve 中文"
# What is hard: spaces of all kinds, marks, what normal forms turn into spaces, the marker, user tokens, final sigma.
HARD = (
    *" \t\r\x0b\x0c\x1c\x1f\x01\x00\x85\xa0\u2003\u2028\u3000\u200b",
    "▁",
    "\u0301",
    "´",
    "¨",
    "ﬁ",
    "Σ",
    "ς",
    "İ",
    "</w>",
    "<url>",
    "<ur",
    chr(FIRST_HIDDEN),
    "\U0010ffff",
    "it's",
    "'ll",
    "12",
    "!?",
    "é",
    "中",
    "😀",
    "a",
    "b",
    "est",
    "lo",
    "w",
    "x" * 17,
    "lowestlowestlowest",
)
SPACED = (*"aa  \t\xa0\xa0\u3000.1", "  ", "low", "'s", chr(FIRST_HIDDEN))


def _vocabulary(pretokenizer, normalizer, *, user, byte_fallback, pruned):
    special = SpecialTokens(user=("<url>",) if user else ())
    empty = Vocabulary(
        (),
        (),
        pretokenizer=PreTokenizer.parse(pretokenizer),
        normalizer=Normalizer.parse(normalizer),
        special=special,
    )
    words = [
        word
        for word in chain.from_iterable(split_lines(empty, [TEXT] * 3))
        if not word.startswith(chr(FIRST_HIDDEN))
    ]
    counts = WordCounts.from_pairs(
        {word: words.count(word) for word in set(words)}, pretokenizer=pretokenizer
    )
    candidates = learn_bpe(counts, 40, marker=MARKERS.get(pretokenizer, "none"), min_pair_count=1)
    tokens = candidates.tokens[:: 2 if pruned else 1] + candidates.tokens[: candidates.n_atoms]
    return Vocabulary(
        tuple(candidates.merges),
        tuple(dict.fromkeys(tokens)),
        marker=candidates.marker,
        special=special,
        pretokenizer=PreTokenizer.parse(pretokenizer),
        normalizer=Normalizer.parse(normalizer),
        byte_fallback=byte_fallback and not pretokenizer.startswith("bytes"),
    )


def _encoders():
    plain = [
        Encoder(_vocabulary(name, "none", user=False, byte_fallback=False, pruned=False))
        for name in PRETOKENIZERS
    ]
    others = [
        Encoder(_vocabulary(name, normal, user=True, byte_fallback=True, pruned=True))
        for name, normal in zip(PRETOKENIZERS, NORMAL, strict=True)
    ]
    with_users = [
        Encoder(_vocabulary(name, "none", user=True, byte_fallback=True, pruned=True))
        for name in PRETOKENIZERS + PATTERNS
    ]
    return plain + others + with_users


ENCODERS = _encoders()
lines_of_text = st.lists(st.lists(st.sampled_from(HARD), max_size=12).map("".join), max_size=6)
any_lines = lines_of_text | st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=4
)


def plain_ids(encoder, lines):
    """Return the ids of each line, computed from its pieces by `Encoder.encode_lines`."""
    return [encoder.ids(pieces).tolist() for pieces in encoder.encode_lines(lines)]


def ids_of(encoded):
    """Return the ids of each line of an encoded batch as lists."""
    return [ids.tolist() for ids in encoded]
