"""Words are cut into pieces by chance of their own: as often as their scores say, whatever stands beside them."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import chdtrc

from volt.errors import ConfigError
from volt.stream import Source, Stream
from volt.stream.transforms import word_types
from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.nbest_segmenters import read_model
from volt.stream.transforms.random_segmentation import (
    DeterministicSegmentation,
    JoinPieces,
    MorfessorEm,
    Sentencepiece,
)
from volt.stream.transforms.transform import (
    LineFault,
    LoadedFiles,
    Transform,
    deterministic,
    inverse,
    loaded,
)
from volt.stream.transforms.word_types import Choices, WordTypes

LEXICON = "8\t▁\n4\t▁un\n4\tre\n2\tdo\n8\tu\n8\tn\n8\tr\n8\te\n8\td\n8\to\n2\t▁undo\n1\tundo\n"
LINES = ["▁undo ▁redo\t▁do", "▁redo", "", "▁unredo ▁é", "▁undo\t"]
CHANCE = LineRng.of(3)


@pytest.fixture
def lexicon(tmp_path: Path) -> Path:
    """A file with a small lexicon."""
    path = tmp_path / "lexicon.tsv"
    path.write_text(LEXICON)
    return path


def cut(transform: Transform, lines: list[str], chance: LineRng = CHANCE) -> list[str]:
    """Lines through a transform."""
    return transform(Batch.of(lines), chance).lines


def test_pieces_make_the_words_and_the_text_comes_back(lexicon: Path) -> None:
    """Without the spaces, a line is what it was without its own; joined, it is text."""
    made = cut(MorfessorEm(lexicon), LINES)
    assert [line.replace(" ", "") for line in made] == [line.replace(" ", "") for line in LINES]
    assert cut(JoinPieces(), made) == ["undo redo\tdo", "redo", "", "unredo é", "undo\t"]


@pytest.mark.parametrize("marks", ["word", "pieces"])
def test_settled_and_undone_give_the_text_back(lexicon: Path, marks: str) -> None:
    """Plain text, marked here, is the same behind both, and what is drawn is the same for every chance."""
    transform, lines = MorfessorEm(lexicon, marks=marks), ["undo redo\tdo", "a", "", "re do un"]  # type: ignore[arg-type]
    (best,), (back,) = deterministic([transform]), inverse([transform])
    made = cut(best, lines, LineRng.of(0))
    assert all(cut(best, lines, LineRng.of(seed)) == made for seed in range(5))
    assert cut(back, made) == lines
    assert cut(MorfessorEm(lexicon, n_samples=1, marks=marks), lines) == made  # type: ignore[arg-type]


@pytest.mark.parametrize("theta", [0.0, 0.5, 2.0])
def test_segmentations_are_drawn_by_their_scores(lexicon: Path, theta: float) -> None:
    """P ∝ score^theta: χ² over 2,000 words; with theta 0 all are alike."""
    best = read_model(lexicon).best(["▁undo"], 4)[0]
    weights = np.exp(theta * np.array([one.score for one in best]))
    expected = 2_000 * weights / weights.sum()
    counts = Counter(cut(MorfessorEm(lexicon, n_samples=4, theta=theta), ["▁undo"] * 2_000))
    found = [counts[" ".join(one.pieces)] for one in best]
    assert sum(found) == 2_000
    assert theta > 0 or len(set(expected.tolist())) == 1
    assert chdtrc(len(found) - 1, ((found - expected) ** 2 / expected).sum()) > 1e-4


def test_a_line_is_the_same_whatever_stands_beside_it(lexicon: Path) -> None:
    """Alone, in chunks, in another order, and by an object that has met other words before."""
    transform = loaded(MorfessorEm(lexicon, theta=0.0), LoadedFiles())
    batch = Batch.of(LINES * 8)
    whole = transform(batch, CHANCE).lines
    order = np.random.default_rng(1).permutation(len(batch))
    assert transform(batch.take(order), CHANCE).lines == [whole[place] for place in order]
    fresh = loaded(MorfessorEm(lexicon, theta=0.0), LoadedFiles())
    assert [line for place in order for line in fresh(batch.take([place]), CHANCE).lines] == [
        whole[i] for i in order
    ]


def test_workers_and_threads_make_the_same(tmp_path: Path, lexicon: Path) -> None:
    """A stream with workers gives the samples of one without; threads may share one object."""
    file = tmp_path / "text.tsv"
    file.write_text("".join(f"▁undo ▁redo{k % 7} ▁do\n" for k in range(200)))
    source = Source("a", (str(file),), 1.0, (MorfessorEm(lexicon),), epochs=1, block_lines=16)
    with Stream([source], n_workers=0) as one, Stream([source], n_workers=2) as two:
        assert list(one) == list(two)
    transform = loaded(MorfessorEm(lexicon), LoadedFiles())
    parts = [Batch.of([f"▁undo ▁do{k} ▁re{j}" for j in range(60)]) for k in range(8)]
    expected = [cut(MorfessorEm(lexicon), part.lines) for part in parts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda part: transform(part, CHANCE).lines, parts)) == expected


WORD = st.text(
    st.characters(exclude_characters=" \t\n\r", exclude_categories=["Cs"]), min_size=1, max_size=9
)
LINE = st.lists(WORD | st.just(""), max_size=6).map(" ".join)


@given(st.lists(LINE, max_size=9), st.lists(LINE, max_size=9))
def test_words_are_found_as_python_splits_them(first: list[str], second: list[str]) -> None:
    """Equal words have equal numbers, others others, over all columns that come; choices are those of the word."""
    met = list[str]()

    def choices(words: list[str]) -> list[Choices]:
        met.extend(words)
        return [Choices((f"<{word}>", word), ((0, 1), (1, 0)), (0.5, 1.0)) for word in words]

    types = WordTypes(choices)
    for lines in (first, second):
        found = types.find(Column.of(lines))
        rows = [[word for word in line.split(" ") if word] for line in lines]
        assert [met[number] for number in found.numbers] == [word for row in rows for word in row]
        assert found.ends.tolist() == np.cumsum([len(row) for row in rows]).astype(int).tolist()
        drawn = 2 * found.numbers
        assert found.written(drawn, side=1).strings() == [
            " ".join(f"<{word}>" for word in row) for row in rows
        ]
        assert found.written(drawn, side=2).strings() == [" ".join(row) for row in rows]
    assert len(met) == len(set(met))


def test_the_table_of_types_grows_and_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a table that is full nor one that is emptied changes what is made; what was found before stays."""
    monkeypatch.setattr(word_types, "_N_TYPES", 8)
    monkeypatch.setattr(word_types, "_N_BYTES", 8)
    monkeypatch.setattr(word_types, "_MOST_TYPES", 300)
    types = WordTypes(lambda words: [Choices((word[::-1],), ((0, 0),), (1.0,)) for word in words])
    kept = []
    for block in range(6):
        lines = [" ".join(f"w{block * 50 + k + j}" for j in range(9)) for k in range(60)]
        found = types.find(Column.of(lines))
        kept.append((found, [" ".join(word[::-1] for word in line.split()) for line in lines]))
    for found, expected in kept:
        assert found.written(found.drawn(np.zeros(60, np.uint64)), side=1).strings() == expected


def test_a_segmenter_that_fails_leaves_nothing_behind() -> None:
    """The words are new again at the next call."""
    answers = [RuntimeError("once")]

    def choices(words: list[str]) -> list[Choices]:
        if answers:
            raise answers.pop()
        return [Choices((word,), ((0, 0),), (1.0,)) for word in words]

    types = WordTypes(choices)
    with pytest.raises(RuntimeError):
        types.find(Column.of(["a b"]))
    found = types.find(Column.of(["b a"]))
    assert found.written(found.drawn(np.zeros(1, np.uint64)), side=1).strings() == ["b a"]


def test_a_table_cuts_as_it_says(tmp_path: Path) -> None:
    """Each word in one way; a line with a word that is missing is unfit, and the fault names word and table."""
    table = tmp_path / "table.tsv"
    table.write_text("▁low\t▁lo w\n▁lower\t▁low er\nlow\tl ow\n")
    transform = loaded(DeterministicSegmentation(table), LoadedFiles())
    assert cut(transform, ["▁low ▁lower\t▁low", ""]) == ["▁lo w ▁low er\t▁lo w", ""]
    with pytest.raises(LineFault) as fault:
        cut(transform, ["▁low", "▁lower ▁new ▁newer", "▁low\t▁newest"])
    assert fault.value.reasons == {1: f"{table} lacks the word '▁new'"}
    with pytest.raises(LineFault, match="lacks the word '▁newest'"):
        cut(transform, ["▁low\t▁newest"])
    assert deterministic([transform])[0].table == table  # type: ignore[attr-defined]
    assert cut(DeterministicSegmentation(table, marks="pieces"), ["low low"]) == ["▁l ow ▁l ow"]
    assert cut(DeterministicSegmentation(table, marks="word"), ["low"]) == ["▁lo w"]
    assert inverse([DeterministicSegmentation(table, (2,))]) == (JoinPieces((2,)),)


def test_words_draw_by_line_field_and_place(lexicon: Path) -> None:
    """The same word gets several segmentations: in a line, in both fields, in other lines and epochs."""
    transform = MorfessorEm(lexicon, theta=0.0)
    rows = [line.split("\t") for line in cut(transform, ["▁undo ▁undo\t▁undo ▁undo"] * 50)]
    words = np.array(
        [[word.strip() for field in row for word in field.split("▁")[1:]] for row in rows]
    )
    for one in range(4):
        for other in range(one):
            assert 0 < (words[:, one] == words[:, other]).sum() < 40
    assert cut(transform, ["▁undo"] * 20) != cut(transform, ["▁undo"] * 20, LineRng.of(4))


def test_sentencepiece_is_spm_encode(tmp_path: Path) -> None:
    """By another name, with the options of morfessor_em."""
    transform = Sentencepiece(tmp_path / "m.model", nbest=4, theta=0.2)
    assert transform._encode().alpha == 0.2
    assert transform._encode().sampled
    assert not deterministic([transform])[0].sampled  # type: ignore[attr-defined]
    assert inverse([transform])[0].name == "spm_decode"


def test_a_configuration_names_them(tmp_path: Path, lexicon: Path) -> None:
    """Files are found beside the configuration, and the first option needs no name; faults name the line."""
    (tmp_path / "text.txt").write_text("▁undo\n▁redo\n")
    (tmp_path / "table.tsv").write_text("▁undo\t▁un do\n▁redo\n")
    head = "sources:\n  a:\n    path: text.txt\n    epochs: 1\n    shuffle: none\n    transforms:\n"
    config = tmp_path / "stream.yaml"
    config.write_text(f"{head}    - morfessor_em: {lexicon.name}\n    - join_pieces\n")
    with Stream.from_config(config) as stream:
        assert list(stream) == ["undo", "redo"]
    config.write_text(f"{head}    - deterministic_segmentation: table.tsv\n")
    with pytest.raises(ConfigError, match=r"stream.yaml:7: .*table.tsv:2: '▁redo' is not"):
        Stream.from_config(config)
