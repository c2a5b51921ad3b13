"""Laws of runs whose number of ranks changes several times: nothing is repeated, and nothing is lost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.streams import write_lines

from volt.batches import ByPacks, ByTokens, SampleFormat, Steps
from volt.stream import Source, Stream, merge_states
from volt.stream.transforms.filters import Length

LONGEST = 8  # words of a line
LONGEST_UNFILTERED = 4
MOST_LINES = 16
FIRST_WORD = 3
TOKENS = ["<pad>", "</s>", "<unk>", *(f"w{number}" for number in range(3 * MOST_LINES))]
TEXTS = SampleFormat({"text": TOKENS}, holds="pieces")


@dataclass(frozen=True)
class Corpus:
    """Short sources. Each line repeats a word of its own, so that every batch shows which lines it contains.

    sizes: source → number of words of each of its lines
    """

    sizes: Sequence[Sequence[int]]
    epochs: int = 1
    block_lines: int = 32
    is_filtered: bool = False

    def lines(self):
        numbers = iter(range(sum(map(len, self.sizes))))
        return [
            [" ".join([f"w{next(numbers)}"] * size) for size in source] for source in self.sizes
        ]

    def words(self):
        """Return how often each word comes in a whole run."""
        passing = [line for source in self.lines() for line in source if self.passes(line)]
        return Counter(word for line in passing * self.epochs for word in line.split())

    def passes(self, line):
        return not self.is_filtered or len(line.split()) <= LONGEST_UNFILTERED

    def stream(self, folder, **options):
        transforms = (Length(max=LONGEST_UNFILTERED, fields=(1,)),) if self.is_filtered else ()
        sources = [
            Source(
                f"source{number}",
                (write_lines(folder / f"{number}.txt", lines),),
                epochs=self.epochs,
                block_lines=self.block_lines,
                transforms=transforms,
            )
            for number, lines in enumerate(self.lines())
        ]
        return Stream(sources, seed=1, ends="drop", **options)


sources = st.lists(st.integers(1, LONGEST), min_size=1, max_size=MOST_LINES).filter(
    lambda sizes: min(sizes) <= LONGEST_UNFILTERED
)
corpora = st.builds(
    Corpus,
    sizes=st.lists(sources, min_size=1, max_size=3),
    epochs=st.integers(1, 2),
    block_lines=st.sampled_from([1, 2, 3, 8, 32]),
    is_filtered=st.booleans(),
)
rules = st.one_of(
    st.builds(
        ByTokens,
        max_tokens=st.sampled_from([LONGEST + 1, 16, 40]),
        max_sentences=st.sampled_from([None, 1, 2, 3]),
        multiple=st.sampled_from([1, 2, 8]),
    ),
    st.builds(
        ByPacks,
        length=st.sampled_from([4, 9, 12]),
        rows=st.integers(1, 2),
        on_long=st.just("split"),
    ),
)
windows = st.sampled_from([1, 2, 3, 5, 8])
runs = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=6
)  # (ranks, steps) of each run
PATIENT = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@settings(deadline=None, max_examples=examples(120), suppress_health_check=PATIENT)
@given(corpus=corpora, rule=rules, window=windows, runs=runs, last_world=st.integers(1, 3))
@example(
    corpus=Corpus([[1, 2, 3, 1, 2]]),
    rule=ByTokens(max_tokens=4, multiple=1),
    window=3,
    runs=[(2, 2), (1, 1), (2, 1)],
    last_world=2,
)
@example(
    corpus=Corpus([[1, 2, 3, 1, 2]]),
    rule=ByTokens(max_tokens=4, multiple=1),
    window=3,
    runs=[(2, 2), (3, 1), (2, 1)],
    last_world=1,
)
def test_samples_come_once_whatever_the_ranks(
    tmp_path,
    corpus,
    rule,
    window,
    runs,
    last_world,
):
    """Steps are stopped and resumed by other ranks, up to six times: no sample is repeated, and all others are left."""
    state = None
    words = Counter()

    for world, n_steps in [*runs, (last_world, None)]:
        states = []
        for rank in range(world):
            with Steps(
                corpus.stream(tmp_path), TEXTS, rule, window=window, rank=rank, world=world
            ) as steps:
                if state is not None:
                    steps.restore(state)
                for step in islice(steps, n_steps):
                    words.update(words_of(step))
                states.append(steps.state())
                n_left = steps.totals.n_left
        assert all(other == states[0] for other in states)
        state = json.loads(json.dumps(states[0]))

    missing = corpus.words() - words
    assert words - corpus.words() == Counter()
    assert len(missing) <= n_left
    assert bool(missing) == bool(n_left)


def words_of(step):
    ids = step.get("net_input", step)["src_tokens"].ravel().tolist()
    return [TOKENS[number] for number in ids if number >= FIRST_WORD]


amounts = st.lists(st.integers(0, 8), min_size=5, max_size=5)  # lines that each rank reads


@settings(deadline=None, max_examples=examples(120), suppress_health_check=PATIENT)
@given(
    corpus=corpora,
    runs=st.lists(st.tuples(st.integers(1, 5), amounts), max_size=6),
    last_world=st.integers(1, 3),
)
def test_lines_come_once_whatever_the_ranks(tmp_path, corpus, runs, last_world):
    """Streams are stopped, merged and resumed by other ranks, up to six times: every line comes once an epoch."""
    state = None
    words = Counter()

    for world, n_lines in [*runs, (last_world, [10_000] * last_world)]:
        states = []
        for rank in range(world):
            with corpus.stream(tmp_path, rank=rank, world=world) as stream:
                if state is not None:
                    stream.restore(state)
                for line in islice(stream, n_lines[rank]):
                    words.update(line.split())
                states.append(stream.state())
        state = json.loads(json.dumps(merge_states(states)))

    assert words == corpus.words()
