"""Texts or files → a `Vocabulary`, in one call: count, learn, search.

    train(texts)              the size that the rule `trained` picks
    train(texts, size=8000)   8,000 tokens, as with `--select fixed:8000`

`train(sources=files)` returns the vocabulary that `volt search FILES` writes. To see why a size was
picked, or what other rules pick, call `count_words`, `learn_enough` and `search`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from volt import arguments
from volt.choose.learning import learn_until_picked
from volt.choose.rules import DEFAULT
from volt.choose.search import TINY, search
from volt.choose.training_law import Training
from volt.count.corpus import count_words
from volt.errors import CandidateError, ConfigError, VoltWarning
from volt.files.paths import Sources
from volt.learn.bpe import MOST_REQUESTED, learn_bpe
from volt.learn.candidates import Candidates
from volt.text.atoms import Marker
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import Level, PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

AUTO = "auto"


def train(
    texts: Iterable[str] | None = None,
    *,
    sources: Sources | None = None,
    size: int | str = AUTO,
    epochs: float | None = None,
    read: float | None = None,
    normalizer: str | Normalizer = "none",
    pretokenizer: str | PreTokenizer = "whitespace",
    pattern: str | None = None,
    level: Level = "characters",
    special: SpecialTokens | None = None,
    byte_fallback: bool = False,
    marker: Marker | None = None,
    min_pair_count: int = 2,
    coverage: float = 1.0,
    multiple_of: int = 1,
    **counting: Any,
) -> Vocabulary:
    r"""Return the vocabulary that texts, or files, deserve. Encode with it, or save it.

    texts: strings in memory: a list, a generator, a Series, an array of Arrow, and so on; never
        paths. `count_words` describes them
    sources: instead of texts, a path or several: files, globs, folders, URLs
    size: the number of tokens, as in `volt search --select fixed:8000`, with atoms but without
        special and byte tokens. Tokens that occur only within longer ones count, but are not in
        the vocabulary. "auto" is the size that the rule `trained` picks
    epochs: for "auto", how often a model is trained on the texts; 5 if None
    read: instead of epochs, the number of characters that the training reads, such as 2e9
    normalizer: none, nfc, nfkc, lowercase, nfc+lowercase or nfkc+lowercase
    pretokenizer: splits lines: whitespace, unicode, metaspace, gpt2, bytes or regex:PATTERN
    pattern: instead of pretokenizer, a regular expression, or the name of a published tokenizer's
    level: what merging starts from, "characters" or "bytes"
    special: special tokens; by default `SpecialTokens()`
    byte_fallback: whether the vocabulary spells unknown characters by their bytes
    marker: "suffix", "prefix" or "none"; None depends on the words
    min_pair_count: how often a pair must occur to be merged
    coverage: the share of all characters that the atoms must cover, such as 0.9995
    multiple_of: round the number of ids, `len(vocabulary)`, up to a multiple of this number
    counting: further arguments of `count_words`, such as memory="2G", or column="text" for files

    Warns with a VoltWarning of what to know before trusting the vocabulary, for "auto" also of a
    tiny text. Raises CorpusError if texts cannot be read, CandidateError if they are too few for
    the size.

    >>> import volt
    >>> from pathlib import Path
    >>> texts = ["low lower lowest", "newer newest wider widest"]
    >>> vocabulary = train(texts, size=14, min_pair_count=1)
    >>> vocabulary.size, len(vocabulary), vocabulary.special.all
    (14, 18, ('<unk>', '<s>', '</s>', '<pad>'))
    >>> volt.Encoder(vocabulary).encode("wow lower")
    ['w', 'o', 'w</w>', 'lo', 'we', 'r</w>']
    >>> lines = (f"the square of {root} is {root * root}" for root in range(2_000))
    >>> len(train(lines, size=500, level="bytes", multiple_of=64))
    512
    >>> files = Path(volt.__file__).parent.rglob("*.py")
    >>> train(sources=files, epochs=3, pattern="cl100k", level="bytes").size > 1000
    True
    """
    training = Training(epochs, read)
    n_tokens = _check_size(size, training)
    multiple_of = arguments.whole(multiple_of, "multiple_of", low=1, high=MOST_REQUESTED // 2)
    counts = count_words(
        sources,
        texts=texts,
        normalizer=normalizer,
        pretokenizer=pretokenizer,
        pattern=pattern,
        level=level,
        special=special,
        **_checked_counting(counting),
    )
    learn = partial(
        learn_bpe, counts, marker=marker, min_pair_count=min_pair_count, coverage=coverage
    )
    if n_tokens is None:
        candidates = learn_until_picked(learn, training, None)
    else:
        candidates = _learn_size(learn, n_tokens, multiple_of - 1)
    result = search(
        candidates,
        sizes=None if n_tokens is None else [n_tokens],
        select=n_tokens or DEFAULT,
        training=training,
        special=special,
        byte_fallback=byte_fallback,
        multiple_of=multiple_of,
    )
    advice = [text for text in result.warnings if n_tokens is None or TINY not in text]
    if advice:
        warnings.warn(". ".join(advice), VoltWarning, stacklevel=2)
    return result.vocabulary


def _check_size(size: int | str, training: Training) -> int | None:
    """Return the number of tokens; None for "auto"."""
    if size == AUTO:
        return None
    remedy = f'give a number of tokens, such as 8000, or "{AUTO}"'
    n_tokens = arguments.whole(size, "size", low=1, high=MOST_REQUESTED // 2, remedy=remedy)
    if training != Training():
        raise ConfigError(f"size is {size}, but epochs or read would choose it; remove one")
    return n_tokens


def _checked_counting(options: dict[str, Any]) -> dict[str, Any]:
    unknown = options.keys() - (count_words.__kwdefaults__ or {}).keys()
    if unknown:
        raise TypeError(f"train() got an unexpected keyword argument {min(unknown)!r}")
    return options


def _learn_size(learn: Callable[..., Candidates], size: int, n_more: int) -> Candidates:
    """Learn a size, and more merges to round it up; two merges may make the same token."""
    n_merges = size + n_more
    candidates = learn(n_merges)
    while candidates.n_tokens < size + n_more and candidates.n_merges == n_merges:
        n_merges *= 2
        candidates = learn(n_merges)
    if candidates.n_merges > 0 and candidates.n_tokens < size:
        raise CandidateError(
            f"size is {size:,}, but this text gives only {candidates.n_tokens:,} tokens; "
            "lower size, or give more text"
        )
    return candidates
