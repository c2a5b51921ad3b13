"""Options of `volt search` and arguments of the library have the same names, or a page lists them."""

import inspect

from support.commands import options_of
from support.places import ROOT

import volt

FUNCTIONS = (
    volt.train,
    volt.count_words,
    volt.learn_bpe,
    volt.search,
    volt.mix,
    volt.SpecialTokens,
    volt.extend_bpe,
)
# Where results go, what is printed, and what is counted
OF_COMMANDS = {"--all", "--force", "--help", "--json", "--output", "--quiet", "-o", "-q", "corpus"}


def test_options_are_arguments_or_are_listed():
    """Each option of `volt search` is an argument of the library by the same name, or the page of
    the library's functions says what takes its place."""
    page = (ROOT / "docs" / "pages" / "reference" / "python.md").read_text(encoding="utf-8")
    arguments = {name for function in FUNCTIONS for name in inspect.signature(function).parameters}
    options = options_of(["search"]) - OF_COMMANDS
    assert options
    for option in options:
        is_argument = option.removeprefix("--").replace("-", "_") in arguments
        assert is_argument or option in page, option


def test_train_takes_the_options_of_the_command():
    """`volt.train` has an argument for each option that chooses words, merges or a size."""
    arguments = inspect.signature(volt.train).parameters
    assert {"level", "pattern", "pretokenizer", "normalizer", "epochs", "read"} <= {*arguments}
    assert {"coverage", "marker", "min_pair_count", "multiple_of", "byte_fallback"} <= {*arguments}
