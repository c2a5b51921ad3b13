"""Noise that draws tokens from a vocabulary: what naive twins make, laws, and what vocabularies may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from token_lines import (
    AMOUNTS,
    ID_LINES,
    LINES,
    SEEDS,
    hit_lines,
    id_batch,
    ids_of,
    noisy_text,
    tokens_of,
)

from volt.errors import VocabularyError
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.transform import LoadedFiles, deterministic, signature
from volt.stream.transforms.vocabulary_noise import (
    Insertion,
    Switchout,
    VocabularyNoise,
    WbNoise,
    noise_vocabulary,
)
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

Amount = tuple[float | None, float | None]
TOKENS = ("a", "▁", "▁a", "b", "▁▁a", "é一𐐀", "▁é一𐐀", "▁c")
SORTED = sorted(TOKENS)
FIRST_ID = 4  # behind the tokens with roles
NO_ROLES = SpecialTokens(None, None, None, None)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same tokens as VOLT vocabularies, whose ids start at 4 or at 0, and as a list."""
    folder = tmp_path_factory.mktemp("vocabularies")
    made = [token for token in TOKENS if len(token) > 1]
    merges = (("▁", "a"), ("▁", "▁a"), ("é", "一"), ("é一", "𐐀"), ("▁", "é一𐐀"), ("▁", "c"))
    assert {"".join(merge) for merge in merges} >= set(made)
    Vocabulary(merges=merges, tokens=TOKENS, marker="none").save(folder / "a.volt")
    Vocabulary(merges=merges, tokens=TOKENS, marker="none", special=NO_ROLES).save(
        folder / "b.volt"
    )
    rows = [f"{count}\t{token}" for count, token in enumerate(("<unk>", *TOKENS, "<FROM_de>"))]
    (folder / "a.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return {"volt": folder / "a.volt", "volt from 0": folder / "b.volt", "list": folder / "a.txt"}


def toggled(token: str) -> str:
    """A token with the mark taken away, or put before it; itself where that is none of the vocabulary."""
    other = token.removeprefix("▁") if token.startswith("▁") else f"▁{token}"
    return other if other in TOKENS else token


def twin(
    kind: type[VocabularyNoise], tokens: Sequence[str], hits: Sequence[int | None]
) -> list[str]:
    """What becomes of the tokens of a line, of which some are hit."""
    out = list[str]()
    for token, hit in zip(tokens, hits, strict=True):
        if hit is None:
            out.append(token)
        elif kind is WbNoise:
            out.append(toggled(token))
        else:
            out += [SORTED[hit]] if kind is Switchout else [SORTED[hit], token]
    return out


KINDS = pytest.mark.parametrize("kind", [Switchout, Insertion, WbNoise])


@KINDS
@given(values=LINES, amount=AMOUNTS, seed=SEEDS)
def test_text_is_that_of_plain_python(
    files: dict[str, Path],
    kind: type[VocabularyNoise],
    values: list[str],
    amount: Amount,
    seed: int,
) -> None:
    """Tokens that are hit change as the twin's do; a line of which none is hit stays as it is, spaces and all."""
    chance, lines = LineRng.of(seed), list(map(tokens_of, values))
    hits = hit_lines(list(map(len, lines)), amount, chance, n_choices=len(TOKENS))
    rows = zip(lines, hits, values, strict=True)
    made = [" ".join(twin(kind, *row)) if set(row[1]) - {None} else value for *row, value in rows]
    assert noisy_text(kind(files["list"], *amount), values, chance) == made


@KINDS
@pytest.mark.parametrize(("name", "first"), [("volt", FIRST_ID), ("volt from 0", 0)])
@given(lines=ID_LINES, amount=AMOUNTS, seed=SEEDS)
def test_ids_change_as_their_tokens_do(
    files: dict[str, Path],
    kind: type[VocabularyNoise],
    name: str,
    first: int,
    lines: list[list[int]],
    amount: Amount,
    seed: int,
) -> None:
    """The same with ids; those that the vocabulary does not have are in no table, and stay."""
    chance, ids = LineRng.of(seed), {token: first + number for number, token in enumerate(TOKENS)}
    names = {number: token for token, number in ids.items()}
    hits = hit_lines(list(map(len, lines)), amount, chance, n_choices=len(TOKENS))
    rows = [
        twin(kind, [names.get(number, str(number)) for number in line], hit)
        for line, hit in zip(lines, hits, strict=True)
    ]
    made = [[ids[token] if token in ids else int(token) for token in row] for row in rows]
    assert ids_of(kind(files[name], *amount)(id_batch(lines), chance).column(1)) == made


@KINDS
def test_both_sides_are_hit_independently(
    files: dict[str, Path], kind: type[VocabularyNoise]
) -> None:
    """By default the sides change, each in its own way, and a line may lack the second; a third field stays."""
    text = " ".join(TOKENS * 5)
    done = kind(files["volt"], rate=0.5)(
        Batch.of([f"{text}\t{text}\t{text}", "a"]), LineRng(1, 2)
    ).rows
    assert done[0][2] == text
    assert len(set(done[0])) == 3
    assert len(done[1]) == 1


@KINDS
def test_a_column_that_is_not_hit_is_the_same_object(
    files: dict[str, Path], kind: type[VocabularyNoise]
) -> None:
    """Where nothing is drawn no bytes are copied; at validation there is no noise."""
    batch = Batch.of(["▁a b\tb", ""]).split(2)
    done = kind(files["volt"], rate=0.0)(batch, LineRng(1, 2))
    assert all(new is old for new, old in zip(done.columns, batch.columns, strict=True))
    assert deterministic([kind(files["volt"])]) == ()


# Vocabularies


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("12\t▁lo\n3.5\tw\n1\t<s>\n", ["w", "▁lo"]),
        ("▁lo 12\nw 3\n<TO_en> 1\n", ["w", "▁lo"]),
        ("▁lo\t12\nw\t3\n", ["w", "▁lo"]),
        ("▁lo\nw\n<0x0A>\n", ["w", "▁lo"]),
        ("</s>: 0\n<unk>: 1\n▁lo: 2\nw: 3\n", ["w", "▁lo"]),
    ],
)
def test_lists_without_merges_are_vocabularies(
    text: str, tokens: list[str], tmp_path: Path
) -> None:
    """A list gives its tokens, counts of any kind beside them or none; those in angle brackets are left out."""
    (tmp_path / "list").write_text(text, encoding="utf-8")
    found = noise_vocabulary(tmp_path / "list")
    assert found.texts.strings() == tokens
    assert found.ids is None
    assert len(found) == 2


def test_a_vocabulary_gives_tokens_and_ids(files: dict[str, Path]) -> None:
    """Tokens with roles are not drawn; an id becomes that of the token with the mark toggled, or none."""
    found = noise_vocabulary(files["volt"])
    assert found.texts.strings() == SORTED
    assert found.ids is not None
    assert found.ids.strings() == [str(FIRST_ID + TOKENS.index(token)) for token in SORTED]
    marks = [*[-1] * FIRST_ID, *(FIRST_ID + TOKENS.index(toggled(token)) for token in TOKENS)]
    assert [new if new != old else -1 for old, new in enumerate(marks)] == found.toggled.tolist()


def test_a_sentencepiece_model_has_its_own_ids(tmp_path: Path) -> None:
    """Of a unigram model, which no vocabulary can be, the pieces and ids are those that the library gives."""
    library = pytest.importorskip("sentencepiece")
    pytest.importorskip("google.protobuf")
    (tmp_path / "text").write_text(
        "the low house by the sea\nthe new house\n" * 20, encoding="utf-8"
    )
    library.SentencePieceTrainer.train(
        input=str(tmp_path / "text"),
        model_prefix=str(tmp_path / "a"),
        vocab_size=30,
        hard_vocab_limit=False,
        minloglevel=2,
        user_defined_symbols=["<BT>"],
    )
    processor = library.SentencePieceProcessor(model_file=str(tmp_path / "a.model"))
    found = noise_vocabulary(tmp_path / "a.model")
    assert found.ids is not None
    numbers = [int(number) for number in found.ids.strings()]
    assert processor.id_to_piece(numbers) == found.texts.strings()
    assert sorted(numbers) == list(range(4, processor.get_piece_size()))


def test_a_vocabulary_without_marks_is_refused(tmp_path: Path) -> None:
    """`wb_noise` says what is missing and in which file, when it is opened; the others take it."""
    (tmp_path / "list").write_text("7\tlo\n3\tw\n")
    with pytest.raises(VocabularyError, match=r"list: no token starts with '▁'.*remove wb_noise"):
        WbNoise(tmp_path / "list").opened(LoadedFiles())
    assert Switchout(tmp_path / "list").opened(LoadedFiles()).name == "switchout"


def test_vocabularies_of_no_use_are_refused(tmp_path: Path, files: dict[str, Path]) -> None:
    """A file that is missing, holds special tokens alone, or has no ids where fields hold ids, is named."""
    (tmp_path / "list").write_text("7\t<s>\n3\t</s>\n")
    for name in ("list", "nowhere"):
        with pytest.raises(VocabularyError, match=name):
            Insertion(tmp_path / name).opened(LoadedFiles())
    with pytest.raises(
        VocabularyError, match=r"a.txt: lists tokens without ids, but the fields contain ids"
    ):
        Switchout(files["list"], rate=1.0)(id_batch([[1, 2]]), LineRng(1, 2))


def test_the_signature_tells_the_vocabulary(files: dict[str, Path], tmp_path: Path) -> None:
    """It changes with the tokens and the options, and not with the file's place."""
    moved = tmp_path / "moved.volt"
    moved.write_bytes(files["volt"].read_bytes())
    assert signature(Switchout(moved)) == signature(Switchout(files["volt"]))
    others = [
        Switchout(files["list"]),
        Switchout(files["volt"], rate=0.1),
        Insertion(files["volt"]),
    ]
    assert len({str(signature(noise)) for noise in (Switchout(moved), *others)}) == 4


def test_tokens_are_drawn_equally_often(files: dict[str, Path]) -> None:
    """Of 8,000 tokens that are replaced, each of eight comes 1,000 times, within five standard deviations."""
    done = Switchout(files["list"], rate=1.0)(Batch.of(["x y z x"] * 2_000), LineRng(1, 2)).lines
    found = Counter(token for line in done for token in line.split(" "))
    assert set(found) == set(TOKENS)
    assert all(abs(n - 1_000) < 5 * (8_000 * 7 / 64) ** 0.5 for n in found.values())
