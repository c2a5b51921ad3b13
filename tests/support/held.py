"""All public names of VOLT, and an object of each kind that users hold."""

from importlib import import_module

import volt
from volt.stream.running.state import Cursor, State

WINGS = (
    "choose",
    "comparison",
    "count",
    "encode",
    "formats",
    "learn",
    "stream",
    "text",
    "vocabulary",
)
COUNTS = volt.WordCounts.from_pairs({"low": 5, "lower": 2, "newest": 6, "widest": 3})
SOURCES = {"a": COUNTS, "b": {"low": 1}}
CANDIDATES = volt.learn_bpe(COUNTS, n_merges=9)
RESULT = volt.search(CANDIDATES, sizes=[14, 16, 18], select="fixed:18")
VOCABULARY = RESULT.vocabulary
ENCODER = volt.Encoder(VOCABULARY)
SPECIAL = volt.SpecialTokens(user=("<url>",))
STATE = State(3, {"a": Cursor(3)}, {}).to_json()
NAN = float("nan")


def public():
    """Return every public name of volt and of its wings, once."""
    found = {}
    for face in ("volt", *(f"volt.{wing}" for wing in WINGS)):
        module = import_module(face)
        for name in module.__all__:
            found.setdefault(id(getattr(module, name)), (f"{face}.{name}", getattr(module, name)))
    return dict(found.values())


PUBLIC = public()
