"""Systems: each splits words as its own library does, and VOLT's counts are exact."""

import shutil

import numpy as np
import pytest
from comparison.inflected import ENDS, STEMS

from volt.choose.search import search
from volt.choose.vocabulary_at import vocabulary_at
from volt.comparison.libraries import read_file
from volt.comparison.library_training import train
from volt.comparison.systems import (
    Spec,
    file_system,
    joined_system,
    parse_spec,
    system_at,
    trained_system,
    vocabulary_system,
    volt_systems,
)
from volt.comparison.time_and_memory import Cost
from volt.count.word_counts import WordCounts
from volt.encode.encoder import Encoder
from volt.errors import ConfigError, VocabularyError
from volt.learn.bpe import learn_bpe
from volt.vocabulary import Vocabulary

FREE = Cost(0.0, None)
FACTS = {"family": "file", "cost": FREE, "cost_note": ""}
COUNTS = WordCounts.from_pairs(
    {
        stem + end: 1 + 7 * i % 23 + 2 * j
        for i, stem in enumerate(STEMS)
        for j, end in enumerate(ENDS[:4])
    }
)
TEXTS = ["walked longer", "xylophone jumps", "strongest ёж sings", "a"]


@pytest.fixture(scope="module")
def result():
    """Return a search on inflected words."""
    return search(learn_bpe(COUNTS, 200), sizes=range(30, 91, 10))


@pytest.fixture
def trained(monkeypatch, tmp_path):
    """Return the folder with the library's file of the latest training.

    Training again may break ties differently.
    """

    def train_and_copy(kind, size, *, counts, folder):
        cost = train(kind, size, counts=counts, folder=folder)
        shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
        return cost

    monkeypatch.setattr("volt.comparison.systems.train", train_and_copy)
    return tmp_path


def whole(counts, n_merges):
    """Return the vocabulary of all merges."""
    candidates = learn_bpe(counts, n_merges)
    return vocabulary_at(candidates, candidates.n_tokens)


def token_counts(system):
    """Count the tokens of the words as the system splits them."""
    cuts = system.cut(COUNTS.words, "en")
    return cuts.token_counts(COUNTS.counts, len(system.tokens)).tolist()


def counts_of(vocabulary):
    """Return the counts of all tokens; scaffolding has 0."""
    return [*vocabulary.counts, *[0] * len(vocabulary.scaffolding)]


@pytest.mark.parametrize("size", [25, 40, 77])
def test_pieces_have_the_counts_of_the_candidates(result, size):
    """The pieces of all words by `system_at` have the counts of the candidates, token by token."""
    system = system_at(result.candidates, size, name="bpe", **FACTS)
    assert list(system.tokens) == result.candidates.tokens_at(size)
    assert token_counts(system) == result.candidates.counts_at(size).tolist()


def test_every_rule_has_the_vocabulary_of_its_own_search(result):
    """`volt_systems` gives each rule the tokens and counts of a search that selects by the rule."""
    for system in volt_systems(result, cost=FREE):
        alone = search(result.candidates, sizes=range(30, 91, 10), select=system.rule)
        vocabulary = alone.vocabulary
        assert system.name == f"volt {system.rule}"
        assert system.tokens == vocabulary.tokens + vocabulary.scaffolding
        assert token_counts(system) == counts_of(vocabulary)
        assert system.n_scaffolding == len(vocabulary.scaffolding)
        assert system.step_muv == alone.best.muv
        assert (system.why, system.on_edge) == (alone.pick.why, alone.pick.on_edge)


@pytest.mark.parametrize("kind", ["spm-bpe", "spm-unigram"])
def test_sentencepiece_splits_words_as_in_lines(kind, trained):
    """sentencepiece's pieces of a line are the pieces of its words, so measuring distinct words is
    exact."""
    sentencepiece = pytest.importorskip("sentencepiece")
    system = trained_system(kind, 60, counts=COUNTS)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(trained / "trained.model"))
    for line in TEXTS:
        expected = [number - 1 for number in processor.encode(line)]
        assert system.cut(line.split(), "en").ids.tolist() == expected
    pieces = [processor.id_to_piece(number + 1) for number in range(system.size)]
    assert tuple(pieces) == system.tokens
    assert -1 in system.cut(["ёж"], "en").ids
    assert (system.cut(COUNTS.words, "en").ids >= 0).all()


def test_wordpiece_splits_words_as_in_lines(trained):
    """WordPiece's pieces of a line are the pieces of its words, and an unknown word is one unknown
    piece."""
    tokenizers = pytest.importorskip("tokenizers")
    system = trained_system("wordpiece", 80, counts=COUNTS)
    tokenizer = tokenizers.Tokenizer.from_file(str(trained / "trained.json"))
    for line in TEXTS:
        expected = [number - 1 for number in tokenizer.encode(line).ids]
        assert system.cut(line.split(), "en").ids.tolist() == expected
    assert system.cut(["ёж"], "en").ids.tolist() == [-1]
    assert system.size == len(system.tokens) == tokenizer.get_vocab_size() - 1
    assert system.lengths.tolist() == [len(token.removeprefix("##")) for token in system.tokens]


def test_libraries_refuse_words_that_are_not_from_a_text():
    """`trained_system` refuses words that were normalised, or not split at white space."""
    for settings in ({"pretokenizer": "gpt2"}, {"normalizer": "lowercase"}):
        with pytest.raises(VocabularyError, match="white space"):
            trained_system("spm-bpe", 60, counts=WordCounts.from_pairs({"a": 1}, **settings))


def test_a_vocabulary_file_splits_as_its_encoder(result, tmp_path):
    """A saved vocabulary is the same system as the vocabulary of the search."""
    path = tmp_path / "v.volt"
    result.vocabulary.save(path)
    system = file_system(read_file(str(path)), counts=COUNTS)
    assert (system.family, system.size) == ("file", result.vocabulary.size)
    assert token_counts(system) == counts_of(result.vocabulary)


@pytest.mark.parametrize("pretokenizer", ["bytes", "metaspace", "gpt2"])
def test_a_file_with_another_pretokenizer_splits_words_as_lines(pretokenizer):
    """A vocabulary with another pre-tokenizer splits each word as after a space in a line."""
    front = "Ġ" if pretokenizer == "bytes" else "▁"
    words = WordCounts.from_pairs({f"{front}walk": 5, "s": 1}, pretokenizer=pretokenizer)
    vocabulary = whole(words, 5)
    system = vocabulary_system("v", vocabulary, counts=COUNTS, **FACTS)
    encoder = Encoder(vocabulary)
    n_first = len(encoder.encode("s"))
    for word in ("walk", "walks"):
        pieces = encoder.encode(f"s {word}")[n_first:]
        numbers = [system.tokens.index(piece) if piece in system.tokens else -1 for piece in pieces]
        assert system.cut([word], "en").ids.tolist() == numbers
    other = WordCounts.from_pairs({"▁walk": 1}, pretokenizer="unicode")
    with pytest.raises(VocabularyError, match="count it by white space"):
        vocabulary_system("v", vocabulary, counts=other, **FACTS)


def test_byte_tokens_are_known_types():
    """With byte fallback, no piece of a system is unknown, and its size does not count byte tokens."""
    vocabulary = Vocabulary(merges=(), tokens=("a", "a</w>"), byte_fallback=True)
    system = vocabulary_system("v", vocabulary, **FACTS)
    assert (system.cut(["ёa"], "en").ids >= 0).all()
    assert system.size == 2
    assert len(system.tokens) == 2 + 256 + 1
    assert system.lengths[system.tokens.index("<0x41>")] == 1


def test_joined_vocabularies_share_nothing():
    """`joined_system` splits each source by its own vocabulary; equal strings of two sources are
    two types."""
    en = vocabulary_system("en", whole(COUNTS, 5), **FACTS)
    de = vocabulary_system("de", whole(COUNTS, 9), **FACTS)
    joined = joined_system("both", {"en": en, "de": de}, **FACTS)
    assert joined.size == len(joined.tokens) == en.size + de.size
    assert joined.cut(["walked"], "en").ids.tolist() == en.cut(["walked"], "en").ids.tolist()
    own = de.cut(["walkedё"], "de").ids
    shifted = np.where(own < 0, -1, own + len(en.tokens))
    assert joined.cut(["walkedё"], "de").ids.tolist() == shifted.tolist()
    assert joined.can_cut("en")
    assert not joined.can_cut("fr")


def test_specs_are_parsed_or_refused(tmp_path):
    """`parse_spec` parses names with and without a size, and files; otherwise, the error proposes a
    name."""
    path = tmp_path / "v"
    path.write_text("")
    assert parse_spec("spm-bpe") == Spec("spm-bpe")
    assert parse_spec("spm-bpe").with_size(9).text == "spm-bpe:9"
    assert parse_spec("muv-search").with_size(9) == Spec("muv-search")
    assert parse_spec(str(path)).text == str(path)
    for wrong in ("bpe", "bpe:0", "bpe:x", "wordpeice:3", "muv-search:8", "nowhere.volt", ""):
        with pytest.raises(ConfigError, match="system"):
            parse_spec(wrong)
    with pytest.raises(ConfigError, match="the size is 0; give 1 or more"):
        parse_spec("bpe:0")
