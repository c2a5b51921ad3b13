"""Candidates → `SearchResult`: measures of a range of sizes, the size that a rule chooses, and its vocabulary.

>>> from volt.learn.bpe import learn_bpe
>>> from volt.count.word_counts import WordCounts
>>> candidates = learn_bpe(WordCounts.from_pairs({"low": 5, "lower": 2, "newest": 6, "widest": 3}), n_merges=9)
>>> result = search(candidates, sizes=range(13, 21), select="knee")
>>> result.best.size, result.vocabulary.size, result.pick.why
(17, 14, 'entropy 1.276 lies farthest below the chord over the range')
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import pairwise

import numpy as np

from volt import arguments
from volt.choose.notebook import cuts_table, entropy_curve, picks_table
from volt.choose.rules import Pick, all_picks, as_rule, parse_rule
from volt.choose.size_steps import Parameters, SizeStep, size_steps
from volt.choose.sweep import EntropyCurve, muv_search
from volt.choose.vocabulary_at import provenance_of, vocabulary_at
from volt.display import counted, html_note, html_page
from volt.errors import CandidateError
from volt.learn.candidates import Candidates
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

SMALL_CORPUS = 100_000  # words; in fewer, all but the commonest tokens occur a handful of times


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """What a search found.

    best: the step that the rule chose
    pick: the rule's choice, and why
    picks: what every rule would choose, by the rule's name
    steps: all searched sizes
    curve: the BPE sweep at every size
    vocabulary: that of the chosen size
    warnings: sentences on what to know before trusting this result
    signature: what reproduces it
    candidates: what was searched

    >>> from volt.learn.bpe import learn_bpe
    >>> result = search(learn_bpe({"low": 5, "lower": 2, "newest": 6, "widest": 3}, n_merges=9), sizes=[14, 16, 18])
    >>> result, result.best.size, sorted(result.picks)
    (<SearchResult: knee picks 14 of 3 sizes from 14 to 18, keeps 13 tokens>, 14,
    ['f95', 'knee', 'muv', 'renyi', 'tokens'])
    """

    best: SizeStep
    pick: Pick
    picks: dict[str, Pick]
    steps: tuple[SizeStep, ...]
    curve: EntropyCurve
    vocabulary: Vocabulary
    warnings: tuple[str, ...]
    signature: str
    candidates: Candidates = field(repr=False)

    def __repr__(self) -> str:
        sizes = f"{counted(len(self.steps), 'size')} from {self.steps[0].size:,} to {self.steps[-1].size:,}"
        found = f"{self.pick.rule} picks {self.best.size:,} of {sizes}"
        return f"<SearchResult: {found}, keeps {counted(self.vocabulary.size, 'token')}>"

    def _repr_html_(self) -> str:
        return html_page(
            f"{self.pick.rule} picks {self.best.size:,} tokens, and keeps {self.vocabulary.size:,}",
            picks_table(self.picks, self.pick), entropy_curve(self.steps, self.pick),
            cuts_table(self.candidates, self.vocabulary), *map(html_note, (*self.warnings, self.signature)),
        )  # fmt: skip


def search(
    candidates: Candidates,
    *,
    sizes: Sequence[int] | None = None,
    select: str | int = "knee",
    parameters: Parameters | None = None,
    special: SpecialTokens | None = None,
    byte_fallback: bool = False,
    report: Callable[[int], object] | None = None,
) -> SearchResult:
    """Find the vocabulary that a rule chooses among sizes.

    candidates: what `learn_bpe` or `replay_bpe` returns
    sizes: rising numbers of tokens, atoms included and special tokens not; by default some thirty round ones
    select: the rule: knee, muv, f95, renyi, tokens, or a size such as 8000, which is "fixed:8000" (volt.choose.rules)
    parameters: of the criteria and the transport; by default those of `Parameters()`
    special: the special tokens of the vocabulary; by default `SpecialTokens()`
    byte_fallback: whether the vocabulary spells unknown characters by their bytes
    report: called with the number of sizes done
    Raises CandidateError if there are no merges.
    Raises CandidateError if a size is below the number of atoms, above what the candidates offer, or not above the
        one before.
    Raises ConfigError if the rule or a parameter is unknown or out of range.

    >>> from volt.learn.bpe import learn_bpe
    >>> candidates = learn_bpe({"low": 5, "lower": 2, "newest": 6, "widest": 3}, n_merges=9)
    >>> search(candidates, sizes=[14, 16, 18], select=18).vocabulary
    <Vocabulary: 15 tokens, 7 merges, suffix, whitespace>
    """
    _refuse_no_merges(arguments.instance(candidates, Candidates, "candidates", call="volt.search({})"))
    parameters, special = _parameters(parameters), _special(special)
    select, report = as_rule(select), arguments.function(report, "report")
    fixed = parse_rule(select)
    sizes = checked_sizes(candidates, default_sizes(candidates) if sizes is None else sizes, fixed=fixed)
    steps = tuple(size_steps(candidates, sizes, parameters=parameters, report=report))
    picks = all_picks(steps, fixed=fixed)
    pick = picks[select if fixed is None else f"fixed:{fixed}"]
    best, signature = steps[pick.index], _signature(candidates, sizes, select, parameters)
    vocabulary = _vocabulary(candidates, best, signature=signature, special=special, byte_fallback=byte_fallback)
    return SearchResult(
        best=best,
        pick=pick,
        picks=picks,
        steps=steps,
        curve=muv_search(candidates, length=parameters.length),
        vocabulary=vocabulary,
        warnings=tuple(_warnings(candidates, steps, pick)),
        signature=signature,
        candidates=candidates,
    )


def _parameters(parameters: Parameters | None) -> Parameters:
    remedy = "give volt.Parameters(epsilon=0.5), say"
    return (
        Parameters() if parameters is None else arguments.instance(parameters, Parameters, "parameters", remedy=remedy)
    )


def _special(special: SpecialTokens | None) -> SpecialTokens:
    return SpecialTokens() if special is None else arguments.instance(special, SpecialTokens, "special")


def _refuse_no_merges(candidates: Candidates) -> None:
    if not candidates.n_merges:
        raise CandidateError(
            f"nothing to merge: in {candidates.counts.total:,} words no pair of characters occurs often enough; "
            "give more text, or lower min_pair_count"
        )


def _vocabulary(
    candidates: Candidates, best: SizeStep, *, signature: str, special: SpecialTokens, byte_fallback: bool
) -> Vocabulary:
    """The vocabulary of the chosen step, which carries the signature of the search."""
    provenance = {"signature": signature, **provenance_of(candidates, best)}
    return vocabulary_at(
        candidates, best.size, kept=best.kept, special=special, byte_fallback=byte_fallback, provenance=provenance
    )


def default_sizes(candidates: Candidates) -> list[int]:
    """At most 32 round sizes that the candidates reach.

    >>> from volt.count.word_counts import WordCounts
    >>> from volt.learn.bpe import learn_bpe
    >>> default_sizes(learn_bpe(WordCounts.from_pairs({"low": 5, "lower": 2}), n_merges=3))
    [6, 7, 8, 9]
    """
    low, high = candidates.n_atoms, candidates.n_tokens
    step = next(step for k in range(9) for step in (10**k, 2 * 10**k, 5 * 10**k) if (high - low) / step <= 32)
    return [size for size in range(step, high + 1, step) if size >= low] or [high]


def checked_sizes(candidates: Candidates, sizes: Sequence[int], *, fixed: int | None = None) -> list[int]:
    """The sizes and the fixed size, in order. Raises CandidateError if one is out of range or they do not increase."""
    if isinstance(sizes, int | float):
        raise arguments.refusal(sizes, "sizes", f"did you mean sizes=[{sizes}], or select={sizes}?")
    sizes = arguments.wholes(sizes, "sizes")
    wanted = sizes if fixed is None else [fixed]
    for size, following in pairwise(sizes):
        if following <= size:
            raise CandidateError(f"sizes must increase, but {following} follows {size}")
    if not sizes:
        raise CandidateError("no sizes: give at least one, such as sizes=range(1000, 10000, 1000)")
    for size in (*sizes, *wanted):
        if size < candidates.n_atoms:
            raise CandidateError(
                f"size {size} is below the {candidates.n_atoms} atoms of this corpus, which every vocabulary holds; "
                f"start at {candidates.n_atoms} or more, or drop rare characters with min_count"
            )
        if size > candidates.n_tokens:
            raise CandidateError(
                f"size {size} is above the {candidates.n_tokens} tokens that {candidates.n_merges} merges make; "
                f"stop at {candidates.n_tokens} or less, or raise n_merges"
            )
    return sorted({*sizes, *wanted})


def _signature(candidates: Candidates, sizes: Sequence[int], select: str, parameters: Parameters) -> str:
    """What a result depends on, in one line."""
    counts = candidates.counts
    return (
        f"volt|corpus:{counts.fingerprint}|norm:{counts.normalizer.name}|pre:{counts.pretokenizer.name}"
        f"{candidates.origin}|marker:{candidates.marker}|merges:{candidates.n_merges}|sizes:{_range(sizes)}|select:{select}"
        f"|{parameters.signature}|version:{version('volt-vocab')}"
    )


def _range(sizes: Sequence[int]) -> str:
    """FIRST:LAST:STEP where sizes are evenly spaced, otherwise their list."""
    steps = set(np.diff(sizes).tolist())
    return f"{sizes[0]}:{sizes[-1]}:{steps.pop()}" if len(steps) == 1 else ",".join(map(str, sizes))


def _warnings(candidates: Candidates, steps: Sequence[SizeStep], pick: Pick) -> Iterator[str]:
    """Sentences on what to know before trusting the result, and on what to do about it."""
    if pick.on_edge and len(steps) > 1:
        yield (
            f"{pick.rule} picks {pick.size:,}, on the edge of the searched range {steps[0].size:,} to "
            f"{steps[-1].size:,}: the range decides, not the corpus. Widen it, or choose another rule"
        )
    failed = [step for step in steps if not step.converged]
    if failed:
        found = f"{len(failed)} of {len(steps)} transports did not converge, first at {failed[0].size:,}"
        yield f"{found}: {failed[0].remedy}"
    if candidates.counts.total < SMALL_CORPUS:
        yield (
            f"{candidates.counts.total:,} words are a tiny corpus: most tokens rest on a few occurrences. "
            "Expect another choice from more text"
        )
    if candidates.counts.n_bad_lines:
        yield f"{candidates.counts.n_bad_lines:,} lines were not UTF-8 and were repaired or skipped"
