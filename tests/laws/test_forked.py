"""Laws of processes that are forked after Polars was used: they work without Polars, or refuse; none waits for ever."""

from multiprocessing import get_context

import pytest

from volt.count.corpus_statistics import text_bytes
from volt.count.word_counts import WordCounts
from volt.encode.encoder import Encoder
from volt.encode.unit_encoder import look_up_classes
from volt.errors import ConfigError
from volt.text.patterns.regex_tree import find_matched_set
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
_COUNTS = WordCounts.from_pairs({"low": 2})
_ENCODER = Encoder(
    Vocabulary(
        merges=(), tokens=("a", "b"), pretokenizer=PreTokenizer(r"split: ?\w+"), marker="none"
    )
)


def _forked(function, *arguments):
    find_matched_set(r"\w")  # uses Polars
    with get_context("fork").Pool(1) as pool:
        return pool.apply_async(function, arguments).get(timeout=60)


def test_a_forked_process_cuts_by_a_pattern_with_classes():
    """A line that needs neither a normal form nor user tokens is cut without Polars."""
    assert _forked(_ENCODER.encode, "ab b") == _ENCODER.encode("ab b")


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (find_matched_set, (r"[\p{Lt}~#]",)),
        (look_up_classes, ([0x1F600],)),
        (_COUNTS.min_count, (1,)),
        (text_bytes, (_COUNTS,)),
    ],
)
def test_a_forked_process_refuses_calls_of_polars(function, arguments):
    """A call that needs Polars raises an error that names the remedy, as Polars would wait for its threads."""
    with pytest.raises(ConfigError, match="get_context\\('spawn'\\)"):
        _forked(function, *arguments)
