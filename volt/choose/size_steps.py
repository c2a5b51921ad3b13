"""Candidates and a size → `SizeStep`: the size, measured after a transport of characters to tokens.

    rows: characters i, a_i their distribution    columns: tokens j of the size, b_j = n_j / Σ n
    D(i,j) = log len(j) where i occurs in j       keep j if its transported mass ≥ min_share · b_j
    H_t = −(1/l) Σ_j P(j) log P(j) over the kept tokens, P from transported mass    (Eq. 4)

The transport of a size starts from the row potentials of the previous size.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
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

LARGEST = 30_000  # tokens, of the default sizes
MOST = 24  # default sizes


def default_sizes(candidates: Candidates) -> list[int]:
    """Return at most 24 round sizes, up to 30,000 tokens or twice the smallest size.

    The larger of these limits counts.
    """
    low = candidates.smallest
    high = min(candidates.n_tokens, max(LARGEST, 2 * low))
    spacing = next(spacing for spacing in _round_numbers() if high - low <= MOST * spacing)
    return [size for size in range(spacing, high + 1, spacing) if size >= low] or [high]


def _round_numbers() -> Iterator[int]:
    """Yield 1, 2, 5, 10, 20, 50, …"""
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def checked_sizes(candidates: Candidates, sizes: Sequence[int]) -> list[int]:
    """Check sizes. Raises CandidateError if one is out of range or they do not increase."""
    if isinstance(sizes, int | float):
        raise arguments.refusal(sizes, "sizes", f"did you mean sizes=[{sizes}], or select={sizes}?")
    if isinstance(sizes, range) and sizes:  # check its ends before a range of billions is listed
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
    if candidates.left == 0:
        return CandidateError(f"{message}, or give more text: no pair is left to merge")
    n_merges = candidates.n_merges + size - candidates.n_tokens
    return CandidateError(f"{message}, or learn more with", hint={"n_merges": n_merges})


def as_text(sizes: Sequence[int]) -> str:
    """Return sizes as FIRST:LAST:SPACING for a signature, or as a list if the spacing varies.

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
    """Return the parameters, by default `SearchParameters()`."""
    if parameters is None:
        return SearchParameters()
    remedy = "give volt.SearchParameters(epsilon=0.5), say"
    return arguments.instance(parameters, SearchParameters, "parameters", remedy=remedy)


@dataclass(frozen=True, slots=True)
class SizeStep:
    """One vocabulary size, measured.

    size, n_kept: the number of tokens, atoms included, and how many of them the transport keeps
    entropy: Eq. 2 over the exact counts of all tokens, in nats per character; rules use this entropy
    transport_entropy: Eq. 4 over the tokens that the transport keeps
    muv, transport_muv: Eq. 1 of `entropy` and of `transport_entropy`, from the previous searched
        size, if any
    n_pieces: the number of pieces in the corpus
    f95: count of the type at the 95th percentile of frequency
    renyi: efficiency, α = 2.5
    n_iters, converged, row_residual, column_residual, remedy: as in the TransportPlan
    kept: (size,) bool, which tokens the transport keeps

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

    searched: the sizes between which Eq. 1 is computed, by default all
    kept: (size,) bool, which tokens to keep; by default those with sufficient transported mass
    """
    parameters = parameters or SearchParameters()
    costs = transport_costs(candidates)
    characters = character_mass(candidates)
    solve = SOLVERS[parameters.solver](
        threshold=parameters.threshold, max_iters=parameters.max_iters
    )
    previous = None
    start = None
    for number, size in enumerate(sizes, 1):
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

        retained = kept
        if retained is None:
            retained = _retained(candidates, plan, parameters.min_share)
        if searched is None or size in searched:
            step = _step(candidates, counts, plan, retained, previous, parameters.length)
            previous = step
        else:
            step = _step(candidates, counts, plan, retained, None, parameters.length)
        if report:
            report(number)
        yield step


def transport_costs(candidates: Candidates) -> csc_array:
    """Return D(i,j) = log len(j) where character i occurs in token j, (n_characters, n_tokens)."""
    from scipy.sparse import csc_array

    row_of = {character: row for row, character in enumerate(_characters(candidates))}
    rows = list[int]()
    ends = [0]
    for token in candidates.tokens:
        text = token.removesuffix(SUFFIX) if candidates.marker == "suffix" else token
        rows += {row_of[character] for character in text}
        ends.append(len(rows))
    costs = np.repeat(np.log(candidates.lengths), np.diff(ends))
    return csc_array((costs, rows, ends), shape=(len(row_of), candidates.n_tokens))


def character_mass(candidates: Candidates) -> Floats:
    """Return a_i, each character's share of the corpus.

    A start-of-word marker counts as a character.
    """
    sums = dict.fromkeys(_characters(candidates), 0)
    for atom, count in zip(candidates.tokens, candidates.atom_counts.tolist(), strict=False):
        sums[atom[0]] += count
    totals = np.array(list(sums.values()), float)
    return np.asarray(totals / totals.sum())


def _characters(candidates: Candidates) -> list[str]:
    return list(dict.fromkeys(atom[0] for atom in candidates.tokens[: candidates.n_atoms]))


def _retained(candidates: Candidates, plan: TransportPlan, min_share: float) -> Flags:
    """Return which tokens carry at least a share of their mass; an extended vocabulary stays."""
    mass = plan.token_mass
    retained = mass >= min_share * plan.problem.column_mass
    if min_share:
        retained &= mass > 0
    retained[: candidates.smallest] = candidates.kept_always
    if not mass[retained].any():
        raise ConfigError(
            f"min_share {min_share} drops every token that carries mass; give a smaller one"
        )
    return retained


def _step(
    candidates: Candidates,
    counts: Longs,
    plan: TransportPlan,
    retained: Flags,
    previous: SizeStep | None,
    length: Length,
) -> SizeStep:
    size = len(counts)
    lengths = candidates.lengths[:size]
    exact = entropy(counts, lengths, length=length)
    transported = entropy(plan.token_mass[retained], lengths[retained], length=length)
    muv = None
    transport_muv = None
    if previous:
        muv = (previous.entropy - exact) / (size - previous.size)
        transport_muv = (previous.transport_entropy - transported) / (size - previous.size)

    is_token = np.ones(size, bool)
    is_token[: candidates.smallest] = candidates.kept_always
    return SizeStep(
        size=size,
        n_kept=int(retained.sum()),
        entropy=exact,
        transport_entropy=transported,
        muv=muv,
        transport_muv=transport_muv,
        n_pieces=int(recount_split_tokens(candidates, is_token)[is_token].sum()),
        f95=f95(counts),
        renyi=renyi_efficiency(counts),
        n_iters=plan.n_iters,
        converged=plan.converged,
        row_residual=plan.row_residual,
        column_residual=plan.column_residual,
        remedy=plan.remedy,
        kept=retained,
    )
