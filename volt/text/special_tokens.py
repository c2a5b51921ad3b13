r"""Special tokens, and how user tokens get through normalising and splitting unchanged.

    special tokens   with a role (unk, bos, eos, pad), for control, and user tokens, found in text

Before a text is normalised and split, each user token is *hidden*: a private character, from
U+10C000 on, replaces it. So that no text can forge a user token, placeholders first replace the
private characters that the text itself contains. Its pre-tokens get them back, each after a `MARK`:

    "see <url> \U0010c000"  →  "see \U0010c000 \U00100000"  →  pre-tokens
    "see", "\U0010c000" (the user token), "\U0010fffd\U0010c000" (a mark, and the text's own character)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from volt import arguments
from volt.errors import ConfigError, quoted
from volt.text.atoms import SUFFIX
from volt.text.byte_alphabet import ALPHABET, BYTE_TOKENS, to_bytes, to_characters
from volt.text.white_space import WHITE_SPACE

if TYPE_CHECKING:
    import polars as pl

    from volt.array_types import Longs


Role: TypeAlias = Literal["unk", "bos", "eos", "pad"]
ROLES: tuple[Role, ...] = get_args(Role)
FLAGS = {"skips": None, "lstrip": (), "rstrip": ()}  # name → default
FIRST_HIDDEN = 0x10C000
LAST_HIDDEN = 0x10FFFD
MOST_USER = LAST_HIDDEN - FIRST_HIDDEN  # each has a private character; the last is the mark
MARK = chr(LAST_HIDDEN)
HIDDEN_START = chr(FIRST_HIDDEN).encode()[:1]  # the first byte of each private character in UTF-8
HIDDEN = re.compile(f"([{chr(FIRST_HIDDEN)}-{MARK}])")
# The private characters that serve as placeholders.
_PLACEHOLDERS = [*range(0x100000, FIRST_HIDDEN), *range(0xF0000, 0xFFFFE)]
_LAST_RESORT = 0xFFFD  # the placeholder if all others are taken
_FIRST_BYTES = {ALPHABET[0xF4], ALPHABET[0xF3]}  # of a placeholder, in GPT-2's alphabet
LONGEST = 1000  # characters of a special token: searching takes time quadratic in its length
_HELP = "choose another spelling, such as <url>"


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The tokens that are not learned from text.

    unk, bos, eos, pad: the tokens with a role, or None; one token may have several roles
    user: tokens found in text and never split, at most 16,381; they may have roles, and may contain
        white space
    control: further tokens with ids, never found in text, such as marks of the turns of a chat
    skips: the tokens that decoding can skip; None for those with a role, control tokens, and user
        tokens like <|…|>
    lstrip, rstrip: the user tokens that include the white space before them, or after them, in text

    Raises ConfigError if a token is empty, unprintable, repeated, over 1,000 characters, or spelled
    like an ordinary token; if a token that is not a user token contains white space; or if skips,
    lstrip or rstrip names a token that is not special.

    >>> SpecialTokens(user=["<url>"]).all[4:]
    ('<url>',)
    >>> SpecialTokens(unk="<|end|>", bos="<|end|>", eos="<|end|>", pad=None).all
    ('<|end|>',)
    """

    unk: str | None = "<unk>"
    bos: str | None = "<s>"
    eos: str | None = "</s>"
    pad: str | None = "<pad>"
    user: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    skips: tuple[str, ...] | None = None
    lstrip: tuple[str, ...] = ()
    rstrip: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("user", "control", *FLAGS):
            tokens = getattr(self, name)
            if tokens is not FLAGS.get(name, ()):
                tokens = arguments.texts(tokens, name, one=f"did you mean {name}=(token,)?")
                object.__setattr__(self, name, tuple(tokens))
        for role, token in self.roles.items():
            arguments.text(token, role)
        if len(self.user) > MOST_USER:
            raise ConfigError(
                f"{len(self.user):,} user tokens, but the limit is {MOST_USER:,}; "
                "remove some of them"
            )
        self._check_spellings()
        for name, tokens in self.flags.items():
            for unknown in sorted({*tokens}.difference(self.all)):
                raise ConfigError(
                    f"{name}: {quoted(unknown)} is not a special token; add it to user or control"
                )

    def _check_spellings(self) -> None:
        n_listed = Counter(self.user + self.control)
        role_tokens = self.roles.values()
        spaced = set(self.spaced)
        for token in self.all:
            words = token.split()
            is_one_word = words == [token] or token in spaced
            if len(token) > LONGEST:
                fault = f"has more than {LONGEST:,} characters"
            elif not is_one_word or not "".join(words).isprintable():
                fault = "is empty, or contains white space or unprintable characters"
            elif token in BYTE_TOKENS or token.endswith(SUFFIX) or n_listed[token] > 1:
                fault = "repeats, is a byte token, or ends in </w>"
            elif len(token) == 1 and token in role_tokens:
                fault = "is one character, which may occur in text"
            else:
                continue
            raise ConfigError(f"special token {quoted(token)} {fault}; {_HELP}")

    @property
    def roles(self) -> dict[Role, str]:
        """Role → its token, without roles that have no token.

        >>> SpecialTokens(None, "<s>", "<s>", None).roles
        {'bos': '<s>', 'eos': '<s>'}
        """
        tokens = {role: getattr(self, role) for role in ROLES}
        return {role: token for role, token in tokens.items() if token is not None}

    @property
    def all(self) -> tuple[str, ...]:
        """All special tokens, each once, in order of ids: unk, bos, eos, pad, user, control.

        >>> SpecialTokens(user=("<url>",)).all
        ('<unk>', '<s>', '</s>', '<pad>', '<url>')
        """
        return tuple(dict.fromkeys([*self.roles.values(), *self.user, *self.control]))

    @property
    def skipped(self) -> tuple[str, ...]:
        """The tokens that decoding can skip: `skips`, or tokens with a role, control, and <|…|>.

        >>> SpecialTokens(user=("<url>", "<|im_start|>")).skipped[4:]
        ('<|im_start|>',)
        """
        if self.skips is not None:
            return self.skips
        marks = [token for token in self.user if token.startswith("<|") and token.endswith("|>")]
        return tuple(dict.fromkeys([*self.roles.values(), *marks, *self.control]))

    @property
    def spaced(self) -> tuple[str, ...]:
        r"""The user tokens that contain white space.

        >>> SpecialTokens(user=("<url>", "  ", "\n\n")).spaced
        ('  ', '\n\n')
        """
        return tuple(token for token in self.user if token and token.split() != [token])

    @property
    def flags(self) -> dict[str, tuple[str, ...]]:
        """`skips`, `lstrip` and `rstrip` by name, without those that have their default."""
        values = {name: getattr(self, name) for name in FLAGS}
        return {name: tokens for name, tokens in values.items() if tokens != FLAGS[name]}

    @property
    def has_four_roles(self) -> bool:
        """Return whether four tokens have roles, the others are user tokens, and none has flags."""
        if self.control or self.flags or len(self.roles) < 4:
            return False
        return len(self.all) == 4 + len(self.user)

    @property
    def stripping(self) -> tuple[str, str]:
        """The private characters of the user tokens in `lstrip`, and of those in `rstrip`."""
        hidden = _hidden(self.user)
        strips_left = [hidden.get(token, "") for token in self.lstrip]
        strips_right = [hidden.get(token, "") for token in self.rstrip]
        return "".join(strips_left), "".join(strips_right)

    def hide(self, text: pl.Expr) -> pl.Expr:
        """Return the expression for a text with private characters in place of user tokens.

        White space that a user token includes is dropped. Longer tokens are searched first.

        text: String expression of Polars
        """
        if not self.user:
            return text
        longest_first = sorted(self.user, key=len, reverse=True)
        characters = list(map(_hidden(self.user).__getitem__, longest_first))
        result = text.str.replace_many(longest_first, characters, leftmost=True)
        strips_left, strips_right = self.stripping
        if strips_left:
            result = result.str.replace_all(rf"\s+([{strips_left}])", "$1")
        if strips_right:
            result = result.str.replace_all(rf"([{strips_right}])\s+", "$1")
        return result

    def hide_text(self, text: str) -> str:
        """Do the same as `hide` for one string.

        text: any
        """
        hidden = _hidden(self.user)
        result = ""
        end = 0
        for token, token_start, token_end in self._find_users(text):
            result += text[end:token_start] + hidden[token]
            end = token_end
        return result + text[end:]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the start and end of each user token in a text, with white space that it includes.

        text: any

        >>> SpecialTokens(user=("<url>", "<m>"), lstrip=("<m>",)).spans("see <url> <m>")
        [(4, 9), (9, 13)]
        """
        return [(start, end) for _, start, end in self._find_users(text)]

    def _find_users(self, text: str) -> Iterator[tuple[str, int, int]]:
        """Yield each user token in a text, and its start and end."""
        # A regex of all user tokens would have thousands of branches.
        present = [token for token in self.user if token in text]
        present.sort(key=len, reverse=True)
        branches = "|".join(map(re.escape, present))
        matches = list(re.finditer(branches or "(?!)", text))
        next_starts = [match.start() for match in matches[1:]]
        next_starts.append(len(text))
        previous_end = 0
        for match, next_start in zip(matches, next_starts, strict=False):
            token = match[0]
            start, end = match.span()
            if token in self.lstrip:
                start = previous_end + len(text[previous_end:start].rstrip(WHITE_SPACE))
            if token in self.rstrip:
                end = next_start - len(text[end:next_start].lstrip(WHITE_SPACE))
            yield token, start, end
            previous_end = end

    def revealed(self, code_point: int) -> str | None:
        """Return the user token that a character stands for; None if it does not stand for one.

        code_point: the code point of the character
        """
        index = code_point - FIRST_HIDDEN
        if 0 <= index < len(self.user):
            return self.user[index]
        return None


@lru_cache(maxsize=16)
def _hidden(user: tuple[str, ...]) -> dict[str, str]:
    return {token: chr(FIRST_HIDDEN + index) for index, token in enumerate(user)}


@dataclass(frozen=True, slots=True)
class Placeholders:
    """The characters that replace the private characters of texts.

    of_text: index of a text → (private character → its placeholder), as code points; texts without
        private characters have no entry
    """

    of_text: Mapping[int, Mapping[int, int]]

    def put(self, texts: Sequence[str]) -> Sequence[str]:
        """Return the texts with placeholders for private characters."""
        if not self.of_text:
            return texts
        result = list(texts)
        for index, placeholder_of in self.of_text.items():
            result[index] = texts[index].translate(placeholder_of)
        return result

    def restored(
        self, words: Sequence[Sequence[str]], *, is_bytes: bool = False
    ) -> list[list[str]]:
        """Return each text's pre-tokens with private characters for their placeholders.

        A `MARK` is put before each character, unless pre-tokens are spelled in bytes: private
        characters then become the spelling of their bytes, which no user token has.

        words: the pre-tokens of each text
        is_bytes: whether pre-tokens are in GPT-2's alphabet
        """
        result = list(map(list, words))
        for text_index, placeholder_of in self.of_text.items():
            own = {placeholder: chr(code) for code, placeholder in placeholder_of.items()}
            own.pop(_LAST_RESORT, None)
            if not is_bytes:
                own = {placeholder: MARK + character for placeholder, character in own.items()}
            for word_index, word in enumerate(words[text_index]):
                if not is_bytes:
                    result[text_index][word_index] = word.translate(own)
                elif not _FIRST_BYTES.isdisjoint(word):
                    decoded = to_bytes(word).decode()
                    restored = to_characters(decoded.translate(own).encode())
                    result[text_index][word_index] = restored
        return result


def stand_ins(texts: Sequence[str]) -> Placeholders:
    """Return placeholders for the private characters in texts: characters that the text lacks.

    If a text has more than 114,000 different private characters, U+FFFD replaces the rest.
    """
    if HIDDEN_START not in "".join(texts).encode():
        return Placeholders({})
    result = dict[int, dict[int, int]]()
    for text_index, text in enumerate(texts):
        codes = set(map(ord, text))
        private = [code for code in sorted(codes) if FIRST_HIDDEN <= code <= LAST_HIDDEN]
        if private:
            unused = (code for code in _PLACEHOLDERS if code not in codes)
            result[text_index] = {code: next(unused, _LAST_RESORT) for code in private}
    return Placeholders(result)


def marked(codes: Longs) -> Longs:
    """Return the indices of marks in the code points of pre-tokens.

    The character after a mark is a private character of the text, even if it equals `MARK`.
    """
    import numpy as np

    marks = list[int]()
    marked_index = -1
    for index in np.flatnonzero(codes == ord(MARK)).tolist():
        if index != marked_index:
            marks.append(index)
            marked_index = index + 1
    return np.array(marks, np.int64)


def with_marks(word: str) -> str:
    """Return a word of a caller with a mark before each private character."""
    return HIDDEN.sub(rf"{MARK}\g<0>", word)
