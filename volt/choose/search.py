"""Candidates → `SearchResult`: measured sizes, the size that each rule picks, and a vocabulary.

    candidates → exact curve → picks of the rules that read the curve
    these sizes and the searched sizes → a step for each → picks of the other rules
    the pick of the selected rule → vocabulary, rounded up to `multiple_of` ids

A step is a size and its measures. The searched sizes are those that the caller asks for.
"""

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
    TRAINED,
    ExactCurve,
    Pick,
    all_picks,
    as_rule,
    checked_model,
    checked_training,
    curve_picks,
    may_grow,
    parse_rule,
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
from volt.choose.training_law import FEWEST, OVERFITS, Training, most_epochs
from volt.choose.vocabulary_at import vocabulary_at
from volt.count.corpus_statistics import (
    SCRIPTS,
    count_scripts,
    text_characters,
    unspaced,
    warning,
)
from volt.count.word_counts import WordCounts
from volt.display import counted, html_curve, html_note, html_page, html_table, without_bars
from volt.encode.encoder import Encoder
from volt.errors import CandidateError, ConfigError
from volt.learn.candidates import Candidates
from volt.text.atoms import PREFIX, SUFFIX
from volt.text.byte_alphabet import ALPHABET, readable
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

N_SAMPLES = 6  # words whose pieces a report shows
LONG_WORD = 8  # letters; shorter words are rarely cut into pieces
_LONG = rf"^{PREFIX}?[\p{{L}}\p{{M}}]{{{LONG_WORD},}}$"
# In the byte alphabet, a letter beyond ASCII is a first byte and one or more further bytes.
_FIRST_BYTES = "".join(ALPHABET[0xC2:0xF5])
_FURTHER_BYTES = "".join(ALPHABET[0x80:0xC0])
_BYTE_LETTER = rf"(?:[A-Za-z]|[{_FIRST_BYTES}][{_FURTHER_BYTES}]+)"
_LONG_BYTES = rf"^{ALPHABET[ord(' ')]}?{_BYTE_LETTER}{{{LONG_WORD},}}$"

# The scripts of the texts behind the rule `trained`; each text is mostly in one.
_FITTED_SCRIPTS = "Latin", "Cyrillic", "Georgian", "Devanagari"
JOINED = 8_000  # tokens, the best of 4,000, 8,000 and 16,000 for two texts of joined languages
TINY = "are a tiny corpus"
SMALL_CORPUS = 100_000  # words; in fewer, all but the commonest tokens occur a handful of times


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
    """Measure sizes, pick one by a rule, and return its vocabulary with all measures and picks.

    candidates: the result of `learn_bpe`, `replay_bpe` or `extend_bpe`; after `extend_bpe`, every
        size has all tokens of the extended vocabulary, at their ids
    sizes: increasing sizes to measure besides the sizes that rules pick; by default about twenty
        round ones. A size is a number of tokens, with atoms but without special tokens
    select: the rule (see volt.choose.rules), or a size such as 8000, which is "fixed:8000"
    parameters: parameters of the criteria and the transport; by default `SearchParameters()`
    special: special tokens; by default `SpecialTokens()`, or the extended vocabulary's
    byte_fallback: whether the vocabulary spells unknown characters by their bytes
    training: how long a model is trained on the text; the rule "trained" assumes 5 epochs if None
    model: the language model that the vocabulary is for; the rule "scaling" needs it
    multiple_of: round the number of ids up to a multiple of this number, with further merges
    report: called with the number of sizes that are done
    Raises CandidateError if there are no merges, or a size is out of range or out of order.
    Raises ConfigError if the rule or a parameter is unknown or out of range.

    >>> from volt.learn.bpe import learn_bpe
    >>> candidates = learn_bpe({"low": 5, "lower": 2, "newest": 6, "widest": 3}, n_merges=9)
    >>> search(candidates, sizes=[14, 16, 18], select=18).vocabulary
    <Vocabulary: 15 tokens, 7 merges, suffix, whitespace>
    """
    _check_vocabulary_options(candidates, special, byte_fallback)
    select = as_rule(select)
    if sizes is None:
        sizes = default_sizes(candidates)
    settings = _Settings(
        parameters=checked_parameters(parameters),
        special=special or SpecialTokens(),
        byte_fallback=byte_fallback,
        select=select,
        model=checked_model(model, select),
        training=checked_training(training),
        multiple_of=arguments.whole(multiple_of, "multiple_of", low=1),
        searched=tuple(checked_sizes(candidates, sizes)),
    )
    return _search(candidates, settings, arguments.function(report, "report"))


def _check_vocabulary_options(
    candidates: Candidates, special: SpecialTokens | None, byte_fallback: bool
) -> None:
    if not arguments.instance(candidates, Candidates, "candidates").n_merges:
        message = (
            "nothing to merge: no pair of characters occurs often enough; give more text, "
            "or learn with"
        )
        raise CandidateError(message, hint={"min_pair_count": 1})
    if special is not None:
        arguments.instance(special, SpecialTokens, "special")
    if candidates.extends and (special or byte_fallback):
        name = "special" if special else "byte_fallback"
        raise ConfigError(
            f"{name} cannot be set, because the extended vocabulary keeps its own; remove it"
        )


@dataclass(frozen=True, slots=True)
class _Settings:
    """The checked arguments of a search."""

    searched: tuple[int, ...]
    select: str
    parameters: SearchParameters
    special: SpecialTokens
    byte_fallback: bool
    training: Training
    model: LanguageModel | None
    multiple_of: int


def _search(
    candidates: Candidates, settings: _Settings, report: Callable[[int], object] | None
) -> SearchResult:
    searched = settings.searched
    training = settings.training
    sizes = set(searched)
    fixed = parse_rule(settings.select)
    if fixed is not None:
        sizes.add(checked_size(candidates, fixed))

    curve = muv_search(candidates)
    on_curve = curve_picks(ExactCurve(candidates, curve), training, settings.model)
    sizes.update(pick.size for pick in on_curve.values())
    parameters = settings.parameters
    steps = tuple(
        size_steps(
            candidates, sorted(sizes), searched=searched, parameters=parameters, report=report
        )
    )
    picks = all_picks(steps, on_curve, searched=searched, fixed=fixed)
    pick = picks[settings.select if fixed is None else f"fixed:{fixed}"]

    signature = _signature(candidates, settings)
    best, vocabulary = _round_up(candidates, steps[pick.index], settings, signature)
    if parameters.length != "type":
        curve = muv_search(candidates, length=parameters.length)
    return SearchResult(
        best=best,
        pick=pick,
        picks=picks,
        steps=steps,
        searched=searched,
        curve=curve,
        vocabulary=vocabulary,
        warnings=(
            *_corpus_warnings(candidates.counts),
            *_search_warnings(candidates, steps, searched, pick),
        ),
        signature=signature,
        candidates=candidates,
        training=training,
        model=settings.model,
    )


def _round_up(
    candidates: Candidates, best: SizeStep, settings: _Settings, signature: str
) -> tuple[SizeStep, Vocabulary]:
    """Return the vocabulary of a size with further merges until `multiple_of` divides its ids.

    A further merge may add no id, if its token is spelled like a special token.
    """
    vocabulary = _vocabulary(candidates, best, settings, signature)
    while n_missing := -len(vocabulary.pieces) % settings.multiple_of:
        size = best.size + n_missing
        if size > candidates.n_tokens:
            message = (
                f"multiple_of is {settings.multiple_of}, but {len(vocabulary.pieces):,} ids need "
                f"{n_missing:,} more merges; remove it"
            )
            raise too_few(candidates, message, size=size)
        kept = np.append(best.kept, np.ones(n_missing, bool))
        [best] = size_steps(candidates, [size], parameters=settings.parameters, kept=kept)
        vocabulary = _vocabulary(candidates, best, settings, signature)
    return best, vocabulary


def _vocabulary(
    candidates: Candidates, step: SizeStep, settings: _Settings, signature: str
) -> Vocabulary:
    return vocabulary_at(
        candidates,
        step.size,
        kept=step.kept,
        special=settings.special,
        byte_fallback=settings.byte_fallback,
        provenance={"signature": signature, **_provenance(candidates, step)},
    )


def _provenance(candidates: Candidates, step: SizeStep) -> dict[str, Any]:
    """Return the facts about the corpus and the search that a vocabulary's file stores."""
    counts = candidates.counts
    coverage = candidates.coverage
    facts: dict[str, Any] = {
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
        facts |= {"coverage": coverage.share, "left_out": coverage.left_out}
    if counts.sources:  # JSON has no number for infinity
        temperature = counts.temperature if isfinite(counts.temperature) else "inf"
        facts |= {"sources": list(counts.sources), "temperature": temperature}
    if candidates.parity:
        facts["parity"] = candidates.parity
    superwords = candidates.superwords
    if superwords:
        facts |= {
            "transition": superwords.transition,
            "across": superwords.across.name,
        }
    return facts


def _signature(candidates: Candidates, settings: _Settings) -> str:
    """Return the settings that reproduce the search, as NAME:VALUE between bars."""
    counts = candidates.counts
    normalizer = without_bars(counts.normalizer.label)
    origin = without_bars(counts.pretokenizer.name) + candidates.origin
    parts = [
        f"volt|corpus:{counts.fingerprint}|norm:{normalizer}|pre:{origin}",
        f"marker:{candidates.marker}",
    ]
    if candidates.coverage is not None:
        parts.append(f"coverage:{candidates.coverage.share:g}")
    parts.append(f"merges:{candidates.n_merges}|sizes:{as_text(settings.searched)}")
    parts.append(f"select:{settings.select}")
    if settings.multiple_of > 1:
        parts.append(f"multiple:{settings.multiple_of}")
    parts += [settings.training.signature, settings.parameters.signature]
    if settings.model:
        parts.append(settings.model.signature)
    return "|".join([*parts, f"version:{version('volt-vocab')}"])


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """The result of a search.

    best: the measures of the vocabulary's size, which is the pick or, if `multiple_of` rounds up, a
        larger size
    pick: the size that the selected rule picks, and why
    picks: the pick of every rule, by the rule's name
    steps: the measures of the searched sizes and of the sizes that rules pick
    searched: the argument `sizes`, or the default sizes
    curve: entropy and MUV at every size
    vocabulary: the vocabulary of the size `best`
    warnings: sentences to read before trusting this result
    signature: the settings that reproduce it
    candidates, training, model: the arguments of `search`
    merged: after `choose_tokens`, the measures of BPE's tokens; then `best` has those of the chosen ones

    >>> from volt.learn.bpe import learn_bpe
    >>> words = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    >>> search(learn_bpe(words, n_merges=9), sizes=[14, 16, 18])
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
    merged: SizeStep | None = None

    @property
    def answer(self) -> tuple[str, str, str, str]:
        """Four texts about the size `best`, of which all but the first may be empty.

        Why it was picked; the sizes for other lengths of training, unless they are equal; how sure
        the answer is; what to do next.
        """
        n_characters = text_characters(self.candidates.counts)
        most = most_epochs(n_characters)
        once, few, many = map(self._size_for, (1, 5, most))
        lengths = ""
        if once != many:
            lengths = f"{once} tokens for 1 epoch, {few} for 5, {many} for {most:.3g} or more."
        evidence = "", ""
        if self.pick.rule == TRAINED:
            evidence = self._evidence(n_characters)
        return self._reason(n_characters), lengths, *evidence

    def _reason(self, n_characters: int) -> str:
        size = self.pick.size_text
        rounded = ""
        rounded_size = (self.merged or self.best).size
        if rounded_size != self.pick.size:
            rounded = f"; rounded up from {size} for {len(self.vocabulary.pieces):,} ids"
            size = f"{rounded_size:,}"
        if self.pick.rule != TRAINED or self.candidates.extends:
            return f"{size} tokens ({self.pick.rule}): {self.pick.reason}{rounded}."

        training = f"a training of {self.training.describe(n_characters)} on these {n_characters:,} characters"
        if self._exceeds_joined:
            return (
                f"The rule gives {size} tokens for {training}{rounded}, probably too many for joined "
                f"languages: use {JOINED:,} (see next)."
            )
        if self.pick.size > self.candidates.smallest:
            return f"{size} tokens suit {training}{rounded}."
        atoms = "characters or bytes"
        if self.vocabulary.marker == "suffix":
            atoms = "characters (one that ends a word counts separately)"
        return (
            f"The rule gives no size for {training}: it asks for {self.training.size(n_characters):,} "
            f"tokens, fewer than the {size} different {atoms}. The result has these alone{rounded}."
        )

    @property
    def _is_joined(self) -> bool:
        """Tell whether the text has several sources, or many letters of a second script."""
        counts = self.candidates.counts
        scripts = count_scripts(counts)
        has_second_script = max(scripts.values(), default=0) < 0.8 * scripts.total()
        return len(counts.sources) > 1 or has_second_script

    @property
    def _exceeds_joined(self) -> bool:
        # A size within a factor of 1.7 of the best one costs about 0.5 % of the bits.
        return self.pick.size > 1.7 * JOINED and self._is_joined

    def _evidence(self, n_characters: int) -> tuple[str, str]:
        """Return how the text and the training differ from those of the rule `trained`, and advice.

        The figures are those of experiments/evidence/law/REGRETS.md for D ≥ 2 million characters.
        """
        extends = self.candidates.extends is not None
        epochs = self.training.of(n_characters)
        most = most_epochs(n_characters)
        millions = n_characters / 1e6
        [(script, _)] = count_scripts(self.candidates.counts).most_common(1) or [("LATIN", 0)]
        script = script.title()
        remarks = {
            "it extends a vocabulary": extends,
            f"its script, {script}, was not tried": script not in _FITTED_SCRIPTS,
            f"it joins languages, tried only on texts read less than once (there, {JOINED:,} tokens "
            "were best, and the rule's 21,000 to 32,000 too many)": self._is_joined,
            f"it is shorter ({n_characters:,} characters)": millions < 0.1,
            f"it is longer ({millions:.2g} million characters)": millions > 2.1,
            "it is read less than once, where smaller sizes were up to 6 % better": epochs < FEWEST,
            "it is read more than 8 times. More reading called for fewer tokens in small texts only "
            "(0.2 million characters, not 2 million), so the rule stops at "
            f"{most:.3g} epochs for this text": epochs > OVERFITS,
        }
        differences = [remark for remark, holds in remarks.items() if holds]
        verdict = "Your text is like these"
        step = "use this size; a trial can check it"
        if differences:
            verdict = f"Your text differs: {'; '.join(differences)}"
            step = "compare sizes by a trial before you train"
        if extends or script in SCRIPTS:  # trials split new words at white space
            step = "use this size"
        has_merges = extends or self.pick.size > self.candidates.smallest
        certainty = (
            "The rule was fitted to small language models on texts of 0.1 to 2.1 million characters, "
            "read 1 to 8 times. There, its sizes cost 0.4 % more bits than the best on average, 1.3 % at "
            "worst"
        )
        if has_merges and FEWEST <= epochs <= OVERFITS:
            certainty += (
                "; 1.1 and 3.1 % if training lasted half as long as epochs=N says; 0.4 and 2.4 % if "
                "twice as long"
            )
        certainty += f". {verdict}."
        if not has_merges:
            # the factor and the pre-tokenizer were measured for Cantonese, read 5 times
            options = f"select='fixed:{round(1.5 * self.pick.size)}'"
            if unspaced(self.candidates.counts):
                options = f"pretokenizer='unicode' and {options}"
            return certainty, f"Search again with {options}, for longer tokens."
        if self._exceeds_joined and not extends:
            return certainty, f"Search again with select='fixed:{JOINED}', which a trial can check."
        if epochs > most:
            step = (
                "if an earlier run on this text had its best dev score at an epoch N below "
                f"{most:.3g}, search again with epochs=N. If it was later, or you have no earlier "
                f"run, {step}"
            )
        elif self.training == Training():
            step = (
                "if you plan N epochs, or an earlier run had its best dev score at epoch N, search "
                f"again with epochs=N. Otherwise, {step}"
            )
        return certainty, f"{step[0].upper()}{step[1:]}."

    def _size_for(self, epochs: float) -> str:
        """Return the size that `trained` picks for so many epochs if enough merges are learned."""
        training = Training(epochs=epochs)
        pick = ExactCurve(self.candidates, self.curve).trained(training)
        size = pick.size
        if pick.at_least and may_grow(self.candidates) and not self.candidates.extends:
            size = training.size(text_characters(self.candidates.counts))
        return f"{size:,}"

    @property
    def saving(self) -> str:
        """A sentence on the pieces that tokens of `choose_tokens` save; empty for BPE's tokens."""
        if not self.merged:
            return ""
        n_pieces = self.best.n_pieces
        n_merged = self.merged.n_pieces
        return (
            f"Chosen for few pieces: the words have {n_pieces:,}, {1 - n_pieces / n_merged:.1%} fewer than "
            f"the {n_merged:,} of BPE with as many ids."
        )

    @property
    def composition(self) -> str:
        """A sentence with the numbers of tokens and ids of the vocabulary."""
        n_kept = self.vocabulary.size
        n_ids = len(self.vocabulary.pieces)
        n_scaffolding = self.best.size - n_kept
        tokens = counted(self.best.size, "token")
        if n_scaffolding:
            tokens += f", less {n_scaffolding:,} never used in output"
        kinds = "special and byte tokens" if self.vocabulary.byte_fallback else "special"
        return f"{n_ids:,} ids for the model ({tokens}, plus {n_ids - n_kept:,} {kinds})"

    def __repr__(self) -> str:
        tokens = counted(self.vocabulary.size, "token")
        return f"<SearchResult: {self.pick.rule} picks {self.pick.size_text}, keeps {tokens}>"

    def _repr_html_(self) -> str:
        samples = readable_cuts(sample_cuts(self.candidates, self.vocabulary), self.vocabulary)
        cuts = [(shortened(word), shortened(pieces)) for word, pieces in samples]
        answer, *certainty = self.answer
        return html_page(
            answer,
            *map(html_note, filter(None, (*certainty, self.saving))),
            html_note(f"The vocabulary: {self.composition}."),
            entropy_curve(self.steps, self.pick),
            html_table(["word", "pieces"], cuts),
            *map(html_note, (*self.warnings, self.signature)),
        )


def entropy_curve(steps: Sequence[SizeStep], pick: Pick) -> str:
    points = [(step.size, step.entropy) for step in steps]
    return html_curve(
        points, chosen=points[pick.index], across="vocabulary size", upwards="entropy"
    )


def _search_warnings(
    candidates: Candidates,
    steps: Sequence[SizeStep],
    searched: Sequence[int],
    pick: Pick,
) -> Iterator[str]:
    """Yield warnings about the picked size and the transports, each with a remedy."""
    if pick.size == candidates.smallest and candidates.extends:
        yield f"{pick.rule} adds no merge to the {pick.size:,} tokens that are extended"
    if pick.at_least:
        n = candidates.n_tokens
        end = f"no pair is left to merge after {n:,} tokens. Give more text"
        if may_grow(candidates):
            end = f"the candidates end at {n:,} tokens. Learn more merges"
        yield f"{pick.rule} picks {pick.size_text}: {end}"
    elif pick.on_edge and len(searched) > 1:
        yield (
            f"{pick.rule} picks {pick.size:,}, on the edge of the searched range "
            f"{searched[0]:,} to {searched[-1]:,}: the range decides, not the corpus. Widen it, or "
            "choose another rule"
        )
    failed = [step for step in steps if not step.converged]
    if failed:
        yield (
            f"{len(failed)} of {len(steps)} transports did not converge, first at "
            f"{failed[0].size:,}: {failed[0].remedy}"
        )


def _corpus_warnings(counts: WordCounts) -> Iterator[str]:
    """Yield warnings about a corpus: its script, its size, and words or lines that are missing."""
    if text := unspaced(counts):
        yield warning(text)
    elif counts.total < SMALL_CORPUS:
        yield (
            f"{counts.total:,} words {TINY}: most tokens rest on a few occurrences. "
            "More text may give another choice"
        )
    n_words = counts.n_left_out + counts.total
    share = f"{100 * counts.n_left_out / max(1, n_words):.3g} % of all"
    if counts.bound:
        yield (
            f"counts are approximate: up to {counts.bound:,} too low, because words were left out "
            f"({share})"
        )
    elif counts.n_left_out:
        yield f"words that occur too rarely were left out ({share})"
    if counts.n_bad_lines:
        yield f"repaired or skipped, as not UTF-8 or missing: {counted(counts.n_bad_lines, 'line')}"


def sample_cuts(candidates: Candidates, vocabulary: Vocabulary) -> list[tuple[str, list[str]]]:
    """Return up to six words, evenly from the commonest to the rarest, with their pieces.

    Words of fewer than eight letters are used only if there are no longer ones.
    """
    pattern = _LONG_BYTES if vocabulary.pretokenizer.is_bytes else _LONG
    table = candidates.counts.table
    long_words = table.filter(table["word"].str.contains(pattern))
    if long_words.height:
        table = long_words
    words = table.sort("count", "word", descending=[True, False])["word"]
    last = len(words) - 1
    ranks = [number * last // (N_SAMPLES - 1) for number in range(N_SAMPLES)]
    samples = list(dict.fromkeys(words[ranks]))
    pieces = map(list, Encoder(vocabulary).encode_words(samples))
    return list(zip(samples, pieces, strict=True))


def readable_cuts(
    cuts: Iterable[tuple[str, Iterable[str]]], vocabulary: Vocabulary
) -> Iterator[tuple[str, str]]:
    """Yield each word and its pieces as readable text without markers; bars join the pieces.

    cuts: words with their pieces, as the vocabulary spells them
    """
    is_bytes = vocabulary.pretokenizer.is_bytes
    start_marker = " " if is_bytes else PREFIX
    for word, pieces in cuts:
        if is_bytes:
            word = readable(word).removeprefix(start_marker)
            texts = list(map(readable, pieces))
        else:
            texts = [piece.removesuffix(SUFFIX) for piece in pieces]
        texts[0] = texts[0].removeprefix(start_marker)  # may leave an empty text
        yield word, "|".join(filter(None, texts))
