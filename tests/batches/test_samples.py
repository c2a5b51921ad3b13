"""Samples: the ids of lines, framed, against a twin that works line by line with lists."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from volt import Encoder, Vocabulary
from volt.batches import Layout, SampleFormat, Samples, collate, joined_samples
from volt.errors import ConfigError, StreamError, VoltError
from volt.stream import Batch, Column, Source, Stream
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.subwords import Encode

MERGES = (("l", "o"), ("lo", "w</w>"), ("e", "r</w>"))
VOLT = Vocabulary(MERGES, ("l", "o", "w", "e", "r", "w</w>", "r</w>", "lo", "low</w>", "er</w>"))
ENCODER = Encoder(VOLT)
LIST = ["<s>", "<pad>", "</s>", "<unk>", "lo", "w", "er", "é▁", "a" * 40]
FEW = settings(deadline=None, max_examples=examples(30))
words = st.sampled_from(["low", "lower", "ll", "é", "owe", "x"])
texts = st.lists(words, max_size=5).map(" ".join)
pieces = st.lists(st.sampled_from([*LIST, "unknown", "l", "low"]), max_size=6)


@pytest.fixture(scope="module")
def volt_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The vocabulary's file."""
    VOLT.save(path := tmp_path_factory.mktemp("vocabulary") / "v.volt")
    return path


def rows(samples: Samples, name: str) -> list[list[int]]:
    """The ids of each sample."""
    return [samples[name][line].tolist() for line in range(len(samples))]


@FEW
@given(
    st.lists(st.tuples(texts, texts), max_size=6),
    st.booleans(),
    st.booleans(),
    st.none() | st.integers(4, 8),
)
def test_samples_of_text_are_the_encoders_ids_between_bos_and_eos(
    pairs: list[tuple[str, str]], bos: bool, eos: bool, most: int | None
) -> None:
    """Line by line [BOS] prefix ids [EOS], and the line's own ids are cut from their end where they are too many."""
    prefix = {"tgt": ["<pad>"]}
    made = SampleFormat(
        {"src": VOLT, "tgt": ENCODER},
        bos=bos,
        eos=eos,
        prefix=prefix,
        max_length=most,
        beyond="truncate",
    ).samples(Batch.of(["\t".join(pair) for pair in pairs]))
    for side, name in enumerate(("src", "tgt")):
        front, back = [1] * bos + [3] * (name == "tgt"), [2] * eos
        own = [ENCODER.encode_ids(pair[side]).tolist() for pair in pairs]
        room = None if most is None else most - len(front) - len(back)
        assert rows(made, name) == [front + ids[:room] + back for ids in own]
        assert made[name].ids.dtype == np.int32
    assert made.numbers.tolist() == list(range(len(pairs)))
    assert made.lengths.tolist() == [
        [len(made["src"][i]), len(made["tgt"][i])] for i in range(len(pairs))
    ]


@FEW
@given(st.lists(pieces, max_size=8), st.sampled_from([" ", "  "]))
@example([["w"] * 9], " ")
def test_pieces_are_looked_up(lines: list[list[str]], space: str) -> None:
    """As a dict would, whatever spaces stand between; what is unknown becomes the id of <unk>."""
    made = SampleFormat({"src": LIST}, eos=False).samples(
        Batch.of([space.join(line) for line in lines])
    )
    assert rows(made, "src") == [
        [LIST.index(piece) if piece in LIST else 3 for piece in line] for line in lines
    ]


def test_pieces_of_a_vocabulary_are_its_ids() -> None:
    """Lines that hold pieces give what lines of text give."""
    text = ["low lower", "", "owe é"]
    of_pieces = SampleFormat({"src": VOLT}, holds="pieces").samples(
        Batch.of([" ".join(ENCODER.encode(t)) for t in text])
    )
    assert rows(of_pieces, "src") == rows(
        SampleFormat({"src": VOLT}).samples(Batch.of(text)), "src"
    )


@FEW
@given(st.lists(texts, min_size=1, max_size=6))
def test_ids_pass_through(volt_file: Path, lines: list[str]) -> None:
    """Columns of ids, views in any order, and numbers written as text give the samples that text gives."""
    path = volt_file
    expected = rows(SampleFormat({"src": ENCODER}).samples(Batch.of(lines)), "src")
    encoded = Encode(vocabulary=path, to="ids", fields=(1,))(Batch.of(lines), LineRng(1, 2))
    order = np.arange(len(lines))[::-1]
    made = SampleFormat({"src": ENCODER}).samples(encoded.take(order))
    assert rows(made, "src") == [expected[line] for line in order]
    written = Batch.of([" ".join(map(str, ids[:-1])) for ids in expected])
    assert rows(SampleFormat({"src": str(path)}, holds="ids").samples(written), "src") == expected


LINES = ["the cat sat", "low lower newest", "", "q"]


def written_model(path: Path, **options: Any) -> Any:
    """Write a SentencePiece model of the first two lines; return the library's processor."""
    spm, model = pytest.importorskip("sentencepiece"), io.BytesIO()
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


def test_sentencepiece_models_give_their_own_ids(tmp_path: Path) -> None:
    """Samples have the library's ids between its BOS and EOS; a pickled format gives the same samples."""
    lines, own = LINES, written_model(path := tmp_path / "u.model")
    format = SampleFormat({"text": path}, bos=True)
    for made in (format, pickle.loads(pickle.dumps(format))):
        found = rows(made.samples(Batch.of(lines)), "text")
        assert found == [[own.bos_id(), *own.encode(line), own.eos_id()] for line in lines]


ROLES = {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>"}


@pytest.mark.parametrize("kind", ["list", "volt", "sentencepiece"])
@pytest.mark.parametrize("first", ROLES)
def test_any_role_may_have_the_id_0(tmp_path: Path, kind: str, first: str) -> None:
    """The id 0 is an id like others: lines are framed and padded with it, and it is refused where unknown text is."""
    roles = [first, *(role for role in ROLES if role != first)]
    tokens, path = [ROLES[role] for role in roles], tmp_path / "u.model"
    if kind == "sentencepiece":
        written_model(path, **{f"{role}_id": number for number, role in enumerate(roles)})
    elif kind == "volt":
        path = tmp_path / "v.volt"
        Vocabulary(MERGES, VOLT.tokens, order=(*tokens, *VOLT.tokens)).save(path)
    vocabulary: Any = [*tokens, "low"] if kind == "list" else path
    format = SampleFormat({"text": vocabulary}, bos=True)
    ids = {role: format.vocabularies["text"].ids[ROLES[role]] for role in ROLES}
    assert ids[first] == 0
    samples, layout = format.samples(Batch.of(["low", "low low é"])), Layout().of(format)
    step = collate(samples, [0, 1], **layout)
    short, long = step["target"].tolist()
    assert (short[0], long[0], short[samples.lengths[0, 0] - 1], long[-1]) == (ids["bos"],) * 2 + (
        ids["eos"],
    ) * 2
    assert (short[-1], step["net_input"]["src_tokens"][:, 0].tolist()) == (
        ids["pad"],
        [ids["eos"]] * 2,
    )
    refused(
        StreamError,
        "line 1: field 'text' contains",
        lambda: SampleFormat({"text": vocabulary}, unknown="refuse").samples(
            Batch.of(["low", "low low é"])
        ),
    )


def test_a_format_can_be_sent_to_another_process() -> None:
    """Before its first use and after it."""
    format, batch = SampleFormat({"src": VOLT, "tgt": LIST}), Batch.of(["low\tlo w"])
    before = pickle.dumps(format)
    made = format.samples(batch)
    for other in map(pickle.loads, (before, pickle.dumps(format))):
        assert [rows(other.samples(batch), name) for name in other.vocabularies] == [
            rows(made, name) for name in ("src", "tgt")
        ]


def test_samples_of_a_stream_have_its_numbers(tmp_path: Path) -> None:
    """Sample k stands for line k of the stream, wherever reading began; parts are joined in order."""
    (tmp_path / "a.tsv").write_text("".join(f"{'low ' * (i % 5)}\tlower\n" for i in range(40)))
    source = Source("a", (str(tmp_path / "a.tsv"),), epochs=2, block_lines=16)
    format = SampleFormat({"src": VOLT, "tgt": VOLT})
    lines = [line.split("\t")[0] for line in Stream([source], seed=1)]
    with Stream([source], seed=1) as stream:
        stream.skip(7)
        whole = joined_samples([format.samples(batch) for batch in stream.batches()])
    assert whole.numbers.tolist() == list(range(7, 80))
    assert rows(whole, "src") == [[*ENCODER.encode_ids(line).tolist(), 2] for line in lines[7:]]


def refused(error: type[VoltError], message: str, make: Any) -> None:
    """What is made raises this error, in one line."""
    with pytest.raises(error) as found:
        make()
    assert message in str(found.value)
    assert "\n" not in str(found.value)


TWO = {"src": LIST, "tgt": LIST}


@pytest.mark.parametrize(
    ("line", "options", "message"),
    [
        ("lo", {}, "line 1: has no field 'tgt'; drop such lines with the filter bitext"),
        (
            "lo\tw x w",
            {"unknown": "refuse"},
            "line 1: field 'tgt' contains the piece 'x', which its vocabulary lacks; fix",
        ),
        (
            "lo w\tw",
            {"max_length": 2},
            "line 1: field 'src' has 3 ids, more than 2; drop such lines",
        ),
        (
            "4 x\t4",
            {"holds": "ids"},
            "line 1: field 'src' contains text that is not an id; write whole numbers",
        ),
        (
            "4 9\t4",
            {"holds": "ids"},
            "line 1: the id 9 in field 'src' is not in its vocabulary (0 to 8); give",
        ),
        ("-4\t4", {"holds": "ids"}, "line 1: field 'src' contains text that is not an id"),
        ("99999999999\t4", {"holds": "ids"}, "line 1: field 'src' contains text that is not an id"),
    ],
)
def test_a_line_that_is_refused_is_named(line: str, options: dict[str, Any], message: str) -> None:
    """With its number, the field and what to do."""
    good = "4\t4" if options.get("holds") == "ids" else "w\tw"
    refused(
        StreamError, message, lambda: SampleFormat(TWO, **options).samples(Batch.of([good, line]))
    )


def test_a_refused_line_of_a_stream_is_named_by_its_file(tmp_path: Path) -> None:
    """File and line, and the number in the stream."""
    (tmp_path / "a.tsv").write_text("lo\tw\nlo\n")
    with Stream([Source("a", (str(tmp_path / "a.tsv"),), shuffle="none")]) as stream:
        [batch] = stream.batches(limit=2)
    refused(
        StreamError,
        "a.tsv:2 (line 1 of the stream): has no field 'tgt'",
        lambda: SampleFormat(TWO).samples(batch),
    )


def test_ids_out_of_range_and_doubled_ends_are_refused() -> None:
    """Negative ids, ids of a larger vocabulary, and EOS behind EOS."""
    for ids, message in (
        ([4, -2], "line 1: the id -2 in field 'src'"),
        ([4, 9], "the id 9"),
        ([2, 2], "end in EOS already"),
    ):
        batch = Batch((Column.of_ids(np.array(ids, np.int32), np.arange(3)),), None, np.arange(2))
        refused(VoltError, message, lambda batch=batch: SampleFormat({"src": LIST}).samples(batch))


def test_unknown_text_is_refused_where_that_is_asked_for() -> None:
    """What the encoder cannot spell is <unk>, or an error that names the line."""
    batch = Batch.of(["low", "low é"])
    assert (
        rows(SampleFormat({"src": VOLT}, eos=False).samples(batch), "src")[1][-1]
        == VOLT.ids["<unk>"]
    )
    refused(
        StreamError,
        "line 1: field 'src' contains text that its vocabulary cannot spell; fix",
        lambda: SampleFormat({"src": VOLT}, unknown="refuse").samples(batch),
    )
    refused(
        StreamError,
        "line 0: field 'src' contains the piece 'w'",
        lambda: SampleFormat({"src": ["lo"]}, eos=False).samples(Batch.of(["lo w"])),
    )


@pytest.mark.parametrize(
    ("vocabularies", "options", "message"),
    [
        ({}, {}, "vocabularies is empty; give a dict"),
        (LIST, {}, "vocabularies is a list; give a dict of names and vocabularies"),
        ({"src": LIST, "tgt": None}, {}, "field 'tgt' has no vocabulary; give a vocabulary"),
        ({"src": []}, {}, "the vocabulary of src has no token"),
        (
            {"src": ["a", "b", "a"]},
            {},
            "token 'a' of the vocabulary of src is repeated, at 0 and 2; remove one",
        ),
        (
            {"src": 7},
            {},
            "the vocabulary of src is 7 (int); give a vocabulary, the path of a vocabulary",
        ),
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
    ],
)
def test_formats_that_cannot_be_are_refused(
    vocabularies: Any, options: dict[str, Any], message: str
) -> None:
    """When they are made, not when the first line comes."""
    refused(VoltError, message, lambda: SampleFormat(vocabularies, **options))


def test_samples_that_cannot_be_are_refused() -> None:
    """Ids beyond int32, unequal numbers of samples, fields that are not there."""
    refused(
        ConfigError,
        "src[1] contains the id -1; ids go from 0",
        lambda: Samples.of({"src": [[1], [-1]]}),
    )
    refused(ConfigError, "contains the id 2147483648", lambda: Samples.of({"src": [[1 << 31]]}))
    refused(
        ConfigError,
        "one or more fields of equal size",
        lambda: Samples.of({"src": [[1]], "tgt": []}),
    )
    refused(
        ConfigError, "2 numbers for 1 samples", lambda: Samples.of({"src": [[1]]}, numbers=[1, 2])
    )
    refused(
        ConfigError,
        "no field 'tgt' in these samples; choose from src",
        lambda: Samples.of({"src": [[1]]})["tgt"],
    )
    one, other = Samples.of({"src": [[1]]}), Samples.of({"tgt": [[1]]})
    refused(
        ConfigError,
        "samples of (src) and (tgt) cannot be joined",
        lambda: joined_samples([one, other]),
    )
    refused(ConfigError, "no samples to join", lambda: joined_samples([]))
