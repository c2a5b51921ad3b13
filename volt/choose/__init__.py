"""Candidates → the size and the vocabulary: criteria, optimal transport, rules.

Start with `volt.search`.

Words of this package, each for one thing:

    candidate    a token that learning offers: an atom, or a token that a merge makes
    size         a number of tokens, atoms included; a size has the first so many candidates
    step         one size, measured (`SizeStep`)
    searched     the sizes that the caller asks for, or the default ones
    curve        the exact entropy at every size, after every merge (`EntropyCurve`)
    criterion    a number computed from token counts, such as the entropy
    rule         picks a size, by a criterion and a limit, or among the searched steps
    pick         the size that a rule picks, and why
    plan         a transport of characters (its rows) to tokens (its columns)
    kept         the tokens of a step that its vocabulary has; the others are scaffolding
"""

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
