"""`encode` and `decode` give what VOLT's encoder gives; dropout depends only on the line."""

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.count.word_counts import WordCounts
from volt.encode.encoder import Encoder
from volt.errors import ConfigError
from volt.learn.bpe import learn_bpe
from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.subwords import Decode, Encode, Form, StripEos
from volt.stream.transforms.transform import LineFault
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

LINES = ["the cat sat\tdie Katze saß", "a  hat \t", "the\u00a0newest\u2028lowest\tder Hut", "low"]
FIELD = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]), max_size=30)
RNG = LineRng.of("epoch", 1)
FORMS = pytest.mark.parametrize("form", get_args(Form))
MakeVocabulary = Callable[..., Path]


@pytest.fixture(scope="module")
def make_vocabulary(tmp_path_factory):
    """A function that writes a small vocabulary with the given settings."""
    folder = tmp_path_factory.mktemp("vocabularies")
    counts = {"the": 9, "cat": 5, "lowest": 5, "newest": 6, "Katze": 4, "hat": 3}
    candidates = learn_bpe(WordCounts.from_pairs(counts), n_merges=20)
    tokens = tuple(candidates.tokens_at(candidates.n_tokens))

    def make(**options):
        path = folder / f"{len(list(folder.iterdir()))}.volt"
        Vocabulary(merges=tuple(candidates.merges), tokens=tokens, **options).save(path)
        return path

    return make


@pytest.fixture(scope="module")
def path(make_vocabulary):
    """A vocabulary that can spell every text."""
    return make_vocabulary(byte_fallback=True)


def lines_of(transform, lines, rng=RNG):
    return transform(Batch.of(lines), rng).lines


OPTIONS = {
    "plain": {},
    "bytes": {"byte_fallback": True},
    "normalised": {"normalizer": Normalizer("nfkc", lowercase=True)},
    "metaspace": {"pretokenizer": PreTokenizer("metaspace")},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_fields_are_encoded_by_the_encoder(make_vocabulary, name):
    """Encode writes the pieces and ids of Encoder into fields 1 and 2, in every call, and does not
    change field 3."""
    path = make_vocabulary(**OPTIONS[name])
    encoder = Encoder(Vocabulary.load(path))
    rows = [line.split("\t") for line in LINES]
    pieces = ["\t".join(" ".join(encoder.encode(field)) for field in row) for row in rows]
    ids = []
    for row in rows:
        ids.append("\t".join(" ".join(map(str, encoder.encode_ids(field))) for field in row))
    for _ in range(2):
        assert lines_of(Encode(path), LINES) == pieces
        assert lines_of(Encode(path, to="ids"), LINES) == ids
    third = lines_of(Encode(path), [f"{line}\tthe cat" for line in LINES[:3]])
    assert third == [f"{line}\tthe cat" for line in pieces[:3]]


@FORMS
def test_dropout_draws_for_each_line_and_field(path, form):
    """Encode with dropout draws independently for copies, fields and epochs; a line's pieces do not
    depend on other lines, and spell its text."""
    text = "the lowest newest cat"
    batch = Batch.of([f"{text}\t{text}"] * 40)
    encode = Encode(path, dropout=0.5, to=form)
    lines = np.array(encode(batch, RNG).lines)
    assert len(set(lines)) > 5
    assert encode(batch, LineRng.of("epoch", 2)).lines != lines.tolist()
    copies = encode(batch.take(np.zeros(8, np.int64)), RNG)
    assert len(set(copies.column(1).strings())) > 3
    assert copies.column(1).strings() != copies.column(2).strings()
    lacking = Batch.of([f"{text}\t{text}" if i % 2 else text for i in range(40)])
    assert encode(lacking, RNG).lines[1::2] == lines[1::2].tolist()
    assert set(lines_of(Decode(path, from_=form), lines.tolist())) == {f"{text}\t{text}"}


def test_ids_stay_numbers(path):
    """Encode to ids makes a column of numbers; Decode returns the same text for such a column and
    for ids written as text."""
    encoded = Encode(path, to="ids")(Batch.of(LINES[:3]), RNG).take([2, 0, 2])
    assert encoded.column(1).is_ids
    decoded = Decode(path, from_="ids")(encoded, RNG)
    assert decoded.lines == lines_of(Decode(path, from_="ids"), encoded.lines)
    assert decoded.column(1).strings() == ["the newest lowest", "the cat sat", "the newest lowest"]


@FORMS
def test_a_line_end_inside_a_field_is_a_fault(path, form):
    """Encode reports a line with a line feed inside a field as unfit."""
    with pytest.raises(LineFault) as fault:
        lines_of(Encode(path, to=form), ["a", "b\tc\nd", "e"])
    assert fault.value.reasons == {1: "contains a line end"}


@FORMS
@settings(max_examples=examples(50))
@given(texts=st.lists(FIELD, min_size=1, max_size=5))
def test_decode_inverts_encode(path, texts, form):
    """Decode returns the text that Encode encoded, with runs of white space as single spaces;
    encoded text contains no tab and no line feed."""
    encoded = lines_of(Encode(path, fields=(1,), to=form), texts)
    assert not any("\n" in line or "\t" in line for line in encoded)
    decoded = lines_of(Decode(path, fields=(1,), from_=form), encoded)
    assert decoded == [" ".join(text.split()) for text in texts]


PIECES = ["the</w>", "l", "o", "</w>", "<0xE2>", "<0x96>", "<0x0A>", "zz", "é</w>", "▁", ""]


@settings(max_examples=examples(50))
@given(rows=st.lists(st.lists(st.sampled_from(PIECES)), min_size=1, max_size=5))
def test_any_pieces_are_decoded_by_the_encoder(path, rows):
    """Decode decodes any pieces, known or not, as Encoder.decode does; a line whose text contains a
    line feed is unfit."""
    encoder = Encoder(Vocabulary.load(path))
    expected = [encoder.decode([piece for piece in row if piece]) for row in rows]
    bad = [i for i, text in enumerate(expected) if "\n" in text]
    decode = Decode(path, fields=(1,))
    values = list(map(" ".join, rows))
    if bad:
        with pytest.raises(LineFault) as fault:
            lines_of(decode, values)
        assert sorted(fault.value.reasons) == bad
    else:
        assert lines_of(decode, values) == expected


def test_undecodable_lines_are_unfit(path):
    """Decode reports a line with a part that is not an id, with an id out of range, or whose text
    contains a line feed, as unfit."""
    decode_ids = Decode(path, fields=(1,), from_="ids")
    with pytest.raises(LineFault) as fault:
        lines_of(decode_ids, ["5", "x", "99999", "4", "+270", "٣"])
    reasons = fault.value.reasons
    assert sorted(reasons) == [1, 2, 4, 5]
    assert reasons[1] == "field 1 cannot be read: 'x' is not an id; give whole numbers"
    assert reasons[2].startswith(
        "field 1 cannot be read: id 99999 at position 0: ids go from 0 to "
    )
    with pytest.raises(LineFault, match="line feed"):
        lines_of(Decode(path, fields=(1,)), ["<0x0A>"])


def test_strip_eos_removes_one_id_at_the_end():
    """StripEos removes one end-of-sentence id at the end of a value, and changes no other id or missing value."""
    ids = Column.of_ids(np.array([2, 7, 2, 2, 2, 5], np.int32), np.array([0, 4, 5, 5, 6]))
    batch = Batch((ids, Column.missing(4)), None, np.arange(4))
    stripped = StripEos()(batch, LineRng(1, 2))
    assert stripped.columns[0].strings() == ["2 7 2", "", "", "5"]
    assert not stripped.columns[1].present.any()
    assert StripEos(id=5)(batch, LineRng(1, 2)).columns[0].strings() == ["2 7 2 2", "2", "", ""]
    with pytest.raises(LineFault, match="field 1 is text, but strip_eos takes ids"):
        StripEos(fields=(1,))(Batch.of(["7 2"]), LineRng(1, 2))


@FORMS
def test_alpha_draws_paths_of_a_unigram_model(tmp_path, form):
    """Encode with alpha draws again in each epoch, and spells the text; validation does not draw,
    and the option of the other kind of model is refused when the file is read."""
    tokens = ("▁", "l", "o", "w", "▁low", "ow", "lo")
    scores = (-3.0, -4.0, -4.0, -4.0, -2.0, -3.0, -5.0)
    path = tmp_path / "u.volt"
    settings = {"marker": "none", "pretokenizer": PreTokenizer("metaspace")}
    Vocabulary((), tokens, scores=scores, **settings).save(path)
    lines = ["low low owl\tlow"] * 20
    encode = Encode(path, alpha=0.1, nbest=4, to=form)
    drawn = lines_of(encode, lines)
    assert len(set(drawn)) > 3
    assert drawn == lines_of(encode, lines) != lines_of(encode, lines, LineRng.of("epoch", 2))
    assert lines_of(Decode(path, from_=form), drawn) == lines
    assert lines_of(encode.deterministic(), lines) == lines_of(Encode(path, to=form), lines)
    for options, remedy in (({"dropout": 0.5}, "alpha=0.1"), ({"nbest": 4}, "alpha=0.1")):
        with pytest.raises(ConfigError, match=remedy):
            lines_of(Encode(path, **options), lines)


def test_alpha_is_refused_for_merges(path):
    """Encode with alpha and a vocabulary with merges is an error that names dropout."""
    with pytest.raises(ConfigError, match=r"this model has merges; replace alpha by dropout=0\.1"):
        lines_of(Encode(path, alpha=0.5), LINES)
