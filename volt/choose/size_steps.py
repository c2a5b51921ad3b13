"""Candidates and sizes → a `SizeStep` for each size: the size and its measures.

A size t has the first t candidates. Optimal transport (`volt.choose.transport`) moves the corpus's
characters into these tokens, and decides which tokens to keep:

    rows: characters i, a_i = their share of the corpus
    columns: tokens j, b_j = n_j / Σ n, with n_j the count of token j
    cost D(i,j) = log len(j) if character i occurs in token j; no other move is possible
    token j is kept if the mass that reaches it is at least min_share · b_j
    H_t = −(1/l) Σ_j P(j) log P(j) over the kept tokens, P(j) the mass that reaches j     (Eq. 4)

The transport of a size starts from the row potentials of the previous size, which are close.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.choose.criteria import Length, entropy, f95, renyi_efficiency
from volt.choose.transport import SOLVERS, TransportPlan, TransportProblem
from volt.choose.vocabulary_at import recount_split_tokens
from volt.display import counted
from volt.errors import CandidateError, ConfigError
from volt.learn.candidates import Candidates, Floats, Longs
from volt.text.atoms import SUFFIX

if TYPE_CHECKING:
    from scipy.sparse import csc_array

Flags = NDArray[np.bool_]
Mass = Literal["tokens", "characters"]

LARGEST = 30_000  # tokens of the largest default size, unless there are many atoms
MOST = 24  # default sizes; each takes a transport


def default_sizes(candidates: Candidates) -> list[int]:
    """Return about 24 multiples of 1, 2, 5, 10, 20, 50, … tokens as sizes to search.

    The largest is at most 30,000 tokens or twice the smallest size, whichever is more.
    """
    low = candidates.smallest
    high = min(candidates.n_tokens, max(LARGEST, 2 * low))
    round_numbers = (digit * 10**power for power, digit in product(range(20), (1, 2, 5)))
    spacing = next(number for number in round_numbers if high - low <= MOST * number)
    sizes = range(spacing, high + 1, spacing)
    return [size for size in sizes if size >= low] or [high]


def checked_sizes(candidates: Candidates, sizes: Sequence[int]) -> list[int]:
    """Return the sizes as a list.

    Raises CandidateError if a size is out of range, or they do not increase.
    """
    if isinstance(sizes, int | float):
        raise arguments.refusal(sizes, "sizes", f"did you mean sizes=[{sizes}], or select={sizes}?")
    if isinstance(sizes, range) and sizes:  # check both ends before a range of billions is listed
        for size in sorted((sizes[0], sizes[-1])):
            checked_size(candidates, size)

    sizes = arguments.wholes(sizes, "sizes")
    for size, following in pairwise(sizes):
        if following <= size:
            raise CandidateError(f"sizes must increase, but {following} follows {size}")
    if not sizes:
        raise CandidateError("no sizes: give at least one, such as 1000")
    return [checked_size(candidates, size) for size in sizes]


def checked_size(candidates: Candidates, size: int) -> int:
    """Return the size. Raises CandidateError if the candidates do not have it."""
    low = candidates.smallest
    high = candidates.n_tokens
    if size < low:
        limit = f"{low} atoms; raise it, or drop rare characters"
        if candidates.extends:
            limit = f"{low} tokens that are extended; raise it"
        raise CandidateError(f"size {size} is below the {limit}")
    if size > high:
        limit = f"{high} tokens that {candidates.n_merges} merges make"
        raise too_few(candidates, f"size {size} is above the {limit}; lower it", size=size)
    return size


def too_few(candidates: Candidates, message: str, *, size: int) -> CandidateError:
    """Return the error for a size above the candidates, with the number of merges that it takes."""
    if candidates.left == 0:
        return CandidateError(f"{message}, or give more text: no pair is left to merge")
    n_merges = candidates.n_merges + size - candidates.n_tokens
    return CandidateError(f"{message}, or learn more with", hint={"n_merges": n_merges})


def superword_numbers(amounts: Iterable[int | float], size: int, smallest: int) -> list[int]:
    """Return the numbers of superwords that fit into a vocabulary. Raises ConfigError if none does.

    amounts: numbers, or shares of all tokens
    size: tokens of the vocabulary, of which `smallest` are atoms

    >>> superword_numbers([0.05, 0.1, 0.2], 1000, 900)
    [50, 100]
    """
    most = size - smallest
    numbers = []
    for amount in amounts:
        number = arguments.number(amount, "superwords")
        if 0 < number < 1:
            number = max(1, round(number * size))
        numbers.append(arguments.whole(number, "superwords", low=1))
    if min(numbers, default=0) > most:
        raise ConfigError(
            f"{counted(numbers[0], 'superword')} and {smallest:,} single characters or bytes do not "
            f"fit into {size:,} tokens; give at most {most:,}, or choose a larger size with",
            hint={"select": "fixed:N"},
        )
    return [number for number in numbers if number <= most]


def as_text(sizes: Sequence[int]) -> str:
    """Return sizes as text for a signature: FIRST:LAST:SPACING, or a list if the spacing varies.

    >>> as_text([1000, 2000, 3000]), as_text([1, 2, 4])
    ('1000:3000:1000', '1,2,4')
    """
    spacings = {following - size for size, following in pairwise(sizes)}
    if len(spacings) == 1:
        return f"{sizes[0]}:{sizes[-1]}:{spacings.pop()}"
    return ",".join(map(str, sizes))


@dataclass(frozen=True, slots=True)
class SearchParameters:
    """The parameters of the criteria and the transport.

    length: whether the mean length l is taken over tokens ("type") or occurrences ("occurrence")
    mass: whether b_j is a token's share of all pieces ("tokens") or characters ("characters")
    epsilon: ε > 0, the weight of the entropy in the transport
    row_tau, column_tau: how closely row and column sums must match the masses, in (0, 1]; 1 is
        exactly
    min_share: a token is kept if its transported mass is at least this share of b_j, in [0, 1];
        0 keeps all
    solver: a name in volt.choose.transport.SOLVERS
    threshold, max_iters: when the solver stops (see `Sinkhorn`)
    Raises ConfigError if a value is unknown or out of range.

    >>> SearchParameters(epsilon=0.5).signature
    'length:type|mass:tokens|eps:0.5|tau:1,0.5|share:0.001|solver:sinkhorn'
    """

    length: Length = "type"
    mass: Mass = "tokens"
    epsilon: float = 1.0
    row_tau: float = 1.0
    column_tau: float = 0.5
    min_share: float = 0.001
    solver: str = "sinkhorn"
    threshold: float = 1e-6
    max_iters: int = 1_000

    def __post_init__(self) -> None:
        arguments.choice(self.length, "length", get_args(Length))
        arguments.choice(self.mass, "mass", get_args(Mass))
        arguments.choice(self.solver, "solver", tuple(SOLVERS))
        for name, high in (("row_tau", 1), ("column_tau", 1), ("epsilon", 1e6), ("threshold", 1)):
            value = arguments.number(getattr(self, name), name)
            if not 0 < value <= high:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}; give a number above 0 and at most {high:g}"
                )
        arguments.whole(self.max_iters, "max_iters", low=1)
        if not 0 <= arguments.number(self.min_share, "min_share") <= 1:
            raise ConfigError(f"min_share is {self.min_share}; give a number from 0 to 1")

    @property
    def signature(self) -> str:
        """The parameters in short, for the signature of a result."""
        parts = (
            f"length:{self.length}",
            f"mass:{self.mass}",
            f"eps:{self.epsilon:g}",
            f"tau:{self.row_tau:g},{self.column_tau:g}",
            f"share:{self.min_share:g}",
            f"solver:{self.solver}",
        )
        return "|".join(parts)


def checked_parameters(parameters: SearchParameters | None) -> SearchParameters:
    """Return the parameters after checking their type; None becomes `SearchParameters()`."""
    if parameters is None:
        return SearchParameters()
    remedy = "give an object such as volt.SearchParameters(epsilon=0.5)"
    return arguments.instance(parameters, SearchParameters, "parameters", remedy=remedy)


@dataclass(frozen=True, slots=True)
class SizeStep:
    """One vocabulary size, measured.

    size: the number of tokens, atoms included
    n_kept: the number of tokens that the transport keeps
    entropy: Eq. 2 over the exact counts of all tokens, in nats per character; rules use this one
    transport_entropy: Eq. 4 over the tokens that the transport keeps, in nats per character
    muv, transport_muv: Eq. 1 of `entropy` and of `transport_entropy`, from the previous searched
        size; None for the first size and for sizes that were not searched
    n_pieces: the number of pieces in the corpus
    f95: the count of the token at the 95th percentile of tokens, the most frequent first
    renyi: the Rényi efficiency of the counts, α = 2.5
    n_iters, converged, row_residual, column_residual, remedy: as in `TransportPlan`
    kept: (size,) bool, whether the transport keeps each token

    >>> from volt.learn.bpe import learn_bpe
    >>> list(size_steps(learn_bpe({"low": 5, "lower": 2}, n_merges=3), [8]))
    [<SizeStep: 8 tokens, keeps 8, entropy 1.1050, 13 pieces>]
    """

    size: int
    n_kept: int
    entropy: float
    transport_entropy: float
    muv: float | None
    transport_muv: float | None
    n_pieces: int
    f95: float
    renyi: float
    n_iters: int
    converged: bool
    row_residual: float
    column_residual: float
    remedy: str
    kept: Flags = field(repr=False, compare=False)

    def __repr__(self) -> str:
        parts = [
            counted(self.size, "token"),
            f"keeps {self.n_kept:,}",
            f"entropy {self.entropy:.4f}",
            counted(self.n_pieces, "piece"),
        ]
        if not self.converged:
            parts.append("not converged")
        return f"<SizeStep: {', '.join(parts)}>"


def size_steps(
    candidates: Candidates,
    sizes: Sequence[int],
    *,
    searched: Collection[int] | None = None,
    parameters: SearchParameters | None = None,
    report: Callable[[int], object] | None = None,
    kept: Flags | None = None,
) -> Iterator[SizeStep]:
    """Measure each size in turn, smallest first.

    searched: the sizes that get an MUV (Eq. 1) from the previous such size; all by default
    report: called with the number of sizes that are done
    kept: (size,) bool, whether to keep each token; by default, its transported mass decides
    """
    parameters = parameters or SearchParameters()
    costs = transport_costs(candidates)
    characters = character_mass(candidates)
    solve = SOLVERS[parameters.solver](
        threshold=parameters.threshold, max_iters=parameters.max_iters
    )
    previous = None
    start = None
    for n_done, size in enumerate(sizes, 1):
        counts = candidates.counts_at(size)
        weights = counts.astype(float)
        if parameters.mass == "characters":
            weights *= candidates.lengths[:size]
        problem = TransportProblem(
            costs[:, :size].tocsr(),
            characters,
            weights / weights.sum(),
            epsilon=parameters.epsilon,
            row_tau=parameters.row_tau,
            column_tau=parameters.column_tau,
        )
        plan = solve(problem, start)
        start = plan.potentials
        is_kept = kept
        if is_kept is None:
            is_kept = _choose_kept_tokens(candidates, plan, parameters.min_share)

        step = _measure(candidates, counts, plan, is_kept, parameters.length)
        if searched is None or size in searched:
            if previous:
                step = _with_muv(step, previous)
            previous = step
        if report:
            report(n_done)
        yield step


def transport_costs(candidates: Candidates) -> csc_array:
    """Return the costs D(i,j) = log len(j) where character i occurs in token j.

    The result has the shape (n_characters, n_tokens), and stores no other entries.
    """
    from scipy.sparse import csc_array

    row_of = {character: row for row, character in enumerate(_characters(candidates))}
    rows = list[int]()
    column_ends = [0]
    for token in candidates.tokens:
        text = token.removesuffix(SUFFIX) if candidates.marker == "suffix" else token
        rows += {row_of[character] for character in text}
        column_ends.append(len(rows))
    costs = np.repeat(np.log(candidates.lengths), np.diff(column_ends))
    return csc_array((costs, rows, column_ends), shape=(len(row_of), candidates.n_tokens))


def character_mass(candidates: Candidates) -> Floats:
    """Return a_i, the share of each character in the corpus, (n_characters,).

    A start-of-word marker counts as a character.
    """
    sums = dict.fromkeys(_characters(candidates), 0)
    for atom, count in zip(candidates.tokens, candidates.atom_counts.tolist(), strict=False):
        sums[atom[0]] += count
    totals = np.array(list(sums.values()), float)
    return np.asarray(totals / totals.sum())


def _characters(candidates: Candidates) -> list[str]:
    """Return the distinct characters of the atoms; an atom's first character is no end marker."""
    return list(dict.fromkeys(atom[0] for atom in candidates.tokens[: candidates.n_atoms]))


def _choose_kept_tokens(candidates: Candidates, plan: TransportPlan, min_share: float) -> Flags:
    """Return whether each token is kept: atoms and extended tokens always, others by their mass."""
    mass = plan.token_mass
    is_kept = mass >= min_share * plan.problem.column_mass
    if min_share:
        is_kept &= mass > 0
    is_kept[: candidates.smallest] = candidates.kept_always
    if not mass[is_kept].any():
        raise ConfigError(
            f"min_share {min_share} drops every token that carries mass; give a smaller one"
        )
    return is_kept


def _measure(
    candidates: Candidates, counts: Longs, plan: TransportPlan, is_kept: Flags, length: Length
) -> SizeStep:
    """Return the step of a size, without MUV."""
    size = len(counts)
    lengths = candidates.lengths[:size]
    is_token = np.ones(size, bool)
    is_token[: candidates.smallest] = candidates.kept_always
    return SizeStep(
        size=size,
        n_kept=int(is_kept.sum()),
        entropy=entropy(counts, lengths, length=length),
        transport_entropy=entropy(plan.token_mass[is_kept], lengths[is_kept], length=length),
        muv=None,
        transport_muv=None,
        n_pieces=int(recount_split_tokens(candidates, is_token)[is_token].sum()),
        f95=f95(counts),
        renyi=renyi_efficiency(counts),
        n_iters=plan.n_iters,
        converged=plan.converged,
        row_residual=plan.row_residual,
        column_residual=plan.column_residual,
        remedy=plan.remedy,
        kept=is_kept,
    )


def _with_muv(step: SizeStep, previous: SizeStep) -> SizeStep:
    n_new = step.size - previous.size
    return replace(
        step,
        muv=(previous.entropy - step.entropy) / n_new,
        transport_muv=(previous.transport_entropy - step.transport_entropy) / n_new,
    )
