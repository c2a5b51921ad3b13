"""Laws of models that others made: any scores, any options of the trainer, any layout of ids; and damaged files."""

from __future__ import annotations

import io
import re
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from drawn import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats.sentencepiece import model_file as module
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.vocabulary import Vocabulary

sentencepiece = pytest.importorskip("sentencepiece")
pb2 = pytest.importorskip("sentencepiece.sentencepiece_model_pb2")

CORPUS = [
    "the lower the newest, the widest lowest low aaaaaaaa abababab 1234",
    "def low(a):",
    "    return   a",
    "\tif a == b:    # low",
    "        pass  <url> [INST]",
    "zwölf Boxkämpfer 東京都に行く 東京",
]
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def read(model: bytes) -> Vocabulary:
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.model")
        path.write_bytes(model)
        return module.read(path)


def library(model: bytes):
    """Lines → the library's ids."""
    return sentencepiece.SentencePieceProcessor(model_proto=model).encode


def assert_equal(model: bytes, lines: list[str]) -> Vocabulary:
    vocabulary, ids = read(model), library(model)
    if any(
        "sentencepiece reduces several spaces" in said for said in vocabulary.provenance["lost"]
    ):
        lines = [" ".join(filter(None, line.split(" "))) for line in lines]
    if any("or to an end of the line" in said for said in vocabulary.provenance["lost"]):
        lines = [re.sub("[▁ ]{2,}", " ", line).strip("▁ ") for line in lines]
    assert [found.tolist() for found in Encoder(vocabulary).encode_batch(lines)] == [
        ids(line) for line in lines
    ]
    return vocabulary


pieces = st.text("ab▁", min_size=2, max_size=5)
lines_of_text = st.lists(st.text("ab▁ c\t", max_size=16), max_size=4)


@settings(deadline=None, max_examples=examples(40))
@given(
    scores=st.dictionaries(pieces, st.integers(-9, 0), max_size=8),
    unused=st.sets(st.integers(0, 7)),
    options=st.tuples(st.booleans(), st.booleans()),
    lines=lines_of_text,
)
@example(
    scores={"▁" * n: -99 for n in range(2, 9)} | {"▁a": -1, "ab": -2},
    unused=set(),
    options=(True, False),
    lines=["      a", "a          b ", "   ", "ab" + " " * 30 + "ab"],
)
@example(
    scores={"ab": -5, "aba": -1, "bab": -3},
    unused=set(),
    options=(True, False),
    lines=["ababa", "abab bab"],
)
def test_any_scores_join_as_in_the_library(scores, unused, options, lines):
    """Scores that repeat, pieces better than their parts, pieces of several spaces or words, pieces that are not used:
    the library's ids, or a refusal that says which pieces are why."""
    model = model_of(scores, unused, *options)
    try:
        assert_equal(model, lines)
    except VocabularyError as error:
        assert any(reason in str(error) for reason in ("for their scores", "spans words"))  # noqa: PT017
        assert any(repr(piece) in str(error) for piece in scores)  # noqa: PT017


def model_of(scores, unused, adds_dummy, reduces) -> bytes:
    """A model of these pieces: id 0 is not used, the unknown token stands in the middle."""
    model = pb2.ModelProto()
    rows = [("x", 0.0, UNUSED), ("</s>", 0.0, CONTROL), ("a", -99.0, NORMAL)]
    rows += [
        (piece, float(score), UNUSED if i in unused else NORMAL)
        for i, (piece, score) in enumerate(scores.items())
    ]
    rows += [
        ("<unk>", 0.0, UNKNOWN),
        ("b", -98.5, NORMAL),
        ("▁", -98.0, NORMAL),
        ("[INST]", 0.0, CONTROL),
    ]
    for piece, score, kind in rows:
        model.pieces.add(piece=piece, score=score, type=kind)
    model.trainer_spec.model_type = 2
    spec = model.normalizer_spec
    spec.name, spec.add_dummy_prefix, spec.remove_extra_whitespaces = (
        "identity",
        adds_dummy,
        reduces,
    )
    return bytes(model.SerializeToString())


def trained(**options) -> bytes:
    """A model that the library itself trains."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 3),
        model_writer=model,
        hard_vocab_limit=False,
        minloglevel=2,
        **{"model_type": "bpe", "vocab_size": 150, "normalization_rule_name": "identity"} | options,
    )
    return model.getvalue()


flags = (
    "split_by_whitespace",
    "split_digits",
    "remove_extra_whitespaces",
    "add_dummy_prefix",
    "byte_fallback",
    "allow_whitespace_only_pieces",
    "split_by_number",
)
layouts = st.sampled_from(
    [
        {},
        {"pad_id": 0, "unk_id": 3, "bos_id": -1},
        {"unk_id": 2, "bos_id": 0, "eos_id": -1},
        {"pad_id": 3},
    ]
)


@settings(deadline=None, max_examples=8)
@given(
    chosen=st.fixed_dictionaries(dict.fromkeys(flags, st.booleans())),
    layout=layouts,
    user=st.booleans(),
    control=st.booleans(),
    lines=st.lists(st.sampled_from(CORPUS) | st.text(" ▁\tabelowst<url>[INST]東é1\0", max_size=20)),
)
def test_any_options_of_the_trainer_are_read(chosen, layout, user, control, lines):
    """Ids, roles and pieces equal the library's with all options of the trainer; what spans words is refused if spaces
    are reduced."""
    options = {**chosen, **layout, "vocab_size": 420 if chosen["byte_fallback"] else 150}
    options |= {"user_defined_symbols": ["<url>", "ab"]} if user else {}
    model = trained(**options, **({"control_symbols": ["[INST]", "<mask>"]} if control else {}))
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    try:
        vocabulary = assert_equal(model, lines)
    except VocabularyError as error:
        assert "spans words" in str(error)  # noqa: PT017
        assert (chosen["split_by_whitespace"], chosen["remove_extra_whitespaces"]) == (False, True)
        return
    special = vocabulary.special
    roles = [
        vocabulary.ids.get(token or "", -1)
        for token in (special.unk, special.bos, special.eos, special.pad)
    ]
    assert roles == [processor.unk_id(), processor.bos_id(), processor.eos_id(), processor.pad_id()]
    assert [
        piece or processor.id_to_piece(number) for number, piece in enumerate(vocabulary.pieces)
    ] == [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    assert vocabulary.special.control == ("[INST]", "<mask>") * control


@pytest.mark.parametrize(
    ("scores", "options"),
    [
        ({"▁" * n: -99 for n in range(2, 9)} | {"▁a": -1, "ab": -2}, (True, False)),
        ({"ab": -5, "aba": -1}, (True, True)),
        ({"ab": -1, "b▁a": -2}, (False, False)),
    ],
)
def test_what_was_read_is_written_with_its_ids(tmp_path, scores, options):
    """Export undoes import: unused ids, control tokens and ids come back, and so do the ids of text."""
    model = model_of(scores, {1}, *options)
    vocabulary = read(model)
    module.write(vocabulary, tmp_path / "b")
    again = module.read(tmp_path / "b")
    assert again.fingerprint == vocabulary.fingerprint
    lines = ["a      b", "abab  aba b", "", "  ab"]
    ours, theirs = library((tmp_path / "b.model").read_bytes()), library(model)
    assert list(map(ours, lines)) == list(map(theirs, lines))


GOOD = model_of({"ab": -1, "▁a": -2}, set(), True, True)


def changed(change) -> bytes:
    model = pb2.ModelProto.FromString(GOOD)
    change(model)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (GOOD[: len(GOOD) // 2], "damaged"),
        (b"\x7fELF" + GOOD, "damaged"),
        (b"\x0a\xff\xff\xff\xff\x07" + GOOD, "damaged"),  # a piece of 2 GB
        (b"\x0a\x10\x0a\xff\xff\xff\xff\x0fx" + GOOD, "damaged"),
        (changed(lambda model: model.pieces.add(piece="ab", score=-7)), "repeats piece 3"),
        (changed(lambda model: model.pieces.add(piece="[OTHER]", type=UNKNOWN)), "damaged"),
        (
            changed(lambda model: model.pieces.add(piece="<0x00>", type=BYTE)),
            "1 of the 256 byte pieces",
        ),
        (
            changed(lambda model: setattr(model.trainer_spec, "byte_fallback", True)),
            "0 of the 256 byte pieces",
        ),
        (
            changed(lambda model: model.pieces.add(piece="^", type=CONTROL)),
            "'\\^' is one character",
        ),
        (
            changed(lambda model: setattr(model.trainer_spec, "model_type", 1)),
            "a unigram model.*candidates",
        ),
        (
            changed(lambda model: setattr(model.trainer_spec, "model_type", 3)),
            "a word model.*--model_type=bpe",
        ),
        (changed(lambda model: setattr(model.trainer_spec, "model_type", 4)), "a character model"),
        (
            changed(lambda model: setattr(model.normalizer_spec, "escape_whitespaces", False)),
            "--escape_whitespaces",
        ),
        (
            changed(
                lambda model: setattr(model.normalizer_spec, "precompiled_charsmap", b"\xff" * 2000)
            ),
            "replacements",
        ),
    ],
)
def test_files_of_other_kinds_are_refused(tmp_path, data, named):
    """With the file and the reason, and without taking the memory that a length in the file promises."""
    path = tmp_path / "a.model"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(VocabularyError, match=named) as caught:
            module.read(path)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(str(path))


def test_bytes_stand_anywhere(tmp_path):
    """Byte pieces keep their own ids, and spell what is unknown."""

    def add(model) -> None:
        model.trainer_spec.byte_fallback = True
        for token in reversed(BYTE_TOKENS):
            model.pieces.add(piece=token, type=BYTE)

    vocabulary = assert_equal(changed(add), ["aé b東", "\0 ab"])
    assert vocabulary.ids["<0x00>"] == len(vocabulary.pieces) - 1


def test_a_user_symbol_with_a_space_is_announced(tmp_path: Path) -> None:
    """sentencepiece does not find it in text, and VOLT does, so the import says so."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a b low lower newest widest\n" * 50)
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus),
        model_prefix=str(tmp_path / "spaced"),
        model_type="bpe",
        vocab_size=40,
        user_defined_symbols=["a b"],
        normalization_rule_name="identity",
        minloglevel=2,
    )
    vocabulary = module.read(tmp_path / "spaced.model")
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spaced.model"))
    assert Encoder(vocabulary).encode_ids("xa b").tolist() != theirs.encode("xa b")
    assert any(
        note.startswith("'a b' is found in text here, but not in sentencepiece")
        for note in vocabulary.notes
    )
