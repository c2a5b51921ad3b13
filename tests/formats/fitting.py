"""A small vocabulary for each format, and a place for its files."""

from volt.choose.search import search
from volt.count.word_counts import WordCounts
from volt.formats.registry import write_vocabulary
from volt.learn.bpe import learn_bpe
from volt.text.byte_alphabet import ALPHABET, to_characters

LIBRARIES = {
    "subword-nmt": ["subword_nmt", "subword_nmt.apply_bpe"],
    "sentencepiece": ["sentencepiece"],
    "huggingface": ["tokenizers"],
    "tiktoken": ["tiktoken"],
}
WORDS = {"the": 90, "cat": 40, "sat": 30, "mat": 20, "hat": 20, "that": 40, "had": 20, "höre": 3}


def fitting(name):
    """Return a vocabulary that the format can store; for tiktoken, with every byte."""
    words = WORDS
    cut = "whitespace"
    if name == "tiktoken":
        words = {to_characters(f" {word}".encode()): count for word, count in words.items()}
        words |= dict.fromkeys(ALPHABET, 1)
        cut = "bytes"
    counts = WordCounts.from_pairs(words, pretokenizer=cut)
    marker = {"sentencepiece": "prefix", "tiktoken": "none"}.get(name, "suffix")
    candidates = learn_bpe(counts, 20, marker=marker)
    return search(candidates, select="tokens").vocabulary.closed()


def written(folder, name):
    """Write a vocabulary that the format can store.

    Return the vocabulary, the path, and the notes.
    """
    vocabulary = fitting(name)
    path = place(folder, name)
    return vocabulary, path, write_vocabulary(vocabulary, path, to=name)


def place(folder, name):
    """Return a path with the suffix that the format usually has."""
    ends = {"marian": "out.yml", "sentencepiece": "out.model", "huggingface": "out"}
    return folder / ends.get(name, "out.txt")
