"""Words are split at random as their scores say, independently of other words, and can be joined again."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from scipy.special import chdtrc
from stream.transforms.support import LINES, tokens_of

from volt.stream import Source, Stream
from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.nbest_segmenters import read_model
from volt.stream.transforms.random_segmentation import (
    DeterministicSegmentation,
    JoinPieces,
    MorfessorEm,
    add_missing_markers,
)
from volt.stream.transforms.transform import (
    LineFault,
    LoadedFiles,
    invert,
    make_deterministic,
    open_transform,
)

LEXICON = "8\t▁\n4\t▁un\n4\tre\n2\tdo\n8\tu\n8\tn\n8\tr\n8\te\n8\td\n8\to\n2\t▁undo\n1\tundo\n"
MARKED = ["▁undo ▁redo\t▁do", "▁redo", "", "▁unredo ▁é", "▁undo\t"]
PLAIN = ["undo redo\tdo", "redo", "", "unredo é", "undo\t"]
RNG = LineRng.of(3)


@pytest.fixture
def lexicon(tmp_path):
    """A small lexicon."""
    path = tmp_path / "lexicon.tsv"
    path.write_text(LEXICON)
    return path


def table_of(folder, text):
    path = folder / "table.tsv"
    path.write_text(text, newline="")
    return path


def split(transform, lines, rng=RNG):
    return transform(Batch.of(lines), rng).lines


def test_pieces_spell_the_text(lexicon):
    """MorfessorEm changes only spaces; JoinPieces then returns the text without markers."""
    lines = split(MorfessorEm(lexicon), MARKED)
    assert [line.replace(" ", "") for line in lines] == [line.replace(" ", "") for line in MARKED]
    assert split(JoinPieces(), lines) == PLAIN


@pytest.mark.parametrize("marks", ["auto", "word", "pieces"])
def test_text_gets_markers(lexicon, marks):
    """MorfessorEm in its deterministic form returns the best segmentation for every seed, and its
    inverse returns the text."""
    transform = MorfessorEm(lexicon, marks=marks)
    [best] = make_deterministic([transform])
    [join] = invert([transform])
    lines = split(best, PLAIN)
    assert all(split(best, PLAIN, LineRng.of(seed)) == lines for seed in range(5))
    assert split(join, lines) == PLAIN
    assert split(MorfessorEm(lexicon, n_samples=1, marks=marks), PLAIN) == lines


@given(LINES)
def test_fields_without_markers_get_them(values):
    """add_missing_markers puts ▁ before each word of the values that contain no ▁."""
    expected = []
    for value in values:
        marked = " ".join(f"▁{word}" for word in tokens_of(value))
        expected.append(value if "▁" in value or not value else marked)
    assert add_missing_markers(Column.of(values)).strings() == expected


def test_markers_depend_on_the_model(tmp_path, lexicon):
    """With marks: auto, words get ▁ only if the model or table contains ▁."""
    given_marks = MorfessorEm(lexicon, n_samples=1, marks="given")
    assert split(given_marks, ["redo"]) == ["re do"]
    for text, expected in {"▁low\t▁lo w\n": "▁lo w ▁lo w", "low\tlo w\n": "lo w lo w"}.items():
        table = DeterministicSegmentation(table_of(tmp_path, text))
        assert split(table, ["low low"]) == [expected]


@pytest.mark.parametrize("theta", [0.0, 0.5, 2.0])
def test_segmentations_are_drawn_by_their_scores(lexicon, theta):
    """MorfessorEm draws each segmentation with a probability ∝ score^theta, by a χ² test over 2,000
    words."""
    [best] = read_model(lexicon).best(["▁undo"], 4)
    weights = np.exp(theta * np.array([each.score for each in best]))
    expected = 2_000 * weights / weights.sum()
    transform = MorfessorEm(lexicon, n_samples=4, theta=theta)
    counts = Counter(split(transform, ["▁undo"] * 2_000))
    observed = [counts[" ".join(each.pieces)] for each in best]
    assert sum(observed) == 2_000
    assert theta > 0 or len(set(expected.tolist())) == 1
    assert chdtrc(len(observed) - 1, ((observed - expected) ** 2 / expected).sum()) > 1e-4


def test_workers_and_threads_give_the_same_lines(tmp_path, lexicon):
    """MorfessorEm gives the same lines in one process, in two workers, and in threads that share
    the transform."""
    path = tmp_path / "text.tsv"
    path.write_text("".join(f"▁undo ▁redo{k % 7} ▁do\n" for k in range(200)))
    source = Source("a", (str(path),), 1.0, (MorfessorEm(lexicon),), epochs=1, block_lines=16)
    with Stream([source], n_workers=0) as alone, Stream([source], n_workers=2) as parallel:
        assert list(alone) == list(parallel)
    transform = open_transform(MorfessorEm(lexicon), LoadedFiles())
    parts = [[f"▁undo ▁do{k} ▁re{j}" for j in range(60)] for k in range(8)]
    expected = [split(MorfessorEm(lexicon), part) for part in parts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda part: split(transform, part), parts)) == expected


def test_each_occurrence_of_a_word_draws(lexicon):
    """MorfessorEm draws independently for each occurrence of a word: within a line, in other
    fields, lines and epochs."""
    transform = MorfessorEm(lexicon, theta=0.0)
    lines = split(transform, ["▁undo ▁undo\t▁undo ▁undo"] * 50)
    words = [line.replace("\t", " ").replace(" ▁", "\t▁").split("\t") for line in lines]
    for first, second in combinations(zip(*words, strict=True), 2):
        assert 0 < sum(a == b for a, b in zip(first, second, strict=True)) < 40
    assert split(transform, ["▁undo"] * 20) != split(transform, ["▁undo"] * 20, LineRng.of(4))


def test_a_table_splits_each_word_in_one_way(tmp_path):
    """DeterministicSegmentation splits words by its table; a line is unfit if the table lacks a
    word, and the reason names its first such word."""
    path = table_of(tmp_path, "▁low\t▁lo w\n▁lower\t▁low er\nlow\tl ow\n")
    transform = open_transform(DeterministicSegmentation(path), LoadedFiles())
    assert split(transform, ["▁low ▁lower\t▁low", ""]) == ["▁lo w ▁low er\t▁lo w", ""]
    with pytest.raises(LineFault) as fault:
        split(transform, ["▁low", "▁lower ▁new ▁newer", "▁low\t▁lower"])
    assert fault.value.reasons == {1: f"{path} lacks the word '▁new'"}
    with pytest.raises(LineFault, match="lacks the word '▁newest'"):
        split(transform, ["▁low\t▁newest"])
    assert make_deterministic([transform]) == (DeterministicSegmentation(path),)
    assert invert([DeterministicSegmentation(path, (2,))]) == (JoinPieces((2,)),)
    assert split(DeterministicSegmentation(path, marks="pieces"), ["low low"]) == ["▁l ow ▁l ow"]
    assert split(DeterministicSegmentation(path, marks="word"), ["low"]) == ["▁lo w"]


@pytest.mark.parametrize("space", ["\xa0", "\u3000", "\x1c", "\x85", "\u2028", "\v"])
def test_only_the_space_separates_words(tmp_path, space):
    """Words and pieces of a table may contain white space other than the space."""
    word = f"a{space}b{space}"
    path = table_of(tmp_path, f"{word}\ta {space}b{space}\r\n{space}\t{space}\n")
    lines = split(DeterministicSegmentation(path), [f"{word} {space}"])
    assert lines == [f"a {space}b{space} {space}"]
