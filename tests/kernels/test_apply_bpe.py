"""The compiled merging of words, against its definition, with merges that no learner would make."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise, product
from random import Random

import numpy as np
import pytest
from flat import ends_of, flat, ints, longs, used_room
from splitmix import MASK, Drawn

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.kernels import apply_bpe
from volt.kernels.apply_bpe import LONG, PieceRule
from volt.kernels.arrays import Words
from volt.kernels.bpe_tables import N_FIRST, Merges, no_spellings, ranked_merges, spellings
from volt.vocabulary import Vocabulary

# Parts of loops are plain Python to tests, which does not wrap integers silently.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")
N_TOKENS = 12
Merge = tuple[int, int, int]
Run = tuple[int, ...]


def drawn_merges(rng: Random) -> list[Merge]:
    """Merges of lower tokens into higher ones: repeated pairs, equal results, and ranks below those of their parts."""
    sides = [sorted(rng.sample(range(N_TOKENS), 2)) for _ in range(rng.randint(0, 14))]
    merges = [
        (rng.choice([low, low // 2]), rng.choice([low, low // 3]), high) for low, high in sides
    ]
    if rng.random() < 0.3:
        merges = [(low, low, 9 + k) for k, (low, _, _) in enumerate(merges[:3]) if low < 9]
    return merges


def made_of(merges: list[Merge], *, one_by_one: bool = False) -> Merges:
    table = np.array(merges, np.int32).reshape(-1, 3)
    return ranked_merges(table[:, 0], table[:, 1], table[:, 2], one_by_one=one_by_one)


def steps(
    symbols: list[int],
    merges: list[Merge],
    *,
    one_by_one: bool = False,
    dropout: float = 0.0,
    chance: Drawn | None = None,
    heap: bool = False,
) -> tuple[list[int], list[tuple[int, int]]]:
    """Merge the lowest rank of which a pair is not passed over. Return the symbols, and each rank with its number.

    heap: whether chance is asked by rank, up to the first that is merged, rather than from left to right
    """
    ranks = {merge[:2]: rank for rank, merge in reversed(list(enumerate(merges)))}
    parts, done = list(enumerate(symbols)), list[tuple[int, int]]()
    while True:
        pairs = [(ranks.get((a, b), -1), p) for (p, a), (_, b) in pairwise(parts)]
        found, picks = [pair for pair in pairs if pair[0] >= 0], list[tuple[int, int]]()
        for pair in sorted(found) if heap else found:
            if heap and picks and (pair[0] != picks[0][0] or one_by_one):
                break
            if chance is None or dropout == 0.0 or chance.fraction() >= dropout:
                picks.append(pair)
        if not picks:
            return [symbol for _, symbol in parts], done
        rank, output, n = min(picks)[0], list[tuple[int, int]](), 0
        while parts:
            (p, symbol), *parts = parts
            if (
                parts
                and (rank, p) in picks
                and (symbol, parts[0][1]) == merges[rank][:2]
                and not (one_by_one and n)
            ):
                (symbol, parts, n) = merges[rank][2], parts[1:], n + 1
            output.append((p, symbol))
        parts = output
        done.append((rank, n))


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.4, 1.0])
def test_words_merge_by_definition(dropout: float, one_by_one: bool) -> None:
    """Both loops, also where a merge makes a pair of a lower rank; the same chance skips the same pairs.

    What the working memory held before does not matter.
    """
    rng = Random(1)
    for _ in range(40):
        merges, n = drawn_merges(rng), rng.choice([1, 2, 3, 5, 8, 9])
        made, symbols, seed = (
            made_of(merges, one_by_one=one_by_one),
            rng.choices([0, 0, 1, 2, 3, -5], k=n),
            rng.getrandbits(62),
        )
        for heap in (False, True):
            room, state, chance = (
                used_room(n, held=rng.randint(-1, 3)),
                np.array([seed]),
                Drawn(seed),
            )
            room.word.symbols[1 : n + 1] = symbols
            loop = apply_bpe._merge_long if heap else apply_bpe._merge_short
            loop(n, room, made, dropout, state)
            p, found = int(not heap), list[int]()
            while p != (-1 if heap else n + 1):
                found, p = [*found, int(room.word.symbols[p])], int(room.word.follows[p])
            expected, _ = steps(
                symbols, merges, one_by_one=one_by_one, dropout=dropout, chance=chance, heap=heap
            )
            assert (found, int(state[0]) & MASK) == (expected, chance.state)


@pytest.mark.parametrize("one_by_one", [False, True])
def test_pairs_that_no_merge_prevents_change_no_result(one_by_one: bool) -> None:
    """Merging pairs of atoms before their turn gives the symbols of the definition, for all short words.

    Also where merges rank below those of their parts, with atoms beyond the table, and with unknown characters.
    """
    rng, n_early = Random(5), 0
    for case in range(25):
        atoms = [0, 1, 2] if case % 2 else [0, N_FIRST - 1, N_FIRST]
        first, n = atoms[-1] + 1, rng.randint(1, 9)
        sides = [*atoms, *range(first, first + n)]
        pairs = [(rng.choice(sides[: i + 3]), rng.choice(sides[: i + 3])) for i in range(n)]
        order = rng.sample(range(n), n) if case % 3 else list(range(n))
        token = {atom: atom for atom in atoms} | {
            first + i: first + rank for rank, i in enumerate(order)
        }
        merges = [
            (token[pairs[i][0]], token[pairs[i][1]], first + rank) for rank, i in enumerate(order)
        ]
        made, words = made_of(merges, one_by_one=one_by_one), list(product([*atoms, -5], repeat=5))
        rule = PieceRule(np.ones(300, np.uint8), np.full(300, -1), no_spellings())
        found, ends = apply_bpe.encode_words(
            ints(flat(words)), longs(ends_of(words)), made, rule, 0.0, np.zeros(1, np.int64)
        )
        expected = [steps(list(word), merges, one_by_one=one_by_one)[0] for word in words]
        assert (found.tolist(), ends.tolist()) == (flat(expected), ends_of(expected))
        n_early += sum(
            apply_bpe._merge_unrivalled(5, ints([0, *word, 0, 0]), made) < 5 for word in words[:40]
        )
    assert n_early > 100


def split_back(token: int, kept: list[int], parts: list[int]) -> list[int]:
    if token < 0 or kept[token] or parts[token] < 0:
        return [token]
    return [
        piece
        for side in (parts[token] >> 32, parts[token] & 0xFFFFFFFF)
        for piece in split_back(side, kept, parts)
    ]


def pieces_of(
    word: list[int],
    chance: Drawn,
    tokens: Sequence[Run] = (),
    *,
    merges: list[Merge],
    dropout: float,
    kept: list[int],
    parts: list[int],
) -> list[int]:
    token = next((number for number, run in enumerate(tokens) if run and list(run) == word), -1)
    if not dropout and token >= 0 and kept[token]:
        return [token]
    symbols, _ = steps(word, merges, dropout=dropout, chance=chance)
    return flat(split_back(symbol, kept, parts) for symbol in symbols)


def test_words_become_pieces() -> None:
    """Without dropout a kept token that spells a word is its piece; other tokens are split back into kept ones.

    Each line has its own chance, and an empty word no piece.
    """
    rng = Random(2)
    for _ in range(60):
        merges, dropout = (
            list({merge[2]: merge for merge in drawn_merges(rng)}.values()),
            rng.choice([0.0, 0.5]),
        )
        kept, parts = rng.choices([0, 1], k=N_TOKENS), [-1] * N_TOKENS
        for left, right, result in merges:
            parts[result] = left << 32 | right if result > 2 else -1
        tokens = [tuple(rng.choices([0, 1], k=rng.randint(0, 3))) for _ in range(N_TOKENS)]
        symbols, ends = ints(flat(tokens)), longs(ends_of(tokens))
        rule = PieceRule(np.array(kept, np.uint8), np.array(parts), spellings(symbols, ends))
        words = [
            rng.choices([0, 0, 1, 2, -5], k=rng.choice([0, 1, 2, 3, 6]))
            for _ in range(rng.randint(0, 5))
        ]

        pieces = partial(pieces_of, merges=merges, dropout=dropout, kept=kept, parts=parts)
        state, chance = np.array([7]), Drawn(7)
        whole, ends = ints(flat(words)), longs(ends_of(words))
        found, found_ends = apply_bpe.encode_words(
            whole, ends, made_of(merges), rule, dropout, state
        )
        expected = [pieces(word, chance, tokens) for word in words]
        assert found.tolist() == flat(expected)
        assert found_ends.tolist() == ends_of(expected)
        rule, lines = (
            rule._replace(words=no_spellings()),
            [list(filter(None, words[:2])), [], list(filter(None, words))],
        )
        atoms = [
            [2 * s + (i == len(w) - 1) for w in line for i, s in enumerate(w)] for line in lines
        ]
        ends, numbers = longs(ends_of(atoms)), np.array([3, 1, 2**40])
        found, found_ends = apply_bpe.encode_sampled(
            ints(flat(atoms)), ends, made_of(merges), rule, dropout, 5, numbers
        )
        expected = []
        for line, number in zip(lines, numbers.tolist(), strict=True):
            state_of_line = 5 + 0x9E3779B97F4A7C15 ^ (number * -4417276706812531889) & MASK
            chance = Drawn(state_of_line + 0x9E3779B97F4A7C15 & MASK)
            assert apply_bpe.line_state(5, number) & MASK == chance.state
            expected.append(flat(pieces(word, chance) for word in line))
        assert found.tolist() == flat(expected)
        assert found_ends.tolist() == ends_of(expected)


@pytest.mark.parametrize("n", [LONG, LONG + 1])
def test_chance_is_asked_by_rank_in_long_words(n: int) -> None:
    """Words of up to 100 symbols draw from left to right, longer ones by rank: streams depend on it."""
    rng, merges = Random(3), [(0, 1, 4), (1, 0, 5), (0, 0, 6), (4, 4, 7), (6, 6, 8)]
    symbols, state, chance = rng.choices([0, 1, 2], k=n), np.array([9]), Drawn(9)
    rule = PieceRule(np.ones(N_TOKENS, np.uint8), np.full(N_TOKENS, -1), no_spellings())
    found, _ = apply_bpe.encode_words(
        np.array(symbols, np.int32), np.array([n]), made_of(merges), rule, 0.3, state
    )
    assert found.tolist() == steps(symbols, merges, dropout=0.3, chance=chance, heap=n > 100)[0]
    assert int(state[0]) & MASK == chance.state


def test_replacements_are_traced() -> None:
    """A replacement happens at its rank, or late, at the highest rank before it in its word."""
    rng = Random(4)
    for case in range(40):
        merges, words = (
            drawn_merges(rng),
            [rng.choices([0, 0, 1, 2], k=rng.choice([0, 1, 4, 9])) for _ in range(30)],
        )
        if case % 2:
            merges = [(1, 2, 4), (0, 1, 3), (3, 2, 5), (0, 4, 5), (5, 0, 6), (6, 6, 7)][case % 3 :]
        counts, ends = [rng.randint(1, 9) for _ in words], longs(ends_of(words))
        table = Words(ints(flat(words)), ends, np.array(counts))
        for stop in (0, 1):
            regular, late, progress = (
                [0] * len(merges),
                list[tuple[int, int]](),
                np.array([0, stop]),
            )
            for word, count in zip(words[: 1 if stop else 30], counts, strict=False):
                step = 0
                for rank, n in steps(word, merges)[1]:
                    step = max(step, rank)
                    if step == rank:
                        regular[rank] += n * count
                    else:
                        late.append((step << 32 | rank, n * count))
            found = apply_bpe.trace(table, made_of(merges), progress)
            assert [
                found[0].tolist(),
                list(zip(*map(np.ndarray.tolist, found[1:]), strict=True)),
            ] == [regular, late]
            assert progress[0] == (1 if stop else 30)


def test_too_many_tokens_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vocabulary that the table of pairs has no numbers for is an error, not a wrong result."""
    monkeypatch.setattr("volt.kernels.bpe_tables.MOST", 3)
    vocabulary = Vocabulary(
        merges=(("l", "o"), ("lo", "w")), tokens=("l", "o", "w", "lo", "low"), marker="none"
    )
    with pytest.raises(VocabularyError, match="5 tokens and 2 merges: at most 3"):
        Encoder(vocabulary)
