"""Laws of the systems: each splits words as its own library does, and VOLT's counts are exact."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

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
STEMS = (
    "walk",
    "talk",
    "stalk",
    "jump",
    "bump",
    "lump",
    "sing",
    "ring",
    "bring",
    "strong",
    "long",
    "cold",
    "bold",
)
ENDS = ("", "s", "ed", "er")
WORDS = {
    stem + end: 1 + 7 * i % 23 + 2 * j for i, stem in enumerate(STEMS) for j, end in enumerate(ENDS)
}
TEXTS = ["walked longer", "xylophone jumps", "strongest ёж sings", "a"]


@pytest.fixture(scope="module")
def counts():
    """Return the counts of a few inflected words."""
    return WordCounts.from_pairs(WORDS)


@pytest.fixture(scope="module")
def result(counts):
    """Return a search on them."""
    return search(learn_bpe(counts, 200), sizes=range(30, 91, 10))


@pytest.fixture
def trained(monkeypatch, tmp_path):
    """Return the folder with the library's file of the latest training, as training again may break
    ties differently.
    """

    def train_and_keep(kind, size, *, counts, folder):
        cost = train(kind, size, counts=counts, folder=folder)
        shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
        return cost

    monkeypatch.setattr("volt.comparison.systems.train", train_and_keep)
    return tmp_path


def whole(counts, n_merges):
    """Return the vocabulary of all merges."""
    candidates = learn_bpe(counts, n_merges)
    return vocabulary_at(candidates, candidates.n_tokens)


def _counts(vocabulary):
    """Return the counts of all tokens; scaffolding has 0."""
    return [*vocabulary.counts, *(0 for _ in vocabulary.scaffolding)]


def token_counts(system, counts):
    return system.cut(counts.words, "en").token_counts(counts.counts, len(system.tokens))


@pytest.mark.parametrize("size", [25, 40, 77])
def test_pieces_have_the_counts_of_the_candidates(result, counts, size):
    """Encoding every word gives the counts of the candidates, token by token."""
    system = system_at(result.candidates, size, name="bpe", family="bpe", cost=FREE, cost_note="")
    assert list(system.tokens) == result.candidates.tokens_at(size)
    assert token_counts(system, counts).tolist() == result.candidates.counts_at(size).tolist()


def test_every_rule_has_the_vocabulary_of_its_own_search(result, counts):
    """Tokens and counts are those of a search that selects by the rule."""
    for system in volt_systems(result, cost=FREE):
        alone = search(result.candidates, sizes=range(30, 91, 10), select=system.rule)
        assert system.name == f"volt {system.rule}"
        assert system.tokens == alone.vocabulary.tokens + alone.vocabulary.scaffolding
        assert token_counts(system, counts).tolist() == _counts(alone.vocabulary)
        assert system.n_scaffolding == len(alone.vocabulary.scaffolding)
        assert system.step_muv == alone.best.muv
        assert (system.why, system.on_edge) == (alone.pick.why, alone.pick.on_edge)


@pytest.mark.parametrize("kind", ["spm-bpe", "spm-unigram"])
def test_sentencepiece_cuts_words_as_it_cuts_lines(kind, counts, trained):
    """The pieces of a line are those of its words, so measuring distinct words is exact."""
    sentencepiece = pytest.importorskip("sentencepiece")
    system = trained_system(kind, 60, counts=counts)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(trained / "trained.model"))
    for line in TEXTS:
        theirs = [number - 1 for number in processor.encode(line)]
        assert system.cut(line.split(), "en").ids.tolist() == theirs
    assert [processor.id_to_piece(number + 1) for number in range(system.size)] == list(
        system.tokens
    )
    assert -1 in system.cut(["ёж"], "en").ids
    assert (system.cut(counts.words, "en").ids >= 0).all()


def test_wordpiece_cuts_words_as_it_cuts_lines(counts, trained):
    """WordPiece splits words as in lines, and an unknown word is one unknown piece."""
    tokenizers = pytest.importorskip("tokenizers")
    system = trained_system("wordpiece", 80, counts=counts)
    tokenizer = tokenizers.Tokenizer.from_file(str(trained / "trained.json"))
    for line in TEXTS:
        assert system.cut(line.split(), "en").ids.tolist() == [
            number - 1 for number in tokenizer.encode(line).ids
        ]
    assert system.cut(["ёж"], "en").ids.tolist() == [-1]
    assert system.size == len(system.tokens) == tokenizer.get_vocab_size() - 1
    assert system.lengths.tolist() == [len(token.removeprefix("##")) for token in system.tokens]


def test_libraries_that_read_texts_refuse_other_words():
    """Words that were not cut at white space, or were normalised, are no texts that a library could cut."""
    for made in ({"pretokenizer": "gpt2"}, {"normalizer": "lowercase"}):
        with pytest.raises(VocabularyError, match="white space"):
            trained_system("spm-bpe", 60, counts=WordCounts.from_pairs(WORDS, **made))


def test_a_vocabulary_file_cuts_as_its_encoder(result, counts, tmp_path):
    """A saved vocabulary is the same system as the search's."""
    path = tmp_path / "v.volt"
    result.vocabulary.save(path)
    system = file_system(read_file(str(path)), counts=counts)
    assert (system.family, system.size) == ("file", result.vocabulary.size)
    assert token_counts(system, counts).tolist() == _counts(result.vocabulary)


@pytest.mark.parametrize("pretokenizer", ["bytes", "metaspace", "gpt2"])
def test_a_file_with_another_pretokenizer_splits_words_as_lines(counts, pretokenizer):
    """Each word is encoded as after a space in a line."""
    own = WordCounts.from_pairs(
        {f"{'Ġ' if pretokenizer == 'bytes' else '▁'}walk": 5, "s": 1}, pretokenizer=pretokenizer
    )
    vocabulary = vocabulary_at(learn_bpe(own, 5), learn_bpe(own, 5).n_tokens)
    system = vocabulary_system(
        "v", vocabulary, family="file", cost=FREE, cost_note="", words_of=counts
    )
    for word in ("walk", "walks"):
        line = Encoder(vocabulary).encode(f"s {word}")
        first = Encoder(vocabulary).encode("s")
        spelled = [
            system.tokens[number] if number >= 0 else None
            for number in system.cut([word], "en").ids
        ]
        assert spelled == [
            piece if piece in system.tokens else None for piece in line[len(first) :]
        ]
    other = WordCounts.from_pairs({"▁walk": 1}, pretokenizer="unicode")
    with pytest.raises(VocabularyError, match="count it by white space"):
        vocabulary_system("v", vocabulary, family="file", cost=FREE, cost_note="", words_of=other)


def test_byte_tokens_are_known_types():
    """With byte fallback, no piece is unknown; byte tokens have length 1, and the size does not
    count them.
    """
    vocabulary = Vocabulary(merges=(), tokens=("a", "a</w>"), byte_fallback=True)
    system = vocabulary_system("v", vocabulary, family="file", cost=FREE, cost_note="")
    assert (system.cut(["ёa"], "en").ids >= 0).all()
    assert system.size == 2
    assert len(system.tokens) == 2 + 256 + 1
    assert system.lengths[system.tokens.index("<0x41>")] == 1


def test_joined_vocabularies_share_nothing(counts):
    """Each source is split by its own vocabulary; equal strings of two vocabularies are two types."""
    made = {"en": whole(counts, 5), "de": whole(counts, 9)}
    facts = {"family": "bpe", "cost": FREE, "cost_note": ""}
    parts = {
        name: vocabulary_system(name, vocabulary, **facts) for name, vocabulary in made.items()
    }
    joined = joined_system("both", parts, family="volt", cost=FREE, cost_note="")
    assert joined.size == len(joined.tokens) == sum(part.size for part in parts.values())
    assert (
        joined.cut(["walked"], "en").ids.tolist() == parts["en"].cut(["walked"], "en").ids.tolist()
    )
    own = parts["de"].cut(["walkedё"], "de").ids
    shifted = np.where(own < 0, -1, own + len(parts["en"].tokens))
    assert joined.cut(["walkedё"], "de").ids.tolist() == shifted.tolist()
    assert joined.can_cut("en")
    assert not joined.can_cut("fr")


def test_specs_are_parsed_or_refused(tmp_path):
    """Names with and without a size, and files, are parsed; otherwise an error proposes a name."""
    (tmp_path / "v").write_text("")
    assert parse_spec("spm-bpe") == Spec("spm-bpe")
    assert parse_spec("spm-bpe").sized(9).text == "spm-bpe:9"
    assert parse_spec("muv-search").sized(9) == Spec("muv-search")
    assert parse_spec(str(tmp_path / "v")).text == str(tmp_path / "v")
    for wrong in ("bpe", "bpe:0", "bpe:x", "wordpeice:3", "muv-search:8", "nowhere.volt", ""):
        with pytest.raises(ConfigError, match="system"):
            parse_spec(wrong)
