"""A sequence of splits, compiled: text → its pre-tokens, and bytes → where these end.

Each split cuts every span that the one before has made, into the matches of its pattern and what lies between two of
them: the behaviour "isolated" of published tokenizers. So no character is lost, and no pre-token is empty.

>>> Splitter.of(Split(r"\\p{N}{1,3}"), Split(r" ?[a-z]+")).split("in 12345 days")
['in', ' ', '123', '45', ' days']
>>> Splitter.of(Split(r"\\p{N}{1,3}", from_end=True)).split("in 12345 days")
['in ', '12', '345', ' days']
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from volt import arguments
from volt.errors import ConfigError, quoted
from volt.text.normalizer import check_text
from volt.text.patterns.alphabet import Alphabet
from volt.text.patterns.automaton import Automaton, assemble, determinize
from volt.text.patterns.effort import is_linear
from volt.text.patterns.parsing import parse, sets_of

if TYPE_CHECKING:
    from volt.kernels.pattern_cutting import SplitTables


@dataclass(frozen=True, slots=True)
class Split:
    """Cut where a pattern matches.

    pattern: a regular expression, see volt.text.patterns.parsing
    from_end: whether a span is read from its end to its start; the pattern is then one of the text read backwards

    Raises ConfigError if the pattern is no text, or holds a lone surrogate. Splitter.of finds out whether it can be cut
    by.
    """

    pattern: str
    from_end: bool = False

    def __post_init__(self) -> None:
        arguments.storable(self.pattern, "pattern")
        object.__setattr__(self, "from_end", arguments.flag(self.from_end, "from_end"))


@dataclass(frozen=True, eq=False, slots=True)
class Splitter:
    """What cuts text by a sequence of splits.

    splits: as given
    automata: one for each split, over the same classes of characters
    tables: the same for the compiled loop
    """

    splits: tuple[Split, ...]
    automata: tuple[Automaton, ...]
    tables: SplitTables

    @staticmethod
    def of(*splits: Split) -> Splitter:
        """The splitter of these splits, compiled once in a process.

        Raises ConfigError if there is none, or if a pattern is not supported, could match the empty text, or is too
        large.

        >>> Splitter.of(Split("a+")) is Splitter.of(Split("a+"))
        True
        """
        if not splits:
            raise ConfigError("no split is given; give at least one, such as Split(r'\\s+')")
        for place, split in enumerate(splits):
            remedy = f"did you mean Splitter.of(Split({split!r}))?" if isinstance(split, str) else "give a Split"
            arguments.instance(split, Split, f"splits[{place}]", remedy=remedy)
        return _compiled(splits)

    @property
    def n_states(self) -> int:
        """How many states the splits have together, without the one in which nothing can match."""
        return sum(len(automaton.moves) - 1 for automaton in self.automata)

    @property
    def is_linear(self) -> bool:
        """Whether the effort is known to grow with the length of any text, and not with its square.

        Raises ConfigError if finding out would take long.
        """
        return all(map(is_linear, self.automata))

    def split(self, text: str) -> list[str]:
        """The pre-tokens of a text. Raises CorpusError if it holds a lone surrogate.

        >>> Splitter.of(Split("[a-z]+")).split("ab, c")
        ['ab', ', ', 'c']
        """
        data = check_text(text).encode()
        starts = np.append(0, self.ends(data)).tolist()
        return [data[start:end].decode() for start, end in pairwise(starts)]

    def ends(self, data: bytes) -> NDArray[np.int64]:
        """Where the pre-tokens of UTF-8 text end, (n_words,) int64, in bytes. Other bytes count as U+FFFD.

        >>> Splitter.of(Split(r"\\p{L}+")).ends("é, c".encode()).tolist()
        [2, 4, 5]
        """
        from volt.kernels.pattern_cutting import cut_texts

        ends, spare = np.empty(len(data), np.int64), np.empty(len(data), np.int64)
        bounds, n_words = np.array([0, len(data)]), np.empty(1, np.int64)
        n = cut_texts(np.frombuffer(data, np.uint8), bounds, self.tables, ends, spare, n_words)
        return ends[:n].copy()


def cut_alike(one: Split, other: Split) -> bool:
    r"""Whether two splits are the same automaton, however they are written.

    >>> cut_alike(Split("a+|b"), Split("[b]|aa*")), cut_alike(Split("a"), Split("a+"))
    (True, False)
    """
    ours: tuple[Any, ...] = Splitter.of(one).tables
    theirs: tuple[Any, ...] = Splitter.of(other).tables
    return all(np.array_equal(mine, yours) for mine, yours in zip(ours, theirs, strict=True))


@lru_cache(maxsize=64)
def _compiled(splits: tuple[Split, ...]) -> Splitter:
    trees = [parse(split.pattern) for split in splits]
    alphabet = Alphabet.of(found for tree in trees for found in sets_of(tree))
    automata = tuple(determinize(assemble(tree, alphabet), alphabet) for tree in trees)
    for split, automaton in zip(splits, automata, strict=True):
        if (automaton.moves[automaton.start] & 1).any():
            raise ConfigError(
                f"pattern {quoted(split.pattern, 500)} could match the empty text, which is no pre-token; "
                "let each alternative take a character: write + for *"
            )
    return Splitter(splits, automata, _tables(splits, automata, alphabet))


def _tables(splits: tuple[Split, ...], automata: tuple[Automaton, ...], alphabet: Alphabet) -> SplitTables:
    """All automata in one table, one below the other. Classes that none of them tells apart become one."""
    from volt.kernels.pattern_cutting import SplitTables

    told, first, renamed = np.unique(
        np.vstack([automaton.moves[:, :-1] for automaton in automata]), axis=1, return_index=True, return_inverse=True
    )
    columns, width = [*first.tolist(), alphabet.n_classes], told.shape[1] + 1
    offsets = np.cumsum([0, *(len(automaton.moves) * width for automaton in automata[:-1])])
    moves = [
        _placed(automaton.moves[:, columns], width, offset) for automaton, offset in zip(automata, offsets, strict=True)
    ]
    starts = np.array([automaton.start for automaton in automata], np.int64)  # 0 where no text can match
    from_end = np.array([split.from_end for split in splits], np.int64)
    return SplitTables(
        classes=alphabet.table(renamed.reshape(-1).astype(np.uint8)), moves=np.concatenate(moves), end=width - 1,
        splits=2 * (starts > 0) * (starts * width + offsets) + from_end,
    )  # fmt: skip


def _placed(moves: NDArray[np.int32], width: int, offset: int) -> NDArray[np.int32]:
    """Moves whose rows are named by where they start in the table of all; row 0 is that of no way in each automaton."""
    rows = np.where(moves > 1, (moves >> 1) * width + offset, 0)
    named: NDArray[np.int32] = (2 * rows + (moves & 1)).astype(np.int32).reshape(-1)
    return named
