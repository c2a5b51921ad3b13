"""Sampled segmentations equal a naive twin's for the same random numbers; paths are as frequent as their scores say."""

from collections import Counter
from functools import cache, partial
from itertools import groupby, product
from math import exp

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.flat import used_room

from volt.encode.encoder import Encoder
from volt.kernels import apply_bpe
from volt.stream.transforms.sentencepiece_sampling import (
    BYTE,
    NORMAL,
    UNUSED,
    USER,
    BpeSampler,
    Piece,
    PieceFormat,
)
from volt.vocabulary import Vocabulary

MASK = (1 << 64) - 1
BPE = [
    ("ab", 0.0),
    ("bc", -1.0),
    ("abc", -2.0),
    ("cd", -2.0),
    ("bcd", -3.0),
    ("abcd", -4.0),
    ("aa", -5.0),
]
UNIGRAM = {"a": -1.0, "b": -2.0, "ab": -1.5, "ba": -2.5, "aba": -3.0, "c": -4.0}


class Same:
    """A library that changes no text."""

    def normalize(self, texts):
        """Return the texts unchanged."""
        return texts


def draws(state):
    """Yield the numbers of SplitMix64, from 0 to 1 (Steele et al. 2014)."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield ((z ^ (z >> 31)) >> 11) / (1 << 53)


def joined(text, scores, unused, alpha, state):
    """Join neighbours, best score first and then from the left; draw once for each pair, and skip it if below alpha."""
    parts, chance = [(place, character) for place, character in enumerate(text)], draws(state)
    waiting, cuts = set(), {}

    def see(place):
        if (
            0 <= place < len(parts) - 1
            and (made := parts[place][1] + parts[place + 1][1]) in scores
        ):
            cuts[made] = parts[place][1], parts[place + 1][1]
            waiting.add((-scores[made], parts[place][0], made))

    for place in range(len(parts) - 1):
        see(place)
    while waiting:
        found = min(waiting)
        waiting.remove(found)
        places = {start: place for place, (start, _) in enumerate(parts)}
        place = places.get(found[1], len(parts))
        if (
            place + 1 >= len(parts)
            or parts[place][1] + parts[place + 1][1] != found[2]
            or next(chance) < alpha
        ):
            continue
        parts[place : place + 2] = [(found[1], found[2])]
        see(place - 1)
        see(place)

    def split(part):
        return [piece for half in cuts[part] for piece in split(half)] if part in unused else [part]

    return [piece for _, part in parts for piece in split(part)]


@cache
def sampler_without(unused):
    """Return the sampler of a model in which these pieces are unused."""
    rows = [("<unk>", 0.0, 2), *((character, -9.0, NORMAL) for character in "abc")]
    rows += [(text, score, UNUSED if text in unused else NORMAL) for text, score in BPE]
    pieces = [Piece(*row) for row in rows]
    return BpeSampler(Same(), pieces, PieceFormat(pieces, 0, byte_fallback=False))


@given(
    texts=st.lists(st.text("abcdé", max_size=12), min_size=1, max_size=4),
    alpha=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
    state=st.integers(0, MASK),
    unused=st.sets(st.sampled_from(["ab", "bc", "abc"])),
)
@example(texts=["abcdabc"] * 60, alpha=0.5, state=1, unused={"abcd"})
def test_bpe_sampling_equals_a_naive_twin(texts, alpha, state, unused):
    """`BpeSampler` joins the pairs that a naive twin joins with the same random numbers, with ties
    and unused pieces; earlier contents of the working memory do not matter."""
    sampler = sampler_without(frozenset(unused))
    words = np.array([(state + i) & MASK for i in range(len(texts))], np.uint64)
    expected = []
    for text, word in zip(texts, words.tolist(), strict=True):
        runs = groupby(
            joined(text, dict(BPE), unused, alpha, word), key=lambda piece: piece in ("d", "é")
        )
        pieces = [
            piece for is_unknown, run in runs for piece in (["".join(run)] if is_unknown else run)
        ]
        expected.append(" ".join(pieces))  # unknown characters that stand together are one piece
        assert "".join(pieces) == text
    with pytest.MonkeyPatch.context() as patch:
        for held in (2, len(BPE) + 4):  # "b" and "d"
            patch.setattr(apply_bpe, "room_of", partial(used_room, held=held))
            assert sampler.sample(texts, words, alpha=alpha, form="pieces").strings() == expected


def paths(text):
    """Yield all ways to cut a text into pieces; a character that is not a piece is unknown."""
    if not text:
        yield []
    for end in range(1, len(text) + 1):
        if text[:end] in UNIGRAM or (end == 1 and text[0] not in UNIGRAM):
            yield from ([text[:end], *rest] for rest in paths(text[end:]))


def test_unigram_sampling_draws_paths_by_their_scores():
    """A path is drawn with a frequency proportional to exp(alpha · Σ score), within five standard
    deviations, from all paths and from the best ones."""
    vocabulary = Vocabulary(
        (),
        tuple(UNIGRAM),
        scores=tuple(UNIGRAM.values()),
        marker="none",
        pretokenizer="metaspace-line",
    )
    encoder = Encoder(vocabulary)
    n, text = 400, "abaxbab"
    for alpha, nbest in product((0.0, 0.4, 1.0), (-1, 4)):
        samples = encoder.encode_lines([text] * n, alpha=alpha, nbest=nbest, seed=3)
        found = Counter(" ".join(pieces) for pieces in samples)
        scores = {
            " ".join(one): sum(UNIGRAM.get(piece, -14.0) for piece in one)
            for one in paths("▁" + text)
        }
        best = sorted(scores, key=scores.__getitem__)[-nbest if nbest > 0 else 0 :]
        weights = {path: exp(alpha * scores[path]) for path in best}
        assert found.keys() <= weights.keys()
        for path, weight in weights.items():
            share = weight / sum(weights.values())
            assert abs(found[path] - n * share) <= 5 * np.sqrt(n * share * (1 - share)) + 1


def test_sampled_unknown_characters_become_bytes():
    """Samplers write unknown characters as byte pieces if the model has pieces for all bytes, and
    neither join nor cut a user symbol."""
    pieces = [
        *(Piece(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)),
        *(Piece(x, -1.0, NORMAL) for x in "abc"),
        Piece("ab", 0.0, USER),
        Piece("bc", -0.5, NORMAL),
        Piece("<unk>", 0.0, 2),
    ]
    spelling = PieceFormat(pieces, 261, byte_fallback=True)
    sampler = BpeSampler(Same(), pieces, spelling)
    words = np.array([7], np.uint64)
    assert sampler.sample(["cabcé"], words, alpha=0.0, form="pieces").strings() == [
        "c ab c <0xC3> <0xA9>"
    ]
    assert sampler.sample(["cabcé"], words, alpha=0.0, form="ids").strings() == [
        f"258 259 258 {0xC3} {0xA9}"
    ]
    assert spelling.write(np.zeros(0, np.int32), np.zeros(2, np.int64), "pieces").strings() == [
        "",
        "",
    ]
