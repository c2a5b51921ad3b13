"""Laws of unigram models: sentencepiece, the imported vocabulary and the exported model encode
alike; a second import gives an equal vocabulary; what cannot be exported is refused.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats.check import check, probe_lines
from volt.formats.sentencepiece import charsmap
from volt.formats.sentencepiece import model_file as module
from volt.formats.sentencepiece.merges import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

sentencepiece = pytest.importorskip("sentencepiece")
pb2 = pytest.importorskip("sentencepiece.sentencepiece_model_pb2")

TABLES = {
    "none": {},
    "letters": {
        "A": "a",
        "ﬁ": "fi",
        "\x01": "",
        "\t": " ",
        "\u3000": " ",
        "i\u0308": "ï",
        "ab": "ba",
    },
}
FRAGMENTS = [
    "a",
    "b",
    "ab",
    "A",
    "▁",
    " ",
    "  ",
    "\t",
    "\x01",
    "c",
    "é",
    "ﬁ",
    "\u0308",
    "<u>",
    "\u3000",
]
lines_of_text = st.lists(st.sampled_from(FRAGMENTS), max_size=9).map("".join)


def model_of(pieces, *, table="none", has_bytes=False, **spec):
    """Return a model as bytes. pieces: piece → (score, type)"""
    model = pb2.ModelProto()
    rows = [("<unk>", 0.0, UNKNOWN), ("</s>", 0.0, CONTROL)]
    if has_bytes:
        rows += [(token, 0.0, BYTE) for token in BYTE_TOKENS]
    rows += [(piece, score, kind) for piece, (score, kind) in pieces.items()]
    rows += [("f", -4.5, NORMAL)]
    for piece, score, kind in rows:
        model.pieces.add(piece=piece, score=score, type=kind)
    model.trainer_spec.model_type = 1
    model.trainer_spec.byte_fallback = has_bytes
    model.normalizer_spec.precompiled_charsmap = charsmap.pack(TABLES[table])
    for name, value in spec.items():
        setattr(model.normalizer_spec, name, value)
    return bytes(model.SerializeToString())


def read(model):
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.model")
        path.write_bytes(model)
        return module.read(path)


def export(vocabulary):
    """Return the exported model, and the notes."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.model")
        notes = module.write(vocabulary, path)
        return path.read_bytes(), notes


def encode_all(model, lines):
    return sentencepiece.SentencePieceProcessor(model_proto=model).encode(lines)


def encode_ours(vocabulary, lines):
    return [ids.tolist() for ids in Encoder(vocabulary).encode_batch(lines)]


scores = st.sampled_from([-1.0, -1.5, -2.0, -2.1, -3.0, -7.25, 0.5])
kinds = st.sampled_from([NORMAL, NORMAL, NORMAL, USER, UNUSED])


@settings(deadline=None, max_examples=examples(60))
@given(
    pieces=st.dictionaries(
        st.text("ab▁A<u>", min_size=1, max_size=4) | st.sampled_from(["▁", "▁a", "fi", "ï"]),
        st.tuples(scores, kinds),
        max_size=9,
    ),
    table=st.sampled_from(list(TABLES)),
    has_bytes=st.booleans(),
    adds_dummy=st.booleans(),
    reduces=st.booleans(),
    lines=st.lists(lines_of_text, max_size=6),
)
@example({"ï": (-1.0, NORMAL)}, "letters", False, False, False, ["ﬁ\u0308", "fi\u0308"])
@example({"▁": (-1.0, NORMAL), "▁▁": (-1.0, USER)}, "letters", True, True, True, ["A  b "])
@example({"▁": (-2.0, NORMAL)}, "none", True, True, True, ["a", " a "])
@example({" A ": (0.0, USER), "▁": (-2.0, NORMAL)}, "letters", False, True, True, ["a A  A b A"])
@example({" b ": (0.0, USER)}, "none", False, True, True, ["a b  b b a b"])
def test_import_and_export_encode_as_the_library(
    pieces, table, has_bytes, adds_dummy, reduces, lines
):
    """For any pieces, types, scores and settings, the ids of VOLT and of the exported model are those
    of the original model, and the exported model reads back equal.
    """
    model = model_of(
        pieces,
        table=table,
        has_bytes=has_bytes,
        add_dummy_prefix=adds_dummy,
        remove_extra_whitespaces=reduces,
    )
    vocabulary = read(model)
    if "characters are all removed" in " ".join(vocabulary.notes):
        lines = [line for line in lines if line.strip("\x01")]
    theirs = encode_all(model, lines)
    assert encode_ours(vocabulary, lines) == theirs
    exported, _ = export(vocabulary)
    assert encode_all(exported, lines) == theirs
    assert read(exported) == vocabulary


PIECES = {"▁": (-2.0, NORMAL), "a": (-1.0, NORMAL), "▁a": (-1.5, NORMAL), "<u>": (0.0, USER)}
UNIGRAM = Vocabulary(
    (),
    ("▁", "a", "▁a", "a▁a"),
    marker="none",
    pretokenizer=PreTokenizer("metaspace"),
    scores=(-2.0, -1.0, -1.5, -0.5),
    fuse_unk=True,
)


def test_user_defined_symbols_keep_their_type():
    """A string that the normalizer protects is a user-defined symbol of the exported model."""
    exported, notes = export(read(model_of(PIECES, table="letters")))
    model = pb2.ModelProto.FromString(exported)
    assert [piece.piece for piece in model.pieces if piece.type == USER] == ["<u>"]
    assert list(model.trainer_spec.user_defined_symbols) == ["<u>"]
    assert not notes


def test_tokens_that_cross_words_are_unused():
    """A token that no word of the vocabulary contains is not found by sentencepiece either."""
    exported, [note, *_] = export(UNIGRAM)
    lines = ["a a", "aa a", "a ab"]
    assert encode_all(exported, lines) == encode_ours(UNIGRAM, lines)
    assert "single precision" in note


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"normalizer": Normalizer.of_steps([["nfd"], ["spaces"]])}, "steps nfd"),
        ({"normalizer": Normalizer.of_steps([["spaces"], ["spaces"]])}, "steps spaces"),
        ({"scores": (-2.0, -1.0, -1.5, -3.0)}, "worst score, -3,"),
        ({"pretokenizer": PreTokenizer("gpt2")}, "'gpt2' pre-tokens"),
    ],
)
def test_what_sentencepiece_lacks_is_refused(changes, reason):
    """A step, a score or a pre-tokenizer that a model cannot express is named in the error."""
    with pytest.raises(VocabularyError, match=reason.replace("+", r"\+")):
        export(replace(UNIGRAM, **changes))


def test_protected_strings_are_tokens_with_the_score_of_a_symbol():
    """sentencepiece finds a protected string only as a symbol, whose score it computes itself."""
    steps = Normalizer.of_steps([["charsmap", module.unigram.pack_table(b""), "longest", ["▁a"]]])
    with pytest.raises(
        VocabularyError, match=r"'▁a' is a protected string .* the score 0\.3 .* -1\.5"
    ):
        export(replace(UNIGRAM, normalizer=steps))
    steps = Normalizer.of_steps([["charsmap", module.unigram.pack_table(b""), "longest", ["<u>"]]])
    with pytest.raises(VocabularyError, match="'<u>' is a protected string"):
        export(replace(UNIGRAM, normalizer=steps))


def test_the_check_of_an_export_loads_the_library(tmp_path):
    """`check` finds equal pieces and ids on lines built from the tokens."""
    path = tmp_path / "a.model"
    module.write(UNIGRAM, path)
    agreement = check(UNIGRAM, path, "sentencepiece", probe_lines(UNIGRAM))
    assert agreement.is_complete, agreement


def test_a_truncated_model_is_refused(tmp_path):
    """A model that is cut at any byte is refused as damaged, or a note says what it lacks."""
    path = tmp_path / "a.model"
    whole = model_of(PIECES, table="letters")
    spec = pb2.ModelProto.FromString(whole).normalizer_spec.SerializeToString()
    size = whole.rindex(b"\x1a", 0, whole.index(spec))  # the tag of the field
    for length in {*range(0, len(whole), 7)} - {size}:
        path.write_bytes(whole[:length])
        with pytest.raises(VocabularyError, match=r"damaged|0 pieces"):
            module.read(path)
    path.write_bytes(whole[:size])
    assert "ends before the normalizer_spec" in " ".join(module.read(path).notes)


DAMAGED = {
    "no <unk>": (("<unk>", 0.0, NORMAL), "0 pieces of the type unknown"),
    "two <unk>": (("b", 0.0, UNKNOWN), "2 pieces of the type unknown"),
    "NaN": (("b", float("nan"), NORMAL), "piece 6, 'b', has the score nan, which is not a finite"),
    "infinity": (("b", float("inf"), NORMAL), "piece 6, 'b', has the score inf, which is not"),
    "a piece twice": (("a", -1.0, NORMAL), "piece 6, 'a', repeats piece 3"),
    "an empty piece": (("", -1.0, NORMAL), "piece 6 is empty"),
    "a control character": (("b", 0.0, CONTROL), "control token 'b' is one character"),
    "a space": (("b b", -1.0, NORMAL), "piece 6, 'b b', contains a space"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_pieces_are_refused(damage):
    """The error for a damaged piece names it, and says what is wrong."""
    (piece, score, kind), message = DAMAGED[damage]
    model = pb2.ModelProto.FromString(model_of(PIECES))
    if piece == "<unk>":
        model.pieces[0].type = kind
    else:
        model.pieces[6].MergeFrom(pb2.ModelProto.SentencePiece(piece=piece, score=score, type=kind))
    with pytest.raises(VocabularyError, match=message):
        read(bytes(model.SerializeToString()))


def test_a_damaged_table_and_models_of_words_are_refused():
    """A charsmap that is cut short is damaged; a model of words has another remedy."""
    model = pb2.ModelProto.FromString(model_of(PIECES, table="letters"))
    spec = model.normalizer_spec
    spec.precompiled_charsmap = spec.precompiled_charsmap[:-1]
    with pytest.raises(VocabularyError, match="table of replacements is damaged"):
        read(bytes(model.SerializeToString()))
    model.trainer_spec.model_type = 3
    with pytest.raises(
        VocabularyError, match="a word model, and VOLT reads models of merges or of"
    ):
        read(bytes(model.SerializeToString()))


def test_user_tokens_have_a_note():
    """User tokens of a vocabulary are pieces of the best path in sentencepiece."""
    _, notes = export(replace(UNIGRAM, special=SpecialTokens(user=("<u>",))))
    assert any("A user token is a piece like others" in note for note in notes)
