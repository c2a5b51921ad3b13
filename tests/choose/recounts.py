"""The counts of a vocabulary, recounted by encoding the corpus."""

from collections import Counter

from volt.encode.encoder import Encoder


def recounted(result):
    """Count the pieces of the corpus, encoded with the vocabulary of a search."""
    words = result.candidates.counts
    encoded = Encoder(result.vocabulary).encode_words(words.words)
    pieces = Counter()
    for cut, count in zip(encoded, words.counts.tolist(), strict=True):
        for piece in cut:
            pieces[piece] += count
    return pieces


def assert_counts_are_exact(result):
    """Check that the vocabulary's counts are those of the encoded corpus."""
    vocabulary = result.vocabulary
    pieces = recounted(result)
    counts = dict(zip(vocabulary.tokens, vocabulary.counts, strict=True))
    assert counts == {token: pieces[token] for token in vocabulary.tokens}
    assert set(pieces) - set(counts) <= set(vocabulary._reserved)
