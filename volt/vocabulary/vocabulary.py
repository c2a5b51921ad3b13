"""`Vocabulary`: ordered merges, or scores, tokens with ids, special tokens, and how text becomes words.

An atom is a token that no merge makes. Scaffolding is the results of merges that are not tokens of
the vocabulary. A unigram model has scores instead of merges: a word becomes the tokens whose scores
have the greatest sum (Kudo 2018).

>>> vocabulary = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=("l", "o", "w</w>", "low</w>"))
>>> vocabulary.scaffolding, vocabulary.size, vocabulary.ids["low</w>"]
(('lo',), 4, 7)
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from volt import arguments
from volt.display import counted, html_note, html_page, html_table
from volt.errors import ConfigError, VocabularyError, quoted, shown_path
from volt.files.atomic import write_atomic
from volt.text.atoms import SUFFIX, Marker, atom_code, check_marker
from volt.text.byte_alphabet import BYTE_TOKENS
from volt.text.normalizer import Normalizer, as_normalizer
from volt.text.pretokenizer import PreTokenizer, as_pretokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary.cached_vocabulary import (
    LISTS,
    IndexedStrings,
    StoredLists,
    cached_vocabulary,
    numbering_of,
)
from volt.vocabulary.file_format import (
    VocabularyFile,
    arguments_of,
    garbage_collection_paused,
    text_of,
)
from volt.vocabulary.validation import (
    Kind,
    as_pairs,
    as_scores,
    as_special_scores,
    assign_kinds,
    find_merge_faults,
    find_order_faults,
    find_score_faults,
    find_token_faults,
)

Merging: TypeAlias = Literal["pairs", "steps", "ranks"]
ScoreSums: TypeAlias = Literal["words", "lines"]


@dataclass(frozen=True)
class Vocabulary:
    """Merges or scores, tokens, and how text becomes words.

    merges: pairs of strings, by rank; none for a unigram model
    tokens: the tokens in the order of their ids
    counts: each token's count in the training corpus; may be empty
    marker, normalizer, pretokenizer: how text becomes words, and words become atoms
    special: tokens with roles, user tokens and control tokens
    byte_fallback: whether an unknown character becomes byte tokens, one for each byte of its UTF-8
    provenance: how the vocabulary was made, as JSON data
    merging: which neighbours join next
        "pairs"  the pair of lowest rank, wherever it occurs, from left to right, as in subword-nmt
        "steps"  its leftmost occurrence only, as in `tokenizers`; a later merge may make the parts
        of an earlier one "ranks"  like "steps", but any two neighbours that spell a merge's result,
        as in tiktoken and sentencepiece
    whole_words: whether a pre-token that equals a token is not split, as in tiktoken; tokens then
        need no merge
    fuse_unk: whether a run of characters in a word that no token or merge contains is one piece, as
        in sentencepiece
    order: the piece of every id, "" for an unused id; by default special tokens, byte tokens, then
        `tokens`
    scores: the log probability of each token, for a unigram model; tokens then need no merges
    special_scores: special tokens and byte tokens that a unigram model finds in text like tokens,
        each with its score, as in `tokenizers`
    score_sums: where the scores of a unigram model are added, which decides only between sums that
        are equal but for rounding
        "words"  from the start of each pre-token, in double precision, as in `tokenizers`
        "lines"  from the start of the line, in single precision, as in sentencepiece

    Raises VocabularyError if a token repeats or is spelled like a special token, or if a token or a
    part of a merge is neither one character nor a merge's result, or if scores and tokens do not
    match.

    >>> vocabulary = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo"), normalizer="nfc")
    >>> vocabulary, len(vocabulary), "lo" in vocabulary, vocabulary.id_of("lo"), vocabulary.id_of("low")
    (<Vocabulary: 3 tokens, 1 merge, suffix, nfc, whitespace>, 7, True, 6, None)
    """

    merges: tuple[tuple[str, str], ...]
    tokens: tuple[str, ...]
    counts: tuple[int, ...] = field(default_factory=tuple)  # no default on the class: `__getattr__`
    marker: Marker = "suffix"
    normalizer: Normalizer = field(default_factory=Normalizer)
    pretokenizer: PreTokenizer = field(default_factory=PreTokenizer)
    special: SpecialTokens = field(default_factory=SpecialTokens)
    byte_fallback: bool = False
    provenance: Mapping[str, Any] = field(default_factory=dict, compare=False)
    merging: Merging = "pairs"
    whole_words: bool = False
    order: tuple[str, ...] = field(default_factory=tuple)
    fuse_unk: bool = False
    scores: tuple[float, ...] = field(default_factory=tuple)
    score_sums: ScoreSums = "words"
    special_scores: tuple[tuple[str, float], ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        check_marker(self.marker)
        arguments.choice(self.merging, "merging", get_args(Merging))
        arguments.choice(self.score_sums, "score_sums", get_args(ScoreSums))
        tokens = arguments.texts(self.tokens, "tokens", one="did you mean tokens=(token,)?")
        values = {
            "merges": as_pairs(self.merges),
            "tokens": tuple(tokens),
            "counts": tuple(arguments.wholes(self.counts, "counts")),
            "normalizer": as_normalizer(self.normalizer),
            "pretokenizer": as_pretokenizer(self.pretokenizer),
            "special": arguments.instance(self.special, SpecialTokens, "special"),
            "provenance": arguments.mapping(self.provenance, "provenance"),
            "order": tuple(arguments.texts(self.order, "order")),
            "scores": as_scores(self.scores),
            "special_scores": as_special_scores(self.special_scores),
        }
        for name in ("byte_fallback", "whole_words", "fuse_unk"):
            values[name] = arguments.flag(getattr(self, name), name)
        for name, value in values.items():
            object.__setattr__(self, name, value)  # the dataclass is frozen

        results = set(self.made)
        in_any_order = self.merging != "pairs"
        faults = chain(
            find_merge_faults(self.merges, results, self.marker, in_any_order=in_any_order),
            find_token_faults(
                self.tokens,
                self.counts,
                results,
                self.marker,
                reserved=self._reserved,
                needs_merges=not (self.whole_words or self.is_unigram),
            ),
            find_score_faults(self, self._reserved),
            find_order_faults(self.order, self._reserved, self.tokens) if self.order else (),
        )
        for section, index, message in faults:
            raise VocabularyError(message, place=(section, index))

    if not TYPE_CHECKING:  # with it, mypy would accept any attribute

        def __getattr__(self, name: str) -> Any:
            """Build a list of a vocabulary from the cache when it is first used."""
            if self.stored is None or name not in LISTS:
                raise AttributeError(f"'Vocabulary' object has no attribute {name!r}")
            value = self.stored.build(name)
            vars(self)[name] = value
            return value

    def __repr__(self) -> str:
        parts = [counted(self.size, "token"), self.describe_model()]
        parts += [self.marker, self.normalizer.label, arguments.shortened(self.pretokenizer.name)]
        if self.byte_fallback:
            parts.append("byte fallback")
        if self.special.user:
            parts.append(f"{len(self.special.user):,} user tokens")
        return f"<Vocabulary: {', '.join(part for part in parts if part != 'none')}>"

    def _repr_html_(self) -> str:
        longest = sorted(self.tokens, key=lambda token: (-len(token), token))[:6]
        rows = [
            ("tokens", f"{self.size:,}"),
            ("model", self.describe_model()),
            ("ids", f"{len(self):,}"),
            ("marker", self.marker),
            ("normalizer", self.normalizer.label),
            ("pretokenizer", self.pretokenizer.name),
            ("special", " ".join(map(arguments.shortened, self.special.all[:12]))),
            ("longest tokens", " ".join(map(arguments.shortened, longest))),
        ]
        notes = map(html_note, (f"fingerprint {self.fingerprint}", *self.notes))
        return html_page("Vocabulary", html_table([], rows), *notes)

    def describe_model(self) -> str:
        """Return "unigram", or the number of merges.

        >>> Vocabulary(merges=(("a", "b"),), tokens=("a", "b", "ab")).describe_model()
        '1 merge'
        """
        if self.is_unigram:
            return "unigram"
        return counted(len(self.stored.results if self.stored else self.merges), "merge")

    def __len__(self) -> int:
        n_numbered = len(self.stored.order if self.stored else self.order)
        return n_numbered or len(self._reserved) + self.size

    def __contains__(self, token: object) -> bool:
        return isinstance(token, str) and token in self.ids

    def id_of(self, token: str) -> int | None:
        """Return the id of a token, special and byte tokens included; None if the vocabulary lacks
        it.

        token: the token as spelled in the vocabulary, with its marker
        """
        return self.ids.get(arguments.text(token, "token"))

    @property
    def stored(self) -> StoredLists | None:
        """The lists of a vocabulary from the cache; None for other vocabularies.

        >>> Vocabulary(merges=(), tokens=("a",)).stored is None
        True
        """
        return vars(self).get("_stored")

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on an imported vocabulary: what its file lacks, and what VOLT does differently
        from the file's library.

        >>> Vocabulary(merges=(), tokens=("a",)).notes
        ()
        """
        return tuple(self.provenance.get("lost", ()))

    @property
    def size(self) -> int:
        """The number of tokens, including atoms, without special and byte tokens."""
        return len(self.stored.tokens if self.stored else self.tokens)

    @cached_property
    def _reserved(self) -> tuple[str, ...]:
        return self.special.all + self._spelling

    @cached_property
    def _spelling(self) -> tuple[str, ...]:
        """Byte tokens, and the marker as a token, which ends a word after a byte or user token."""
        byte_tokens = BYTE_TOKENS if self.byte_fallback else ()
        has_users = bool(self.special.user) and not self.pretokenizer.isolates_users
        needs_marker = self.marker == "suffix" and (has_users or self.byte_fallback)
        if needs_marker:
            return (*byte_tokens, SUFFIX)
        return byte_tokens

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """The piece of each id, in the order of ids; "" for an unused id."""
        return self.order or self._reserved + self.tokens

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The kind of every piece, such as "token", "unk", "user", "byte", "unused".

        >>> Vocabulary(merges=(), tokens=("a",)).kinds
        ('unk', 'bos', 'eos', 'pad', 'token')
        """
        return assign_kinds(self.pieces, self.special, self._spelling)

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of every piece."""
        return {piece: number for number, piece in enumerate(self.pieces) if piece}

    @cached_property
    def reserved_ids(self) -> dict[str, int]:
        """The ids of special tokens, byte tokens and a marker that is a token.

        >>> Vocabulary(merges=(), tokens=("a",)).reserved_ids["</s>"]
        2
        """
        tokens = dict.fromkeys(self._reserved)
        if self.stored:
            return dict(zip(tokens, self.stored.reserved_ids.tolist(), strict=True))
        return {token: self.ids[token] for token in tokens}

    @property
    def is_unigram(self) -> bool:
        """Return whether tokens have scores, and no merges.

        >>> Vocabulary(merges=(), tokens=("a",), scores=(-1.5,), marker="none").is_unigram
        True
        """
        return len(self.stored.scores if self.stored else self.scores) > 0

    @property
    def unk_id(self) -> int | None:
        """The id that replaces unknown characters; None if encoding drops them."""
        if self.special.unk is None:
            return None
        return self.reserved_ids[self.special.unk]

    @cached_property
    def made(self) -> tuple[str, ...]:
        """The result of each merge."""
        return tuple(map("".join, self.merges))

    @cached_property
    def atoms(self) -> tuple[str, ...]:
        """The tokens that no merge makes: first those in `tokens`, then those that only occur in
        merges.
        """
        if self.stored:
            return self.stored.atoms
        made = set(self.made)
        mentioned = chain(self.tokens, chain.from_iterable(self.merges))
        atoms = tuple(token for token in dict.fromkeys(mentioned) if token not in made)
        if not (self.whole_words or self.is_unigram):
            return atoms
        return tuple(atom for atom in atoms if atom_code(atom, marker=self.marker) is not None)

    @cached_property
    def numbering(self) -> IndexedStrings:
        """The strings of the vocabulary, and its merges and tokens as indices of these strings."""
        return self.stored.numbering if self.stored else numbering_of(self)

    @cached_property
    def unmade(self) -> tuple[str, ...]:
        """The tokens of several characters that no merge makes; only `whole_words` and a unigram model
        allow them.
        """
        known = {*self.made, *self.atoms}
        return tuple(token for token in self.tokens if token not in known)

    @cached_property
    def scaffolding(self) -> tuple[str, ...]:
        """The results of merges that are not tokens, by rank.

        Encoding splits them back into their parts.
        """
        retained = set(self.tokens)
        return tuple(token for token in dict.fromkeys(self.made) if token not in retained)

    def closed(
        self, *, order: Literal["ids", "merges"] = "ids", exclude: Collection[str] = ()
    ) -> Vocabulary:
        """Return the vocabulary with its scaffolding as tokens of count 0, so that encoding splits
        nothing back.

        order: "ids" keeps all ids, scaffolding last; "merges" puts the results of merges last, by
            rank, as in tiktoken
        exclude: tokens that stay scaffolding

        Raises VocabularyError if scaffolding is spelled like a special token.

        >>> Vocabulary(merges=(("l", "o"), ("lo", "w")), tokens=("l", "o", "w", "low")).closed().tokens
        ('l', 'o', 'w', 'low', 'lo')
        """
        arguments.choice(order, "order", ("ids", "merges"))
        scaffolding = tuple(token for token in self.scaffolding if token not in exclude)
        for token in scaffolding:
            if token in self._reserved:
                raise VocabularyError(
                    f"{quoted(token)}, made by merges, is a special token, too; rename the special token"
                )

        tokens = self.tokens + scaffolding
        numbered = self.order and self.order + scaffolding
        if order == "merges":
            ranks = {token: rank for rank, token in reversed(list(enumerate(self.made)))}
            tokens = tuple(sorted(tokens, key=lambda token: ranks.get(token, -1)))
            numbered = ()
        counts = tuple[int, ...]()
        if self.counts:
            count_of_token = dict(zip(self.tokens, self.counts, strict=True))
            counts = tuple(count_of_token.get(token, 0) for token in tokens)
        return replace(self, tokens=tokens, counts=counts, order=numbered)

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that depend on everything but the provenance."""
        content: tuple[object, ...] = (
            self.merges,
            self.tokens,
            self.counts,
            self.marker,
            self.normalizer.name,
            self.pretokenizer.name,
            self.special.all,
            self.byte_fallback,
        )
        if not self.is_plain:
            special = self.special
            content += (tuple(special.roles.items()), special.user, special.control)
            content += (self.merging, self.whole_words, self.order)
            if self.fuse_unk:
                content += (True,)
            if self.is_unigram:
                content += (self.scores, self.score_sums, self.special_scores)
            content += tuple(special.flags.items())
        return blake2b(repr(content).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

    @property
    def is_plain(self) -> bool:
        """Check whether ids have the usual order, merging is "pairs", tokens have no scores, and each
        role has its own token.
        """
        is_usual = self.merging == "pairs" and not (self.whole_words or self.fuse_unk or self.order)
        return is_usual and self.special.has_four_roles and not self.is_unigram

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically.

        path: the path of the file

        Raises OutputError if it cannot be written, VocabularyError if the provenance is not JSON
        data.

        >>> import tempfile
        >>> vocabulary = Vocabulary(merges=(("a", "b"),), tokens=("a", "b", "ab"))
        >>> with tempfile.NamedTemporaryFile(suffix=".volt") as file:
        ...     vocabulary.save(file.name)
        ...     Vocabulary.load(file.name) == vocabulary
        True
        """
        try:
            data = text_of(self).encode()
        except UnicodeEncodeError:
            raise VocabularyError(
                "the provenance contains a lone surrogate, which is not text; remove it"
            ) from None
        with write_atomic(arguments.path(path)) as file:
            file.write(data)

    @classmethod
    @garbage_collection_paused()
    def load(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Read a file.

        path: the path of the file

        Raises VocabularyError, with file and line, if the file is not a VOLT vocabulary, is damaged
        or inconsistent, or has a newer format version.
        """
        path = Path(arguments.path(path))
        result: Vocabulary = cached_vocabulary(cls, [path], lambda: cls._read(path))
        return result

    @classmethod
    def _read(cls, path: Path) -> Vocabulary:
        file = VocabularyFile.read(path)
        try:
            vocabulary = cls(**arguments_of(file))
        except (ConfigError, VocabularyError) as error:
            message = str(error)
            if isinstance(error, VocabularyError) and error.place:
                message = f"{file.where(*error.place)}: {error.fault}"
            elif not message.startswith(shown_path(path)):
                message = f"{shown_path(path)}: {message}"
            raise VocabularyError(message) from None
        if file.data.get("fingerprint", vocabulary.fingerprint) != vocabulary.fingerprint:
            raise VocabularyError(
                f"{file.where('fingerprint')}: the fingerprint does not match: the file was edited or "
                "damaged; save it again, or delete this line to accept the change"
            )
        return vocabulary
