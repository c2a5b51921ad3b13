"""SearchResult → what the page's script needs to cut text with the vocabulary of every searched size.

The page holds all merges once, as pairs of token numbers. The script merges with those of a size and splits back the
tokens that the transport drops there, as the encoder does. The page holds counts as changes from one size to the next,
from which the script rebuilds the exact counts of every size.

>>> from volt.learn.bpe import learn_bpe
>>> from volt.choose.search import search
>>> from volt.count.word_counts import WordCounts
>>> counts = WordCounts.from_pairs({"low": 5, "lower": 2, "newest": 6, "widest": 3})
>>> data = slider_data(search(learn_bpe(counts, n_merges=9), sizes=[13, 16]), ["a low  widest"])
>>> data["sizes"], data["n_merges"], data["dropped"], data["samples"]
([11, 13, 16, 17, 20], [0, 2, 5, 6, 9], [[], [11], [11], [11, 14, 15], [11, 14, 15, 18]], [['a', 'low', 'widest']])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from volt.encode.pretokens import split_lines

if TYPE_CHECKING:
    from volt.choose.search import SearchResult
    from volt.learn.candidates import Candidates
    from volt.vocabulary import Vocabulary


def slider_data(result: SearchResult, lines: Sequence[str]) -> dict[str, Any]:
    """Merges, counts and scaffolding at every searched size, and sample lines as pre-tokens, as JSON values.

    merges: left, right, left, right, …, numbers of tokens
    n_merges: how many of the merges each size has
    changes: for each size, the tokens whose count differs from that at the size before, and their counts, before any
        token is split back
    dropped: for each size, the tokens that its vocabulary does not keep
    typeable: whether the script may cut free text
    samples: lines as pre-tokens
    """
    candidates, vocabulary = result.candidates, result.vocabulary
    sizes = [step.size for step in result.steps]
    return {
        "marker": vocabulary.marker,
        "normalizer": vocabulary.normalizer.name,
        "pretokenizer": vocabulary.pretokenizer.name,
        "keeps_spaces": vocabulary.pretokenizer.keeps_spaces,
        "typeable": can_type(vocabulary),
        "n_atoms": candidates.n_atoms,
        "merges": candidates.parts.ravel().tolist(),
        "sizes": sizes,
        "n_merges": [candidates.merges_at(size) for size in sizes],
        "changes": [list(change) for change in count_changes(candidates, sizes)],
        "dropped": [np.flatnonzero(~step.kept).tolist() for step in result.steps],
        "samples": split_lines(vocabulary, lines),
    }


def can_type(vocabulary: Vocabulary) -> bool:
    """Whether the page's script cuts free text into the same pre-tokens: at spaces, and without user tokens.

    >>> from volt.text.pretokenizer import PreTokenizer
    >>> from volt.vocabulary import Vocabulary
    >>> [can_type(Vocabulary((), (), pretokenizer=PreTokenizer(name))) for name in ("metaspace", "gpt2")]
    [True, False]
    """
    return vocabulary.pretokenizer.name in ("whitespace", "metaspace") and not vocabulary.special.user


def count_changes(candidates: Candidates, sizes: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """For each size, the tokens whose count differs from that at the size before (at first: from 0), and their counts.

    >>> from volt.learn.bpe import learn_bpe
    >>> from volt.count.word_counts import WordCounts
    >>> list(count_changes(learn_bpe(WordCounts.from_pairs({"ab": 2}), n_merges=1), [2, 3]))
    [([0, 1], [2, 2]), ([0, 1, 2], [0, 0, 2])]
    """
    before = np.zeros(candidates.n_tokens, np.int64)
    for size in sizes:
        counts = np.zeros(candidates.n_tokens, np.int64)
        counts[:size] = candidates.counts_at(size)
        tokens = np.flatnonzero(counts != before)
        yield tokens.tolist(), counts[tokens].tolist()
        before = counts
