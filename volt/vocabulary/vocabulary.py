"""`Vocabulary`: ordered merges, kept tokens with ids, special tokens, and how text becomes words; one file.

The file is JSON with one token or merge per line, so that people can read it, diff it and be told the line of a fault.
Merges are stored; everything else about tokens is derived: an atom is a token that no merge makes, a scaffolding token
is one that a merge makes and the vocabulary does not keep.

>>> vocabulary = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=("l", "o", "w</w>", "low</w>"))
>>> vocabulary.scaffolding, vocabulary.size, vocabulary.ids["low</w>"]
(('lo',), 4, 7)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from volt import arguments
from volt.display import counted, html_note, html_page, html_table
from volt.errors import ConfigError, VocabularyError, quoted, shown, shown_path
from volt.files.atomic import write_atomic
from volt.text.atoms import atom_code
from volt.text.markers import BYTE_TOKENS, SUFFIX, Marker, check_marker
from volt.text.normalizer import Normalizer, as_normalizer
from volt.text.pretokenizer import PreTokenizer, as_pretokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary.file import VocabularyFile, dump

_SURROGATE = re.compile("[\ud800-\udfff]")
_ROLES = ("unk", "bos", "eos", "pad")


@dataclass(frozen=True)
class Vocabulary:
    """Merges, tokens, and how text becomes words.

    merges: pairs of strings, by rank
    tokens: the kept tokens, in the order of their ids
    counts: how often each token occurs in the corpus that it was learned from, or none
    marker, normalizer, pretokenizer: how text becomes words, and words atoms
    special: the tokens with roles, and the user's own
    byte_fallback: whether an unknown character becomes its bytes, which are tokens then
    provenance: what made the vocabulary, as JSON values

    The normaliser and the pre-tokeniser may be given by their names. As a collection, a vocabulary holds everything
    that has an id: `len` counts the ids, special and byte tokens included, while `size` counts `tokens` alone.
    Raises VocabularyError if a token or merge repeats, is no atom and no merge makes it, or collides with a special
    token.

    >>> vocabulary = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo"), normalizer="nfc")
    >>> vocabulary, len(vocabulary), "lo" in vocabulary, vocabulary.id_of("lo"), vocabulary.id_of("low")
    (<Vocabulary: 3 tokens, 1 merge, suffix, nfc, whitespace>, 7, True, 6, None)
    """

    merges: tuple[tuple[str, str], ...]
    tokens: tuple[str, ...]
    counts: tuple[int, ...] = ()
    marker: Marker = "suffix"
    normalizer: Normalizer = field(default_factory=Normalizer)
    pretokenizer: PreTokenizer = field(default_factory=PreTokenizer)
    special: SpecialTokens = field(default_factory=SpecialTokens)
    byte_fallback: bool = False
    provenance: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        check_marker(self.marker)
        for name, value in self._told().items():
            object.__setattr__(self, name, value)  # the one way in which a frozen dataclass takes what was meant
        for section, index, message in chain(self._merge_faults(), self._token_faults()):
            raise VocabularyError(message, place=(section, index))

    def _told(self) -> dict[str, object]:
        """The fields as what they are declared to be: lists as tuples, names as what they name."""
        merges = arguments.several(self.merges, "merges")
        return {
            "merges": tuple(_pair(pair, f"merges[{rank}]") for rank, pair in enumerate(merges)),
            "tokens": tuple(arguments.texts(self.tokens, "tokens", one="did you mean tokens=(token,)?")),
            "counts": tuple(arguments.wholes(self.counts, "counts")),
            "normalizer": as_normalizer(self.normalizer),
            "pretokenizer": as_pretokenizer(self.pretokenizer),
            "special": arguments.instance(self.special, SpecialTokens, "special"),
            "provenance": arguments.mapping(self.provenance, "provenance"),
        }

    def __repr__(self) -> str:
        settings = [self.marker, self.normalizer.name, arguments.shortened(self.pretokenizer.name)]
        parts = [counted(self.size, "token"), counted(len(self.merges), "merge"), *settings]
        parts += ["byte fallback"] * self.byte_fallback + [f"{len(self.special.user):,} user tokens"] * bool(
            self.special.user
        )
        return f"<Vocabulary: {', '.join(part for part in parts if part != 'none')}>"

    def _repr_html_(self) -> str:
        sizes = {"tokens": self.size, "merges": len(self.merges), "ids": len(self)}
        numbers = [(name, f"{size:,}") for name, size in sizes.items()]
        settings = [("marker", self.marker), ("normalizer", self.normalizer.name)]
        settings += [
            ("pretokenizer", self.pretokenizer.name),
            ("special", " ".join(map(arguments.shortened, self.special.all[:12]))),
        ]
        longest = sorted(self.tokens, key=lambda token: (-len(token), token))[:6]
        rows = [*numbers, *settings, ("longest tokens", " ".join(map(arguments.shortened, longest)))]
        return html_page("Vocabulary", html_table([], rows), html_note(f"fingerprint {self.fingerprint}"))

    def __len__(self) -> int:
        return len(self.pieces)

    def __contains__(self, token: object) -> bool:
        return isinstance(token, str) and token in self.ids

    def id_of(self, token: str) -> int | None:
        """The id of a token, special and byte tokens included; None for what is no token of the vocabulary.

        token: as it is spelled in the vocabulary, with its marker

        >>> Vocabulary(merges=(), tokens=("a</w>",)).id_of("a</w>")
        4
        """
        return self.ids.get(arguments.text(token, "token"))

    def _merge_faults(self) -> Iterator[tuple[str, int, str]]:
        """List, index, and what is wrong and what to do."""
        made = set[str]()
        for rank, (left, right) in enumerate(self.merges):
            for part in (left, right):
                if not _is_text(part):
                    yield "merges", rank, f"{quoted(part)} holds a lone surrogate, which is no text; remove the merge"
                if part not in made and atom_code(part, marker=self.marker) is None:
                    yield (
                        "merges",
                        rank,
                        f"no character and no earlier merge makes {quoted(part)}; restore that merge",
                    )
            made.add(left + right)

    def _token_faults(self) -> Iterator[tuple[str, int, str]]:
        first, made, reserved = dict[str, int](), set(map("".join, self.merges)), set(self._reserved)
        if self.counts and len(self.counts) != len(self.tokens):
            yield "tokens", len(self.tokens) - 1, f"{len(self.tokens)} tokens but {len(self.counts)} counts"
        for index, token in enumerate(self.tokens):
            if not _is_text(token):
                yield "tokens", index, f"token {quoted(token)} holds a lone surrogate, which is no text; remove it"
            elif token in first:
                yield "tokens", index, f"token {quoted(token)} repeats token {first[token] + 1}; remove one"
            elif token in reserved:
                yield (
                    "tokens",
                    index,
                    f"token {quoted(token)} is spelled like a special token; rename the special token",
                )
            elif token not in made and atom_code(token, marker=self.marker) is None:
                yield "tokens", index, f"no merge makes {quoted(token)}; add the merge or remove the token"
            elif self.counts and self.counts[index] < 0:
                yield (
                    "tokens",
                    index,
                    f"token {quoted(token)} has the count {shown(self.counts[index])}; give 0 or more",
                )
            first.setdefault(token, index)

    @property
    def size(self) -> int:
        """The number of tokens, atoms included, special and byte tokens not."""
        return len(self.tokens)

    @cached_property
    def _reserved(self) -> tuple[str, ...]:
        """The special tokens, then what spells unknown characters and ends words behind them; ids 0, 1, 2, …"""
        lone_marker = (SUFFIX,) * (self.marker == "suffix" and bool(self.special.user or self.byte_fallback))
        return self.special.all + BYTE_TOKENS * self.byte_fallback + lone_marker

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """The string of every id: special tokens, byte tokens, then `tokens`."""
        return self._reserved + self.tokens

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of every string in `pieces`."""
        return {piece: number for number, piece in enumerate(self.pieces)}

    @cached_property
    def atoms(self) -> tuple[str, ...]:
        """The tokens that no merge makes: those kept, then those that only merges mention."""
        made = set(map("".join, self.merges))
        mentioned = dict.fromkeys(chain(self.tokens, chain.from_iterable(self.merges)))
        return tuple(token for token in mentioned if token not in made)

    @cached_property
    def scaffolding(self) -> tuple[str, ...]:
        """The tokens that merges make on the way and encoding splits back, in the order of their merges."""
        kept = set(self.tokens)
        return tuple(token for token in dict.fromkeys(map("".join, self.merges)) if token not in kept)

    def closed(self, *, order: Literal["ids", "merges"] = "ids") -> Vocabulary:
        """The same with all scaffolding kept as tokens: nothing is split back.

        order: "ids" puts scaffolding behind the other tokens, whose ids stay; "merges" puts all that merges make behind
        the others, as they first make it, which is how tiktoken must number tokens. Scaffolding is given the count 0,
        which is exact for tokens that no longer occur.

        Raises VocabularyError if scaffolding is spelled like a special token, ConfigError if there is no such order.

        >>> Vocabulary(merges=(("l", "o"), ("lo", "w")), tokens=("l", "o", "w", "low")).closed().tokens
        ('l', 'o', 'w', 'low', 'lo')
        """
        if order not in ("ids", "merges"):
            raise ConfigError(f"unknown order {order!r}; choose ids or merges")
        for token in self.scaffolding:
            if token in self._reserved:
                raise VocabularyError(
                    f"scaffolding {quoted(token)} is spelled like a special token, so it cannot be kept as a token; "
                    "give the special token another spelling"
                )
        tokens = self.tokens + self.scaffolding
        counts = dict(zip(self.tokens, self.counts, strict=True)) if self.counts else {}
        if order == "merges":
            made = {token: rank for rank, token in reversed(list(enumerate(map("".join, self.merges))))}
            tokens = tuple(sorted(tokens, key=lambda token: made.get(token, -1)))
        return replace(self, tokens=tokens, counts=tuple(counts.get(token, 0) for token in tokens) if counts else ())

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that change with anything but the provenance."""
        content = (
            self.merges, self.tokens, self.counts, self.marker, self.normalizer.name, self.pretokenizer.name,
            self.special.all, self.byte_fallback,
        )  # fmt: skip
        return blake2b(repr(content).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, whole or not at all.

        path: where to

        Raises OutputError if it cannot be written, VocabularyError if its provenance is no text.

        >>> import tempfile
        >>> vocabulary = Vocabulary(merges=(("a", "b"),), tokens=("a", "b", "ab"))
        >>> with tempfile.NamedTemporaryFile(suffix=".volt") as file:
        ...     vocabulary.save(file.name)
        ...     Vocabulary.load(file.name) == vocabulary
        True
        """
        special = {role: getattr(self.special, role) for role in _ROLES} | {"user": list(self.special.user)}
        head = {
            "fingerprint": self.fingerprint,
            "marker": self.marker,
            "normalizer": self.normalizer.name,
            "pretokenizer": self.pretokenizer.name,
            "special": special,
            "byte_fallback": self.byte_fallback,
            "provenance": self.provenance,
        }
        tokens = list(zip(self.tokens, self.counts, strict=True) if self.counts else zip(self.tokens))
        try:
            data = dump(head, tokens=tokens, merges=self.merges).encode()
        except UnicodeEncodeError:
            raise VocabularyError("the provenance holds a lone surrogate, which is no text; leave it out") from None
        with write_atomic(arguments.path(path)) as file:
            file.write(data)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Read a file.

        path: of the file

        Raises VocabularyError, with file and line, if it is foreign, damaged, newer or inconsistent.
        """
        file = VocabularyFile.read(Path(arguments.path(path)))
        try:
            vocabulary = cls(**_arguments(file))
        except VocabularyError as error:
            raise VocabularyError(
                f"{file.where(*error.place)}: {error.message}" if error.place else str(error)
            ) from None
        except ConfigError as error:
            raise VocabularyError(f"{shown_path(path)}: {error}") from None
        if file.data.get("fingerprint", vocabulary.fingerprint) != vocabulary.fingerprint:
            raise VocabularyError(
                f"{file.where('fingerprint')}: the fingerprint does not match the content: the file was edited or "
                "damaged. Restore it, or delete this line to accept the content as it is"
            )
        return vocabulary


def _pair(pair: Any, name: str) -> tuple[str, str]:
    """A merge as a pair of strings."""
    parts = arguments.texts(pair, name, one="give a pair of strings")
    if len(parts) != 2:
        raise VocabularyError(f"{name} has {len(parts)} parts; give a pair of strings")
    return parts[0], parts[1]


def _is_text(token: str) -> bool:
    return token.isascii() or not _SURROGATE.search(token)


def _arguments(file: VocabularyFile) -> dict[str, Any]:
    """A file's content as the arguments of Vocabulary."""
    first = file.value("tokens", list)[:1]
    counted = bool(first) and isinstance(first[0], list) and len(first[0]) == 2
    tokens = file.rows("tokens", *((str, int) if counted else (str,)))
    special = file.value("special", dict)
    user = special.get("user")
    if (
        set(special) != {*_ROLES, "user"}
        or not isinstance(user, list)
        or not all(isinstance(token, str) for token in [*user, *(special[role] for role in _ROLES)])
    ):
        raise VocabularyError(f"{file.where('special')}: 'special' must hold unk, bos, eos, pad and a list, user")
    return {
        "merges": tuple((left, right) for left, right in file.rows("merges", str, str)),
        "tokens": tuple(row[0] for row in tokens),
        "counts": tuple(row[1] for row in tokens) if counted else (),
        "marker": file.value("marker", str),
        "normalizer": Normalizer.parse(file.value("normalizer", str)),
        "pretokenizer": PreTokenizer.parse(file.value("pretokenizer", str)),
        "special": SpecialTokens(**{**special, "user": tuple(user)}),
        "byte_fallback": file.value("byte_fallback", bool),
        "provenance": file.value("provenance", dict),
    }
