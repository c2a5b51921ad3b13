"""Texts with tricky characters, and the names of normalizers and pre-tokenizers."""

import sys

from hypothesis import strategies as st

SPACES = [c for c in map(chr, range(sys.maxunicode + 1)) if c.isspace()]
TRICKY = [
    *SPACES,
    *"aAbßΣσςİı'sтÉé0١½²ﬁ漢カガｶﾞ가각ᄀ가ㄱㅏ▁.,!-_🙂👩‍💻",
    "\u0301",
    "\u0327",
    "\u200b",
    "\u200d",
    "\ufeff",
]
texts = st.lists(st.sampled_from(TRICKY) | st.characters(codec="utf-8"), max_size=30).map("".join)
NAMES = ["none", "nfc", "nfkc", "lowercase", "nfc+lowercase", "nfkc+lowercase"]
LOSSLESS = ["unicode", "gpt2", "metaspace", "metaspace-runs", "metaspace-line"]
REGEXES = [r"regex:\w+|[^\w\s]+", r"regex:(?s) ?.", r"regex:\bfoo\b", r"regex:a*", r"regex: |\w+"]
