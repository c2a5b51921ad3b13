"""Candidates → `SearchResult`: measures of a range of sizes, the size that a rule chooses, and its vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from math import isfinite
from typing import Any

import numpy as np

from volt import arguments
from volt.arguments import shortened
from volt.choose.exact_curve import EntropyCurve, muv_search
from volt.choose.rules import (
    DEFAULT,
    MEDIAN_COUNT,
    TRAINED,
    ExactCurve,
    Pick,
    all_picks,
    as_rule,
    checked_model,
    checked_training,
    exact_readings,
    parse_rule,
    with_notes,
)
from volt.choose.scaling_law import LanguageModel
from volt.choose.size_steps import (
    SearchParameters,
    SizeStep,
    as_text,
    checked_parameters,
    checked_size,
    checked_sizes,
    default_sizes,
    size_steps,
    too_few,
)
from volt.choose.training_law import MOST, NEAR, SHOWN, TESTED, Training
from volt.choose.vocabulary_at import vocabulary_at
from volt.count.corpus_statistics import text_characters, unspaced, warning
from volt.display import counted, html_curve, html_note, html_page, html_table
from volt.encode.encoder import Encoder
from volt.errors import CandidateError, ConfigError
from volt.learn.candidates import Candidates
from volt.text.atoms import PREFIX, SUFFIX
from volt.text.byte_alphabet import ALPHABET, readable
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

N_SAMPLES = 6  # words whose pieces a report shows
LONG_WORD = 8  # letters; shorter words are rarely cut
_LONG = rf"^{PREFIX}?[\p{{L}}\p{{M}}]{{{LONG_WORD},}}$"
_FIRST, _FURTHER = (
    "".join(ALPHABET[0xC2:0xF5]),
    "".join(ALPHABET[0x80:0xC0]),
)  # bytes of characters beyond ASCII
_LONG_BYTES = rf"^{ALPHABET[ord(' ')]}?(?:[A-Za-z]|[{_FIRST}][{_FURTHER}]+){{{LONG_WORD},}}$"


def entropy_curve(steps: Sequence[SizeStep], chosen: Pick) -> str:
    points = [(step.size, step.entropy) for step in steps]
    return html_curve(
        points, chosen=points[chosen.index], across="vocabulary size", upwards="entropy"
    )


def sample_cuts(candidates: Candidates, vocabulary: Vocabulary) -> list[tuple[str, list[str]]]:
    """Return a few long words, from the commonest to the rarest, with their pieces."""
    table = candidates.counts.table
    long = table.filter(
        table["word"].str.contains(_LONG_BYTES if vocabulary.pretokenizer.is_bytes else _LONG)
    )
    words = (long if long.height else table).sort("count", "word", descending=[True, False])["word"]
    chosen = dict.fromkeys(words[i * (len(words) - 1) // (N_SAMPLES - 1)] for i in range(N_SAMPLES))
    encoder = Encoder(vocabulary)
    return [
        (word, list(pieces))
        for word, pieces in zip(chosen, encoder.encode_words(list(chosen)), strict=True)
    ]


def readable_cuts(
    cuts: Iterable[tuple[str, Iterable[str]]], vocabulary: Vocabulary
) -> Iterator[tuple[str, str]]:
    """Yield words with their pieces, joined by bars, as readable text without markers."""
    is_bytes = vocabulary.pretokenizer.is_bytes
    front = " " if is_bytes else PREFIX
    for word, pieces in cuts:
        texts = (
            list(map(readable, pieces))
            if is_bytes
            else [piece.removesuffix(SUFFIX) for piece in pieces]
        )
        texts[0] = texts[0].removeprefix(front)  # perhaps all of the piece
        yield (
            readable(word).removeprefix(front) if is_bytes else word,
            "|".join(filter(None, texts)),
        )


FAIR_COUNT = 50
SMALL_CORPUS = 100_000  # words; in fewer, all but the commonest tokens occur a handful of times


def supported(candidates: Candidates, size: int) -> str:
    """Describe how well the corpus supports a size, by how often half of the tokens in use occur."""
    counts = candidates.counts_at(size)[candidates.smallest if candidates.extends else 0 :]
    used = np.sort(counts[counts > 0])
    if not len(used):
        return "no new token occurs in the text"
    median = int(used[len(used) // 2])  # the upper of two middle counts, as in median500
    degree = "good" if median >= MEDIAN_COUNT else "fair" if median >= FAIR_COUNT else "weak"
    kind = "new token" if candidates.extends else "token"
    return f"{degree} support: half of the {kind}s in use occur {counted(median, 'time')} or more"


def caveats(
    candidates: Candidates,
    steps: Sequence[SizeStep],
    searched: Sequence[int],
    pick: Pick,
    epochs: float,
) -> Iterator[str]:
    """Yield warnings about the result, each with a remedy."""
    has_no_merges = pick.size == candidates.smallest
    if pick.rule == TRAINED and (epochs < TESTED[0] or (epochs > TESTED[1] and not has_no_merges)):
        risk = "lost up to 6 % of the bits with fewer"
        if epochs > TESTED[1]:
            risk = f"counts more as {TESTED[1]}, so its pick may be too large"
        yield (
            f"{TRAINED} is unsure about {epochs:.4g} epochs: it was fitted to {TESTED[0]} to {TESTED[1]}, and {risk}. "
            "Compare sizes by trial"
        )
    if has_no_merges and not candidates.extends:
        remedy = "Give more text"
        if candidates.coverage is None and not candidates.counts.pretokenizer.is_bytes:
            remedy = "Leave out rare characters with a coverage below 1, give more text"
        yield f"{pick.rule} picks the {pick.size:,} atoms alone, without merges. {remedy}, or choose a larger size"
    if pick.at_least:
        n = candidates.n_tokens
        ended = f"no pair is left to merge after {n:,} tokens. Give more text"
        undecided = f"the candidates end at {n:,} tokens. Learn more merges"
        yield f"{pick.rule} picks {pick.size_text}: {ended if candidates.left == 0 else undecided}"
    elif pick.on_edge and len(searched) > 1:
        yield (
            f"{pick.rule} picks {pick.size:,}, on the edge of the searched range {searched[0]:,} to "
            f"{searched[-1]:,}: the range decides, not the corpus. Widen it, or choose another rule"
        )
    if failed := [step for step in steps if not step.converged]:
        first = failed[0]
        n = len(failed)
        yield f"{n} of {len(steps)} transports did not converge, first at {first.size:,}: {first.remedy}"
    counts = candidates.counts
    if text := unspaced(counts):
        yield warning(text)
    elif counts.total < SMALL_CORPUS:
        yield (
            f"{counts.total:,} words are a tiny corpus: most tokens rest on a few occurrences. "
            "More text may give another choice"
        )
    share = f"{100 * counts.n_left_out / max(1, counts.n_left_out + counts.total):.3g} % of all"
    if counts.bound:
        yield f"counts are approximate: up to {counts.bound:,} too low, because words were left out ({share})"
    elif counts.n_left_out:
        yield f"words that occur too rarely were left out ({share})"
    if n_bad := counts.n_bad_lines:
        were = "was" if n_bad == 1 else "were"
        yield f"{counted(n_bad, 'line')} {were} not UTF-8 and {were} repaired or skipped"


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """The result of a search.

    best: the measured size of the vocabulary: the rule's choice or, if `multiple_of` rounds up, a larger size
    pick: the rule's choice, and why
    picks: the choice of every rule, by the rule's name
    steps: all measured sizes: the searched sizes, and the sizes that rules pick
    searched: the argument `sizes`, or the default sizes
    curve: entropy and MUV of BPE at every size
    vocabulary: the vocabulary of the size `best`
    warnings: sentences to read before trusting this result
    signature: the settings that reproduce it
    candidates, training, model: the arguments of `search`

    >>> from volt.learn.bpe import learn_bpe
    >>> search(learn_bpe({"low": 5, "lower": 2, "newest": 6, "widest": 3}, n_merges=9), sizes=[14, 16, 18])
    <SearchResult: trained picks at least 20, keeps 16 tokens>
    """

    best: SizeStep
    pick: Pick
    picks: dict[str, Pick]
    steps: tuple[SizeStep, ...]
    searched: tuple[int, ...]
    curve: EntropyCurve
    vocabulary: Vocabulary
    warnings: tuple[str, ...]
    signature: str
    candidates: Candidates = field(repr=False)
    training: Training
    model: LanguageModel | None = None

    @property
    def range(self) -> tuple[int, int]:
        """The sizes that cost about 0.5 % more bits than the size that `trained` computes, or less."""
        low, high = self.candidates.smallest, self.candidates.n_tokens
        size = self.picks[TRAINED].size
        if not self.candidates.extends:
            size = self.training.size(text_characters(self.candidates.counts))
            if self.candidates.left != 0:  # more merges could be learned
                high = max(MOST, low)
        return min(max(round(size / NEAR), low), high), max(min(round(size * NEAR), high), low)

    @property
    def support(self) -> str:
        """How far the corpus supports the best size, in words."""
        return supported(self.candidates, self.best.size)

    @property
    def answer(self) -> tuple[str, str]:
        """Two lines: the picked size and why; how far the corpus supports it, and the sizes for other trainings."""
        size = self.pick.size_text
        up = ""
        if self.best.size != self.pick.size:
            size, up = (
                f"{self.best.size:,}",
                f"; rounded up from {size} for {len(self.vocabulary.pieces):,} ids",
            )
        low, high = self.range
        near = f"about as good: {low:,} to {high:,}; " if low < high else ""
        sizes = ", ".join(f"{self._size_for(epochs)} ({epochs})" for epochs in SHOWN)
        by = (
            ""
            if self.pick.rule == TRAINED
            else f"{TRAINED} picks {self.picks[TRAINED].size_text}; "
        )
        others = f"{by}{near}for other numbers of epochs: {sizes}"
        return (
            f"{size} tokens ({self.pick.rule}): {self.pick.reason}{up}.",
            f"{self.support}; {others}.",
        )

    def _size_for(self, epochs: float) -> str:
        """Return what `trained` picks for a number of epochs, with as many merges as it takes."""
        training = Training(epochs=epochs)
        reading = ExactCurve(self.candidates, self.curve).trained(training)
        is_open = reading.at_least and self.candidates.left != 0
        if is_open and not self.candidates.extends:
            return f"{training.size(text_characters(self.candidates.counts)):,}"
        return "at least " * is_open + f"{reading.size:,}"

    @property
    def composition(self) -> str:
        """The numbers of tokens and ids of the vocabulary, in words."""
        size = self.best.size
        retained = self.vocabulary.size
        n_ids = len(self.vocabulary.pieces)
        tokens = counted(size, "token")
        n_left = size - retained
        s = "s" * (size - retained == 1)
        held = (
            f"{retained:,} of {tokens}, as {n_left:,} only lead{s} to longer ones"
            if n_left
            else tokens
        )
        kinds = "special and byte token" if self.vocabulary.byte_fallback else "special token"
        return f"{held}; {n_ids:,} ids with {counted(n_ids - retained, kinds)}"

    def __repr__(self) -> str:
        retained = counted(self.vocabulary.size, "token")
        return f"<SearchResult: {self.pick.rule} picks {self.pick.size_text}, keeps {retained}>"

    def _repr_html_(self) -> str:
        picks = [(rule, pick.size_text, pick.reason) for rule, pick in self.picks.items()]
        samples = readable_cuts(sample_cuts(self.candidates, self.vocabulary), self.vocabulary)
        cuts = [(shortened(word), shortened(pieces)) for word, pieces in samples]
        return html_page(
            self.answer[0],
            *map(html_note, (self.answer[1], f"The vocabulary: {self.composition}.")),
            html_table(
                ["rule", "size", "why"], picks, strong=list(self.picks.values()).index(self.pick)
            ),
            entropy_curve(self.steps, self.pick),
            html_table(["word", "pieces"], cuts),
            *map(html_note, (*self.warnings, self.signature)),
        )


def search(
    candidates: Candidates,
    *,
    sizes: Sequence[int] | None = None,
    select: str | int = DEFAULT,
    parameters: SearchParameters | None = None,
    special: SpecialTokens | None = None,
    byte_fallback: bool = False,
    training: Training | None = None,
    model: LanguageModel | None = None,
    multiple_of: int = 1,
    report: Callable[[int], object] | None = None,
) -> SearchResult:
    """Find the vocabulary that a rule chooses among sizes.

    candidates: the result of `learn_bpe`, `replay_bpe` or `extend_bpe`; after `extend_bpe`, every size has all tokens
        of the extended vocabulary, at their ids
    sizes: sizes to measure besides those that rules pick, in increasing order; by default about twenty round numbers. A
        size is a number of tokens, with atoms but without special tokens
    select: the rule (see volt.choose.rules), or a size such as 8000, which is "fixed:8000"
    parameters: parameters of the criteria and the transport; by default `SearchParameters()`
    special: the special tokens of the vocabulary; by default `SpecialTokens()`, or the extended vocabulary's
    byte_fallback: whether the vocabulary spells unknown characters by their bytes
    training: how long a model is trained on the text; the rule "trained" assumes 5 epochs if None
    model: the language model that the vocabulary is for; the rule "scaling" needs it
    multiple_of: round the number of ids up to a multiple of this number, with further merges
    report: called with the number of sizes done
    Raises CandidateError if there are no merges, or a size is out of range or out of order.
    Raises ConfigError if the rule or a parameter is unknown or out of range.

    >>> from volt.learn.bpe import learn_bpe
    >>> candidates = learn_bpe({"low": 5, "lower": 2, "newest": 6, "widest": 3}, n_merges=9)
    >>> search(candidates, sizes=[14, 16, 18], select=18).vocabulary
    <Vocabulary: 15 tokens, 7 merges, suffix, whitespace>
    """
    if not arguments.instance(candidates, Candidates, "candidates").n_merges:
        message = "nothing to merge: no pair of characters occurs often enough; give more text, or learn with"
        raise CandidateError(message, hint={"min_pair_count": 1})
    if candidates.extends and (special or byte_fallback):
        name = "special" if special else "byte_fallback"
        raise ConfigError(
            f"{name} cannot be set, because the extended vocabulary keeps its own; remove it"
        )
    parameters = checked_parameters(parameters)
    special = (
        SpecialTokens()
        if special is None
        else arguments.instance(special, SpecialTokens, "special")
    )
    select = as_rule(select)
    report = arguments.function(report, "report")
    fixed = parse_rule(select)
    model = checked_model(model, select)
    training = checked_training(training)
    multiple_of = arguments.whole(multiple_of, "multiple_of", low=1)
    searched = checked_sizes(candidates, default_sizes(candidates) if sizes is None else sizes)
    requested = [] if fixed is None else [checked_size(candidates, fixed)]
    curve = muv_search(candidates)
    readings = exact_readings(ExactCurve(candidates, curve), training, model)
    measured = sorted({*searched, *requested, *(one.size for one in readings.values())})
    steps = tuple(
        size_steps(candidates, measured, grid=searched, parameters=parameters, report=report)
    )
    picks = with_notes(all_picks(steps, readings, searched=searched, fixed=fixed), candidates)
    pick = picks[select if fixed is None else f"fixed:{fixed}"]
    signature = _signature(candidates, searched, select, parameters, training, model, multiple_of)

    def make(step: SizeStep) -> Vocabulary:
        provenance = {"signature": signature, **_provenance(candidates, step)}
        return vocabulary_at(
            candidates,
            step.size,
            kept=step.kept,
            special=special,
            byte_fallback=byte_fallback,
            provenance=provenance,
        )

    best, vocabulary = _rounded_up(candidates, steps[pick.index], make, multiple_of, parameters)
    return SearchResult(
        best=best,
        pick=pick,
        picks=picks,
        steps=steps,
        searched=tuple(searched),
        curve=curve
        if parameters.length == "type"
        else muv_search(candidates, length=parameters.length),
        vocabulary=vocabulary,
        warnings=tuple(
            caveats(
                candidates, steps, searched, pick, training.of(text_characters(candidates.counts))
            )
        ),
        signature=signature,
        candidates=candidates,
        training=training,
        model=model,
    )


def _rounded_up(
    candidates: Candidates,
    best: SizeStep,
    make: Callable[[SizeStep], Vocabulary],
    multiple_of: int,
    parameters: SearchParameters,
) -> tuple[SizeStep, Vocabulary]:
    vocabulary = make(best)
    while missing := -len(vocabulary.pieces) % multiple_of:
        if best.size + missing > candidates.n_tokens:
            message = f"multiple_of is {multiple_of}, but {len(vocabulary.pieces):,} ids need {missing:,} more merges"
            raise too_few(candidates, f"{message}; remove it", size=best.size + missing)
        retained = np.concatenate([best.kept, np.ones(missing, bool)])
        [best] = size_steps(candidates, [len(retained)], parameters=parameters, kept=retained)
        vocabulary = make(best)
    return best, vocabulary


def _provenance(candidates: Candidates, step: SizeStep) -> dict[str, Any]:
    counts = candidates.counts
    coverage = candidates.coverage
    result: dict[str, Any] = {
        "words": counts.total,
        "distinct_words": counts.n_words,
        "lines": counts.n_lines,
        "bytes": counts.n_bytes,
        "candidates": candidates.n_tokens,
        "size": step.size,
        "entropy": float(f"{step.entropy:.9g}"),  # further digits depend on the processor
        "converged": step.converged,
        "iterations": step.n_iters,
    }
    if coverage is not None:
        result |= {"coverage": coverage.share, "left_out": coverage.left_out}
    if counts.sources:  # JSON has no number for infinity
        temperature = counts.temperature if isfinite(counts.temperature) else "inf"
        result |= {"sources": list(counts.sources), "temperature": temperature}
    return result | ({"parity": candidates.parity} if candidates.parity else {})


def _signature(
    candidates: Candidates,
    sizes: Sequence[int],
    select: str,
    parameters: SearchParameters,
    training: Training,
    model: LanguageModel | None,
    multiple_of: int,
) -> str:
    counts = candidates.counts
    coverage = candidates.coverage
    covered = "" if coverage is None else f"|coverage:{coverage.share:g}"
    return (
        f"volt|corpus:{counts.fingerprint}|norm:{counts.normalizer.name}|pre:{counts.pretokenizer.name}"
        f"{candidates.origin}|marker:{candidates.marker}{covered}|merges:{candidates.n_merges}"
        f"|sizes:{as_text(sizes)}|select:{select}{f'|multiple:{multiple_of}' * (multiple_of > 1)}|{training.signature}"
        f"|{parameters.signature}{f'|{model.signature}' if model else ''}|version:{version('volt-vocab')}"
    )
