"""Samples are the ids of lines between special tokens, checked line by line with lists."""

import io
import pickle

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt import Encoder, Vocabulary
from volt.batches import Layout, SampleFormat, Samples, collate, joined_samples
from volt.errors import VoltError
from volt.stream import Batch, Column, Source, Stream
from volt.stream.transforms.line_batch import LineRng
from volt.stream.transforms.subwords import Encode

MERGES = (("l", "o"), ("lo", "w</w>"), ("e", "r</w>"))
VOLT = Vocabulary(MERGES, ("l", "o", "w", "e", "r", "w</w>", "r</w>", "lo", "low</w>", "er</w>"))
ENCODER = Encoder(VOLT)
LIST = ["<s>", "<pad>", "</s>", "<unk>", "lo", "w", "er", "é▁", "a" * 40]
FEW = settings(deadline=None, max_examples=examples(30))
texts = st.lists(st.sampled_from(["low", "lower", "ll", "é", "owe", "x"]), max_size=5).map(" ".join)
pieces = st.lists(st.sampled_from([*LIST, "unknown", "l", "low"]), max_size=6)


def rows(samples, name="src"):
    """Return the ids of each sample."""
    return [samples[name][line].tolist() for line in range(len(samples))]


def rows_of(vocabulary, lines, **options):
    """Return the ids of lines of one field."""
    batch = lines if isinstance(lines, Batch) else Batch.of(lines)
    return rows(SampleFormat({"src": vocabulary}, **options).samples(batch))


@FEW
@given(
    st.lists(st.tuples(texts, texts), max_size=6),
    st.booleans(),
    st.booleans(),
    st.none() | st.integers(4, 8),
)
def test_samples_of_text_have_the_encoders_ids(pairs, bos, eos, most):
    """`SampleFormat.samples` returns [BOS] prefix, the encoder's ids and [EOS] for each line.

    If a sample is too long, the last ids of the line are truncated.
    """
    samples = SampleFormat(
        {"src": VOLT, "tgt": ENCODER},
        bos=bos,
        eos=eos,
        prefix={"tgt": ["<pad>"]},
        max_length=most,
        beyond="truncate",
    ).samples(Batch.of(["\t".join(pair) for pair in pairs]))
    for side, name in enumerate(("src", "tgt")):
        head = [1] * bos + [3] * (name == "tgt")
        tail = [2] * eos
        room = None if most is None else most - len(head + tail)
        own = [ENCODER.encode_ids(pair[side]).tolist()[:room] for pair in pairs]
        expected = [head + ids + tail for ids in own]
        assert rows(samples, name) == expected
        assert samples.lengths[:, side].tolist() == list(map(len, expected))
        assert samples[name].ids.dtype == np.int32
    assert samples.numbers.tolist() == list(range(len(pairs)))


@FEW
@given(st.lists(pieces, max_size=8), st.sampled_from([" ", "  "]))
@example([["w"] * 9], " ")
def test_pieces_get_the_ids_of_a_list_of_tokens(lines, space):
    """Pieces get their index in a list of tokens, for any number of spaces between them; unknown
    pieces get the id of <unk>."""
    expected = [[LIST.index(piece) if piece in LIST else 3 for piece in line] for line in lines]
    assert rows_of(LIST, [space.join(line) for line in lines], eos=False) == expected


@FEW
@given(st.lists(texts, min_size=1, max_size=6))
def test_text_pieces_and_ids_give_the_same_samples(volt_file, lines):
    """Encoded pieces, columns of ids in any order, and ids as text give the samples that the text
    gives."""
    expected = rows_of(ENCODER, lines)
    assert (
        rows_of(VOLT, [" ".join(ENCODER.encode(line)) for line in lines], holds="pieces")
        == expected
    )
    encoded = Encode(vocabulary=volt_file, to="ids", fields=(1,))(Batch.of(lines), LineRng(1, 2))
    order = np.arange(len(lines))[::-1]
    assert rows_of(ENCODER, encoded.take(order)) == expected[::-1]
    ids_as_text = [" ".join(map(str, ids[:-1])) for ids in expected]
    assert rows_of(str(volt_file), ids_as_text, holds="ids") == expected


@pytest.fixture(scope="module")
def volt_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "v.volt"
    VOLT.save(path)
    return path


LINES = ["the cat sat", "low lower newest", "", "q"]


def written_model(path, **options):
    """Write a SentencePiece model of the first two lines; return the library's processor."""
    spm = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES[:2] * 20),
        model_writer=model,
        vocab_size=40,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    path.write_bytes(model.getvalue())
    return spm.SentencePieceProcessor(model_file=str(path))


def test_sentencepiece_models_give_their_own_ids(tmp_path):
    """With a SentencePiece model, samples have the library's ids between its BOS and EOS, also
    after the format was pickled."""
    own = written_model(tmp_path / "u.model")
    form = SampleFormat({"src": tmp_path / "u.model"}, bos=True)
    expected = [[own.bos_id(), *own.encode(line), own.eos_id()] for line in LINES]
    for copy in (form, pickle.loads(pickle.dumps(form))):
        assert rows(copy.samples(Batch.of(LINES))) == expected


ROLES = {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>"}


@pytest.mark.parametrize("kind", ["list", "volt", "sentencepiece"])
@pytest.mark.parametrize("first", ROLES)
def test_any_role_may_have_the_id_0(tmp_path, kind, first):
    """The id 0 works like any other id as BOS, EOS, padding and <unk>."""
    roles = [first, *(role for role in ROLES if role != first)]
    tokens = [ROLES[role] for role in roles]
    vocabulary = [*tokens, "low"]
    if kind == "sentencepiece":
        vocabulary = tmp_path / "u.model"
        written_model(vocabulary, **{f"{role}_id": number for number, role in enumerate(roles)})
    elif kind == "volt":
        vocabulary = tmp_path / "v.volt"
        Vocabulary(MERGES, VOLT.tokens, order=(*tokens, *VOLT.tokens)).save(vocabulary)
    form = SampleFormat({"text": vocabulary}, bos=True)
    ids = {role: form.vocabularies["text"].ids[token] for role, token in ROLES.items()}
    assert ids[first] == 0

    batch = Batch.of(["low", "low low é"])
    samples = form.samples(batch)
    step = collate(samples, [0, 1], **Layout().of(form))
    short, long = step["target"].tolist()
    end = samples.lengths[0, 0] - 1
    assert (short[0], short[end], short[-1]) == (ids["bos"], ids["eos"], ids["pad"])
    assert (long[0], long[-1]) == (ids["bos"], ids["eos"])
    assert step["net_input"]["src_tokens"][:, 0].tolist() == [ids["eos"]] * 2
    refusing = SampleFormat({"text": vocabulary}, unknown="refuse")
    refused("line 1: field 'text' contains", refusing.samples, batch)


def test_a_format_can_be_pickled():
    """A `SampleFormat` that was pickled before or after its first use returns the same samples."""
    form = SampleFormat({"src": VOLT, "tgt": LIST})
    batch = Batch.of(["low\tlo w"])
    unused = pickle.dumps(form)
    expected = [rows(form.samples(batch), name) for name in ("src", "tgt")]
    for other in map(pickle.loads, (unused, pickle.dumps(form))):
        assert [rows(other.samples(batch), name) for name in ("src", "tgt")] == expected


def test_samples_have_the_line_numbers_of_their_stream(tmp_path):
    """`Samples.numbers` are line numbers of the stream, wherever reading began.

    `joined_samples` keeps the order of its parts.
    """
    (tmp_path / "a.tsv").write_text("".join(f"{'low ' * (i % 5)}\tlower\n" for i in range(40)))
    source = Source("a", (str(tmp_path / "a.tsv"),), epochs=2, block_lines=16)
    form = SampleFormat({"src": VOLT, "tgt": VOLT})
    lines = [line.split("\t")[0] for line in Stream([source], seed=1)]
    with Stream([source], seed=1) as stream:
        stream.skip(7)
        whole = joined_samples([form.samples(batch) for batch in stream.batches()])
    assert whole.numbers.tolist() == list(range(7, 80))
    assert rows(whole) == [[*ENCODER.encode_ids(line).tolist(), 2] for line in lines[7:]]


def refused(message, call, *inputs, **options):
    """Check that a call raises this error, in one line."""
    with pytest.raises(VoltError) as caught:
        call(*inputs, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


TWO = {"src": LIST, "tgt": LIST}
BAD_LINES = [
    ("lo", {}, "has no field 'tgt'; drop such lines with the filter bitext"),
    (
        "lo\tw x w",
        {"unknown": "refuse"},
        "field 'tgt' contains the piece 'x', which its vocabulary lacks; fix",
    ),
    ("lo w\tw", {"max_length": 2}, "field 'src' has 3 ids, more than 2; drop such lines"),
    (
        "4 x\t4",
        {"holds": "ids"},
        "field 'src' contains text that is not an id; write whole numbers",
    ),
    (
        "4 9\t4",
        {"holds": "ids"},
        "the id 9 in field 'src' is not in its vocabulary (0 to 8); give",
    ),
    ("-4\t4", {"holds": "ids"}, "field 'src' contains text that is not an id"),
    ("99999999999\t4", {"holds": "ids"}, "field 'src' contains text that is not an id"),
]


@pytest.mark.parametrize(("line", "options", "message"), BAD_LINES)
def test_an_unfit_line_is_named(line, options, message):
    """If a line does not fit the format, the error contains the line's number, the field and a
    remedy."""
    good = "4\t4" if options.get("holds") == "ids" else "w\tw"
    form = SampleFormat(TWO, **options)
    refused(f"line 1: {message}", form.samples, Batch.of([good, line]))


def test_an_unfit_line_of_a_stream_is_named_by_its_file(tmp_path):
    """If a line of a stream does not fit the format, the error contains its file and line, and its
    number in the stream."""
    (tmp_path / "a.tsv").write_text("lo\tw\nlo\n")
    with Stream([Source("a", (str(tmp_path / "a.tsv"),), shuffle="none")]) as stream:
        [batch] = stream.batches(limit=2)
    message = "a.tsv:2 (line 1 of the stream): has no field 'tgt'"
    refused(message, SampleFormat(TWO).samples, batch)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([4, -2], "line 1: the id -2 in field 'src'"),
        ([4, 9], "the id 9"),
        ([2, 2], "end in EOS already"),
    ],
)
def test_wrong_columns_of_ids_are_refused(ids, message):
    """Columns of ids are refused if an id is not in the vocabulary, or if all lines end in EOS and
    EOS would be added."""
    batch = Batch((Column.of_ids(np.array(ids, np.int32), np.arange(3)),), None, np.arange(2))
    refused(message, SampleFormat({"src": LIST}).samples, batch)


def test_unknown_text_is_replaced_or_refused():
    """Text that a vocabulary cannot encode becomes <unk>.

    With unknown="refuse", or without <unk>, the error names the line.
    """
    batch = Batch.of(["low", "low é"])
    assert rows_of(VOLT, batch, eos=False)[1][-1] == VOLT.ids["<unk>"]
    message = "line 1: field 'src' contains text that its vocabulary cannot spell; fix"
    refused(message, SampleFormat({"src": VOLT}, unknown="refuse").samples, batch)
    without_unk = SampleFormat({"src": ["lo"]}, eos=False)
    message = "line 0: field 'src' contains the piece 'w'"
    refused(message, without_unk.samples, Batch.of(["lo w"]))


WRONG_FORMATS = [
    ({}, {}, "vocabularies is empty; give a dict"),
    (LIST, {}, "vocabularies is a list; give a dict of names and vocabularies"),
    ({"src": LIST, "tgt": None}, {}, "field 'tgt' has no vocabulary; give a vocabulary"),
    ({"src": []}, {}, "the vocabulary of src has no token"),
    (
        {"src": ["a", "b", "a"]},
        {},
        "token 'a' of the vocabulary of src is repeated, at 0 and 2; remove one",
    ),
    ({"src": 7}, {}, "the vocabulary of src is 7 (int); give a vocabulary, the path of a voc"),
    ({"src": ["a"]}, {}, "the vocabulary of src has no EOS; turn eos off, or add the token"),
    ({"src": ["a"]}, {"eos": False, "bos": True}, "has no BOS; turn bos off"),
    (
        {"src": LIST},
        {"prefix": {"src": ["<2de>"]}},
        "prefix: no token '<2de>' in the vocabulary of src; add it",
    ),
    ({"src": LIST}, {"prefix": {"src": "<s>"}}, "did you mean prefix={'src': [token]}?"),
    ({"src": LIST}, {"prefix": {"de": ["w"]}}, "prefix: no field 'de'; choose from src"),
    (
        {"src": LIST},
        {"max_length": 1},
        "max_length is 1, and BOS, prefix and EOS of src take 1; give 2 or more",
    ),
    (
        {"src": LIST},
        {"holds": "text"},
        "holds: a list of tokens cannot encode text, so field 'src' must hold pieces or ids",
    ),
    ({"src": LIST}, {"beyond": "crop"}, "unknown beyond 'crop'; choose from refuse, truncate"),
    ({"src": LIST}, {"bos": 1}, "bos is 1 (int); give True or False"),
    ({"src": LIST}, {"eos": "no"}, "eos is 'no' (str); give True or False"),
    ({"src": "/nowhere.volt"}, {}, "/nowhere.volt"),
]


@pytest.mark.parametrize(("vocabularies", "options", "message"), WRONG_FORMATS)
def test_wrong_formats_are_refused(vocabularies, options, message):
    """`SampleFormat` checks vocabularies and options when it is created."""
    refused(message, SampleFormat, vocabularies, **options)


def test_wrong_samples_are_refused():
    """`Samples.of` refuses ids outside of 31 bits and fields of unequal size.

    `joined_samples` refuses samples with other fields.
    """
    one = Samples.of({"src": [[1]]})
    refused("src[1] contains the id -1; ids go from 0", Samples.of, {"src": [[1], [-1]]})
    refused("contains the id 2147483648", Samples.of, {"src": [[1 << 31]]})
    refused("one or more fields of equal size", Samples.of, {"src": [[1]], "tgt": []})
    refused("2 numbers for 1 samples", Samples.of, {"src": [[1]]}, numbers=[1, 2])
    refused("no field 'tgt' in these samples; choose from src", one.__getitem__, "tgt")
    other = Samples.of({"tgt": [[1]]})
    refused("samples of (src) and (tgt) cannot be joined", joined_samples, [one, other])
    refused("no samples to join", joined_samples, [])
