"""Vocabulary files that VOLT cannot read: their own library splits words as in whole lines."""

import base64
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from volt.comparison.compare import compare
from volt.comparison.libraries import Library, load, read_file
from volt.comparison.systems import Spec, file_system, parse_spec
from volt.comparison.texts import NamedText
from volt.count.word_counts import WordCounts
from volt.errors import MissingLibraryError, VocabularyError
from volt.formats.check import plain_file
from volt.formats.registry import read_vocabulary
from volt.vocabulary import Vocabulary

pytestmark = pytest.mark.filterwarnings(
    "ignore::volt.errors.VoltWarning"
)  # see tests/formats/test_registry.py
STEMS = ("walk", "talk", "jump", "sing", "ring", "long", "bold")
WORDS = [stem + end for stem in STEMS for end in ("", "s", "ed", "er")]
LINES = [" ".join(random.Random(seed).choices(WORDS, k=8)) for seed in range(60)]
COUNTS = WordCounts.from_pairs(dict.fromkeys(WORDS, 3))
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
Ids = Callable[[str], list[int]]


def unigram_model(folder):
    """Return a sentencepiece unigram model with control, user and byte tokens, and its encoder."""
    sentencepiece = pytest.importorskip("sentencepiece")
    (folder / "lines").write_text("\n".join(LINES), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.Train(
        input=str(folder / "lines"),
        model_prefix=str(folder / "uni"),
        model_type="unigram",
        vocab_size=310,
        byte_fallback=True,
        hard_vocab_limit=False,
        control_symbols=["<c>"],
        user_defined_symbols=["<u>"],
        minloglevel=3,
    )
    path = folder / "uni.model"
    return path, sentencepiece.SentencePieceProcessor(model_file=str(path)).encode


def tokenizer_file(folder, kind):
    """Return a tokenizer.json that is not BPE, truncates and adds special tokens, and its encoder."""
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers import models, pre_tokenizers, processors, trainers

    options = {"special_tokens": SPECIAL, "show_progress": False, "vocab_size": 70}
    if kind == "WordPiece":
        tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(**options)
    else:
        tokenizer = tokenizers.Tokenizer(models.Unigram())
        tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()  # which VOLT cannot read
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=kind)
        trainer = trainers.UnigramTrainer(unk_token="[UNK]", **options)
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", 2)]
    )
    tokenizer.enable_truncation(3)
    tokenizer.save(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    return (
        folder / "tokenizer.json",
        lambda line: tokenizer.encode(line, add_special_tokens=False).ids,
    )


def pieces(library, words):
    """Return the pieces of words, with "?" for unknown ones."""
    return [library.tokens[number] if number >= 0 else "?" for number in library.cut(words).ids]


@pytest.mark.parametrize("kind", ["sentencepiece", "WordPiece", "always", "first", "never"])
def test_words_are_cut_as_in_lines(kind, tmp_path):
    """A library's pieces of a line are the pieces of its words, without truncation and added
    tokens; special and unknown tokens are not types. VOLT splits words of models that it can read
    as the library does."""
    if kind == "sentencepiece":
        path, ids = unigram_model(tmp_path)
    else:
        path, ids = tokenizer_file(tmp_path, kind)
    file = read_file(str(path))
    library = load(path)
    assert isinstance(library, Library)
    if isinstance(file.model, Library):
        problem = f"{path}: {library.name} splits words by this file, because VOLT cannot: "
        assert kind != "sentencepiece"
        assert file.problem.startswith(problem)
    else:
        own = file_system(file, counts=COUNTS)
        for words in map(str.split, LINES[:20]):
            own_cuts = own.cut(words, "")
            library_cuts = library.cut(words)
            assert own_cuts.word_ends.tolist() == library_cuts.word_ends.tolist()
            pieces = [own.tokens[number] for number in own_cuts.ids.tolist()]
            assert pieces == [library.tokens[number] for number in library_cuts.ids.tolist()]
    numbers = {}
    n_first = len(ids("x"))
    for line in LINES[:20]:
        pieces = library.cut(line.split()).ids.tolist()
        for piece, number in zip(pieces, ids(f"x {line}")[n_first:], strict=True):
            assert numbers.setdefault(number, piece) == piece
    assert len(set(numbers.values())) == len(numbers) > 5
    assert not {*SPECIAL, "<unk>", "<s>", "</s>", "<c>"} & set(library.tokens)
    n_bytes = 256 if kind == "sentencepiece" else 0
    assert library.size == len(library.tokens) - n_bytes


def test_lengths_count_characters(tmp_path):
    """The lengths of a library's tokens do not count markers; a byte token has length 1."""
    unigram = load(unigram_model(tmp_path)[0])
    lengths = dict(zip(unigram.tokens, unigram.lengths.tolist(), strict=True))
    expected = {"<0x41>": 1, "▁walk": 4, "▁": 1, "<u>": 3}
    assert {token: lengths[token] for token in expected} == expected
    assert pieces(unigram, ["é"])[-2:] == ["<0xC3>", "<0xA9>"]
    wordpiece = load(tokenizer_file(tmp_path, "WordPiece")[0].parent)
    assert wordpiece.lengths[wordpiece.tokens.index("##ed")] == 2
    assert pieces(wordpiece, ["walké"]) == ["?"]


def test_an_unreadable_file_ends_a_comparison(tmp_path, monkeypatch):
    """`compare` raises an error that names a damaged or unknown file, or the missing library,
    before it reads a text."""
    uni_path, _ = unigram_model(tmp_path)
    path, _ = tokenizer_file(tmp_path, "WordPiece")
    for name, data in (
        ("cut.model", uni_path.read_bytes()[:5000]),
        ("x.json", b'{"model": {"type": "Unigram", "vocab": 3}}'),
        ("x.volt", b'{"volt"'),
        ("x.html", b"<!doctype html>\n"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(VocabularyError, match=name):
            compare("no such text", systems=str(tmp_path / name))
    comparison = compare(NamedText("en", COUNTS), systems=str(path))
    assert comparison.systems[-1].why == f"{path}, cut by {load(path).name}"
    assert [text for text in comparison.problems if text.startswith(f"{path}: tokenizers")]
    for package in ("sentencepiece", "tokenizers"):
        monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(MissingLibraryError, match="pip install"):
        compare("no such text", systems=str(path))


@pytest.mark.parametrize("number", [0, 2])
def test_an_unknown_token_is_not_a_type(number, tmp_path):
    """The unknown token of a unigram model is not a type, whatever its id, even if it is not a
    special token."""
    tokenizers = pytest.importorskip("tokenizers")
    tokens = ["a", "b", "c"]
    rows = [(token, -1.0) for token in (*tokens[:number], "<unk>", *tokens[number:])]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram(rows, unk_id=number))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    library = load(tmp_path)
    assert library is not None
    assert (library.tokens, library.size) == (tuple(tokens), 3)
    assert pieces(library, ["cab", "axb"]) == ["c", "a", "b", "a", "?", "b"]


@pytest.mark.skipif(
    not Path("/proc/self/mem").exists(), reason="this system has no file that fails at its start"
)
def test_a_failing_read_is_a_vocabulary_error():
    """If a vocabulary file cannot be read, the VocabularyError names it."""
    for read in (read_file, read_vocabulary, lambda path: plain_file(path).__enter__()):
        with pytest.raises(VocabularyError, match="/proc/self/mem: cannot be read"):
            read("/proc/self/mem")
    assert load("/proc/self/mem") is None


def test_a_file_without_a_pattern_takes_one_from_its_name(tmp_path):
    """The system FILE:PATTERN is the file with that split pattern; the error for FILE alone says
    how to write it."""
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [b"wa", b"lk", b"!!\n", b" wa", b"s\n", b"?\n"]
    path = tmp_path / "ranks"
    with path.open("wb") as file:
        for rank, token in enumerate(tokens):
            file.write(b"%s %d\n" % (base64.b64encode(token), rank))
    with pytest.raises(VocabularyError, match=f"publisher names with {path}:NAME or REGEX"):
        read_file(str(path))
    spec = parse_spec(f"{path}:cl100k")
    assert (spec, spec.text) == (Spec("file", path=str(path), pattern="cl100k"), f"{path}:cl100k")
    file = read_file(str(path), pattern=spec.pattern)
    assert isinstance(file.model, Vocabulary)
    assert file.model == read_vocabulary(path, pattern="cl100k")
    assert file_system(file, counts=COUNTS).size == len(tokens)
    assert parse_spec(str(path)) == Spec("file", path=str(path))
