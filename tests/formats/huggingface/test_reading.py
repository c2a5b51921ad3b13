"""Laws of reading tokenizer.json: files of `tokenizers` encode alike, and damaged files are
refused.
"""

import json
from functools import cache

import pytest
from formats.support import NO_FLAGS, WHITE, level, metaspace, split, tokenizer_json
from support.exports import LINES, assert_agree, learn

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats import huggingface
from volt.vocabulary import Vocabulary

pytest.importorskip("tokenizers")

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@cache
def trained(kind):
    """Return the tokenizer.json that `tokenizers` trains, with an added token, and an unknown token
    except for bytes.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    cuts = {
        "bytes": pre_tokenizers.ByteLevel(add_prefix_space=False),
        "suffix": pre_tokenizers.WhitespaceSplit(),
        "whitespace": pre_tokenizers.WhitespaceSplit(),
        "bert": pre_tokenizers.BertPreTokenizer(),
        "words": pre_tokenizers.Whitespace(),
        "metaspace": pre_tokenizers.Metaspace(prepend_scheme="always"),
        "never": pre_tokenizers.Metaspace(prepend_scheme="never"),
        "split": pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(r" ?\p{L}+|\p{N}{1,2}|\s+(?!\S)|\s"), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        ),
    }
    is_bytes = kind in ("bytes", "split")
    suffix = {"end_of_word_suffix": "</w>"} if kind == "suffix" else {}
    real = Tokenizer(models.BPE(unk_token=None if is_bytes else "<unk>", **suffix))
    real.pre_tokenizer = cuts[kind]
    if kind == "suffix":
        real.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<mask>", "é!"] if is_bytes else ["<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if is_bytes else [],
        show_progress=False,
        **suffix,
    )
    real.train_from_iterator(LINES, trainer)
    if is_bytes:
        real.decoder = decoders.ByteLevel()
    return real.to_str()


def written(path, kind, **sections):
    """Write a trained file, in which sections or settings of the model are replaced, and return its
    path.
    """
    data = json.loads(trained(kind))
    for key, value in sections.items():
        section = data if key in data else data["model"]
        section[key] = value
    path.write_text(json.dumps(data))
    return path


PRIVATE = ["\U0010f000", "a \U0010f001<mask>\U0010f000 b", "\U0010fffdé!\U0010fffd<mask>\U00100000"]


@pytest.mark.parametrize(
    "kind", ["bytes", "split", "suffix", "metaspace", "never", "bert", "words", "whitespace"]
)
def test_trained_files_encode_alike(kind, tmp_path):
    """VOLT's pieces and ids with a file that `tokenizers` trained are the library's, also if the
    file has the older spelling of merges.
    """
    path = written(tmp_path / "tokenizer.json", kind)
    pairs = json.loads(trained(kind))["model"]["merges"]
    old = written(tmp_path / "old.json", kind, merges=[" ".join(pair) for pair in pairs])
    lines = ["other words: newlow wideest Größe 😀 Ж", "the <mask> is", "the", "a  <mask>b <mask>"]
    if kind in ("bytes", "split"):
        lines += PRIVATE
    peer = huggingface.peer(path, huggingface.read(path))
    for place in (tmp_path, old):
        assert_agree(Encoder(huggingface.read(place)), peer, [*LINES, *lines])


@pytest.mark.parametrize("pattern", [GPT2, r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+"])
def test_bytes_after_a_pattern_encode_alike(pattern, tmp_path):
    """Split and ByteLevel without its regex are read as "bytes" if the pattern is GPT-2's, and by
    the pattern otherwise; VOLT encodes as the library does.
    """
    cut = {"type": "Sequence", "pretokenizers": [split(pattern), level(use_regex=False)]}
    path = written(tmp_path / "a.json", "bytes", pre_tokenizer=cut)
    vocabulary = huggingface.read(path)
    assert (vocabulary.pretokenizer.name == "bytes") == (pattern == GPT2)
    assert_agree(Encoder(vocabulary), huggingface.peer(path, vocabulary), LINES)


def test_two_tokens_are_too_few_to_be_ours(tmp_path):
    """A file with two tokens is read as a file of another program."""
    path = tokenizer_json(tmp_path, ["<unk>", "<s>"], cuts=[WHITE], unk_token="<unk>")
    assert huggingface.read(path).tokens == ()


@cache
def own():
    vocabulary = learn(LINES, "suffix", "whitespace")
    return huggingface.writing.contents(vocabulary)[1]


SECTIONS = [
    ({"version": "9.0"}, "version is '9.0'"),
    ({"model": None}, "'model' is missing"),
    ({"normalizer": {"type": "NFD"}}, "normalizer NFD"),
    ({"added_tokens": [NO_FLAGS | {"content": "x\0y", "id": 999}]}, "unprintable"),
    ({"added_tokens": {"id": 999}}, "added_tokens is not a list"),
    ({"added_tokens": [{"id": 999}]}, "added_tokens, entry 1: 'content' is missing or not a str"),
    (
        {"added_tokens": [NO_FLAGS | {"content": "x", "id": 9, "special": 1}]},
        "added_tokens, entry 1: 'special' is missing or not a bool",
    ),
    ({"added_tokens": [NO_FLAGS | {"content": "the</w>", "id": 1}]}, "not its id in model.vocab"),
    ({"pre_tokenizer": {"type": ["Metaspace"]}}, "instead of an object with a type"),
    ({"pre_tokenizer": metaspace("never", cuts=0)}, "Metaspace: split is 0 instead of true or"),
]
MODEL = [
    ({"type": "WordPiece"}, "type is WordPiece.*encode with tokenizers"),
    ({"type": "Unigram"}, "model.vocab is missing, empty or not a list"),
    ({"merges": [["no", "such"]]}, "'no' is not in"),
    ({"merges": ["a b c"]}, "not a pair of strings"),
    ({"byte_fallback": "no"}, "BPE: byte_fallback is no instead of true or false"),
    ({"merges": None}, "model.merges is missing"),
    ({"unk_token": ["<unk>"]}, r"unk_token is \['<unk>'\] instead of a token"),
    ({"continuing_subword_prefix": "##"}, "start with '##'"),
    ({"end_of_word_suffix": "@@"}, "end_of_word_suffix is '@@'"),
    (
        {"vocab": {"<0x41>": 0, "t": 1, "<0x41>t": 2}, "merges": [["<0x41>", "t"]]},
        r"merges, entry \d+: .*neither a character nor made by an earlier merge",
    ),
]


@pytest.mark.parametrize(
    ("sections", "message"),
    [*SECTIONS, *(({"model": own()["model"] | model}, message) for model, message in MODEL)],
)
def test_damage_is_refused(sections, message, tmp_path):
    """The error for an invalid section of tokenizer.json names the file and the fault."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(own() | {"added_tokens": []} | sections))
    with pytest.raises(VocabularyError, match=f"tokenizer.json: .*{message}"):
        huggingface.read(path)


def test_files_that_are_not_json_are_refused(tmp_path):
    """The error for a file that is cut at any place, misencoded, or has a key twice names file and
    line; a missing file cannot be read.
    """
    text = json.dumps(own(), indent=1)
    path = tmp_path / "tokenizer.json"
    damaged = {text[:size]: "damaged" for size in range(0, len(text) - 2, len(text) // 12)}
    damaged[text.replace('"l": ', '"o": ', 1)] = "'o' occurs twice"
    for data, message in damaged.items():
        path.write_text(data)
        with pytest.raises(VocabularyError, match=rf"tokenizer.json:\d+: .*{message}"):
            huggingface.read(path)
    path.write_bytes(text.encode("utf-16"))
    with pytest.raises(VocabularyError, match=r"tokenizer.json:1: not UTF-8"):
        huggingface.read(path)
    missing = tmp_path / "none.json"
    with pytest.raises(VocabularyError, match="cannot be read"):
        huggingface.read(missing)
    with pytest.raises(VocabularyError, match="cannot load"):
        huggingface.peer(missing, Vocabulary((), ("a",)))
