"""Laws of reading sentencepiece models: any scores, options and ids encode as in the library;
damage is refused.
"""

import re
import tracemalloc
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from formats.support import sentencepiece_model
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.drawn import examples

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats.registry import read_merges, read_vocabulary
from volt.formats.sentencepiece import model_file as module
from volt.formats.sentencepiece.merges import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.normalizer import Normalizer

sentencepiece = pytest.importorskip("sentencepiece")
pb2 = pytest.importorskip("sentencepiece.sentencepiece_model_pb2")

CORPUS = [
    "the lower the newest, the widest lowest low aaaaaaaa abababab 1234 abc",
    "def low(a):",
    "    return   a",
    "\tif a == b:    # low",
    "        pass  <url> [INST] <unk> </s>",
    "zwölf Boxkämpfer 東京都に行く 東京 שלום عالم e\u0301 한국어",
]


def read(model):
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.model")
        path.write_bytes(model)
        assert module.recognises(path, model[:4096])
        return module.read(path)


def assert_equal(model, lines):
    """Check that VOLT's ids are the library's, on lines without text that the notes except. Return
    the vocabulary.
    """
    vocabulary = read(model)
    notes = " ".join(vocabulary.notes)
    if "sentencepiece reduces several spaces" in notes or "normalised differently" in notes:
        lines = [" ".join(filter(None, line.split(" "))) for line in lines]
    if "or to an end of the line" in notes:
        lines = [re.sub("[▁ ]{2,}", " ", line).strip("▁ ") for line in lines]
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    ours = [ids.tolist() for ids in Encoder(vocabulary).encode_batch(lines)]
    assert ours == list(map(processor.encode, lines))
    return vocabulary


def model_of(scores, unused=(), *, adds_dummy=True, reduces=True):
    """Return a model with these scores of pieces, in which id 0 is unused, and the unknown token is
    in the middle.
    """
    model = pb2.ModelProto()
    rows = [("x", 0.0, UNUSED), ("</s>", 0.0, CONTROL), ("a", -99.0, NORMAL)]
    for number, (piece, score) in enumerate(scores.items()):
        rows.append((piece, float(score), UNUSED if number in unused else NORMAL))
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
    spec.name = "identity"
    spec.add_dummy_prefix = adds_dummy
    spec.remove_extra_whitespaces = reduces
    return bytes(model.SerializeToString())


SPACED = {"▁" * n: -99 for n in range(2, 9)} | {"▁a": -1, "ab": -2}


@settings(deadline=None, max_examples=examples(40))
@given(
    scores=st.dictionaries(st.text("ab▁", min_size=2, max_size=5), st.integers(-9, 0), max_size=8),
    unused=st.sets(st.integers(0, 7)),
    adds_dummy=st.booleans(),
    reduces=st.booleans(),
    lines=st.lists(st.text("ab▁ c\t", max_size=16), max_size=4),
)
@example(SPACED, set(), True, False, ["      a", "a          b ", "   ", "ab" + " " * 30 + "ab"])
@example({"ab": -5, "aba": -1, "bab": -3}, set(), True, False, ["ababa", "abab bab"])
def test_any_scores_join_as_in_the_library(scores, unused, adds_dummy, reduces, lines):
    """For any pieces and scores (equal ones, pieces better than their parts, pieces of several
    spaces or words), VOLT's ids are sentencepiece's, or the error names a piece.
    """
    model = model_of(scores, unused, adds_dummy=adds_dummy, reduces=reduces)
    try:
        assert_equal(model, lines)
    except VocabularyError as error:
        assert any(reason in str(error) for reason in ("because of their scores", "spans words"))  # noqa: PT017
        assert any(repr(piece) in str(error) for piece in scores)  # noqa: PT017


FLAGS = (
    "split_by_whitespace",
    "split_digits",
    "remove_extra_whitespaces",
    "add_dummy_prefix",
    "byte_fallback",
    "allow_whitespace_only_pieces",
    "split_by_number",
)
LAYOUTS = [
    {},
    {"pad_id": 0, "unk_id": 3, "bos_id": -1},
    {"unk_id": 2, "bos_id": 0, "eos_id": -1},
    {"pad_id": 3},
]


@settings(deadline=None, max_examples=8)
@given(
    flags=st.fixed_dictionaries(dict.fromkeys(FLAGS, st.booleans())),
    layout=st.sampled_from(LAYOUTS),
    user=st.booleans(),
    control=st.booleans(),
    lines=st.lists(st.sampled_from(CORPUS) | st.text(" ▁\tabelowst<url>[INST]東é1\0", max_size=20)),
)
def test_any_options_of_the_trainer_are_read(flags, layout, user, control, lines):
    """For any options of the trainer, ids, roles and pieces are sentencepiece's. A model is refused
    only if pieces span words and spaces are reduced.
    """
    options = {**flags, **layout, "vocab_size": 420 if flags["byte_fallback"] else 150}
    if user:
        options["user_defined_symbols"] = ["<url>", "ab"]
    if control:
        options["control_symbols"] = ["[INST]", "<mask>"]
    model = sentencepiece_model(CORPUS * 3, **options)
    try:
        vocabulary = assert_equal(model, lines)
    except VocabularyError as error:
        assert "spans words" in str(error)  # noqa: PT017
        assert (flags["split_by_whitespace"], flags["remove_extra_whitespaces"]) == (False, True)
        return
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    special = vocabulary.special
    ids = [
        vocabulary.ids.get(special.roles.get(role, ""), -1) for role in ("unk", "bos", "eos", "pad")
    ]
    assert ids == [library.unk_id(), library.bos_id(), library.eos_id(), library.pad_id()]
    for number, piece in enumerate(vocabulary.pieces):
        assert piece in ("", library.id_to_piece(number))
    assert special.control == ("[INST]", "<mask>") * control


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ({"pad_id": 3, "user_defined_symbols": ["\b", "<url>"]}, None),
        ({"pad_id": 3, "character_coverage": 0.98}, None),
        ({"pad_id": 3, "unk_piece": "[UNK]", "bos_piece": "[BOS]"}, None),
        ({"pad_id": 3, "normalization_rule_name": "nfkc"}, "in NFKC's order"),
        ({"normalization_rule_name": "nmt_nfkc"}, "'nmt_nfkc'"),
        ({"pad_id": 3, "add_dummy_prefix": False}, "sentencepiece reduces several spaces"),
        (
            {"user_defined_symbols": ["a b"]},
            "'a b' is found in text here, but not in sentencepiece",
        ),
        *(
            (
                {f"{kind}_symbols": [name]},
                f"{name!r} is a special token that VOLT cannot have: left out, its id not used.",
            )
            for kind in ("user_defined", "control")
            for name in ("\x1b[", "qq▁", "x</w>")
        ),
    ],
)
def test_trained_models_are_read_or_have_a_note(options, note, tmp_path):
    """A trained model encodes in VOLT as in sentencepiece, except for text that a note names.
    Without a note, writing and reading it gives an equal vocabulary.
    """
    model = sentencepiece_model(CORPUS * 3, **{"vocab_size": 150} | options)
    lines = [*CORPUS, "lowering ＶＯＬＴ unseen ßê", "low  the   low ", "the\blow er\b \b x", "\b"]
    if "nmt" in str(note):
        lines = lines[: len(CORPUS)]
    if "a b" in str(note):
        vocabulary = read(model)
    else:
        vocabulary = assert_equal(model, [" ".join(line.split()) for line in lines])
    if note:
        assert any(note in each for each in vocabulary.notes)
    else:
        module.write(vocabulary, tmp_path / "b")
        assert module.read(tmp_path / "b").fingerprint == vocabulary.fingerprint


def test_ends_that_a_model_lacks_have_a_note():
    """If "▁" ends words, and a character has no piece with "▁", a note says that the character ends
    no word in VOLT.
    """
    options = {"vocab_size": 30, "treat_whitespace_as_suffix": True}
    vocabulary = read(sentencepiece_model(["a1 b2 ab12"] * 9, **options))
    [note] = [note for note in vocabulary.notes if "ends no word" in note]
    assert "2 tokens" in note


@pytest.mark.parametrize(
    ("scores", "options"),
    [
        (SPACED, {"reduces": False}),
        ({"ab": -5, "aba": -1}, {}),
        ({"ab": -1, "b▁a": -2}, {"adds_dummy": False, "reduces": False}),
    ],
)
def test_a_model_is_written_with_its_ids(tmp_path, scores, options):
    """A model that is read, written and read again has an equal vocabulary, and encodes text to the
    same ids in sentencepiece.
    """
    model = model_of(scores, {1}, **options)
    vocabulary = read(model)
    module.write(vocabulary, tmp_path / "b")
    assert module.read(tmp_path / "b").fingerprint == vocabulary.fingerprint
    models = (model, (tmp_path / "b.model").read_bytes())
    ours, theirs = (sentencepiece.SentencePieceProcessor(model_proto=each) for each in models)
    for line in ("a      b", "abab  aba b", "", "  ab"):
        assert ours.encode(line) == theirs.encode(line)


def changed(change):
    model = pb2.ModelProto.FromString(GOOD)
    change(model)
    return bytes(model.SerializeToString())


def adding(piece, score=0, type=NORMAL):
    return changed(lambda model: model.pieces.add(piece=piece, score=score, type=type))


def setting(part, name, value):
    return changed(lambda model: setattr(getattr(model, part), name, value))


GOOD = model_of({"ab": -1, "▁a": -2})
NAMED = setting("normalizer_spec", "name", "qqqq")
DAMAGED = {
    "another file": (b"\x7fELF" + GOOD, "damaged"),
    "a piece of 2 GB": (b"\x0a\xff\xff\xff\xff\x07" + GOOD, "damaged"),
    "a long piece": (b"\x0a\x10\x0a\xff\xff\xff\xff\x0fx" + GOOD, "damaged"),
    "a piece that is no text": (
        NAMED.replace("▁".encode(), b"\xff" * 3, 1),
        "a damaged sentencepiece model",
    ),
    "a name that is no text": (
        NAMED.replace(b"qqqq", b"\xff" * 4, 1),
        "a damaged sentencepiece model",
    ),
    "no settings": (changed(lambda model: model.ClearField("trainer_spec")), "damaged"),
    "no pieces": (
        changed(lambda model: model.ClearField("pieces")),
        "0 pieces of the type unknown",
    ),
    "two unknown tokens": (adding("[OTHER]", type=UNKNOWN), "2 pieces of the type unknown"),
    "repeated": (adding("ab", -7), "piece 9, 'ab', repeats piece 3"),
    "no score": (adding("y", float("nan")), "piece 9, 'y', has the score nan"),
    "empty": (adding(""), "piece 9 is empty"),
    "U+0000": (adding("l\0"), r"U\+0000"),
    "one byte piece": (adding("<0x00>", type=BYTE), "1 of the 256 byte pieces"),
    "no byte pieces": (setting("trainer_spec", "byte_fallback", True), "0 of the 256 byte pieces"),
    "short control token": (adding("^", type=CONTROL), "'\\^' is one character"),
    "words": (setting("trainer_spec", "model_type", 3), "a word model.*--model_type=bpe"),
    "characters": (setting("trainer_spec", "model_type", 4), "a character model"),
    "spaces": (setting("normalizer_spec", "escape_whitespaces", False), "--escape_whitespaces"),
    "table": (setting("normalizer_spec", "precompiled_charsmap", b"\xff" * 2000), "replacements"),
    "ends": (
        setting("trainer_spec", "treat_whitespace_as_suffix", True),
        "not every last character joins it first",
    ),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damage_is_refused(tmp_path, damage):
    """The error for a damaged or unfit model names the file and the reason. A huge length in the
    file does not make VOLT take memory.
    """
    data, message = DAMAGED[damage]
    path = tmp_path / "a.model"
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(VocabularyError, match=message) as caught:
            module.read(path)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(str(path))


def test_a_truncated_or_missing_model_is_refused(tmp_path):
    """A model that is cut at any byte is refused as damaged; a missing one cannot be read."""
    path = tmp_path / "a.model"
    for length in range(len(GOOD) - 1):
        path.write_bytes(GOOD[:length])
        with pytest.raises(VocabularyError, match="damaged"):
            module.read(path)
    with pytest.raises(VocabularyError, match=r"absent.model: cannot be read"):
        module.read(tmp_path / "absent")


def test_bytes_may_have_any_ids():
    """Byte pieces keep the ids of the model, and unknown characters become these ids."""

    def add(model):
        model.trainer_spec.byte_fallback = True
        for token in reversed(BYTE_TOKENS):
            model.pieces.add(piece=token, type=BYTE)

    vocabulary = assert_equal(changed(add), ["aé b東", "\0 ab"])
    assert vocabulary.ids["<0x00>"] == len(vocabulary) - 1


def test_byte_tokens_decode_as_in_the_library(tmp_path):
    """VOLT decodes random ids with byte pieces to sentencepiece's text. A note says how
    sentencepiece decodes <unk>.
    """
    model = sentencepiece_model(CORPUS * 3, vocab_size=420, byte_fallback=True)
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    vocabulary = read(model)
    chance = Random(2)
    low = vocabulary.ids["▁low"]
    rows = [[low, *(chance.randrange(3, len(vocabulary)) for _ in range(9))] for _ in range(200)]
    assert Encoder(vocabulary).decode_batch(rows) == list(map(library.decode, rows))
    assert any("sentencepiece decodes <unk> to ' ⁇ '" in note for note in vocabulary.notes)
    assert library.decode([0]) == " ⁇ "


def test_pieces_of_a_unigram_model_are_candidates(tmp_path):
    """`read_merges` of a unigram model returns merges that make every piece, each from characters
    or results of earlier merges; of the imported vocabulary, it returns the same merges.
    """
    model = sentencepiece_model(CORPUS * 3, model_type="unigram", vocab_size=120)
    made = set()
    for left, right in module.read_merges(tmp_path, model).pairs:
        assert all(len(part) == 1 or part in made for part in (left, right))
        made.add(left + right)
    pieces = [
        piece.piece for piece in pb2.ModelProto.FromString(model).pieces if piece.type == NORMAL
    ]
    assert all(len(piece) == 1 or piece in made for piece in pieces)
    path = tmp_path / "a.model"
    path.write_bytes(model)
    read_vocabulary(path).save(tmp_path / "a.volt")
    assert read_merges(tmp_path / "a.volt") == read_merges(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", module._N_DIFFERENT)
def test_normal_forms_differ_as_notes_say(name):
    """For each of sentencepiece's normalisations, VOLT normalises exactly as many characters below
    U+20000 differently as the note states.
    """
    spaces = ("add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces")
    library = sentencepiece.SentencePieceNormalizer(rule_name=name, **dict.fromkeys(spaces, False))
    characters = [chr(code) for code in (*range(1, 0xD800), *range(0xE000, 0x20000))]
    normalizer = Normalizer.parse(module._NORMALIZERS[name])
    ours = normalizer.apply_series(pl.Series("text", characters)).to_list()
    theirs = map(library.normalize, characters)
    assert sum(a != b for a, b in zip(theirs, ours, strict=True)) == module._N_DIFFERENT[name]
