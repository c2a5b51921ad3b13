"""Laws of comparisons: results equal those of separate computations, and failures are reported."""

from __future__ import annotations

import json
import os

import pytest
from screens import printed, words

import volt
from volt.choose.criteria import entropy
from volt.choose.rules import rules
from volt.comparison.compare import compare
from volt.comparison.systems import DEFAULT_SYSTEMS
from volt.comparison.tables import as_markdown, as_text, report_tables, warnings
from volt.comparison.texts import NamedText
from volt.count.word_counts import WordCounts, mix
from volt.encode.encoder import Encoder
from volt.errors import CandidateError, ConfigError, CorpusError
from volt.text.atoms import token_lengths
from volt.text.pretokenizer import PreTokenizer

ENDS = ("", "s", "ed", "er", "est", "ing", "ings", "ness")
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
LINES = {
    "en": [" ".join(stem + end for end in ENDS[: 2 + i % 6]) for i, stem in enumerate(STEMS * 6)],
    "xx": [" ".join(end + stem[::-1] for end in ENDS[i % 5 :]) for i, stem in enumerate(STEMS * 6)],
}
SIZES = range(40, 121, 20)
OURS = ("bpe:50", "bpe:90", "muv-search")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write training and held-out text of two made-up languages."""
    folder = tmp_path_factory.mktemp("texts")
    for name, lines in LINES.items():
        (folder / f"train.{name}").write_text("\n".join(lines) + "\n")
        (folder / f"test.{name}").write_text(
            "\n".join(line.replace("a", "o") for line in lines[:20]) + "\n"
        )
    return {path.name: str(path) for path in folder.iterdir()}


@pytest.fixture(scope="module")
def both(files):
    """Return a comparison of both languages, all systems, and separate vocabularies."""
    pytest.importorskip("sentencepiece")
    pytest.importorskip("tokenizers")
    return compare(
        [files["train.en"], files["train.xx"]],
        heldout=[files["test.en"], files["test.xx"]],
        systems=(*OURS, "spm-bpe", "spm-unigram:70", "wordpiece:90"),
        sizes=SIZES,
        separate=True,
    )


def test_every_system_is_measured_on_every_text(both):
    """The systems are VOLT under every rule, the requested ones, and the separate vocabularies."""
    names = [system.name for system in both.systems]
    assert names[:9] == [f"volt {rule}" for rule in rules()]
    assert names[9:11] == ["bpe 50", "bpe 90"]
    assert names[-1] == "volt trained, separate"
    assert {system.family for system in both.systems} >= {
        "sentencepiece bpe",
        "sentencepiece unigram",
        "wordpiece",
    }
    for system in both.systems:
        assert list(system.by_source) == list(system.heldout_by_source) == ["en", "xx"]
        assert sum(system.shares.values()) == pytest.approx(1)
        assert sum(one.n_pieces for one in system.by_source.values()) == system.training.n_pieces
        assert system.seconds > 0
    assert both.chosen == "volt trained"
    assert both.systems[0].size == both.search.vocabulary.size
    assert any(problem.startswith("muv-search: ") for problem in both.problems)


def test_measures_equal_those_of_encoded_files(both, files):
    """Words, pieces and continued words equal those of the encoded words of each file."""
    encoder = Encoder(both.search.vocabulary)
    chosen = both.systems[0]
    for kind, found in (("train", chosen.by_source), ("test", chosen.heldout_by_source)):
        for name, measures in found.items():
            with open(files[f"{kind}.{name}"], encoding="utf-8") as file:
                words = file.read().split()
            cuts = encoder.encode_words(words)
            assert measures.n_words == len(words)
            assert measures.n_pieces == sum(map(len, cuts))
            assert measures.continued_word_rate == pytest.approx(
                sum(len(cut) > 1 for cut in cuts) / len(words)
            )
    assert chosen.training.entropy == pytest.approx(entropy(*_of_size(both)), rel=1e-9)


def _of_size(comparison):
    """Return counts and lengths of all tokens of the chosen size."""
    candidates, size = comparison.search.candidates, comparison.search.best.size
    return candidates.counts_at(size), token_lengths(
        candidates.tokens_at(size), marker=candidates.marker
    )


def test_parity_and_premium_follow_from_the_sources(both):
    """Parity is fertility over the mean of both sources; the cheaper source has the premium 1."""
    for system in both.systems:
        rows = list(system.by_source.values())
        mean = sum(row.fertility for row in rows) / 2
        assert [row.parity for row in rows] == pytest.approx([row.fertility / mean for row in rows])
        assert min(row.premium for row in rows) == 1
    assert both.corpus.aligned


def test_separate_vocabularies_are_those_of_separate_searches(both, files):
    """Each source has as many pieces as in a comparison of that source alone."""
    separate = both.systems[-1]
    for name in ("en", "xx"):
        alone = compare([files[f"train.{name}"]], systems=(), sizes=SIZES)
        assert separate.by_source[name].n_pieces == alone.systems[0].training.n_pieces
    assert separate.shares["en"] + separate.shares["xx"] == pytest.approx(1)


@pytest.mark.parametrize("rule", ["renyi", "muv"])
def test_separate_vocabularies_are_on_an_edge_if_one_is(rule):
    """The joined system is on an edge if the pick of any source is."""
    counts = {
        "a": {"low": 5, "lower": 2, "newest": 6, "widest": 3},
        "b": {"abab": 9, "ab": 3, "aba": 2, "babab": 4, "cab": 5, "cabb": 2},
    }
    sources = [NamedText(name, words) for name, words in counts.items()]
    picks = [volt.search(volt.learn_enough(source.counts), select=rule).pick for source in sources]
    assert sum(pick.on_edge for pick in picks) == (rule == "renyi")
    separate = compare(sources, systems=(), select=rule, separate=True).systems[-1]
    assert (separate.name, separate.on_edge) == (
        f"volt {rule}, separate",
        any(pick.on_edge for pick in picks),
    )


def test_data_is_json_and_complete(both):
    """The data are valid JSON without NaN, and agree with the result."""
    data = json.loads(json.dumps(both.as_data(), allow_nan=False))
    assert data["version"] == 1
    assert [system["name"] for system in data["systems"]] == [
        system.name for system in both.systems
    ]
    assert data["systems"][0]["training"]["entropy"] == both.systems[0].training.entropy
    assert len({len(column) for column in data["tokens"].values()}) == 1
    assert len(data["samples"]["cuts"]) == len(data["samples"]["sizes"]) == len(both.search.steps)
    held = [count for count in data["tokens"]["count"] if count is not None]
    assert sum(row["types"] for row in data["lengths"]) == len(held) == both.search.vocabulary.size
    assert (
        sum(row["pieces"] for row in data["lengths"])
        == sum(held)
        == both.systems[0].training.n_pieces
    )
    assert data["search"]["seconds"].keys() >= {"count", "learn", "search", "measure"}


def test_tables_show_the_numbers_of_the_data(both):
    """The Markdown shows every measure of the data, and follows changes of the data."""
    data = both.as_data()
    text = as_markdown(data)
    for system in data["systems"]:
        for measures in (system["training"], system["heldout"]):
            assert (
                f"| {measures['n_pieces']:,} | {measures['bits'] / 1e6:,.2f} | {measures['entropy']:.4f} |"
                in text
            )
        assert f"| {system['seconds']:.2f} |" in text
    data["systems"][0]["training"]["entropy"] = 9.87654321
    assert "9.8765" in as_markdown(data)
    assert "9.8765" not in text
    assert all(warning[:30] in text for warning in warnings(data))


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_tables_fit_any_terminal(both, width):
    """No line is wider than the terminal, and every word and number is whole."""
    data = both.as_data()
    shown, wide = (printed([as_text(data)], columns) for columns in (width, 1000))
    assert max(map(len, shown.splitlines())) <= width
    assert words(shown) == words(wide)
    for table in report_tables(data, full=False):
        assert words(shown) >= {
            word for row in table.rows for cell in row for word in cell.text.split()
        }


def test_temperature_changes_learning_but_not_measures(files):
    """Learning uses rescaled counts; words and characters are counted in the texts."""
    sources = [f"en={files['train.en']}", f"xx={files['test.xx']}"]
    cool, warm = (compare(sources, systems=(), sizes=SIZES, temperature=t) for t in (1, 5))
    assert warm.systems[0].training.n_words == cool.systems[0].training.n_words
    counts = {
        name: volt.count_words(path) for name, path in (source.split("=") for source in sources)
    }
    assert warm.search.candidates.counts == mix(counts, temperature=5)
    assert "temperature:5" in warm.signature
    assert warm.corpus.temperature == 5


def test_failures_are_reported_and_the_rest_is_compared(files, tmp_path, monkeypatch):
    """A missing library, sizes beyond the corpus, other names and an unseen script are reported."""
    (tmp_path / "sentencepiece.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    (tmp_path / "test.el").write_text("και το\n")
    found = compare(
        [files["train.en"], files["train.xx"]],
        heldout=[f"en={files['test.en']}", f"el={tmp_path / 'test.el'}"],
        systems=("spm-bpe:50", "bpe:99999", "bpe:50"),
        sizes=(*SIZES, 99_999),
        select="fixed:88888",
    )
    message = "\n".join(found.problems)
    for expected in (
        "pip install",
        "bpe:99999",
        "sizes: this corpus",
        "fixed:88888",
        "'el'",
        "GREEK",
        "'xx'",
    ):
        assert expected in message
    assert [system.name for system in found.systems][-1] == "bpe 50"
    assert len(found.systems) == 10
    greek = found.systems[0].heldout_by_source["el"]
    assert greek.unknown_rate == 1
    assert greek.entropy is None
    json.dumps(found.as_data(), allow_nan=False)
    assert "–" in as_markdown(found.as_data())


def test_a_source_too_small_for_its_own_vocabulary_is_reported():
    """If a source has no pairs to merge, only the joint vocabularies are compared."""
    counts = {"en": {"walked": 9, "walks": 5}, "x": {"q": 1}}
    sources = [NamedText(name, words) for name, words in counts.items()]
    found = compare(sources, systems=(), separate=True)
    assert found.problems[0].startswith("separate vocabularies: x: nothing to merge")
    assert [system.family for system in found.systems] == ["volt"] * len(rules())


def test_unsuitable_input_is_refused_at_once(files):
    """Invalid options, repeated names, and a corpus without pairs end the comparison."""
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
    """Passed lines replace them; counts without lines show long words."""
    own = compare([files["train.en"]], systems=(), sizes=SIZES)
    assert {line for _, line in own.samples.samples} <= set(LINES["en"])
    given = compare([files["train.en"]], systems=(), sizes=SIZES, samples=["a walk"])
    assert given.samples.samples == (("sample", "a walk"),)
    bare = compare([NamedText("en", {"strongest": 3, "coldness": 2})], systems=())
    assert bare.samples.samples[0][0] == "words"


def test_same_texts_give_the_same_comparison(files):
    """Except for times and memory, equal texts and options give equal data."""
    first, second = (
        compare([files["train.en"]], systems=OURS[:2], sizes=SIZES).as_data() for _ in range(2)
    )
    for data in (first, second):
        data.pop("made")
        data["search"].pop("seconds")
        for system in data["systems"]:
            system.pop("seconds")
            system.pop("memory_mb")
    assert first == second


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_lines", "too_large"),
    [(18_000, {"bpe:30000"}), pytest.param(29_000, set(), marks=pytest.mark.campaign)],
)
def test_multi30k_in_four_languages(lines, tmp_path, n_lines, too_large):
    """On real text, counts are exact, and German and Czech words have more pieces than English and
    French ones.
    """
    pytest.importorskip("sentencepiece")
    pytest.importorskip("tokenizers")
    names = ("en", "de", "fr", "cs")
    for name in names:
        for part in ("train", "test2016"):
            text = "".join(f"{line}\n" for line in lines(f"multi30k/{part}.{name}.gz", n_lines))
            (tmp_path / f"{part}.{name}").write_text(text, encoding="utf-8")
    found = compare(
        [str(tmp_path / f"train.{name}") for name in names],
        heldout=[str(tmp_path / f"test2016.{name}") for name in names],
        systems=[name for name in DEFAULT_SYSTEMS if name not in too_large],
    )
    assert found.problems == ()
    assert len(found.systems) == len(DEFAULT_SYSTEMS) - len(too_large) + len(rules())
    for system in found.systems:
        assert system.training.unknown_rate == 0
        assert system.heldout.unknown_rate < 0.001
        fertility = {name: row.fertility for name, row in system.by_source.items()}
        assert min(fertility["de"], fertility["cs"]) > max(fertility["en"], fertility["fr"])
    assert found.systems[0].training.n_pieces == sum(found.search.vocabulary.counts)


def test_words_of_bytes_are_shown_as_text():
    """If counts of bytes have no lines, long words are shown as text."""
    word = "საქართველო"
    counts = WordCounts.from_pairs(
        [(word, 9) for word in PreTokenizer("bytes").split(word)], pretokenizer="bytes"
    )
    comparison = compare(NamedText("ka", counts), systems=[])
    assert comparison.samples.samples == (("words", word),)
