"""Inflected words of a small text."""

_STEMS = "walk talk stalk jump bump lump sing ring bring strong long cold bold"
STEMS = _STEMS.split()
ENDS = ("", "s", "ed", "er", "est", "ing", "ings", "ness")
LINES = {
    "en": [" ".join(stem + end for end in ENDS[: 2 + i % 6]) for i, stem in enumerate(STEMS * 6)],
    "xx": [" ".join(end + stem[::-1] for end in ENDS[i % 5 :]) for i, stem in enumerate(STEMS * 6)],
}
SIZES = range(40, 121, 20)
SYSTEMS = ("bpe:50", "bpe:90", "muv-search")
