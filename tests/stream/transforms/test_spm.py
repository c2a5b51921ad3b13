"""`spm_encode` and `spm_decode` give what the SentencePiece library gives, and draw by the stream's numbers."""

import io
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.errors import ConfigError, VocabularyError
from volt.stream import Source, Stream
from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.spm import SpmDecode, SpmEncode, read_model
from volt.stream.transforms.transform import LineFault, LoadedFiles

TEXTS = ["the lower cat", "", "  newest  wizéü é sé", "漢字 the", "widesest sess wo se"]
LONG = "the lower cat sat on the newest mats"
FORMS = pytest.mark.parametrize("form", ["pieces", "ids"])


def trained(folder, **options):
    """Train a small SentencePiece model."""
    spm = pytest.importorskip("sentencepiece")
    words = ("low", "lower", "newest", "widest")
    text = [f"the cat {word} sat on {word} mats" for word in words] * 20
    model = io.BytesIO()
    options = {"vocab_size": 60, "minloglevel": 2, "hard_vocab_limit": False, **options}
    spm.SentencePieceTrainer.train(sentence_iterator=iter(text), model_writer=model, **options)
    path = folder / "spm.model"
    path.write_bytes(model.getvalue())
    return path


@pytest.fixture(scope="module")
def unigram(tmp_path_factory):
    """A unigram model with byte fallback."""
    return trained(tmp_path_factory.mktemp("unigram"), vocab_size=310, byte_fallback=True)


@pytest.fixture(scope="module")
def bpe(tmp_path_factory):
    """A BPE model with user-defined symbols, some of which are prefixes of others."""
    symbols = ["se", "ses", "▁w", "▁wi", "w", "sest"]
    return trained(tmp_path_factory.mktemp("bpe"), model_type="bpe", user_defined_symbols=symbols)


@pytest.fixture
def model(request, unigram, bpe):
    """The model that a parameter names."""
    return {"unigram": unigram, "bpe": bpe}[request.param]


BOTH_MODELS = pytest.mark.parametrize("model", ["unigram", "bpe"], indirect=True)


def library(path):
    return pytest.importorskip("sentencepiece").SentencePieceProcessor(model_file=str(path))


def lines_of(transform, lines):
    return transform(Batch.of(lines), LineRng.of(0)).lines


def of_library(processor, line, form):
    """Return a line whose fields the library has encoded."""
    kind = str if form == "pieces" else int
    rows = processor.encode(line.split("\t"), out_type=kind)
    return "\t".join(" ".join(map(str, row)) for row in rows)


MODELS = {  # options, and whether VOLT's encoder is used
    **{
        name: ({"normalization_rule_name": name, "byte_fallback": True}, True)
        for name in ("identity", "nfkc", "nmt_nfkc", "nmt_nfkc_cf")
    },
    "unknown runs": ({"normalization_rule_name": "identity"}, True),
    "kept spaces": ({"remove_extra_whitespaces": False}, True),
    "user tokens": ({"user_defined_symbols": ["at", "<x>"]}, True),
    "marked ends": ({"treat_whitespace_as_suffix": True}, False),
    "no first space": ({"add_dummy_prefix": False}, False),
}
HARD = st.text(
    st.sampled_from("the cat sow▁<x>éA\u0301ﬁ\u00a0\u200b가\u1100\u1161日😀"), max_size=20
)


@pytest.mark.parametrize("name", MODELS)
def test_bpe_models_encode_as_the_library(name, tmp_path):
    """SpmEncode with a BPE model encodes as the library does: values of plain characters by VOLT's
    encoder, other values by the library."""
    options, has_own = MODELS[name]
    path = trained(tmp_path, model_type="bpe", vocab_size=350, **options)
    processor = library(path)
    own = read_model(path).own_encoder
    assert (own is not None) == has_own

    @given(st.lists(HARD, max_size=8))
    @settings(deadline=None, max_examples=examples(60))
    def law(lines):
        for form in ("pieces", "ids"):
            expected = [of_library(processor, line, form) for line in lines]
            assert lines_of(SpmEncode(path, to=form), lines) == expected
        if own:
            unlike = [
                n for n, line in enumerate(lines) if not own.plain_characters.issuperset(line)
            ]
            assert own.find_other_values(Column.of(lines)) == unlike

    law()


@FORMS
def test_unigram_models_encode_as_the_library(unigram, form):
    """SpmEncode with a unigram model encodes as the library does, and SpmDecode returns the text."""
    lines = ["the cat\tsat lower", "newest\té ü"]
    encoded = lines_of(SpmEncode(unigram, to=form), lines)
    assert encoded == [of_library(library(unigram), line, form) for line in lines]
    assert lines_of(SpmDecode(unigram, from_=form), encoded) == lines


@FORMS
@pytest.mark.parametrize(
    ("model", "alpha", "nbest"),
    [("bpe", 0.0, -1), ("unigram", 1e4, -1), ("unigram", 1e4, 5)],
    indirect=["model"],
)
def test_sharp_draws_are_the_best_encoding(model, alpha, nbest, form):
    """SpmEncode without dropout, or with a large alpha, samples the library's best encoding, also
    of unknown characters and bytes."""
    sampled = SpmEncode(model, fields=(1,), to=form, alpha=alpha, nbest=nbest)
    assert lines_of(sampled, TEXTS) == lines_of(SpmEncode(model, fields=(1,), to=form), TEXTS)


@pytest.mark.parametrize(
    ("model", "nbest"), [("bpe", -1), ("unigram", -1), ("unigram", 4)], indirect=["model"]
)
def test_samples_are_distributed_as_those_of_the_library(model, nbest):
    """SpmEncode samples each encoding of a word as often as the library does in 1,000 samples."""
    n = 1000
    ours = Counter(lines_of(SpmEncode(model, alpha=0.3, nbest=nbest), ["lowest"] * n))
    options = {"enable_sampling": True, "alpha": 0.3, "nbest_size": nbest}
    rows = library(model).encode(["lowest"] * n, out_type=str, **options)
    theirs = Counter(map(" ".join, rows))
    assert len(theirs) > 2
    for encoding in ours | theirs:
        share = (ours[encoding] + theirs[encoding]) / (2 * n)
        limit = 6 * np.sqrt(2 * n * share * (1 - share)) + 6
        assert abs(ours[encoding] - theirs[encoding]) <= limit


@BOTH_MODELS
def test_samples_are_drawn_for_each_line(model):
    """SpmEncode samples the same lines in any thread, draws independently for copies and epochs,
    and its pieces spell the text."""
    encode = SpmEncode(model, alpha=0.3).opened(LoadedFiles())
    batch = Batch.of(["the lower cat\tsat on the newest mats"] * 40)
    rng = LineRng.of("epoch", 1)
    lines = encode(batch, rng).lines
    assert len(set(lines)) > 5
    assert len(set(encode(batch.take([5] * 20), rng).lines)) > 5
    assert encode(batch, LineRng.of("epoch", 2)).lines != lines
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: encode(batch, rng).lines, range(4)))
    assert results == [lines] * 4
    assert lines_of(SpmDecode(model), lines) == batch.lines


DRAW = """
import sys
from pathlib import Path
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_batch import LineRng
from volt.stream.transforms.spm import SpmEncode
for path, nbest in zip(sys.argv[2::2], map(int, sys.argv[3::2])):
    encode = SpmEncode(model=Path(path), alpha=0.1, nbest=nbest, fields=(1,))
    print("\\n".join(encode(Batch.of([sys.argv[1]] * 20), LineRng.of(5)).lines))
"""


def test_samples_are_equal_in_every_process(unigram, bpe):
    """SpmEncode samples the same lines in another process."""
    models = [(unigram, -1), (unigram, 4), (bpe, -1)]
    options = [str(each) for pair in models for each in pair]
    process = subprocess.run(
        [sys.executable, "-c", DRAW, LONG, *options],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONHASHSEED": "1"},
        check=True,
    )
    lines = []
    for path, nbest in models:
        encode = SpmEncode(path, alpha=0.1, nbest=nbest, fields=(1,))
        lines += encode(Batch.of([LONG] * 20), LineRng.of(5)).lines
    assert process.stdout.decode().splitlines() == lines
    assert len(set(lines)) > 20


def test_models_with_one_encoding_are_not_sampled(tmp_path):
    """SpmEncode refuses alpha for a model of characters, unless nbest is 1."""
    path = trained(tmp_path, model_type="char")
    with pytest.raises(ConfigError, match="has only one encoding of a text; remove alpha"):
        SpmEncode(path, alpha=0.1).opened(LoadedFiles())
    best = lines_of(SpmEncode(path, alpha=0.1, nbest=1), ["the"])
    assert best == lines_of(SpmEncode(path), ["the"])


def test_undecodable_lines_are_unfit(unigram):
    """SpmDecode reports a byte piece that spells a tab, and an id out of range, as unfit."""
    with pytest.raises(LineFault, match="tab"):
        lines_of(SpmDecode(unigram, fields=(1,)), ["<0x09>"])
    with pytest.raises(LineFault, match="99999999 is not an id of the model"):
        lines_of(SpmDecode(unigram, fields=(1,), from_="ids"), ["99999999"])


def test_signatures_contain_model_and_library(unigram):
    """The signature of SpmEncode contains its options, the model's digest and the library's
    version."""
    signature = SpmEncode(unigram).signature()
    assert signature != SpmEncode(unigram, alpha=0.1).signature()
    assert signature["library"] == pytest.importorskip("sentencepiece").__version__
    assert signature["model"] == SpmDecode(unigram).signature()["model"]


def test_unusable_models_are_refused(tmp_path):
    """SpmEncode and SpmDecode refuse a missing file, and a file that is not a model, when their
    files are loaded."""
    pytest.importorskip("sentencepiece")
    with pytest.raises(VocabularyError, match="cannot be read"):
        SpmEncode(model=tmp_path / "none").opened(LoadedFiles())
    (tmp_path / "text").write_text("text")
    with pytest.raises(VocabularyError, match="damaged"):
        SpmDecode(model=tmp_path / "text").opened(LoadedFiles())


def test_sampled_streams_are_equal_for_any_workers_and_resume(unigram, tmp_path):
    """A stream that samples a unigram model has the same lines for 0, 1 and 2 workers, and goes on
    with the same lines from a state in its middle."""
    (tmp_path / "text").write_text("".join(f"the lowest cat {n} é\n" for n in range(300)))
    source = Source("s", (str(tmp_path / "text"),), transforms=(SpmEncode(unigram, alpha=0.2),))

    def read(n, n_workers, state=None):
        with Stream([source], n_workers=n_workers) as stream:
            if state:
                stream.restore(state)
            return list(islice(stream, n)), stream.state()

    expected, _ = read(700, 0)
    assert len(set(expected)) > 400
    for n_workers in (0, 1, 2):
        first, state = read(333, n_workers)
        rest, _ = read(367, n_workers, state)
        assert first + rest == expected
