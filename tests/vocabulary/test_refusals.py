"""What makes a vocabulary is looked at where it is given: what could be made can be saved and read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from volt.encode.encoder import Encoder
from volt.errors import ArgumentError, ConfigError, VocabularyError
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.patterns import Split, Splitter
from volt.text.patterns.automaton import _has_circle
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

_DEEP: list[Any] = []
for _ in range(5_000):
    _DEEP = [_DEEP]
_NO_SPLITS = (
    '"ab"',
    '{"a": 1}',
    "[1]",
    '[{"pattern": "b", "from_end": "no"}]',
    '[{"pattern": "b", "from_end": null}]',
    '[{"pattern": "b", "from_end": 1.5}]',
    '[{"pattern": []}]',
    '[{"from_end": true}]',
    '[{"pattern": "b", "x": 1}]',
)


@pytest.mark.parametrize(
    "value", [0, 1, 2, -1, None, "no", 1.5, 10**30, np.int64(1), np.array([True])]
)
@pytest.mark.parametrize("name", ["byte_fallback", "whole_words"])
def test_only_true_and_false_are_flags(name: str, value: Any) -> None:
    """A number or a text is no flag, though it has a truth value."""
    with pytest.raises(ArgumentError, match=f"{name} is .*; give True or False"):
        Vocabulary(merges=(), tokens=("a",), **{name: value})


def test_flags_of_numpy_are_flags(tmp_path: Path) -> None:
    """A bool of numpy is the bool that it means, in the file too."""
    kept = Vocabulary(merges=(), tokens=("a",), byte_fallback=np.True_, whole_words=np.False_)  # type: ignore[arg-type]
    kept.save(tmp_path / "a.volt")
    assert (kept.byte_fallback, kept.whole_words) == (True, False)
    assert Vocabulary.load(tmp_path / "a.volt") == kept


@pytest.mark.parametrize(
    ("provenance", "found"),
    [
        ({"a": {1}}, "provenance['a'] is a set"),
        ({"a": [np.int64(3)]}, "provenance['a'][0] is 3 (int64)"),
        ({"a": {"b": Path("x")}}, "provenance['a']['b'] is a "),
        ({(1, 2): 2}, "a key of provenance is a tuple; give texts as keys"),
        ({1: 2, "1": 3}, "a key of provenance is 1 (int)"),
        ({"a": float("nan")}, "provenance['a'] is nan, which is not a number in JSON"),
        ({"a": 10**5_000}, "provenance['a'] has more than 1,024 bits"),
        ({"a": _DEEP}, "nests more than 100 lists"),
        ({"a": "\ud800"}, "lone surrogate"),
    ],
)
def test_provenance_that_is_no_json_is_refused_by_name(
    provenance: Any, found: str, tmp_path: Path
) -> None:
    """What JSON cannot hold is not saved, and the error says where it is; no file is left."""
    with pytest.raises(VocabularyError) as caught:
        Vocabulary(merges=(), tokens=("a",), provenance=provenance).save(tmp_path / "a.volt")
    assert found in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name", ["split:\ud800", "regex:a\ud800", "bytes+matches:a\udc00", 'splits:["\\ud800"]']
)
def test_patterns_hold_no_lone_surrogate(name: str) -> None:
    """A pattern that no file can hold is refused where it is given."""
    with pytest.raises(ConfigError, match=r"contains the lone surrogate U\+D[8C]00"):
        PreTokenizer(name)


@pytest.mark.parametrize("message", _NO_SPLITS)
def test_splits_are_a_list_of_patterns(message: str) -> None:
    """Any other JSON behind "splits:" is refused, and the error shows what belongs there."""
    with pytest.raises(ConfigError, match="a JSON list of patterns must follow"):
        PreTokenizer(f"splits:{message}")


def test_a_splitter_takes_splits() -> None:
    """A text or a list is no split; an error names the call that was meant."""
    with pytest.raises(ArgumentError, match=r"did you mean Splitter.of\(Split\('a\+'\)\)"):
        Splitter.of("a+")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="from_end is 'no'"):
        Split("a", from_end="no")  # type: ignore[arg-type]


def test_long_repetitions_are_judged_or_refused() -> None:
    """A pattern of forty characters is taken; one that would take minutes is refused."""
    assert PreTokenizer("split:.{40}|.").split("a" * 45) == ["a" * 40, *"aaaaa"]
    with pytest.raises(ConfigError, match=r"pairs of states.*repeat fewer times"):
        PreTokenizer("split:.{1000}|.")


def test_circles_are_found_behind_long_walks() -> None:
    """A walk of any length has an end, unless it comes to a circle."""
    walk = {(place, 0): {(place + 1, 0)} for place in range(5_000)}
    assert not _has_circle(walk)
    assert _has_circle({**walk, (5_000, 0): {(4_999, 0), (1, 1)}})


@pytest.mark.parametrize("marker", ["none", "prefix"])
@pytest.mark.parametrize("spelled", [b"\xec\x8e\x91", "▁".encode(), "é".encode()])
def test_unused_ids_part_no_bytes(marker: Any, spelled: bytes) -> None:
    """Ids that no piece has stand for nothing, wherever they are, for one line and for many."""
    order = ("<unk>", "<s>", "</s>", "<pad>", *BYTE_TOKENS, "", "a")
    encoder = Encoder(Vocabulary((), ("a",), marker=marker, byte_fallback=True, order=order))
    ids = [encoder.vocabulary.ids[BYTE_TOKENS[byte]] for byte in spelled]
    a, unused = encoder.vocabulary.ids["a"], order.index("")
    line = encoder.decode_ids([a, *ids, a])
    for row in (
        [a, ids[0], unused, *ids[1:], a],
        [a, *ids, a, unused],
        [unused, a, *ids[:-1], unused, ids[-1], a],
    ):
        assert encoder.decode_ids(row) == line
        assert encoder.decode_batch([row, [], row]) == [line, "", line]


@pytest.mark.parametrize("numbers", ["lo", [None], float("nan"), {"a": 1}, [10**30], [1.5]])
def test_numbers_of_lines_are_whole(numbers: Any) -> None:
    """A fraction is not cut off, and what is no number is refused by name."""
    encoder = Encoder(Vocabulary(merges=(), tokens=("a",)))
    with pytest.raises(ConfigError, match="numbers"):
        encoder.encode_bytes(b"a", dropout=0.1, seed=1, numbers=numbers)
