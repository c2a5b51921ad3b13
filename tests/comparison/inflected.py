"""What tests of comparisons share: inflected words of a small text."""

from __future__ import annotations

_STEMS = "walk talk stalk jump bump lump sing ring bring strong long cold bold"
STEMS = _STEMS.split()
ENDS = ("", "s", "ed", "er", "est", "ing", "ings", "ness")
