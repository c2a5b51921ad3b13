"""Candidates → the size and the vocabulary: criteria, optimal transport, rules. Start with `volt.search`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.choose.exact_curve import muv_search as muv_search
    from volt.choose.scaling_law import LanguageModel as LanguageModel
    from volt.choose.search import SearchResult as SearchResult
    from volt.choose.size_steps import SearchParameters as SearchParameters
    from volt.choose.size_steps import SizeStep as SizeStep
    from volt.choose.training_law import Training as Training
    from volt.choose.transport import Sinkhorn as Sinkhorn
    from volt.choose.transport import TransportPlan as TransportPlan
    from volt.choose.transport import TransportProblem as TransportProblem

__getattr__, __dir__, __all__ = lazy(__name__)
