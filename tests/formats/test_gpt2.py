"""Laws of GPT-2's merges.txt: VOLT encodes as `tokenizers` does, tells it from subword-nmt's codes,
or refuses it.
"""

import json
from itertools import product

import pytest
from support.exports import LINES, learn

from volt.encode.encoder import Encoder
from volt.errors import CandidateError, VocabularyError
from volt.formats import check, huggingface, read_merges
from volt.formats.registry import read_vocabulary
from volt.text.byte_alphabet import ALPHABET
from volt.vocabulary.add_special_tokens import FINDS_OTHERS

ODD = [
    *LINES[:4],
    "emoji 😀👍🏽 \t tab\r\n 123 4567 \0 ▁ \U0010ffff \ue000 \xa0x \x85 \u0378 <0x0A> Ġ </w>",
    "a  b   c\n\n d",
    "'LL I'll we've \u2003x",
    "",
    "   ",
]
HEAD = "#version: 0.2\n"
LONG = "#version: 0.2 - Trained by `huggingface/tokenizers`\n"


def write(folder, **files):
    """Write JSON files and a merges.txt with one merge of bytes, and return the folder. files: name
    → data
    """
    (folder / "merges.txt").write_text(HEAD + "Ġ t\n", encoding="utf-8")
    for name, data in files.items():
        (folder / f"{name}.json").write_text(json.dumps(data), encoding="utf-8")
    return folder


def vocab_of(*others):
    return {token: number for number, token in enumerate([*ALPHABET, "Ġt", *others])}


@pytest.mark.parametrize("name", ["ByteLevelBPETokenizer", "CharBPETokenizer"])
def test_a_long_header_is_read_as_the_short_one(name, tmp_path):
    """A signature of `tokenizers` after the version in line 1 does not change the vocabulary or the
    library's pieces.
    """
    tokenizers = pytest.importorskip("tokenizers")
    real = getattr(tokenizers, name)()
    lines = [line.replace("\0", "") for line in LINES]
    real.train_from_iterator(lines, vocab_size=400, show_progress=False)
    real.save_model(str(tmp_path))
    path = tmp_path / "merges.txt"
    rows = path.read_text(encoding="utf-8").partition("\n")[2]
    path.write_text(HEAD + rows, encoding="utf-8")
    expected = read_vocabulary(path)
    path.write_text(LONG + rows, encoding="utf-8")
    assert read_vocabulary(path) == expected
    assert read_merges(path).pairs == list(expected.merges)
    lines = ["the lower newest", "low lows"]
    assert check.check(expected, path, "subword-nmt", lines).is_complete


@pytest.mark.parametrize("lines", [LINES, ["我们在这里", "这里我们", "在这里"] * 9])
def test_files_of_the_library_encode_alike(lines, tmp_path):
    """VOLT encodes with a merges.txt and a vocab.json as `tokenizers` does. Without vocab.json,
    merges and tokens are equal, and ids are in GPT-2's order.
    """
    tokenizers = pytest.importorskip("tokenizers")
    real = tokenizers.ByteLevelBPETokenizer()
    real.train_from_iterator(lines, vocab_size=450, show_progress=False, special_tokens=["<mask>"])
    real.save_model(str(tmp_path))
    path = tmp_path / "merges.txt"
    vocabulary = read_vocabulary(path)
    encoder = Encoder(vocabulary)
    for text in (*ODD, *lines):
        theirs = real.encode(text)
        assert encoder.encode(text) == theirs.tokens
        assert encoder.encode_ids(text).tolist() == theirs.ids
    assert vocabulary.ids == real.get_vocab()
    notes = " ".join(vocabulary.notes)
    assert "no pattern" in notes
    assert "'<mask>'" in notes
    (tmp_path / "vocab.json").unlink()
    alone = read_vocabulary(path)
    assert (alone.merges, alone.tokens) == (vocabulary.merges, vocabulary.tokens)
    assert alone.special.all == ()
    merges = read_merges(path)
    assert (merges.spells_bytes, merges.marker) == (True, "none")
    assert tuple(merges.pairs) == vocabulary.merges


@pytest.mark.parametrize(
    ("rows", "is_bytes", "is_assumed"),
    [
        ("Ġ t\n", True, False),
        ("ä ½\nä½ ł\n", True, False),
        ("t h\nth e</w>\nw ą</w>\n", False, False),
        ("Ġ a</w>\nħ a</w>\nż a\n", False, False),
        ("l é\nlé v\n", False, True),
        ("w ą\n", False, True),
        ("т о\n", False, False),
        ("t h\n", False, True),
    ],
)
def test_letters_tell_bytes_from_characters(rows, is_bytes, is_assumed, tmp_path):
    """Merges are over bytes if one contains "Ġ" or if they spell characters of several bytes; not
    if words end in </w> or letters are foreign. In doubtful cases, a note says what VOLT assumes.
    """
    (tmp_path / "codes").write_text(HEAD + rows, encoding="utf-8")
    merges = read_merges(tmp_path / "codes")
    vocabulary = read_vocabulary(tmp_path / "codes")
    assert merges.spells_bytes == vocabulary.pretokenizer.is_bytes == is_bytes
    assert bool(merges.notes) == is_assumed
    assert is_bytes or vocabulary.notes == merges.notes


@pytest.mark.parametrize(
    ("rows", "vocab", "message"),
    [
        ("▁ t\n▁t h\n", None, "merges.txt: its merges mark words by '▁'.*tokenizer.json"),
        (
            "t h\nth e</w>\nÃ ©</w>\n",
            None,
            "merges.txt: its merges spell bytes.*CLIP.*tokenizer.json",
        ),
        (
            "Ġ t\n( l\n",
            None,
            r"merges.txt: GPT-2.s pattern, .*cuts 1 of its 258 tokens, such as .\(l.",
        ),
        ("Ġ t\n", '{"Ġ": 0}', "vocab.json: no id for 'Ā'"),
        ("Ġ t\n", "[1]", "vocab.json:1: not an object of tokens"),
        ("Ġ t\n", "{\n", "vocab.json:2: damaged or cut short"),
        ("Ġ th\n", None, "merges.txt:2: "),
    ],
)
def test_other_files_are_refused(rows, vocab, message, tmp_path):
    """A merges.txt whose words are marked in another way or cut by another pattern, and a
    vocab.json that does not fit, are refused. The error names the file.
    """
    (tmp_path / "merges.txt").write_text(HEAD + rows, encoding="utf-8")
    if vocab is not None:
        (tmp_path / "vocab.json").write_text(vocab, encoding="utf-8")
    with pytest.raises((VocabularyError, CandidateError), match=message):
        read_vocabulary(tmp_path / "merges.txt")


def test_a_folder_has_the_ids_of_its_files(tmp_path):
    """A folder with merges.txt keeps the ids of vocab.json and added_tokens.json. Added tokens and
    tokens that configurations name are found in text, as in the library.
    """
    pytest.importorskip("tokenizers")
    learned = learn(LINES, "none", "bytes")
    pieces = ["<s>", *learned.tokens, "<|end|>"]
    files = {
        "vocab": {piece: number for number, piece in enumerate(pieces)},
        "added_tokens": {"<mask>": len(pieces)},
        "special_tokens_map": {"eos_token": "<|end|>"},
    }
    write(tmp_path, **files)
    rows = "\n".join(map(" ".join, learned.merges))
    (tmp_path / "merges.txt").write_text(f"{HEAD}{rows}\n", encoding="utf-8")
    vocabulary = huggingface.read(tmp_path)
    assert vocabulary.pieces == (*pieces, "<mask>")
    assert (vocabulary.special.eos, vocabulary.special.control) == ("<|end|>", ("<s>",))
    lines = [*LINES, "a<mask> b <|end|>", " <mask>"]
    assert check.check(vocabulary, tmp_path, "huggingface", lines).n_equal_ids == len(lines)


ID_0 = {
    "vocab": {},
    "added_tokens": {"<mask>": 0},
    "tokenizer_config": {"added_tokens_decoder": {"0": {"content": "<mask>"}}},
}


@pytest.mark.parametrize("name", ID_0)
def test_a_special_token_may_have_the_id_0(name, tmp_path):
    """vocab.json, added_tokens.json or tokenizer_config.json can give a special token the id 0."""
    pieces = ["<mask>" if name == "vocab" else "", *ALPHABET, "Ġt"]
    files = {name: ID_0[name], "vocab": {piece: n for n, piece in enumerate(pieces) if piece}}
    assert huggingface.read(write(tmp_path, **files)).pieces == ("<mask>", *pieces[1:])


USUAL = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
NAMES = {"bos": "<s>", "eos": "</s>", "sep": "</s>", "cls": "<s>", "unk": "<unk>", "pad": "<pad>"}
NAMED = {f"{role}_token": token for role, token in NAMES.items()}
NAMED["mask_token"] = USUAL | {"__type": "AddedToken", "content": "<mask>", "lstrip": True}
ROBERTA = {"tokenizer_class": "RobertaTokenizer"}


@pytest.mark.parametrize(
    "files",
    [
        {"special_tokens_map": NAMED, "tokenizer_config": ROBERTA},
        {"tokenizer_config": NAMED | ROBERTA | {"add_prefix_space": False}},
        {"tokenizer_config": {"tokenizer_class": "RobertaTokenizerFast"}},
        {"config": {"model_type": "roberta"}},
        {"tokenizer_config": NAMED | ROBERTA | {"extra_special_tokens": ["<x>"]}},
    ],
)
def test_a_folder_of_roberta_encodes_as_in_transformers(files, tmp_path):
    """If a folder's files or its class RobertaTokenizer name special tokens, VOLT finds them in
    text with the white space that they take, and skips them in decoding, as transformers does.
    """
    tokenizers = pytest.importorskip("tokenizers")
    roberta = pytest.importorskip("transformers").RobertaTokenizer
    real = tokenizers.ByteLevelBPETokenizer()
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<x>"]
    real.train_from_iterator(LINES, vocab_size=300, show_progress=False, special_tokens=tokens)
    real.save_model(str(tmp_path))
    for name, data in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
    vocabulary = read_vocabulary(tmp_path)
    theirs = roberta.from_pretrained(str(tmp_path))
    ours = Encoder(vocabulary)
    texts = list(map("".join, product(("", "low", "<s> \n "), tokens, ("", "er", " <pad>"))))
    rows = [theirs.encode(text, add_special_tokens=False) for text in texts]
    assert [ours.encode_ids(text).tolist() for text in texts] == rows
    assert vocabulary.special.roles == {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>"}
    has_mask = "mask" in str(files)
    assert vocabulary.special.lstrip == (("<mask>",) if has_mask else ())
    expected = theirs.batch_decode(rows, skip_special_tokens=True)
    assert ours.decode_batch(rows, skip_special=True) == expected


@pytest.mark.parametrize("is_listed", [True, False])
def test_listed_flags_override_the_flags_of_roles(is_listed, tmp_path):
    """If added_tokens_decoder and a role have different flags for a token, the flags of
    added_tokens_decoder count, as in transformers.
    """
    gpt2 = pytest.importorskip("transformers").GPT2Tokenizer
    vocab = vocab_of("<end>")
    token = USUAL | {"content": "<end>"}
    listed = {"257": token | {"special": True, "rstrip": is_listed}}
    role = token | {"rstrip": not is_listed}
    write(
        tmp_path,
        vocab=vocab,
        tokenizer_config={"tokenizer_class": "GPT2Tokenizer", "added_tokens_decoder": listed},
        special_tokens_map=dict.fromkeys(("bos_token", "eos_token", "unk_token"), role),
    )
    ours = Encoder(read_vocabulary(tmp_path))
    theirs = gpt2.from_pretrained(str(tmp_path))
    ids = theirs.encode("t <end> t")
    assert (ids == [*map(vocab.get, ["t", "Ġ", "<end>", "t"])]) == is_listed
    assert ours.encode_ids("t <end> t").tolist() == ids
    assert ours.decode_ids(ids, skip_special=True) == theirs.decode(ids, skip_special_tokens=True)


def test_special_tokens_that_no_file_names_have_a_note(tmp_path):
    """A special token in vocab.json that no other file names has a note until the caller names it.
    A name without an id has a note. add_prefix_space is refused.
    """
    write(tmp_path, vocab=vocab_of("<s>"))
    assert FINDS_OTHERS in read_vocabulary(tmp_path).notes
    assert FINDS_OTHERS not in read_vocabulary(tmp_path, special=["<s>"]).notes
    write(tmp_path, tokenizer_config={"sep_token": "[SEP]"})
    assert "[SEP] without an id" in " ".join(read_vocabulary(tmp_path).notes)
    write(tmp_path, tokenizer_config={"add_prefix_space": True})
    with pytest.raises(VocabularyError, match=r"tokenizer_config\.json: add_prefix_space"):
        read_vocabulary(tmp_path)


def test_the_end_of_gpt2s_files_has_a_note(tmp_path):
    """If vocab.json contains <|endoftext|>, a note says how to find it in text, as transformers
    does. Naming the token removes the note, and VOLT then finds it.
    """
    end = "<|endoftext|>"
    write(tmp_path, vocab=vocab_of(end))
    path = tmp_path / "merges.txt"
    assert any(
        f"transformers finds GPT-2's '{end}' in text" in note
        for note in read_vocabulary(path).notes
    )
    vocabulary = read_vocabulary(path, special=[end])
    assert not any("endoftext" in note for note in vocabulary.notes)
    pytest.importorskip("tokenizers")
    assert check.check(vocabulary, path, "subword-nmt", [f"a t{end} t"]).n_equal_ids == 1
    assert vocabulary.ids[end] in Encoder(vocabulary).encode_ids(f"a t{end} t")
