"""VOLT finds the subword vocabulary that a corpus deserves, without trial training, and applies it.

>>> import volt
>>> counts = volt.WordCounts.from_pairs({"low": 5, "lower": 2, "newest": 6, "widest": 3})
>>> candidates = volt.learn_bpe(counts, n_merges=9)
>>> result = volt.search(candidates, sizes=[14, 16, 18], select="fixed:18")
>>> volt.Encoder(result.vocabulary).encode("lowest")
['lo', 'w', 'est</w>']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from volt.lazy import lazy

if TYPE_CHECKING:
    from volt.choose.certificate import certify as certify
    from volt.choose.certificate import fewest_pieces as fewest_pieces
    from volt.choose.exact_curve import muv_search as muv_search
    from volt.choose.extend import extend_bpe as extend_bpe
    from volt.choose.learning import learn_enough as learn_enough
    from volt.choose.scaling_law import LanguageModel as LanguageModel
    from volt.choose.search import SearchResult as SearchResult
    from volt.choose.search import search as search
    from volt.choose.shrink import shrink as shrink
    from volt.choose.size_steps import SearchParameters as SearchParameters
    from volt.choose.size_steps import SizeStep as SizeStep
    from volt.choose.superwords import learn_superwords as learn_superwords
    from volt.choose.token_choice import choose_tokens as choose_tokens
    from volt.choose.train import train as train
    from volt.choose.training_law import Training as Training
    from volt.choose.transport import Sinkhorn as Sinkhorn
    from volt.choose.transport import TransportPlan as TransportPlan
    from volt.choose.transport import TransportProblem as TransportProblem
    from volt.comparison import Comparison as Comparison
    from volt.comparison.compare import compare as compare
    from volt.count.corpus import count_words as count_words
    from volt.count.word_counts import WordCounts as WordCounts
    from volt.count.word_counts import mix as mix
    from volt.encode.encoder import Encoder as Encoder
    from volt.errors import VoltError as VoltError
    from volt.errors import VoltWarning as VoltWarning
    from volt.formats.registry import read_vocabulary as read_vocabulary
    from volt.formats.registry import write_vocabulary as write_vocabulary
    from volt.learn.bpe import learn_bpe as learn_bpe
    from volt.learn.bpe import replay_bpe as replay_bpe
    from volt.learn.candidates import Candidates as Candidates
    from volt.learn.parity import learn_parity as learn_parity
    from volt.learn.parity import measure_parity as measure_parity
    from volt.stream import Stream as Stream
    from volt.stream.tasks.shard_writing import shard as shard
    from volt.text.special_tokens import SpecialTokens as SpecialTokens
    from volt.vocabulary import Vocabulary as Vocabulary

_import, __dir__, __all__ = lazy(__name__)


def __getattr__(name: str) -> Any:
    """Return the public object called `name`, or the package's version."""
    if name != "__version__":
        return _import(name)
    from importlib.metadata import version

    return version("volt-vocab")
