"""VOLT finds the subword vocabulary that a corpus deserves, without trial training, and applies it.

>>> import volt
>>> counts = volt.WordCounts.from_pairs({"low": 5, "lower": 2, "newest": 6, "widest": 3})
>>> candidates = volt.learn_bpe(counts, n_merges=9)
>>> result = volt.search(candidates, sizes=[14, 16, 18], select="fixed:18")
>>> volt.Encoder(result.vocabulary).encode("lowest")
['lo', 'w', 'est</w>']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from volt.bpe import Candidates as Candidates
    from volt.bpe import learn_bpe as learn_bpe
    from volt.bpe import replay_bpe as replay_bpe
    from volt.comparing import compare as compare
    from volt.comparison import Comparison as Comparison
    from volt.corpus import count_words as count_words
    from volt.encoder import Encoder as Encoder
    from volt.errors import VoltError as VoltError
    from volt.searching import SearchResult as SearchResult
    from volt.searching import muv_search as muv_search
    from volt.searching import search as search
    from volt.steps import Parameters as Parameters
    from volt.steps import SizeStep as SizeStep
    from volt.stream import Stream as Stream
    from volt.text.special_tokens import SpecialTokens as SpecialTokens
    from volt.transport import Sinkhorn as Sinkhorn
    from volt.transport import TransportPlan as TransportPlan
    from volt.transport import TransportProblem as TransportProblem
    from volt.vocabulary import Vocabulary as Vocabulary
    from volt.word_counts import WordCounts as WordCounts
    from volt.word_counts import mix as mix

_HOMES = {
    "bpe": ("Candidates", "learn_bpe", "replay_bpe"),
    "comparing": ("compare",),
    "comparison": ("Comparison",),
    "corpus": ("count_words",),
    "encoder": ("Encoder",),
    "errors": ("VoltError",),
    "searching": ("SearchResult", "muv_search", "search"),
    "text.special_tokens": ("SpecialTokens",),
    "steps": ("Parameters", "SizeStep"),
    "stream": ("Stream",),
    "transport": ("Sinkhorn", "TransportPlan", "TransportProblem"),
    "vocabulary": ("Vocabulary",),
    "word_counts": ("WordCounts", "mix"),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    """Import a public name's module when the name is first used (PEP 562), so that `import volt` is instant."""
    if name == "__version__":
        from importlib.metadata import version

        return version("volt-vocab")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'volt' has no attribute {name!r}")
    value = getattr(import_module(f"volt.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
