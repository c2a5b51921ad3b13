"""The result of a trial of superwords (`SuperwordResult`) and its report, as in `volt.trial.report`.

All vocabularies have the same size, and 0 or more of their tokens are superwords. Each number is
compared with 0 in two ways:

    same text          all models have read equally many characters
    same operations    each training counts up to the operations of the cheapest one, so models whose
                       text has fewer pieces have read more of it

A difference is the mean over seeds, in % of the bits without superwords in the training with the same
seed. Its 95 % interval is Student's, with the variance between seeds of all numbers together; two
seeds and few numbers make it wide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from volt.display import Grid, counted, html_note, html_page
from volt.trial.report import amount, html_grid, page, shared_warnings, text
from volt.trial.results import Row, score
from volt.trial.training import Choice

if TYPE_CHECKING:
    from rich.console import RenderableType

# Ways to compare trainings → their names, and the values of a row that measure the length.
READINGS = {"millions": "same text", "operations": "same operations"}
TITLE = "Numbers of superwords"
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference in %, and half the width of its interval; NaN if no number has two seeds."""

    mean: float
    margin: float

    @property
    def is_clear(self) -> bool:
        return abs(self.mean) > self.margin

    def __str__(self) -> str:
        margin = "" if np.isnan(self.margin) else f" ± {self.margin:.2f}"
        return f"{self.mean:+.2f}{margin}"


@dataclass(frozen=True)
class SuperwordResult:
    """The results of a trial of superwords.

    rows: the result of each training, as in `volt.trial.results`
    size: the number of tokens of all vocabularies
    n_characters: the number of characters of the training text
    requested: the number of characters that each training should read
    characters: the number of characters that each training was allowed to read
    left: the trainings that the time did not allow
    """

    rows: tuple[Row, ...]
    size: int
    n_characters: int
    requested: int
    characters: int
    left: tuple[Choice, ...]

    def bits(self, along: str) -> dict[int, dict[int, float]]:
        """Number of superwords → seed → bits per character in a reading of `READINGS`."""
        lengths = [row[along][-1] / row["millions"][-1] for row in self.rows]
        most = min(lengths) * self.characters / 1e6
        bits = dict[int, dict[int, float]]()
        for row in sorted(self.rows, key=lambda row: (row["superwords"], row["seed"])):
            by_seed = bits.setdefault(row["superwords"], {})
            by_seed[row["seed"]] = score(row, most, along=along)
        return bits

    @cached_property
    def differences(self) -> dict[str, dict[int, Difference]]:
        """Reading → number of superwords → by how many % its bits exceed those without superwords."""
        return {along: differences(self.bits(along)) for along in READINGS}

    @property
    def best(self) -> int:
        """The number of superwords, or 0, with the fewest bits at the same operations."""
        return self._best_of({0: Difference(0.0, 0.0), **self.differences["operations"]})

    def _best_of(self, by_number: dict[int, Difference]) -> int:
        return min(by_number, key=lambda number: by_number[number].mean)

    def pieces(self, number: int) -> float:
        """Return the pieces per character of the training text, with ends of segments."""
        rows = [row for row in self.rows if row["superwords"] == number]
        return float(np.mean([row["tokens"] / row["millions"][-1] / 1e6 for row in rows]))

    @property
    def answer(self) -> str:
        """A sentence with the best number of superwords above 0, its differences, and a verdict."""
        if not self.differences["operations"]:
            return "No number of superwords was compared."
        best = self._best_of(self.differences["operations"])
        saved = 100 * (1 - self.pieces(best) / self.pieces(0))
        text, operations = (self.differences[along][best] for along in READINGS)
        verdict = "superwords shorten sequences here, but do not lower the bits"
        if np.isnan(operations.margin):
            verdict = "one seed shows no more than that"
        elif operations.is_clear and operations.mean < 0:
            verdict = "superwords are worth it here where operations are limited"
            if text.is_clear and text.mean > 0:
                verdict += ", not where the text is"
        return (
            f"{best:,} of {self.size:,} tokens as superwords: {saved:.1f} % fewer pieces; bits per "
            f"character of unseen text change by {text} % at the same text, and by {operations} % at "
            f"the same operations; {verdict}."
        )

    @property
    def warnings(self) -> list[str]:
        """Sentences to read before trusting this result."""
        warnings = []
        if self.characters < self.requested:
            warnings.append(
                f"the time allows each training to read {amount(self.characters)} of "
                f"{amount(self.requested)} characters; what superwords cost at the same text may be "
                "another at that length. Give more time to check it"
            )
        warnings += shared_warnings(self.characters, "superwords look worse", len(self.left))
        if not any(row["crossing"] for row in self.rows):
            warnings.append("no token contains a space: this text gives no superwords to compare")
        return warnings

    def __repr__(self) -> str:
        numbers = sorted({row["superwords"] for row in self.rows})
        listed = ", ".join(f"{number:,}" for number in numbers)
        trainings = counted(len(self.rows), "training")
        return f"<SuperwordResult: {listed} superwords among {self.size:,} tokens, {trainings}>"

    def _repr_html_(self) -> str:
        return html_page(self.answer, *map(html_note, self.warnings), html_grid(_table(self)))


def differences(bits: dict[int, dict[int, float]]) -> dict[int, Difference]:
    """Return number → its mean difference from 0, over the seeds that both have, in %.

    bits: number of superwords → seed → bits per character

    >>> differences({0: {1: 2.0, 2: 2.0}, 90: {1: 2.02, 2: 2.04}, 99: {1: 1.97, 2: 1.99}})[90]
    Difference(mean=1.5, margin=1.5212...)
    """
    by_number = defaultdict[int, list[float]](list)
    for number, by_seed in bits.items():
        for seed in by_seed.keys() & bits.get(0, {}).keys():
            if number:
                by_number[number].append(100 * (by_seed[seed] / bits[0][seed] - 1))
    freedom = sum(len(values) - 1 for values in by_number.values())
    squares = sum(len(values) * float(np.var(values)) for values in by_number.values())
    width = np.nan
    if freedom:
        width = stdtrit(freedom, (1 + _CONFIDENCE) / 2) * np.sqrt(squares / freedom)
    return {
        number: Difference(float(np.mean(values)), float(width / np.sqrt(len(values))))
        for number, values in by_number.items()
    }


def number_data(result: SuperwordResult) -> Iterator[dict[str, Any]]:
    """Yield the values of each number of superwords."""
    for number in result.bits("millions"):
        rows = [row for row in result.rows if row["superwords"] == number]
        values: dict[str, Any] = {
            "superwords": number,
            "crossing": rows[0]["crossing"],
            "pieces_per_character": result.pieces(number),
            "seeds": len(rows),
        }
        for along, name in READINGS.items():
            difference = result.differences[along].get(number, Difference(0.0, 0.0))
            margin = None if np.isnan(difference.margin) else difference.margin
            values[name.replace(" ", "_")] = {
                "bits_per_character": float(np.mean([*result.bits(along)[number].values()])),
                "more_percent": difference.mean,
                "margin_percent": margin,
            }
        yield values


def _table(result: SuperwordResult) -> Grid:
    heads = ["superwords", "with a space", "pieces/character"]
    for name in READINGS.values():
        heads += [f"bits, {name}", "more %"]
    rows = []
    for values in number_data(result):
        number = values["superwords"]
        cells = [f"{number:,}", f"{values['crossing']:,}", f"{values['pieces_per_character']:.4f}"]
        for along, name in READINGS.items():
            cells.append(f"{values[name.replace(' ', '_')]['bits_per_character']:.4f}")
            cells.append(str(result.differences[along].get(number, "")))
        rows.append([*cells, f"{values['seeds']}"])
    strong = [values["superwords"] for values in number_data(result)].index(result.best)
    return Grid([*heads, "seeds"], rows, range(8), strong)


def as_data(result: SuperwordResult) -> dict[str, Any]:
    """Return all values of the report as JSON data."""
    return {
        "answer": result.answer,
        "best": result.best,
        "warnings": result.warnings,
        "size": result.size,
        "training_characters": result.n_characters,
        "characters_requested": result.requested,
        "characters_read": result.characters,
        "superwords": list(number_data(result)),
        "trainings": list(result.rows),
        "left": [choice.labels for choice in result.left],
    }


def as_page(result: SuperwordResult) -> str:
    """Return the report as an HTML page in the style of the page of `volt compare`."""
    return page(
        (f"{result.best:,}", "superwords"), result.answer, result.warnings, {TITLE: _table(result)}
    )


def as_text(result: SuperwordResult) -> RenderableType:
    """Return the report for a rich console; print it with `crop=False`."""
    return text(result.answer, result.warnings, [_table(result)])
