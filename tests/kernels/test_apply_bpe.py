"""The loops that merge words, compared with the definition, with merges that no learner would make."""

from functools import partial
from itertools import pairwise, product
from random import Random

import numpy as np
import pytest
from support.flat import ends_of, flat, ints, longs, used_room
from support.splitmix import MASK, Drawn

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.kernels import apply_bpe
from volt.kernels.apply_bpe import LONG, PieceRule
from volt.kernels.arrays import Words
from volt.kernels.bpe_tables import N_FIRST, no_spellings, ranked_merges, spellings
from volt.kernels.trace import trace
from volt.vocabulary import Vocabulary

# Tests call parts of loops as plain Python, which warns when integers wrap.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar:RuntimeWarning")
N_TOKENS = 12
NO_RULE = PieceRule(np.ones(300, np.uint8), np.full(300, -1), no_spellings())
Merge = tuple[int, int, int]


def drawn_merges(rng):
    """Draw merges of lower tokens into higher ones: with repeated pairs, equal results, and ranks below their parts'."""
    merges = []
    for _ in range(rng.randint(0, 14)):
        low, high = sorted(rng.sample(range(N_TOKENS), 2))
        merges.append((rng.choice([low, low // 2]), rng.choice([low, low // 3]), high))
    if rng.random() < 0.3:
        return [(low, low, 9 + k) for k, (low, _, _) in enumerate(merges[:3]) if low < 9]
    return merges


def made_of(merges, *, one_by_one=False):
    columns = np.array(merges, np.int32).reshape(-1, 3).T
    return ranked_merges(*columns, one_by_one=one_by_one)


def merged(symbols, merge, places, most):
    """Merge pairs at these places from left to right, at most so many. Return how many were merged."""
    n = i = 0
    while i + 1 < len(symbols) and n < most:
        (place, left), (_, right) = symbols[i : i + 2]
        if place in places and (left, right) == merge[:2]:
            symbols[i : i + 2] = [(place, merge[2])]
            n += 1
        i += 1
    return n


def steps(
    word,
    merges,
    *,
    one_by_one=False,
    dropout=0.0,
    chance=None,
    heap=False,
):
    """Merge the lowest rank that has a pair that is not skipped. Return the symbols, and each rank and its number.

    heap: whether random numbers are drawn by rank, up to the first that is merged, instead of from left to right
    """
    ranks = {merge[:2]: rank for rank, merge in reversed(list(enumerate(merges)))}
    symbols, done = list(enumerate(word)), []
    while True:
        pairs = [(ranks.get((a, b), -1), p) for (p, a), (_, b) in pairwise(symbols)]
        pairs = [pair for pair in pairs if pair[0] >= 0]
        chosen = []
        for pair in sorted(pairs) if heap else pairs:
            if heap and chosen and (pair[0] != chosen[0][0] or one_by_one):
                break
            if chance is None or dropout == 0.0 or chance.fraction() >= dropout:
                chosen.append(pair)
        if not chosen:
            return [symbol for _, symbol in symbols], done
        rank = min(chosen)[0]
        places = {place for other, place in chosen if other == rank}
        done.append((rank, merged(symbols, merges[rank], places, 1 if one_by_one else len(word))))


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.4, 1.0])
def test_short_and_long_loops_merge_by_the_definition(dropout, one_by_one):
    """The loops for short and for long words merge as the definition does, also if a merge makes a
    pair of a lower rank, and skip the same pairs for the same random numbers. Earlier contents of
    the working memory do not matter."""
    rng = Random(1)
    for _ in range(40):
        merges, n = drawn_merges(rng), rng.choice([1, 2, 3, 5, 8, 9])
        word, seed = rng.choices([0, 0, 1, 2, 3, -5], k=n), rng.getrandbits(62)
        for heap in (False, True):
            room, state, chance = used_room(n, held=rng.randint(-1, 3)), longs([seed]), Drawn(seed)
            room.word.symbols[1 : n + 1] = word
            loop = apply_bpe._merge_long if heap else apply_bpe._merge_short
            loop(n, room, made_of(merges, one_by_one=one_by_one), dropout, state)
            p, end = (0, -1) if heap else (1, n + 1)
            symbols = []
            while p != end:
                symbols.append(int(room.word.symbols[p]))
                p = int(room.word.follows[p])
            options = {"one_by_one": one_by_one, "dropout": dropout, "chance": chance, "heap": heap}
            assert symbols == steps(word, merges, **options)[0]
            assert int(state[0]) & MASK == chance.state


@pytest.mark.parametrize("one_by_one", [False, True])
def test_merging_unrivalled_pairs_early_changes_no_result(one_by_one):
    """`encode_words` gives the symbols of the definition for all words of five atoms, although it
    first merges pairs that no other merge can prevent. This holds for merges in any order, atoms
    outside the table, and unknown characters."""
    rng, n_early = Random(5), 0
    for case in range(25):
        atoms = [0, 1, 2] if case % 2 else [0, N_FIRST - 1, N_FIRST]
        first, n = atoms[-1] + 1, rng.randint(1, 9)
        order = rng.sample(range(n), n) if case % 3 else list(range(n))
        tokens = [*atoms, *(first + order.index(i) for i in range(n))]
        pairs = [rng.choices(tokens[: i + 3], k=2) for i in range(n)]
        merges = [(*pairs[i], first + rank) for rank, i in enumerate(order)]
        made, words = made_of(merges, one_by_one=one_by_one), list(product([*atoms, -5], repeat=5))
        ends, state = longs(ends_of(words)), longs([0])
        found, ends = apply_bpe.encode_words(ints(flat(words)), ends, made, NO_RULE, 0.0, state)
        expected = [steps(list(word), merges, one_by_one=one_by_one)[0] for word in words]
        assert (found.tolist(), ends.tolist()) == (flat(expected), ends_of(expected))
        for word in words[:40]:
            n_early += apply_bpe._merge_unrivalled(5, ints([0, *word, 0, 0]), made) < 5
    assert n_early > 100


def split_back(token, retained, parts):
    if token < 0 or retained[token] or parts[token] < 0:
        return [token]
    sides = parts[token] >> 32, parts[token] & 0xFFFFFFFF
    return flat(split_back(side, retained, parts) for side in sides)


def pieces_of(
    word,
    chance,
    tokens=(),
    *,
    merges,
    dropout,
    retained,
    parts,
):
    token = next((number for number, run in enumerate(tokens) if run and list(run) == word), -1)
    if not dropout and token >= 0 and retained[token]:
        return [token]
    symbols, _ = steps(word, merges, dropout=dropout, chance=chance)
    return flat(split_back(symbol, retained, parts) for symbol in symbols)


def test_encode_words_and_encode_sampled_give_the_pieces_of_the_definition():
    """`encode_words` and `encode_sampled` split tokens that are not retained into their parts.

    Without dropout, a retained token that spells a word is its piece. In `encode_sampled`, each
    line has its own random numbers.
    """
    rng = Random(2)
    for _ in range(60):
        merges = list({merge[2]: merge for merge in drawn_merges(rng)}.values())
        dropout = rng.choice([0.0, 0.5])
        retained, parts = rng.choices([0, 1], k=N_TOKENS), [-1] * N_TOKENS
        for left, right, result in merges:
            parts[result] = left << 32 | right if result > 2 else -1
        tokens = [tuple(rng.choices([0, 1], k=rng.randint(0, 3))) for _ in range(N_TOKENS)]
        spelled = spellings(ints(flat(tokens)), longs(ends_of(tokens)))
        rule = PieceRule(np.array(retained, np.uint8), np.array(parts), spelled)
        sizes = rng.choices([0, 1, 2, 3, 6], k=rng.randint(0, 5))
        words = [rng.choices([0, 0, 1, 2, -5], k=size) for size in sizes]
        pieces = partial(pieces_of, merges=merges, dropout=dropout, retained=retained, parts=parts)

        chance = Drawn(7)
        expected = [pieces(word, chance, tokens) for word in words]
        whole, ends = ints(flat(words)), longs(ends_of(words))
        found = apply_bpe.encode_words(whole, ends, made_of(merges), rule, dropout, longs([7]))
        assert [row.tolist() for row in found] == [flat(expected), ends_of(expected)]

        rule = rule._replace(words=no_spellings())
        lines, numbers = [words[:2], [], words], [3, 1, 2**40]
        atoms = [
            [2 * symbol + (i == len(word) - 1) for word in line for i, symbol in enumerate(word)]
            for line in lines
        ]
        expected = []
        for line, number in zip(lines, numbers, strict=True):
            state = 5 + 0x9E3779B97F4A7C15 ^ (number * -4417276706812531889) & MASK
            chance = Drawn(state + 0x9E3779B97F4A7C15 & MASK)
            assert apply_bpe.line_state(5, number) & MASK == chance.state
            expected.append(flat(pieces(word, chance) for word in line if word))
        found = apply_bpe.encode_sampled(
            ints(flat(atoms)),
            longs(ends_of(atoms)),
            made_of(merges),
            rule,
            dropout,
            5,
            longs(numbers),
        )
        assert [row.tolist() for row in found] == [flat(expected), ends_of(expected)]


@pytest.mark.parametrize("n", [LONG, LONG + 1])
def test_dropout_draws_from_left_to_right_or_by_rank(n):
    """With dropout, `encode_words` draws random numbers from left to right in words of up to 100
    symbols, and by rank in longer words. The bytes of streams depend on it."""
    rng, merges = Random(3), [(0, 1, 4), (1, 0, 5), (0, 0, 6), (4, 4, 7), (6, 6, 8)]
    word, state, chance = rng.choices([0, 1, 2], k=n), longs([9]), Drawn(9)
    found, _ = apply_bpe.encode_words(ints(word), longs([n]), made_of(merges), NO_RULE, 0.3, state)
    assert found.tolist() == steps(word, merges, dropout=0.3, chance=chance, heap=n > 100)[0]
    assert int(state[0]) & MASK == chance.state


def test_trace_counts_replacements_by_the_step_that_lets_them_apply():
    """`trace` counts a replacement at its rank, or, if a higher rank comes before it in its word,
    as late, at that rank."""
    rng = Random(4)
    for case in range(40):
        merges = drawn_merges(rng)
        if case % 2:
            merges = [(1, 2, 4), (0, 1, 3), (3, 2, 5), (0, 4, 5), (5, 0, 6), (6, 6, 7)][case % 3 :]
        words = [rng.choices([0, 0, 1, 2], k=rng.choice([0, 1, 4, 9])) for _ in range(30)]
        counts = [rng.randint(1, 9) for _ in words]
        table = Words(ints(flat(words)), longs(ends_of(words)), longs(counts))
        for stop, n_words in ((0, 30), (1, 1)):
            regular, late = [0] * len(merges), []
            for word, count in list(zip(words, counts, strict=True))[:n_words]:
                step = 0
                for rank, n in steps(word, merges)[1]:
                    step = max(step, rank)
                    if step == rank:
                        regular[rank] += n * count
                    else:
                        late.append((step << 32 | rank, n * count))
            progress = longs([0, stop])
            found, *found_late = trace(table, made_of(merges), progress)
            assert found.tolist() == regular
            assert list(zip(*map(np.ndarray.tolist, found_late), strict=True)) == late
            assert progress[0] == n_words


def test_encoder_refuses_more_tokens_than_its_table_can_store(monkeypatch):
    """`Encoder` raises an error for a vocabulary with more tokens than the table of pairs can
    store."""
    monkeypatch.setattr("volt.kernels.bpe_tables.MOST", 3)
    merges, tokens = (("l", "o"), ("lo", "w")), ("l", "o", "w", "lo", "low")
    vocabulary = Vocabulary(merges=merges, tokens=tokens, marker="none")
    with pytest.raises(VocabularyError, match="5 tokens and 2 merges: at most 3"):
        Encoder(vocabulary)
