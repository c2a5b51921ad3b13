"""Laws of patterns that are refused: the error says what is wrong, and what to write instead."""

import pytest

from volt.errors import ArgumentError, ConfigError
from volt.text.patterns import Split, Splitter
from volt.text.pretokenizer import PreTokenizer


@pytest.mark.parametrize(
    "name", ["split:\ud800", "regex:a\ud800", "bytes+matches:a\udc00", 'splits:["\\ud800"]']
)
def test_lone_surrogates_in_patterns_are_refused(name):
    """A pattern that a file cannot store is refused."""
    with pytest.raises(ConfigError, match=r"contains the lone surrogate U\+D[8C]00"):
        PreTokenizer(name)


@pytest.mark.parametrize(
    "splits",
    [
        '"ab"',
        '{"a": 1}',
        "[1]",
        '[{"pattern": "b", "from_end": "no"}]',
        '[{"pattern": "b", "from_end": null}]',
        '[{"pattern": "b", "from_end": 1.5}]',
        '[{"pattern": []}]',
        '[{"from_end": true}]',
        '[{"pattern": "b", "x": 1}]',
    ],
)
def test_splits_are_a_list_of_patterns(splits):
    """Other JSON after "splits:" is refused."""
    with pytest.raises(ConfigError, match="a JSON list of patterns must follow"):
        PreTokenizer(f"splits:{splits}")


def test_a_splitter_is_made_of_splits():
    """A text is refused; the error names the correct call."""
    with pytest.raises(ArgumentError, match=r"did you mean Splitter.of\(Split\('a\+'\)\)"):
        Splitter.of("a+")
    with pytest.raises(ArgumentError, match="from_end is 'no'"):
        Split("a", from_end="no")


def test_long_repetitions_are_compiled_or_refused():
    """Forty repetitions are compiled; a pattern that would take minutes is refused."""
    assert PreTokenizer("split:.{40}|.").split("a" * 45) == ["a" * 40, *"aaaaa"]
    with pytest.raises(ConfigError, match=r"pairs of states.*repeat fewer times"):
        PreTokenizer("split:.{1000}|.")
