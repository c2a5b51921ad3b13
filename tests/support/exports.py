"""Lines, vocabularies learned from them, and the check that another library encodes as VOLT does."""

from collections import Counter
from dataclasses import replace
from itertools import compress
from random import Random

from hypothesis import strategies as st

from volt.count.word_counts import WordCounts
from volt.formats.check import encode_as_library
from volt.learn.bpe import learn_bpe
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import FIRST_HIDDEN, LAST_HIDDEN, SpecialTokens
from volt.vocabulary import Vocabulary

LINES = [
    "the lower the newest, the widest: don't 42 </s> <s> <unk> a</w> x▁y ▁▁z",
    "low lower lowest new newer newest wide wider widest  two  spaces   three",
    "größer größte Äpfel naïve café cafe\u0301 ÑANDÚ ΑΣ ΌΔΥΣΣΕΎΣ и мир миром",
    "我们 在 这里 السلام عليكم שלום 😀👍🏽 e\u0301\u0327 \u200b\u200d \x1c \x85 \u3000 \t ﬁ ½",
] * 3

fragments = st.sampled_from(
    [word for line in LINES for word in line.split(" ")] + [" ", "  ", "\n", "\x1f", "</w>"]
)
characters = st.characters(codec="utf-8")
# Characters that stand for user tokens in files of tokenizers; no text may forge these.
HIDDEN = set(map(chr, range(FIRST_HIDDEN, LAST_HIDDEN + 1)))
texts = (
    st.lists(fragments | characters, max_size=10)
    .map("".join)
    .filter(lambda text: not HIDDEN & set(text))
)


def learn(
    lines,
    marker,
    pretokenizer,
    normalizer="none",
    *,
    n_merges=150,
    user=(),
    byte_fallback=False,
    counts=False,
):
    """Learn a vocabulary by BPE from lines; all candidates are tokens, except those spelled like
    special tokens.
    """
    cut = PreTokenizer(pretokenizer)
    normal = Normalizer.parse(normalizer)
    words = Counter(word for line in lines for word in cut.split(normal.normalize(line)))
    word_counts = WordCounts.from_pairs(words, normalizer=normal, pretokenizer=cut)
    candidates = learn_bpe(word_counts, n_merges, marker=marker)
    special = SpecialTokens(user=user)
    reserved = {*special.all, *BYTE_TOKENS * byte_fallback, "</w>"}
    kept = [token not in reserved for token in candidates.tokens]
    return Vocabulary(
        merges=tuple(candidates.merges),
        tokens=tuple(compress(candidates.tokens, kept)),
        counts=tuple(candidates.counts_at(candidates.n_tokens)[kept].tolist()) if counts else (),
        marker=marker,
        normalizer=normal,
        pretokenizer=cut,
        special=special,
        byte_fallback=byte_fallback,
    )


def keep_half(vocabulary):
    """Return the vocabulary with a random half of the merges' results as tokens."""
    made = set(vocabulary.made)
    chance = Random(1)
    kept = [token not in made or chance.random() < 0.5 for token in vocabulary.tokens]
    tokens = tuple(compress(vocabulary.tokens, kept))
    return replace(vocabulary, tokens=tokens, counts=tuple(compress(vocabulary.counts, kept)))


def beyond(notes):
    """Return notes without the one that transformers finds special tokens in text."""
    return [note for note in notes if "finds special tokens" not in note]


def assert_agree(encoder, peer, lines):
    """Check that a library's pieces and ids of lines are VOLT's.

    Special tokens that only the library finds in text cut VOLT's lines, too.
    """
    pieces = encode_as_library(encoder, lines, peer.added, unk=peer.unk)
    for line, ours, theirs in zip(lines, pieces, peer.pieces(lines), strict=True):
        assert ours == theirs, line
    for line, ours, theirs in zip(lines, pieces, peer.ids(lines), strict=True):
        assert encoder.ids(ours).tolist() == theirs, line


def corpora(lines):
    """Yield the name and the lines of Multi30k (val, and a part of train), TED, and the Bible."""
    names = ("cs", "de", "en", "fr")
    yield "multi30k", [line for name in names for line in lines(f"multi30k/val.{name}.gz")]
    yield (
        "multi30k train",
        [line for name in names for line in lines(f"multi30k/train.{name}.gz", 500)],
    )
    ted = "Cantonese Catalan Estonian Finnish Georgian Latvian Marathi Urdu"
    yield "ted", [line for name in ted.split() for line in lines(f"ted/{name}.txt.gz", 1500)]
    bible = ("et", "eu", "hy", "lv", "sw", "uk")
    yield "bible", [line for name in bible for line in lines(f"bible/{name}.tsv.gz", 1500)]


CORPORA = [
    *(
        f"multi30k/{part}.{name}.gz"
        for name in ("en", "de", "fr", "cs")
        for part in ("train", "val")
    ),
    *(f"ted/{name}.txt.gz" for name in ("Cantonese", "Finnish", "Georgian", "Marathi", "Urdu")),
    *(f"bible/{name}.tsv.gz" for name in ("et", "eu", "hy", "lv", "sw", "uk")),
]
