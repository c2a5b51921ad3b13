"""Superwords of `volt search`: tokens that are learned across spaces, as in SuperBPE.

A size is picked without superwords. Then a vocabulary of this size is found whose last N tokens are
superwords: from fewer merges of words, and further merges of the same text, which is read again.
`Joined` compares numbers N.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from volt.display import Grid
from volt.errors import ConfigError, quoted
from volt_cli.console import say
from volt_cli.options import PATTERNS, option
from volt_cli.search_options import MAX_MERGES, options_set

if TYPE_CHECKING:
    from rich.console import RenderableType

    from volt.choose.search import SearchResult
    from volt.learn.candidates import Candidates

AUTO_SHARES = (0.05, 0.1, 0.2)  # of superwords among all tokens
LEAST_SAVED = 0.01  # of the pieces of a text, for which superwords are worth their cost


@dataclass(frozen=True)
class SuperwordNumbers:
    """How many tokens are learned across spaces."""

    PANEL = "Superwords"

    superwords: Annotated[
        str | None,
        option(
            "N|SHARE|auto",
            "Tokens of the vocabulary to learn across spaces, as in SuperBPE: a number, a share "
            "such as 0.1, or auto, the best of 5, 10 and 20 %.",
            words=("auto",),
        ),
    ] = None

    @property
    def amounts(self) -> tuple[int | float, ...]:
        """The numbers of superwords to try, or their shares.

        Raises ConfigError unless they are positive, and shares are below 1.

        >>> SuperwordOptions("10%").amounts, SuperwordOptions("300").amounts
        ((0.1,), (300,))
        """
        text = self.superwords
        if text == "auto":
            return AUTO_SHARES
        if text is None:
            return ()
        amount: int | float = 0
        with suppress(ValueError):
            if text.endswith("%"):
                amount = float(text[:-1]) / 100
            else:
                amount = int(text) if text.isdecimal() else float(text)
        if not 0 < amount < 1 and not (isinstance(amount, int) and 0 < amount <= MAX_MERGES):
            raise ConfigError(
                f"--superwords {quoted(text)}: give a number of tokens such as 1000, a share above 0 "
                "and below 1 such as 0.1 or 10%, or auto"
            )
        return (amount,)


@dataclass(frozen=True)
class SuperwordOptions(SuperwordNumbers):
    """Tokens across spaces; the size is picked without them, and contains them."""

    PANEL = "Superwords"

    across: Annotated[
        str | None,
        option(
            "PATTERN",
            "Pattern of text that is never joined to words, not with metaspace; default: superbpe "
            "(numbers, several signs or spaces).",
            words=PATTERNS[-1:],
        ),
    ] = None

    def check(self, search: Any, files: Iterable[str]) -> None:
        """Raise ConfigError if options of a search contradict superwords.

        search: its groups of options, see `volt_cli.search.SearchOptions`
        files: the texts, which are read again
        """
        from volt.choose.superwords import choose_coarse
        from volt.files.paths import check_files

        if not self.amounts:
            if self.across is not None:
                raise ConfigError(
                    "--across works only with --superwords; add --superwords auto, or remove "
                    "--across"
                )
            return
        merges = "they continue merges of words alone"
        counts = "they are counted in all of the text"
        neighbours = "a table of words does not say which words are neighbours"
        excluded_options = (
            (search.learning, "extend", merges),
            (search.naming, "parity", merges),
            (search.naming, "temperature", counts),
            (search.counting, "min_count", counts),
            (search.bounds, "approximate", counts),
            (search.counting, "word_counts", neighbours),
        )
        for group, name, reason in excluded_options:
            for excluded in options_set(group, name):
                raise ConfigError(f"--superwords and {excluded}: {reason}; remove one")
        check_files(files, "--superwords reads the text again, so it needs")
        marker = search.learning.marker
        if marker not in (None, "none"):
            raise ConfigError(
                f"--superwords and --marker {marker}: a marker starts or ends each word; "
                "remove --marker"
            )
        try:
            choose_coarse(search.counting.pre_tokenizer(), self.across)
        except ConfigError as error:
            option = "--superwords" if self.across is None else "--across"
            raise error.reworded(f"{option}: {error.message}") from None


@dataclass(frozen=True)
class Joined:
    """Measures of a size, so many of whose tokens are learned across spaces.

    n_crossing: tokens that contain a space after another character
    bits_per_byte: of text, if each piece is coded by how often its token occurs
    flops_per_byte: the model's operations, if there is a model
    """

    superwords: int
    n_crossing: int
    size: int
    n_pieces: int
    bits_per_byte: float
    flops_per_byte: float | None

    @classmethod
    def of(cls, result: SearchResult, candidates: Candidates) -> Joined:
        """Measure the size of a result with its candidates, or with others that have superwords."""
        import numpy as np

        from volt.choose.report import crosses_space
        from volt.count.corpus_statistics import text_bytes

        size = min(result.best.size, candidates.n_tokens)
        counts = candidates.counts_at(size)
        counts = counts[counts > 0]
        n_pieces = int(counts.sum())
        n_bytes = text_bytes(candidates.counts)
        n_superwords = 0
        if candidates.superwords:
            n_superwords = candidates.merges_at(size) - candidates.superwords.transition
        flops = None
        if result.model:
            flops = result.model.flops_per_byte(size, n_pieces / n_bytes)
        bits = n_pieces * np.log2(n_pieces) - counts @ np.log2(counts)
        crosses = partial(crosses_space, is_bytes=candidates.counts.pretokenizer.is_bytes)
        n_crossing = sum(map(crosses, candidates.tokens_at(size)))
        return cls(n_superwords, n_crossing, size, n_pieces, float(bits) / n_bytes, flops)


def add_superwords(
    result: SearchResult,
    joining: SuperwordOptions,
    learn: Callable[..., Candidates],
    search: Callable[..., SearchResult],
) -> tuple[SearchResult, list[Joined]]:
    """Return a result with a vocabulary of the same size that has superwords, as many as make the
    text shortest; and the measures of each number, none first.

    learn: `learn_superwords`, with options that do not depend on the number
    search: `volt.search`, with all options but sizes and select
    """
    from volt.choose.size_steps import superword_numbers

    size = result.best.size
    candidates = result.candidates
    tried: dict[Joined, Candidates] = {}
    for number in superword_numbers(joining.amounts, size, candidates.smallest):
        learned = learn(candidates, number, transition=candidates.merges_at(size - number))
        row = Joined.of(result, learned)
        tried[row] = learned
        if learned.n_tokens < size:
            say(
                f"note: --superwords: this text gives only {row.superwords:,} of {number:,}; "
                "its other pairs occur too rarely"
            )
    joined = [Joined.of(result, candidates), *tried]
    best, _ = best_of(joined)
    chosen = search(tried[best], sizes=[best.size], select=best.size)
    result = replace(
        result, best=chosen.best, vocabulary=chosen.vocabulary, signature=chosen.signature
    )
    return result, joined


def best_of(joined: Sequence[Joined]) -> tuple[Joined, float]:
    """Return the row of the fewest pieces, and which share of the pieces it saves."""
    plain, *others = joined
    best = min(others, key=lambda row: row.n_pieces)
    return best, 1 - best.n_pieces / plain.n_pieces


def describe(joined: Sequence[Joined]) -> list[RenderableType]:
    """Return a table of what superwords give, and for whom they are worth it; nothing without any."""
    from rich.text import Text

    if not joined:
        return []
    best, saved = best_of(joined)
    plain = joined[0]
    heads = ["superwords", "with a space", "tokens", "pieces", "fewer", "bits/byte"]
    if plain.flops_per_byte:
        heads.append("GFLOP/byte")
    rows = []
    for row in joined:
        cells = [
            f"{row.superwords:,}",
            f"{row.n_crossing:,}",
            f"{row.size:,}",
            f"{row.n_pieces:,}",
            f"{1 - row.n_pieces / plain.n_pieces:.1%}",
            f"{row.bits_per_byte:.4f}",
        ]
        if row.flops_per_byte:
            cells.append(f"{row.flops_per_byte / 1e9:#.3g}")
        rows.append(cells)
    table = Grid(heads, rows, range(len(heads)), strong=joined.index(best))
    note = (
        f"The vocabulary's last {best.superwords:,} tokens are learned across spaces. They make the "
        f"text {saved:.1%} shorter, and so a model's sequences, and its operations per byte. Small "
        "models that read the same text needed up to 2 % more bits per character with 5 % of "
        "superwords, and 2 to 4 % more with 20 %; at the same operations, 5 % needed up to 1 % fewer. "
        "volt trial --superwords measures it on your text."
    )
    if saved < LEAST_SAVED:
        note = f"With superwords, this text has {1 - saved:.1%} of the pieces: search without --superwords."
    codes = "bits/byte: if each piece were coded by how often its token occurs"
    return ["", table, Text(codes, style="dim"), Text(note)]
