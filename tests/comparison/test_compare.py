"""`compare`: results equal those of separate computations, and failures are reported."""

import json
import os

import pytest
from comparison.inflected import LINES, SIZES

import volt
from volt.choose.criteria import entropy
from volt.choose.rules import rules
from volt.comparison.compare import compare
from volt.comparison.systems import DEFAULT_SYSTEMS
from volt.comparison.tables import as_markdown
from volt.comparison.texts import NamedText
from volt.count.word_counts import WordCounts, mix
from volt.errors import CandidateError, ConfigError, CorpusError
from volt.text.pretokenizer import PreTokenizer


def test_every_system_is_measured_on_every_text(both):
    """`compare` measures VOLT under every rule, the requested systems and the separate vocabularies
    on each text and source."""
    names = [system.name for system in both.systems]
    assert names[:11] == [*(f"volt {rule}" for rule in rules()), "bpe 50", "bpe 90"]
    assert names[-1] == "volt trained, separate"
    families = {system.family for system in both.systems}
    assert families >= {"sentencepiece bpe", "sentencepiece unigram", "wordpiece"}
    for system in both.systems:
        assert list(system.by_source) == list(system.heldout_by_source) == ["en", "xx"]
        assert sum(system.shares.values()) == pytest.approx(1)
        n_pieces = sum(measures.n_pieces for measures in system.by_source.values())
        assert n_pieces == system.training.n_pieces
        assert system.seconds > 0
    assert both.chosen == "volt trained"
    assert both.systems[0].size == both.search.vocabulary.size
    assert any(problem.startswith("muv-search: ") for problem in both.problems)


def test_measures_equal_those_of_encoded_files(both, files):
    """Words, pieces and continued words of a comparison equal those of the encoded words of each
    file."""
    encoder = volt.Encoder(both.search.vocabulary)
    chosen = both.systems[0]
    for kind, by_source in (("train", chosen.by_source), ("test", chosen.heldout_by_source)):
        for name, measures in by_source.items():
            with open(files[f"{kind}.{name}"], encoding="utf-8") as file:
                cuts = encoder.encode_words(file.read().split())
            assert measures.n_words == len(cuts)
            assert measures.n_pieces == sum(map(len, cuts))
            rate = sum(len(cut) > 1 for cut in cuts) / len(cuts)
            assert measures.continued_word_rate == pytest.approx(rate)
    counts = both.search.candidates.counts_at(both.search.best.size)
    expected = entropy(counts, both.search.candidates.lengths[: len(counts)])
    assert chosen.training.entropy == pytest.approx(expected, rel=1e-9)


def test_separate_vocabularies_are_those_of_separate_searches(both, files):
    """With separate=True, each source has as many pieces as in a comparison of that source alone."""
    for name in ("en", "xx"):
        alone = compare([files[f"train.{name}"]], systems=(), sizes=SIZES)
        separate = both.systems[-1].by_source[name]
        assert separate.n_pieces == alone.systems[0].training.n_pieces


@pytest.mark.parametrize("rule", ["renyi", "muv"])
def test_separate_vocabularies_are_on_an_edge_if_one_is(rule):
    """The system of separate vocabularies is on an edge if the pick of any source is."""
    sources = [
        NamedText("a", {"low": 5, "lower": 2, "newest": 6, "widest": 3}),
        NamedText("b", {"abab": 9, "ab": 3, "aba": 2, "babab": 4, "cab": 5, "cabb": 2}),
    ]
    picks = [volt.search(volt.learn_enough(source.counts), select=rule).pick for source in sources]
    on_edge = [pick.on_edge for pick in picks]
    assert sum(on_edge) == (rule == "renyi")
    separate = compare(sources, systems=(), select=rule, separate=True).systems[-1]
    assert (separate.name, separate.on_edge) == (f"volt {rule}, separate", any(on_edge))


def test_temperature_changes_learning_but_not_measures(files):
    """The temperature changes the counts for learning, but words and characters are those of the
    texts."""
    paths = {"en": files["train.en"], "xx": files["test.xx"]}
    sources = [f"{name}={path}" for name, path in paths.items()]
    cool = compare(sources, systems=(), sizes=SIZES)
    warm = compare(sources, systems=(), sizes=SIZES, temperature=5)
    assert warm.systems[0].training.n_words == cool.systems[0].training.n_words
    counts = {name: volt.count_words(path) for name, path in paths.items()}
    assert warm.search.candidates.counts == mix(counts, temperature=5)
    assert "temperature:5" in warm.signature
    assert warm.corpus.temperature == 5


def test_failures_are_reported_and_the_rest_is_compared(files, tmp_path, monkeypatch):
    """A missing library, sizes beyond the corpus, unmatched names and an unseen script are problems
    of a complete comparison."""
    (tmp_path / "sentencepiece.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    (tmp_path / "test.el").write_text("και το\n")
    comparison = compare(
        [files["train.en"], files["train.xx"]],
        heldout=[f"en={files['test.en']}", f"el={tmp_path / 'test.el'}"],
        systems=("spm-bpe:50", "bpe:99999", "bpe:50", "wordpiece:5"),
        sizes=(*SIZES, 99_999),
        select="fixed:88888",
    )
    problems = "\n".join(comparison.problems)
    for part in (
        "pip install",
        "bpe:99999",
        "sizes: this corpus",
        "fixed:88888",
        "GREEK",
        "wordpiece:5: 5 requested",
    ):
        assert part in problems
    assert "'el'" in problems
    assert "'xx'" in problems
    names = [system.name for system in comparison.systems]
    assert names == [*(f"volt {rule}" for rule in rules()), "bpe 50", "wordpiece 5"]
    greek = comparison.systems[0].heldout_by_source["el"]
    assert (greek.unknown_rate, greek.entropy) == (1, None)
    json.dumps(comparison.as_data(), allow_nan=False)
    assert "–" in as_markdown(comparison.as_data())


def test_a_source_too_small_for_its_own_vocabulary_is_reported():
    """If one source has no pairs to merge, separate=True adds no system, and a problem names the
    source."""
    sources = [NamedText("en", {"walked": 9, "walks": 5}), NamedText("x", {"q": 1})]
    comparison = compare(sources, systems=(), separate=True)
    assert comparison.problems[0].startswith("separate vocabularies: x: nothing to merge")
    assert [system.family for system in comparison.systems] == ["volt"] * len(rules())


def test_unsuitable_input_is_refused(files):
    """`compare` refuses wrong options, repeated names, and a corpus without pairs."""
    english = NamedText("en", {"walk": 3})
    for options in ({"select": "best"}, {"systems": ["spm"]}, {"temperature": 0}):
        with pytest.raises(ConfigError):
            compare([files["train.en"]], **options)
    with pytest.raises(ConfigError, match="distinct"):
        compare([english, english])
    with pytest.raises(CandidateError, match="nothing to merge"):
        compare([NamedText("en", {"a": 1})], systems=())
    with pytest.raises(CorpusError):
        compare(["nowhere.txt"])


def test_samples_are_lines_of_the_sources_by_default(files):
    """The samples of a comparison are the caller's lines, otherwise lines of the sources, otherwise
    long words."""

    def samples(source, **options):
        return compare([source], systems=(), **options).samples.samples

    assert {line for _, line in samples(files["train.en"], sizes=SIZES)} <= set(LINES["en"])
    passed = samples(files["train.en"], sizes=SIZES, samples=["a walk"])
    assert passed == (("sample", "a walk"),)
    word = "საქართველო"
    words = dict.fromkeys(PreTokenizer("bytes").split(word), 9)
    counts = WordCounts.from_pairs(words, pretokenizer="bytes")
    assert samples(NamedText("ka", counts)) == (("words", word),)


@pytest.mark.slow
@pytest.mark.parametrize("n_lines", [18_000, pytest.param(29_000, marks=pytest.mark.campaign)])
def test_multi30k_in_four_languages(lines, tmp_path, n_lines):
    """On real text in four languages, the counts are exact, and German and Czech words have the
    most pieces."""
    pytest.importorskip("sentencepiece")
    pytest.importorskip("tokenizers")
    names = ("en", "de", "fr", "cs")
    for name in names:
        for part in ("train", "test2016"):
            text = "".join(f"{line}\n" for line in lines(f"multi30k/{part}.{name}.gz", n_lines))
            (tmp_path / f"{part}.{name}").write_text(text, encoding="utf-8")
    systems = [name for name in DEFAULT_SYSTEMS if name != "bpe:30000"]  # more than are learned
    comparison = compare(
        [str(tmp_path / f"train.{name}") for name in names],
        heldout=[str(tmp_path / f"test2016.{name}") for name in names],
        systems=systems,
    )
    assert comparison.problems == ()
    assert len(comparison.systems) == len(systems) + len(rules())
    for system in comparison.systems:
        assert system.training.unknown_rate == 0
        assert system.heldout.unknown_rate < 0.001
        en, de, fr, cs = (system.by_source[name].fertility for name in names)
        assert min(de, cs) > max(en, fr)
    n_pieces = sum(comparison.search.vocabulary.counts)
    assert comparison.systems[0].training.n_pieces == n_pieces
