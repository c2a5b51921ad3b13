"""Laws of GPT-2's merges.txt: read as the library encodes, kept apart from subword-nmt's codes, else refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from exports import LINES

from volt.encode.encoder import Encoder
from volt.errors import CandidateError, VocabularyError
from volt.formats import read_merges, subword_nmt
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


@pytest.mark.parametrize("name", ["ByteLevelBPETokenizer", "CharBPETokenizer"])
def test_a_long_header_is_read_as_the_short_one(name: str, tmp_path: Path) -> None:
    """Older versions of tokenizers sign merges.txt: the signature changes nothing, in VOLT or beside subword-nmt."""
    tokenizers = pytest.importorskip("tokenizers")
    real = getattr(tokenizers, name)()
    real.train_from_iterator(
        [line.replace("\0", "") for line in LINES], vocab_size=400, show_progress=False
    )
    real.save_model(str(tmp_path))
    path = tmp_path / "merges.txt"
    rows = path.read_text(encoding="utf-8").partition("\n")[2]
    path.write_text(HEAD + rows, encoding="utf-8")
    expected = read_vocabulary(path)
    path.write_text(LONG + rows, encoding="utf-8")
    assert read_vocabulary(path) == expected
    assert read_merges(path).pairs == list(expected.merges)
    if name == "CharBPETokenizer":
        lines = ["the lower newest", "low lows"]
        assert subword_nmt.peer(path, expected).pieces(lines) == Encoder(expected).encode_lines(
            lines
        )


@pytest.mark.parametrize("lines", [LINES, ["我们在这里", "这里我们", "在这里"] * 9])
def test_what_the_library_saves_encodes_alike(lines: list[str], tmp_path: Path) -> None:
    """merges.txt of ByteLevelBPETokenizer.save_model, with vocab.json and without: the library's pieces and ids, in
    GPT-2's order where there is no vocab.json; what neither file tells is listed."""
    tokenizers = pytest.importorskip("tokenizers")
    real = tokenizers.ByteLevelBPETokenizer()
    real.train_from_iterator(lines, vocab_size=450, show_progress=False, special_tokens=["<mask>"])
    real.save_model(str(tmp_path))
    found = read_vocabulary(tmp_path / "merges.txt")
    texts = [*ODD, *lines]
    assert Encoder(found).encode_lines(texts) == [real.encode(text).tokens for text in texts]
    order = sorted(real.get_vocab(), key=real.get_vocab().__getitem__)
    assert list(found.pieces) == order
    assert [Encoder(found).encode_ids(text).tolist() for text in texts] == [
        real.encode(text).ids for text in texts
    ]
    message = " ".join(found.provenance["lost"])
    assert all(part in message for part in ("no pattern", "'<mask>'"))
    (tmp_path / "vocab.json").unlink()
    again = read_vocabulary(tmp_path / "merges.txt")
    assert (again.merges, again.tokens, again.special.all) == (found.merges, found.tokens, ())
    merges = read_merges(tmp_path / "merges.txt")
    assert (merges.spells_bytes, merges.marker, tuple(merges.pairs)) == (True, "none", found.merges)


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ("Ġ t\n", True),
        ("ä ½\nä½ ł\n", True),
        ("t h\nth e</w>\nw ą</w>\n", False),
        ("Ġ a</w>\nħ a</w>\nż a\n", False),
        ("l é\nlé v\n", False),
        ("w ą\n", False),
        ("т о\n", False),
        ("t h\n", False),
    ],
)
def test_letters_tell_bytes_from_characters(rows: str, kind: bool, tmp_path: Path) -> None:
    """Spaces as "Ġ" or characters in bytes are GPT-2's; words' ends, other letters or impossible bytes are not. Where
    nothing tells, the reader says what it assumes."""
    (tmp_path / "codes").write_text(HEAD + rows, encoding="utf-8")
    found, read = read_merges(tmp_path / "codes"), read_vocabulary(tmp_path / "codes")
    assert (found.spells_bytes, read.pretokenizer.is_bytes) == (kind, kind)
    assert bool(found.notes) == (rows in ("l é\nlé v\n", "w ą\n", "t h\n"))
    assert kind or read.provenance["lost"] == list(found.notes)


@pytest.mark.parametrize(
    ("rows", "vocabulary", "said"),
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
            r"merges.txt: GPT-2.s pattern, which VOLT assumes, cuts 1 of its 258 tokens, such as .\(l.",
        ),
        ("Ġ t\n", {"Ġ": 0}, "vocab.json: no id for 'Ā'"),
        ("Ġ t\n", "[1]", "vocab.json:1: not an object of tokens"),
        ("Ġ t\n", "{\n", "vocab.json:2: damaged or cut short"),
        ("Ġ th\n", None, "merges.txt:2: "),
    ],
)
def test_what_cannot_be_read_exactly_is_refused(
    rows: str, vocabulary: object, said: str, tmp_path: Path
) -> None:
    """Words marked in another way, another pattern, a vocab.json that does not fit: refused by file and place."""
    (tmp_path / "merges.txt").write_text(HEAD + rows, encoding="utf-8")
    if vocabulary is not None:
        text = vocabulary if isinstance(vocabulary, str) else json.dumps(vocabulary)
        (tmp_path / "vocab.json").write_text(text, encoding="utf-8")
    with pytest.raises((VocabularyError, CandidateError), match=said):
        read_vocabulary(tmp_path / "merges.txt")


NAMES = {
    "bos": "<s>",
    "eos": "</s>",
    "sep": "</s>",
    "cls": "<s>",
    "unk": "<unk>",
    "pad": "<pad>",
    "mask": "<mask>",
}
MASK = {
    "__type": "AddedToken",
    "content": "<mask>",
    "lstrip": True,
    "rstrip": False,
    "single_word": False,
    "normalized": False,
}
NAMED = {f"{role}_token": token for role, token in NAMES.items()} | {"mask_token": MASK}


@pytest.mark.parametrize(
    "declared",
    [
        {
            "special_tokens_map.json": NAMED,
            "tokenizer_config.json": {"tokenizer_class": "RobertaTokenizer"},
        },
        {
            "tokenizer_config.json": NAMED
            | {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": False}
        },
        {"tokenizer_config.json": {"tokenizer_class": "RobertaTokenizerFast"}},
        {"config.json": {"model_type": "roberta"}},
        {
            "tokenizer_config.json": NAMED
            | {"tokenizer_class": "RobertaTokenizer", "extra_special_tokens": ["<x>"]}
        },
    ],
)
def test_special_tokens_are_those_that_the_folder_declares(
    declared: dict[str, dict], tmp_path: Path
) -> None:
    """A folder of RoBERTa's: transformers finds the tokens that its files, or its class, name in text, with the white
    space before <mask>, and leaves out the special ones when it decodes; so does VOLT."""
    tokenizers = pytest.importorskip("tokenizers")
    roberta = pytest.importorskip("transformers").RobertaTokenizer
    real = tokenizers.ByteLevelBPETokenizer()
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<x>"]
    real.train_from_iterator(LINES, vocab_size=300, show_progress=False, special_tokens=tokens)
    real.save_model(str(tmp_path))
    for name, content in declared.items():
        (tmp_path / name).write_text(json.dumps(content))
    found, theirs = read_vocabulary(tmp_path), roberta.from_pretrained(str(tmp_path))
    texts = [
        left + token + right
        for left in ("", "low", "<s> \n ")
        for token in tokens
        for right in ("", "er", " <pad>")
    ]
    ours = Encoder(found)
    assert [ours.encode_ids(text).tolist() for text in texts] == [
        theirs.encode(text, add_special_tokens=False) for text in texts
    ]
    assert found.special.roles == {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>"}
    assert found.special.lstrip == ("<mask>",) * ("MASK" in str(declared).upper())
    rows = [theirs.encode(text) for text in texts]
    assert ours.decode_batch(rows, skip_special=True) == theirs.batch_decode(
        rows, skip_special_tokens=True
    )


@pytest.mark.parametrize("is_listed", [True, False])
def test_listed_flags_override_those_of_roles(is_listed: bool, tmp_path: Path) -> None:
    """As in transformers: `added_tokens_decoder` says which white space a token takes, whatever a role says."""
    gpt2 = pytest.importorskip("transformers").GPT2Tokenizer
    vocab = {token: number for number, token in enumerate([*ALPHABET, "Ġt", "<end>"])}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    (tmp_path / "merges.txt").write_text(HEAD + "Ġ t\n", encoding="utf-8")
    token = {
        "content": "<end>",
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "single_word": False,
    }
    listed = token | {"special": True, "rstrip": is_listed}
    names = {f"{role}_token": token | {"rstrip": not is_listed} for role in ("bos", "eos", "unk")}
    config = {"tokenizer_class": "GPT2Tokenizer", "added_tokens_decoder": {"257": listed}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(names))
    ours, theirs = Encoder(read_vocabulary(tmp_path)), gpt2.from_pretrained(str(tmp_path))
    ids = theirs.encode("t <end> t")
    assert (ids == [*map(vocab.get, ["t", "Ġ", "<end>", "t"])]) == is_listed
    assert ours.encode_ids("t <end> t").tolist() == ids
    assert ours.decode_ids(ids, skip_special=True) == theirs.decode(ids, skip_special_tokens=True)


def test_what_a_folder_leaves_open_is_announced(tmp_path: Path) -> None:
    """Special tokens that no file names, or names without an id; a space before each text is refused."""
    vocab = {token: number for number, token in enumerate([*ALPHABET, "Ġt", "<s>"])}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    (tmp_path / "merges.txt").write_text(HEAD + "Ġ t\n", encoding="utf-8")
    found = read_vocabulary(tmp_path)
    assert FINDS_OTHERS in found.provenance["lost"]
    assert FINDS_OTHERS not in read_vocabulary(tmp_path, special=["<s>"]).provenance["lost"]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"sep_token": "[SEP]"}))
    assert "[SEP] without an id" in " ".join(read_vocabulary(tmp_path).provenance["lost"])
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": True}))
    with pytest.raises(VocabularyError, match=r"tokenizer_config\.json: add_prefix_space"):
        read_vocabulary(tmp_path)
