"""A small vocabulary for each format, and a place for its files."""

from volt.choose.search import search
from volt.count.word_counts import WordCounts
from volt.learn.bpe import learn_bpe
from volt.text.byte_alphabet import ALPHABET, to_characters
from volt.text.pretokenizer import PreTokenizer

LIBRARIES = {
    "subword-nmt": ["subword_nmt", "subword_nmt.apply_bpe"],
    "sentencepiece": ["sentencepiece"],
    "huggingface": ["tokenizers"],
    "tiktoken": ["tiktoken"],
}
WORDS = {"the": 90, "cat": 40, "sat": 30, "mat": 20, "hat": 20, "that": 40, "had": 20, "höre": 3}


def fitting(name):
    """Return a vocabulary that the format can store; for tiktoken, with every byte."""
    words = dict(WORDS)
    cut = PreTokenizer("whitespace")
    options = {"marker": "prefix"} if name == "sentencepiece" else {}
    if name == "tiktoken":
        words = {to_characters(f" {word}".encode()): count for word, count in words.items()}
        words |= dict.fromkeys(ALPHABET, 1)
        cut = PreTokenizer("bytes")
    counts = WordCounts.from_pairs(words, pretokenizer=cut)
    return search(learn_bpe(counts, 20, **options), select="tokens").vocabulary.closed()


def place(folder, name):
    ends = {"marian": "out.yml", "sentencepiece": "out.model", "huggingface": "out"}
    return folder / ends.get(name, "out.txt")
