"""Laws of unigram models in tokenizer.json: VOLT and `tokenizers` give equal ids, and damaged files are
refused.
"""

import json
from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats import huggingface
from volt.formats.huggingface.unigram import read_number, spell_number
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

tokenizers = pytest.importorskip("tokenizers")

CHARACTERS = "ab▁éx"
PIECES = st.text(CHARACTERS, min_size=1, max_size=4)
SCORES = st.sampled_from([0.0, -1.0, -2.0, -2.5, -4.0, -14.110932287648733]) | st.floats(-30, 0)
NORMALIZERS = {
    "NFD": {"type": "NFD"},
    "StripAccents": {"type": "StripAccents"},
    "Lowercase": {"type": "Lowercase"},
    "Strip": {"type": "Strip", "strip_left": False, "strip_right": True},
    "Replace": {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
    "literal": {"type": "Replace", "pattern": {"String": "x"}, "content": "ab"},
}
WORDS = {"type": "WhitespaceSplit"}


def metaspace(scheme, *, split):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


def sequence(name, steps):
    return {"type": "Sequence", name: steps} if steps else None


def added(token, number, **flags):
    defaults = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": token, "special": True} | defaults | flags


def file_of(pieces, *, normalizer=None, cuts=None, tokens=(), **model):
    """Return a tokenizer.json with these pieces and scores, and <unk> as the first one."""
    rows = [["<unk>", 0.0], *pieces]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added("<unk>", 0), *tokens],
        "normalizer": normalizer,
        "pre_tokenizer": sequence("pretokenizers", cuts or [metaspace("always", split=True)]),
        "post_processor": None,
        "decoder": metaspace("always", split=True),
        "model": {"type": "Unigram", "unk_id": 0, "vocab": rows, "byte_fallback": False} | model,
    }


@st.composite
def files(draw):
    """Draw a tokenizer.json whose "first" scheme never meets a step that moves a line's start."""
    scores = draw(st.dictionaries(PIECES, SCORES, min_size=1, max_size=12))
    steps = draw(st.lists(st.sampled_from(sorted(NORMALIZERS)), max_size=3, unique=True))
    cuts = draw(
        st.sampled_from(
            [
                [metaspace(scheme, split=split)]
                for scheme in ("always", "never", "first")
                for split in (True, False)
            ]
            + [[WORDS, metaspace("always", split=True)]]
        )
    )
    if cuts[0].get("prepend_scheme") == "first":
        steps = [step for step in steps if step not in ("StripAccents", "literal")]
    pieces = [[piece, score] for piece, score in scores.items()]
    byte_fallback = draw(st.booleans())
    if byte_fallback:
        pieces += [[f"<0x{byte:02X}>", draw(SCORES)] for byte in range(256)]
    flags = {flag: draw(st.booleans()) for flag in ("lstrip", "rstrip")}
    pieces.append(["<m>", draw(SCORES)])
    tokens = [added("<m>", len(pieces), **flags), added("<end>", len(pieces) + 1)]
    return file_of(
        pieces,
        normalizer=sequence("normalizers", [NORMALIZERS[step] for step in steps]),
        cuts=cuts,
        tokens=tokens,
        byte_fallback=byte_fallback,
    )


TEXTS = st.lists(
    st.sampled_from(
        [*"abxéAÉ ▁\tc中😀", "  ", "<m>", "<end>", "<unk>", "e\u0301", "ba", "<0x61>", "\U0010f000"]
    ),
    max_size=12,
).map("".join)


def differences(vocabulary, path, texts):
    """Return the texts whose ids differ from those of `tokenizers`."""
    library = tokenizers.Tokenizer.from_file(str(path))
    encoded = Encoder(vocabulary).encode_batch(texts)
    return [
        text
        for text, ids in zip(texts, encoded, strict=True)
        if library.encode(text, add_special_tokens=False).ids != ids.tolist()
    ]


@settings(max_examples=60, deadline=None)
@given(files(), st.lists(TEXTS, min_size=1, max_size=8))
def test_an_imported_model_gives_the_ids_of_tokenizers(tmp_path_factory, data, texts):
    """A unigram model encodes any text as `tokenizers` does, with all its added tokens and steps."""
    path = tmp_path_factory.mktemp("file") / "tokenizer.json"
    path.write_text(json.dumps(data))
    assert differences(huggingface.read(path), path, texts) == []


@settings(max_examples=30, deadline=None)
@given(files(), st.lists(TEXTS, min_size=1, max_size=8))
def test_all_outputs_agree_on_user_tokens(tmp_path_factory, data, texts):
    """Ids of a line, ids of a batch, ids as text, and the ids of pieces are equal, in lines with and
    without user tokens."""
    path = tmp_path_factory.mktemp("file") / "tokenizer.json"
    path.write_text(json.dumps(data))
    encoder = Encoder(huggingface.read(path))
    batch = [ids.tolist() for ids in encoder.encode_batch(texts)]
    assert [encoder.encode_ids(text).tolist() for text in texts] == batch
    assert [encoder.ids(pieces).tolist() for pieces in encoder.encode_lines(texts)] == batch
    text = b"".join(f"{text}\n".encode() for text in texts)
    rows = encoder.encode_text(text, form="ids").decode().split("\n")[:-1]
    assert [list(map(int, row.split())) for row in rows] == batch


@settings(max_examples=30, deadline=None)
@given(files(), st.lists(TEXTS, min_size=1, max_size=8))
def test_an_exported_model_gives_equal_ids_and_is_read_back(tmp_path_factory, data, texts):
    """A file that VOLT writes encodes as the file that it was read from, and equals it when read."""
    folder = tmp_path_factory.mktemp("files")
    first = folder / "first.json"
    first.write_text(json.dumps(data))
    vocabulary = huggingface.read(first)
    second = folder / "second.json"
    huggingface.write(vocabulary, second)
    assert huggingface.read(second) == vocabulary
    assert differences(vocabulary, second, texts) == []


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, -1e-6), min_size=1))
def test_scores_are_read_as_tokenizers_reads_them(scores):
    """`read_number` returns the number that `tokenizers` reads, and `spell_number` its text."""
    texts = [repr(score) for score in scores]
    rows = ", ".join(f'["{number}", {text}]' for number, text in enumerate(texts))
    model = f'{{"type": "Unigram", "unk_id": null, "vocab": [{rows}]}}'
    library = tokenizers.Tokenizer.from_str(f'{{"version": "1.0", "model": {model}}}')
    theirs = [score for _, score in json.loads(library.to_str())["model"]["vocab"]]
    ours = list(map(read_number, texts))
    assert ours == theirs
    assert [read_number(spell_number(score)) for score in ours] == ours


@pytest.mark.parametrize(
    ("text", "number"), [("1e-330", 0.0), ("5e3", 5000.0), ("0.0", 0.0), ("1e-400", 0.0)]
)
def test_a_number_with_an_exponent_is_read(text, number):
    """Exponents beyond the range of floats give 0."""
    assert read_number(text) == number


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"vocab": []}, "model.vocab is missing, empty or not a list"),
        ({"vocab": {"a": 0}}, "model.vocab is missing, empty or not a list"),
        ({"vocab": [["<unk>", 0], ["a", "-1"]]}, "entry 2 is .* instead of a piece and its score"),
        ({"vocab": [["<unk>", 0], ["a"]]}, "entry 2 is .* instead of a piece and its score"),
        ({"vocab": [["<unk>", 0], ["a", float("nan")]]}, "'a' has the score nan; give a finite"),
        ({"vocab": [["<unk>", 0], ["a", float("inf")]]}, "'a' has the score inf; give a finite"),
        ({"vocab": [["a", -1], ["b", -1], ["a", -2]]}, "entry 3: 'a' occurs twice; remove one"),
        ({"unk_id": 7}, "unk_id is 7, but model.vocab has 2 entries; fix it"),
        ({"unk_id": -1}, "unk_id is -1"),
        ({"unk_id": 1}, "the unknown token is 'a', one character"),
        ({"vocab": [["<unk>", 11], ["a", 12]]}, "all scores are above 10"),
        (
            {"vocab": [["<unk>", 0], ["a", -1], ["b c", -2]]},
            "contains a space, .* may be the least",
        ),
        ({"vocab": [["<unk>", 0]]}, "all pieces of model.vocab are special tokens; add others"),
        ({"byte_fallback": True, "vocab": [["<unk>", 0], ["<0x61>", -1]]}, "only 1 of the 256"),
    ],
)
def test_a_damaged_model_is_refused(tmp_path, model, message):
    """The error says which entry is wrong."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(file_of([["a", -1.0]], **model)))
    with pytest.raises(VocabularyError, match=f"tokenizer.json: .*{message}"):
        huggingface.read(path)


@pytest.mark.parametrize(
    ("normalizer", "message"),
    [
        ({"type": "BertNormalizer"}, "VOLT has no normalizer BertNormalizer"),
        ({"type": "Precompiled", "precompiled_charsmap": None}, "is empty or damaged"),
        (
            {"type": "Precompiled", "precompiled_charsmap": b64encode(b"\x08\0\0\0ab").decode()},
            "table of replacements is damaged",
        ),
        (
            {"type": "Replace", "pattern": {"Regex": r"\w+(?=a)"}, "content": ""},
            "replaces the regex .* may read differently",
        ),
        ({"type": "Replace", "pattern": {"String": ""}, "content": ""}, "replaced pattern"),
        ({"type": "Replace", "pattern": {"String": "a"}, "content": 3}, "step 1 of the normalizer"),
        ({"type": "Strip"}, "step 1 of the normalizer"),
    ],
)
def test_a_normalizer_that_volt_lacks_is_refused(tmp_path, normalizer, message):
    """The error names the step."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(file_of([["a", -1.0]], normalizer=normalizer)))
    with pytest.raises(VocabularyError, match=message):
        huggingface.read(path)


@pytest.mark.parametrize(
    ("cuts", "message"),
    [
        ([WORDS, metaspace("first", split=True)], "prepend_scheme first and split true"),
        ([metaspace("x", split=True)], "the prepend_scheme x; give always, first or never"),
        ([{"type": "ByteLevel", "add_prefix_space": False}], "reads only with merges"),
        ([{"type": "Digits"}, metaspace("always", split=True)], "which VOLT cannot do"),
    ],
)
def test_words_that_volt_cannot_cut_are_refused(tmp_path, cuts, message):
    """The error names the step and the setting."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(file_of([["▁a", -1.0]], cuts=cuts)))
    with pytest.raises(VocabularyError, match=message):
        huggingface.read(path)


def test_differences_that_remain_are_noted(tmp_path):
    """A file without unk_id, whose normalizer may change the start of a line, has notes."""
    normalizer = {"type": "Replace", "pattern": {"String": "``"}, "content": '"'}
    data = file_of(
        [["a", -1.0], ["b c", -1.0]], normalizer=normalizer, cuts=[metaspace("first", split=True)]
    )
    data["model"] |= {"unk_id": None, "alpha": 0.1}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(data))
    notes = "\n".join(huggingface.read(path).notes)
    assert "1 piece empty or with a space" in notes
    assert "sampling of the file is not imported" in notes
    assert "Unknown characters raise an error there" in notes
    assert "no '▁' is put before the line" in notes


def test_an_export_has_the_ids_of_unused_and_special_tokens(tmp_path):
    """Unused ids get texts that are never found, and special tokens without scores keep their ids."""
    vocabulary = Vocabulary(
        merges=(),
        tokens=("▁a", "▁"),
        scores=(-1.0, -2.0),
        marker="none",
        pretokenizer="metaspace",
        special=SpecialTokens(user=("<m>",)),
        order=("<unk>", "▁a", "", "▁", "<s>", "</s>", "<pad>", "<m>"),
    )
    path = tmp_path / "tokenizer.json"
    huggingface.write(vocabulary, path)
    library = tokenizers.Tokenizer.from_file(str(path))
    assert {token: library.token_to_id(token) for token in vocabulary.ids} == vocabulary.ids
    assert differences(vocabulary, path, ["a<m> a", "a b"]) == []
