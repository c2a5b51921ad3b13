"""Vocabularies in the stream: the same pieces as the encoder's and the library's, and chance from the block alone."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.count.word_counts import WordCounts
from volt.encode.encoder import Encoder
from volt.errors import ConfigError, VocabularyError
from volt.learn.bpe import learn_bpe
from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.spm import SpmDecode, SpmEncode, read_model
from volt.stream.transforms.subwords import Decode, Encode, Form
from volt.stream.transforms.transform import LineFault, LoadedFiles, Transform
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

LINES = ["the cat sat\tdie Katze saß", "a  hat \t", "the\u00a0newest\u2028lowest\tder Hut", "low"]
FIELD = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), max_size=30)
Make = Callable[..., Path]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Writes a small vocabulary with the given settings; its path."""
    folder = tmp_path_factory.mktemp("vocabularies")

    def make(**options: object) -> Path:
        counts = WordCounts.from_pairs(
            {"the": 9, "cat": 5, "lowest": 5, "newest": 6, "Katze": 4, "hat": 3}
        )
        candidates = learn_bpe(counts, n_merges=20)
        path = folder / f"{len(list(folder.iterdir()))}.volt"
        tokens = tuple(candidates.tokens_at(candidates.n_tokens))
        Vocabulary(merges=tuple(candidates.merges), tokens=tokens, **options).save(path)  # type: ignore[arg-type]
        return path

    return make


NORMALIZATIONS = ("identity", "nfkc", "nmt_nfkc", "nmt_nfkc_cf")
BPE: tuple[
    tuple[str, dict[str, object], bool], ...
] = (  # options of a model; whether VOLT's encoder takes its place
    *(
        (name, {"normalization_rule_name": name, "byte_fallback": True}, True)
        for name in NORMALIZATIONS
    ),
    ("unknown runs", {"normalization_rule_name": "identity"}, True),
    ("kept spaces", {"remove_extra_whitespaces": False}, True),
    ("user tokens", {"user_defined_symbols": ["at", "<x>"]}, True),
    ("marked ends", {"treat_whitespace_as_suffix": True}, False),
    ("no first space", {"add_dummy_prefix": False}, False),
)


@pytest.mark.parametrize(
    ("options", "is_own"), [row[1:] for row in BPE], ids=[row[0] for row in BPE]
)
def test_a_bpe_model_encodes_as_in_the_library(
    options: dict[str, object], is_own: bool, tmp_path: Path
) -> None:
    """VOLT's own encoder takes the lines of characters that normalisation keeps, and the library all other lines."""
    model = trained(tmp_path, model_type="bpe", vocab_size=350, **options)
    processor, found = read_model(model).processor, read_model(model).own_encoder
    assert bool(found) == is_own

    @given(
        st.lists(
            st.text(
                st.sampled_from("the cat sow▁<x>éA\u0301ﬁ\u00a0\u200b가\u1100\u1161日😀"),
                max_size=20,
            ),
            max_size=8,
        )
    )
    @settings(deadline=None, max_examples=examples(60))
    def law(lines: list[str]) -> None:
        assert lines_of(SpmEncode(model=model), lines) == [
            " ".join(row) for row in processor.encode(lines, out_type=str)
        ]
        ids = [" ".join(map(str, row)) for row in processor.encode(lines)]
        assert lines_of(SpmEncode(model=model, to="ids"), lines) == ids
        if found:
            assert found.unlike(Column.of(lines)) == [
                n for n, line in enumerate(lines) if {*line} - found.plain
            ]

    law()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small SentencePiece unigram model with byte fallback."""
    return trained(tmp_path_factory.mktemp("spm"), vocab_size=310, byte_fallback=True)


def trained(folder: Path, **options: object) -> Path:
    """A small SentencePiece model."""
    spm = pytest.importorskip("sentencepiece")
    made, text = (
        io.BytesIO(),
        [f"the cat {word} sat on {word} mats" for word in ("low", "lower", "newest", "widest")],
    )
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(text * 20),
        model_writer=made,
        minloglevel=2,
        hard_vocab_limit=False,
        **{"vocab_size": 60, **options},
    )
    path = folder / "spm.model"
    path.write_bytes(made.getvalue())
    return path


def lines_of(transform: Transform, lines: list[str], *, seed: int = 0) -> list[str]:
    """Lines through a transform."""
    return transform(Batch.of(lines), LineRng.of(seed)).lines


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"byte_fallback": True},
        {"normalizer": Normalizer("nfkc", lowercase=True)},
        {"pretokenizer": PreTokenizer("metaspace")},
    ],
    ids=["plain", "bytes", "normalised", "metaspace"],
)
def test_encode_writes_what_the_encoder_gives(vocabulary: Make, options: dict[str, object]) -> None:
    """Pieces and ids are the encoder's, field by field, whichever way words are found; and again from memory."""
    path = vocabulary(**options)
    encoder = Encoder(Vocabulary.load(path))
    pieces = [
        "\t".join(" ".join(encoder.encode(field)) for field in line.split("\t")) for line in LINES
    ]
    ids = [
        "\t".join(" ".join(map(str, encoder.encode_ids(f))) for f in line.split("\t"))
        for line in LINES
    ]
    for _ in range(2):
        assert lines_of(Encode(vocabulary=path), LINES) == pieces
        assert lines_of(Encode(vocabulary=path, to="ids"), LINES) == ids
    third = [f"{line}\tthe cat" for line in LINES[:3]]
    assert [line.split("\t")[2] for line in lines_of(Encode(vocabulary=path), third)] == [
        "the cat"
    ] * 3


@pytest.mark.parametrize("form", ["pieces", "ids"])
def test_dropout_belongs_to_the_line(vocabulary: Make, form: Form) -> None:
    """A line's pieces depend on neither neighbours nor cuts; its copies, its fields and other epochs draw anew."""
    batch = Batch.of([f"the lowest newest cat\tthe lowest newest cat {i % 3}" for i in range(40)])
    encode, chance = Encode(vocabulary=vocabulary(), dropout=0.5, to=form), LineRng.of("epoch", 1)
    whole = np.array(encode(batch, chance).lines)
    for chosen in (
        np.arange(7),
        np.arange(7, 40),
        np.arange(39, -1, -1),
        np.array([5]),
        np.arange(0, 40, 3),
    ):
        assert encode(batch.take(chosen), chance).lines == whole[chosen].tolist()
    assert encode(batch, LineRng.of("epoch", 2)).lines != whole.tolist()
    copies = encode(batch.take(np.zeros(8, np.int64)), chance)
    assert len(set(copies.column(1).strings())) > 3
    assert copies.column(1).strings() != [
        value.rsplit(" ", 1)[0] for value in copies.column(2).strings()
    ]
    lacking = Batch.of(
        [line if i % 2 else line.split("\t")[0] for i, line in enumerate(batch.lines)]
    )
    assert encode(lacking, chance).lines[1::2] == whole[1::2].tolist()


def test_ids_are_a_column_of_ids(path: Path) -> None:
    """Ids stay numbers until lines are written, in any order, and are decoded from numbers as from text."""
    batch, chance = Batch.of(LINES[:3]), LineRng(1, 2)
    encoded = Encode(vocabulary=path, to="ids")(batch, chance).take([2, 0, 2])
    assert encoded.column(1).is_ids
    decode = Decode(vocabulary=path, from_="ids")
    assert decode(encoded, chance).lines == decode(Batch.of(encoded.lines), chance).lines
    assert decode(encoded, chance).column(1).strings() == [
        "the newest lowest",
        "the cat sat",
        "the newest lowest",
    ]


def test_a_line_end_inside_a_line_is_its_fault(path: Path) -> None:
    """Lines are not mixed up: the one that holds a line end is unfit, in whichever field."""
    for form in ("pieces", "ids"):
        with pytest.raises(LineFault) as found:
            lines_of(Encode(vocabulary=path, to=form), ["a", "b\tc\nd", "e"])
        assert found.value.reasons == {1: "contains a line end"}


@pytest.fixture(scope="module")
def path(vocabulary: Make) -> Path:
    """A vocabulary that can spell everything."""
    return vocabulary(byte_fallback=True)


@settings(max_examples=examples(50))
@given(texts=st.lists(FIELD, min_size=1, max_size=5))
def test_decode_undoes_encode(path: Path, texts: list[str]) -> None:
    """decode(encode(x)) is x with its white space made single spaces; no tab or line break comes in on the way."""
    for form in ("pieces", "ids"):
        encoded = lines_of(Encode(vocabulary=path, fields=(1,), to=form), texts)  # type: ignore[arg-type]
        assert not any("\n" in line or "\t" in line for line in encoded)
        decoded = lines_of(Decode(vocabulary=path, fields=(1,), from_=form), encoded)  # type: ignore[arg-type]
        assert decoded == [" ".join(text.split()) for text in texts]


PIECES = st.lists(
    st.sampled_from(
        ["the</w>", "l", "o", "</w>", "<0xE2>", "<0x96>", "<0x0A>", "zz", "é</w>", "▁", ""]
    )
)


@settings(max_examples=examples(50))
@given(rows=st.lists(PIECES, min_size=1, max_size=5))
def test_decoding_at_once_is_decoding_one_by_one(path: Path, rows: list[list[str]]) -> None:
    """Any pieces, known or not, spell what `Encoder.decode` says; what breaks a line is a fault."""
    encoder = Encoder(Vocabulary.load(path))
    values = [" ".join(row) for row in rows]
    expected = [encoder.decode([piece for piece in row if piece]) for row in rows]
    bad = [i for i, text in enumerate(expected) if "\n" in text]
    decode = Decode(vocabulary=path, fields=(1,))
    if bad:
        with pytest.raises(LineFault) as fault:
            lines_of(decode, values)
        assert sorted(fault.value.reasons) == bad
    else:
        assert lines_of(decode, values) == expected


def test_what_cannot_be_decoded_is_a_fault(path: Path) -> None:
    """Ids that are no numbers or out of range, and bytes that spell a line break, make the line unfit."""
    ids = Decode(vocabulary=path, fields=(1,), from_="ids")
    with pytest.raises(LineFault) as fault:
        lines_of(ids, ["5", "x", "99999", "4"])
    assert fault.value.reasons[1] == "field 1 cannot be read: 'x' is not an id; give whole numbers"
    assert fault.value.reasons[2].startswith(
        "field 1 cannot be read: id 99999 at position 0: ids go from 0 to "
    )
    assert sorted(fault.value.reasons) == [1, 2]
    for bad in ("+270", "٣"):  # as `volt decode` refuses them
        with pytest.raises(LineFault, match="is not an id"):
            lines_of(ids, [bad])
    with pytest.raises(LineFault, match="line feed"):
        lines_of(Decode(vocabulary=path, fields=(1,)), ["<0x0A>"])


def test_signatures_tell_vocabularies_apart_not_paths(vocabulary: Make, tmp_path: Path) -> None:
    """The signature holds the vocabulary's fingerprint: a copy has the same one, another vocabulary another."""
    path = vocabulary()
    copy = tmp_path / "copy.volt"
    copy.write_bytes(path.read_bytes())
    assert Encode(vocabulary=path).signature() == Encode(vocabulary=copy).signature()
    other = vocabulary(byte_fallback=True)
    for kind in (Encode, Decode):
        assert kind(vocabulary=path).signature() != kind(vocabulary=other).signature()  # type: ignore[operator]


def test_options_out_of_range_are_refused(tmp_path: Path) -> None:
    """Probabilities and numbers that mean nothing, and files that are no models, are errors."""
    for dropout in (-0.1, 1.1, float("nan")):
        with pytest.raises(ConfigError):
            Encode(vocabulary=tmp_path, dropout=dropout)
    for options in ({"alpha": -1.0}, {"alpha": float("nan")}, {"nbest": -2}, {"nbest": 1000}):
        with pytest.raises(ConfigError):
            SpmEncode(model=tmp_path, **options)  # type: ignore[arg-type]
    pytest.importorskip("sentencepiece")
    with pytest.raises(VocabularyError, match="cannot be read"):
        SpmEncode(model=tmp_path / "none").opened(LoadedFiles())
    (tmp_path / "text").write_text("text")
    with pytest.raises(VocabularyError, match="damaged"):
        SpmDecode(model=tmp_path / "text").opened(LoadedFiles())


# SentencePiece


def test_spm_writes_what_the_library_gives(model: Path) -> None:
    """Without sampling, pieces and ids are the library's; decoding gives the text back."""
    spm = pytest.importorskip("sentencepiece")
    processor = spm.SentencePieceProcessor(model_file=str(model))
    lines = ["the cat\tsat lower", "newest\té ü"]
    pieces = [
        "\t".join(" ".join(processor.encode(f, out_type=str)) for f in line.split("\t"))
        for line in lines
    ]
    ids = [
        "\t".join(" ".join(map(str, processor.encode(f))) for f in line.split("\t"))
        for line in lines
    ]
    assert lines_of(SpmEncode(model=model), lines) == pieces
    assert lines_of(SpmEncode(model=model, to="ids"), lines) == ids
    assert lines_of(SpmDecode(model=model), pieces) == lines
    assert lines_of(SpmDecode(model=model, from_="ids"), ids) == lines


@pytest.fixture(scope="module")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small SentencePiece BPE model with symbols of the user's, of which some start others."""
    symbols = ["se", "ses", "▁w", "▁wi", "w", "sest"]
    return trained(tmp_path_factory.mktemp("bpe"), model_type="bpe", user_defined_symbols=symbols)


def library(path: Path) -> Any:
    """The library with a model."""
    return pytest.importorskip("sentencepiece").SentencePieceProcessor(model_file=str(path))


@pytest.mark.parametrize("form", ["pieces", "ids"])
def test_spm_without_dropout_is_the_library(bpe: Path, form: Form) -> None:
    """With a BPE model, alpha 0 passes over nothing, so that the library's encoding comes out, unknown runs and all."""
    texts = ["the lower cat", "", "  newest  wizéü é sé", "漢字 the", "widesest sess wo se"]
    sampled = lines_of(SpmEncode(model=bpe, fields=(1,), to=form, alpha=0.0), texts)
    assert sampled == lines_of(SpmEncode(model=bpe, fields=(1,), to=form), texts)


@pytest.mark.parametrize("form", ["pieces", "ids"])
def test_a_sharp_draw_is_the_best_path(model: Path, form: Form) -> None:
    """With a unigram model and a large alpha, the library's best encoding comes out, bytes and all."""
    texts = ["the lower cat", "", "  newest wizéü é sé", "漢字 the"]
    for nbest in (-1, 5):
        sampled = lines_of(
            SpmEncode(model=model, fields=(1,), to=form, alpha=1e4, nbest=nbest), texts
        )
        assert sampled == lines_of(SpmEncode(model=model, fields=(1,), to=form), texts)


@pytest.mark.parametrize(
    ("kind", "alpha", "nbest"), [("bpe", 0.3, -1), ("unigram", 0.3, -1), ("unigram", 0.3, 4)]
)
def test_spm_draws_as_the_library_does(
    model: Path, bpe: Path, kind: str, alpha: float, nbest: int
) -> None:
    """Of many draws for a word, as many become each encoding as of the library's own, within noise."""
    path, n = bpe if kind == "bpe" else model, 1000
    ours = Counter(lines_of(SpmEncode(model=path, alpha=alpha, nbest=nbest), ["lowest"] * n))
    options = {"enable_sampling": True, "alpha": alpha, "nbest_size": nbest}
    theirs = Counter(
        " ".join(row) for row in library(path).encode(["lowest"] * n, out_type=str, **options)
    )
    assert len(theirs) > 2
    for encoding in ours | theirs:
        share = (ours[encoding] + theirs[encoding]) / (2 * n)
        assert (
            abs(ours[encoding] - theirs[encoding]) <= 6 * np.sqrt(2 * n * share * (1 - share)) + 6
        )


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_spm_draws_belong_to_the_line(model: Path, bpe: Path, kind: str) -> None:
    """A line's pieces depend on neither neighbours nor threads; copies and epochs draw anew; all spell the text."""
    encode = SpmEncode(model=bpe if kind == "bpe" else model, alpha=0.3).opened(LoadedFiles())
    batch, chance = Batch.of(["the lower cat\tsat on the newest mats"] * 40), LineRng.of("epoch", 1)
    whole = np.array(encode(batch, chance).lines)
    assert len(set(whole)) > 5
    for chosen in (np.arange(7), np.arange(39, -1, -1), np.array([5])):
        assert encode(batch.take(chosen), chance).lines == whole[chosen].tolist()
    assert len(set(encode(batch.take([5] * 20), chance).lines)) > 5
    assert encode(batch, LineRng.of("epoch", 2)).lines != whole.tolist()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: encode(batch, chance).lines, range(4)))
    assert found == [whole.tolist()] * 4
    decode = SpmDecode(model=bpe if kind == "bpe" else model)
    assert decode(Batch.of(whole.tolist()), chance).lines == batch.lines


def test_a_model_with_one_encoding_is_not_sampled(tmp_path: Path) -> None:
    """alpha with a model of characters is refused; without, or with nbest 1, it encodes."""
    path = trained(tmp_path, model_type="char")
    with pytest.raises(ConfigError, match="has only one encoding of a text; remove alpha"):
        SpmEncode(model=path, alpha=0.1).opened(LoadedFiles())
    assert lines_of(SpmEncode(model=path, alpha=0.1, nbest=1), ["the"]) == lines_of(
        SpmEncode(model=path), ["the"]
    )


def test_spm_faults_and_signatures(model: Path) -> None:
    """A byte piece that spells a tab, and ids out of range, are faults of the line; the signature knows the model."""
    with pytest.raises(LineFault, match="tab"):
        lines_of(SpmDecode(model=model, fields=(1,)), ["<0x09>"])
    with pytest.raises(LineFault):
        lines_of(SpmDecode(model=model, fields=(1,), from_="ids"), ["99999999"])
    assert SpmEncode(model=model).signature() != SpmEncode(model=model, alpha=0.1).signature()
    assert (
        SpmEncode(model=model).signature()["library"]
        == pytest.importorskip("sentencepiece").__version__
    )
    assert (
        SpmDecode(model=model).signature()["model"] == SpmEncode(model=model).signature()["model"]
    )


_DRAW = """
import sys
from pathlib import Path
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.spm import SpmEncode
for path, nbest in zip(sys.argv[1::2], map(int, sys.argv[2::2])):
    encode = SpmEncode(model=Path(path), alpha=0.1, nbest=nbest, fields=(1,))
    print("\\n".join(encode(Batch.of(["the lower cat sat on the newest mats"] * 20), LineRng.of(5)).lines))
"""


LONG = "the lower cat sat on the newest mats"


def test_dropout_is_chances(vocabulary: Make) -> None:
    """The same chance gives the same pieces, another one others; all spell the text."""
    encode = Encode(vocabulary=vocabulary(), fields=(1,), dropout=0.5)
    lines = ["the lowest newest cat"] * 20
    first = lines_of(encode, lines, seed=1)
    assert first == lines_of(encode, lines, seed=1) != lines_of(encode, lines, seed=2)
    assert len(set(first)) > 5
    assert lines_of(Decode(vocabulary=encode.vocabulary, fields=(1,)), first) == lines


def test_spm_draws_the_same_in_every_process(model: Path, bpe: Path) -> None:
    """Another process that draws with the same chance writes the same bytes."""
    arguments = [
        str(argument) for pair in ((model, -1), (model, 4), (bpe, -1)) for argument in pair
    ]
    command = [sys.executable, "-c", _DRAW, *arguments]
    other = subprocess.run(
        command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONHASHSEED": "1"}, check=True
    )
    found = list[str]()
    for path, nbest in ((model, -1), (model, 4), (bpe, -1)):
        encode = SpmEncode(model=path, alpha=0.1, nbest=nbest, fields=(1,))
        found += encode(Batch.of([LONG] * 20), LineRng.of(5)).lines
    assert other.stdout.decode() == "".join(f"{line}\n" for line in found)
    assert len(set(found)) > 20
