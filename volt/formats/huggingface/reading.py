"""tokenizer.json → the parts of a vocabulary, each checked: merges, tokens, special tokens, how text becomes words.

>>> vocab = {"l": 0, "o": 1, "w": 2, "lo": 3, "low": 4}
>>> list(model_merges(Path("tokenizer.json"), {"vocab": vocab, "merges": ["l o", ["lo", "w"]]}))
[('l', 'o'), ('lo', 'w')]
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from volt.encode.encoder import Encoder
from volt.errors import ConfigError, VocabularyError
from volt.files.whole import read_text
from volt.formats.huggingface.oniguruma import original
from volt.formats.huggingface.pipeline import Json, Scheme, normalizers, pre_tokenizers, replace_step, sequence
from volt.text import gpt2
from volt.text.atoms import atom_code
from volt.text.markers import BYTE_TOKENS, PREFIX, SUFFIX, Marker
from volt.text.normalizer import Normalizer
from volt.text.patterns.declared import name_of
from volt.text.patterns.splitter import Split
from volt.text.pretokenizer import PreTokenizer
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

FILE, CONFIG, MAP = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
ROLES = ("unk", "bos", "eos", "pad")
_BERT_CUT = r"regex:[!-/:-@\[-`{-~\p{P}]|[^\s!-/:-@\[-`{-~\p{P}]+"
GPT2_PATTERNS = gpt2.ORIGINAL, gpt2.GROUPED
_SMALL = {"NFC": "nfc", "NFKC": "nfkc", "Lowercase": "lowercase"}


def load(path: Path) -> Json:
    """The JSON object in a file."""
    text = read_text(path, kind=VocabularyError, remedy=", so no JSON; restore the file")
    try:
        data = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise VocabularyError(f"{path}:{line}: damaged or cut short ({error}); restore the file") from None
    if not isinstance(data, dict):
        raise VocabularyError(f"{path}:1: no tokenizer.json: it holds no JSON object; give the file of a tokenizer")
    return data


def _without_repeats(pairs: list[tuple[str, Any]]) -> Json:
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for number, name in enumerate(names) if name in names[:number])
        raise ValueError(f"{repeated!r} occurs twice in one object")
    return data


def model_section(path: Path, data: Json) -> Json:
    """The model of the file. Raises VocabularyError if it is not one that VOLT can be.

    >>> model_section(Path("a.json"), {"model": {"type": "WordPiece"}})
    Traceback (most recent call last):
        ...
    volt.errors.VocabularyError: a.json: a tokenizer of type 'WordPiece'; VOLT reads those of type 'BPE': it cuts off
    the longest piece first and has no merges; find a vocabulary on its corpus with volt.search
    """
    model, version = data.get("model"), data.get("version", "1.0")
    if not isinstance(model, dict):
        raise VocabularyError(f"{path}: no tokenizer.json: 'model' is missing; give the tokenizer.json of a tokenizer")
    if version != "1.0":
        raise VocabularyError(f"{path}: version {version!r} of the format, and VOLT reads '1.0'; restore the file")
    kind = model.get("type", "BPE" if "merges" in model else None)
    if kind != "BPE":
        raise VocabularyError(f"{path}: a tokenizer of type {kind!r}; VOLT reads those of type 'BPE': {_remedy(kind)}")
    if model.get("continuing_subword_prefix"):
        raise VocabularyError(
            f"{path}: tokens inside words start with {model['continuing_subword_prefix']!r}, which VOLT cannot do; "
            "train one without continuing_subword_prefix"
        )
    if model.get("end_of_word_suffix") not in (None, "", SUFFIX):
        raise VocabularyError(f"{path}: words end in {model['end_of_word_suffix']!r}, and VOLT reads {SUFFIX!r} only")
    return model


def _remedy(kind: object) -> str:
    """What to do with a tokenizer whose pieces no merges make."""
    if kind == "Unigram":
        return (
            "no merges make its pieces; give the merges of the sentencepiece .model that it comes from to "
            "volt.replay_bpe, or train a BPE tokenizer"
        )
    if kind == "WordPiece":
        return "it cuts off the longest piece first and has no merges; find a vocabulary on its corpus with volt.search"
    return "train a BPE tokenizer, or find a vocabulary with volt.search"


def model_vocab(path: Path, model: Json) -> dict[str, int]:
    """The ids of the model's tokens, in their order. Raises VocabularyError if they are no ids, or repeat.

    >>> model_vocab(Path("a.json"), {"vocab": {"lo": 1, "l": 0}})
    {'l': 0, 'lo': 1}
    """
    vocab, of_id = model.get("vocab"), dict[int, str]()
    if not isinstance(vocab, dict) or not vocab:
        raise VocabularyError(f"{path}: model.vocab is missing, empty or no object; restore the file")
    for token, number in vocab.items():
        if type(number) is not int or number < 0:
            raise VocabularyError(f"{path}: model.vocab: token {token!r} has the id {number!r}; give 0 or more")
        if number in of_id:
            raise VocabularyError(
                f"{path}: model.vocab: tokens {of_id[number]!r} and {token!r} have the same id {number}; restore one"
            )
        of_id[number] = token
    return {of_id[number]: number for number in sorted(of_id)}


def model_merges(path: Path, model: Json) -> Iterator[tuple[str, str]]:
    """The merges, each of two strings that are tokens and make a token. Raises VocabularyError for others.

    >>> list(model_merges(Path("a.json"), {"vocab": {"l": 0, "o": 1, "lo": 2}, "merges": ["l o"]}))
    [('l', 'o')]
    """
    rows, vocab = model.get("merges"), model["vocab"]
    if not isinstance(rows, list):
        raise VocabularyError(f"{path}: model.merges is missing or no list; restore the file")
    for number, row in enumerate(rows, 1):
        pair = row.split(" ") if isinstance(row, str) else row
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) and part for part in pair):
            raise VocabularyError(f"{path}: model.merges, entry {number}: {row!r} is no pair of strings; restore it")
        for token in (*pair, "".join(pair)):
            if token not in vocab:
                raise VocabularyError(
                    f"{path}: model.merges, entry {number}: {pair[0]!r} + {pair[1]!r}, but {token!r} is not in "
                    "model.vocab; restore it, or remove the merge"
                )
        yield pair[0], pair[1]


def added_tokens(data: Json, vocab: Mapping[str, int]) -> list[str]:
    """The added tokens, in the order of their ids. Raises VocabularyError for one that VOLT cannot have.

    >>> added_tokens({"added_tokens": [{"id": 5, "content": "<b>"}, {"id": 4, "content": "<a>"}]}, {"l": 0})
    ['<a>', '<b>']
    """
    rows = data.get("added_tokens") or []
    shapes = isinstance(rows, list) and all(
        isinstance(row, dict) and isinstance(row.get("content"), str) and type(row.get("id")) is int for row in rows
    )
    if not shapes:
        raise VocabularyError("added_tokens must be a list of objects with 'id' and 'content'; restore the file")
    owners = {number: token for token, number in vocab.items()}
    for row in rows:
        flags = [flag for flag in ("single_word", "lstrip", "rstrip") if row.get(flag) and not row.get("special")]
        if flags:
            raise VocabularyError(f"added token {row['content']!r} has {flags[0]}, which VOLT cannot do; remove it")
        if row["id"] < 0 or vocab.get(row["content"], row["id"]) != row["id"]:
            raise VocabularyError(f"added token {row['content']!r} has the id {row['id']}, not its own; restore it")
        if (other := owners.setdefault(row["id"], row["content"])) != row["content"]:
            raise VocabularyError(
                f"added token {row['content']!r} has the id {row['id']}, which {other!r} has; restore one"
            )
    return [row["content"] for row in sorted(rows, key=lambda row: int(row["id"]))]


def role_tokens(path: Path, model: Json) -> dict[str, str]:
    """The tokens with a role that the model and the files beside it name."""
    found = {"unk": model.get("unk_token")}
    for name in (MAP, CONFIG):
        beside = path.with_name(name)
        if path.name == FILE and beside.exists():
            found |= {role: value for role, value in _role_names(load(beside)) if not found.get(role)}
    return {role: token for role, token in found.items() if isinstance(token, str)}


def _role_names(config: Json) -> Iterator[tuple[str, Any]]:
    for role in ROLES:
        value = config.get(f"{role}_token")
        yield role, value.get("content") if isinstance(value, dict) else value


def file_users(data: Json, vocab: Mapping[str, int], added: Sequence[str]) -> tuple[str, ...]:
    """The user tokens, if VOLT wrote the file: added ones, or as many behind the four roles as the last Split names."""
    if added:
        return tuple(token for token in added if token != SUFFIX)
    steps = _flat(data.get("pre_tokenizer"), "pretokenizers")
    pattern = steps[-1].get("pattern") if len(steps) > 1 and not steps[-1].get("invert") else None
    found = pattern.get("Regex") if isinstance(pattern, dict) else None
    return tuple(vocab)[4 : 4 + len(_ALTERNATIVES.findall(found))] if isinstance(found, str) else ()


_ALTERNATIVES = re.compile(r"(?:\\.|[^|\\])+")


def read_scheme(data: Json, model: Json, vocab: Mapping[str, int], *, users: tuple[str, ...]) -> Scheme:
    """The scheme that makes these normalizer and pre_tokenizer sections, or does what they do."""
    normalizer, cut = data.get("normalizer"), data.get("pre_tokenizer")
    suffix = model.get("end_of_word_suffix") == SUFFIX
    names = ["whitespace", "metaspace", "unicode", "gpt2", "bytes", *_patterns(cut)]
    markers: tuple[Marker, ...] = ("suffix",) if suffix else ("none", "prefix")
    hidden = dict.fromkeys((users, ()))
    for marker, name, form, lower, found in product(markers, names, _FORMS, (False, True), hidden):
        scheme = Scheme(marker, Normalizer(form, lower).name, name, found)
        if is_written(data, scheme):
            return scheme
    steps = _flat(normalizer, "normalizers")
    if cut is None and [step.get("type") for step in steps[-2:]] == ["Prepend", "Replace"]:
        return Scheme("none", _read_normalizer(steps[:-2]), _read_unsplit(steps[-2:], vocab), ())
    return Scheme("suffix" if suffix else "none", _read_normalizer(steps), _read_cut(cut), ())


_FORMS = ("none", "nfc", "nfkc")


def is_written(data: Json, scheme: Scheme) -> bool:
    """Whether the normalizer and pre_tokenizer sections are those that VOLT writes for a scheme.

    >>> is_written({"normalizer": {"type": "NFC"}}, Scheme("suffix", "nfc", "whitespace", users=()))
    False
    """
    sections = sequence("normalizers", normalizers(scheme)), sequence("pretokenizers", pre_tokenizers(scheme))
    return sections == (data.get("normalizer"), data.get("pre_tokenizer"))


def _patterns(cut: Any) -> Iterator[str]:
    """The pre-tokenisers with a pattern of their own that a pre_tokenizer section may have come from."""
    yield from _splits(_flat(cut, "pretokenizers")[:-1])
    for step in _flat(cut, "pretokenizers"):
        pattern = step.get("pattern")
        if step.get("type") == "Split" and step.get("invert") and isinstance(pattern, dict) and "Regex" in pattern:
            yield f"regex:{pattern['Regex']}"


def _splits(steps: Sequence[Json]) -> Iterator[str]:
    """The pre-tokeniser whose splits these steps are, if they are, and VOLT knows their grammar."""
    patterns = [step["pattern"].get("Regex") for step in steps if isinstance(step.get("pattern"), dict)]
    if steps and len(patterns) == len(steps) and all(isinstance(pattern, str) for pattern in patterns):
        name = name_of(tuple(Split(original(pattern)) for pattern in patterns))
        with suppress(ConfigError):
            yield PreTokenizer(name).name


def _flat(section: Any, name: str) -> list[Json]:
    """The steps of a section."""
    if section is None:
        return []
    if not isinstance(section, dict):
        raise VocabularyError(f"{name}: found {section!r} where an object belongs; restore the file")
    if section.get("type") == "Sequence" and isinstance(section.get(name), list):
        return [step for part in section[name] for step in _flat(part, name)]
    return [section]


def _read_normalizer(steps: Sequence[Json]) -> str:
    """The name of the normaliser that does these steps."""
    kinds = [str(step.get("type")) for step in steps]
    name = "+".join(_SMALL.get(kind, kind) for kind in kinds) or "none"
    try:
        return Normalizer.parse(name).name
    except ConfigError:
        raise VocabularyError(
            f"the normalizer {' + '.join(kinds)} is none of VOLT's; choose a tokenizer with NFC, NFKC, Lowercase, "
            "NFC or NFKC and then Lowercase, or none"
        ) from None


def _read_unsplit(steps: Sequence[Json], vocab: Mapping[str, int]) -> str:
    """Llama's way: "▁" for spaces, and no cut at all, which is a cut at every "▁" if no token has one inside."""
    inside = next((token for token in vocab if PREFIX in token[1:]), None)
    if steps != [{"type": "Prepend", "prepend": PREFIX}, replace_step(" ", PREFIX)] or inside is not None:
        raise VocabularyError(
            f"no pre_tokenizer, and tokens such as {inside!r} span words, which VOLT's do not; choose another tokenizer"
        )
    return "metaspace"


def _read_cut(section: Any) -> str:
    """The name of the pre-tokeniser that cuts as a foreign section does."""
    kind = section.get("type") if isinstance(section, dict) else None
    if kind == "ByteLevel" and not section.get("add_prefix_space", True) and section.get("use_regex", True):
        return "bytes"
    if kind == "Metaspace" and section.get("replacement") == PREFIX:
        scheme = section.get("prepend_scheme", "always" if section.get("add_prefix_space", True) else "never")
        if scheme == "never":
            return "regex: [^ ]*|[^ ]+" if section.get("split", True) else "regex:(?s).+"
        if section.get("split", True):
            return "metaspace"
    steps = _flat(section, "pretokenizers")
    if len(steps) == 2 and steps[0].get("type") == "Split" and steps[1].get("type") == "ByteLevel":
        return _read_split_bytes(*steps)
    cuts = {"WhitespaceSplit": "whitespace", "Whitespace": r"regex:\w+|[^\w\s]+", "BertPreTokenizer": _BERT_CUT}
    if kind in cuts:
        return cuts[kind]
    shown = json.dumps(section, ensure_ascii=False)
    raise VocabularyError(
        f"the pre_tokenizer {shown if len(shown) < 300 else shown[:300] + '…'} cuts text in a way VOLT cannot; VOLT "
        "reads ByteLevel (GPT-2's regex, add_prefix_space false), Metaspace, WhitespaceSplit, Whitespace, "
        "BertPreTokenizer, and what it writes itself"
    )


def _read_split_bytes(split: Json, level: Json) -> str:
    """Bytes behind a regex of their own, as in GPT-4, Llama 3 and Qwen: VOLT knows only that of GPT-2."""
    pattern = split.get("pattern")
    found = pattern.get("Regex", pattern.get("String")) if isinstance(pattern, dict) else None
    plain = split.get("behavior") == "Isolated" and not split.get("invert")
    if found in GPT2_PATTERNS and plain and not level.get("add_prefix_space", True):
        return "bytes"
    raise VocabularyError(
        f"the pre_tokenizer cuts text by the pattern {found!r} before it takes bytes, and VOLT takes bytes of words "
        f"cut by GPT-2's pattern only, {GPT2_PATTERNS[0]!r}; choose a tokenizer with that one (ByteLevel with "
        "use_regex true), or find a vocabulary on your corpus, counted with pretokenizer='bytes'"
    )


def read_tokens(
    scheme: Scheme, model: Json, vocab: dict[str, int], merges: list[tuple[str, str]], named: dict[str, str],
    added: list[str],
) -> Json:  # fmt: skip
    """The arguments of Vocabulary."""
    made = set(map("".join, merges))
    fallback = _falls_back(model, vocab)
    atoms = {token for token in vocab if atom_code(token, marker=scheme.marker) is not None}
    orphans = [token for token in vocab if token not in made and token not in atoms and token not in added]
    special = _special(named, orphans, added, vocab)
    reserved = {*special.all, *BYTE_TOKENS * fallback}
    if scheme.marker == "suffix" and (fallback or special.user):
        reserved.add(SUFFIX)
    last = {pair: rank for rank, pair in enumerate(merges)}  # of equal merges tokenizers takes the last
    return {
        "merges": tuple(sorted(last, key=last.__getitem__)),
        "tokens": tuple(token for token in vocab if (token in made or token in atoms) and token not in reserved),
        "marker": scheme.marker,
        "normalizer": Normalizer.parse(scheme.normalizer),
        "pretokenizer": scheme.cut,
        "special": special,
        "byte_fallback": fallback,
    }


def _falls_back(model: Json, vocab: Mapping[str, int]) -> bool:
    """Whether unknown characters become bytes. Raises VocabularyError if only some of the bytes are tokens."""
    n_bytes = sum(token in vocab for token in BYTE_TOKENS)
    if model.get("byte_fallback") and 0 < n_bytes < len(BYTE_TOKENS):
        lacking = next(token for token in BYTE_TOKENS if token not in vocab)
        raise VocabularyError(
            f"byte_fallback, but only {n_bytes} of the 256 byte tokens are in model.vocab, and {lacking!r} is not; "
            "restore them, or remove them all and set byte_fallback to false"
        )
    return bool(model.get("byte_fallback")) and n_bytes > 0


def _special(
    named: dict[str, str], orphans: Sequence[str], added: Sequence[str], vocab: Mapping[str, int]
) -> SpecialTokens:
    """Roles: those named; in a file of VOLT's alone ids 0 to 3; otherwise the usual names, or free ones."""
    if len(vocab) > 3 and [*vocab][:4] == [*orphans][:4] == [token for token, number in vocab.items() if number < 4]:
        named = dict(zip(ROLES, orphans[:4], strict=True)) | named
    roles = dict[str, str]()
    for role, usual in zip(ROLES, SpecialTokens().all, strict=True):
        token, known = named.get(role), {*orphans, *added}
        if token is None or token in roles.values():
            token = usual if usual in known or usual not in vocab else f"<volt-{role}>"
        roles[role] = token
    user = tuple(token for token in added if token not in roles.values())
    return SpecialTokens(**roles, user=user)


def check_whole_words(path: Path, vocabulary: Vocabulary) -> None:
    """Raise VocabularyError if taking a word that is a token whole, as the file demands, gives another encoding."""
    token = next(not_whole(vocabulary) if vocabulary.marker == "none" else iter(vocabulary.tokens), None)
    if token is not None:
        raise VocabularyError(
            f"{path}: with ignore_merges the word {token!r} is a token that its merges do not make; VOLT cannot "
            "encode so. Choose a tokenizer without ignore_merges"
        )


def not_whole(vocabulary: Vocabulary) -> Iterator[str]:
    """The tokens that their own string, taken for a word as it is, does not become.

    >>> list(not_whole(Vocabulary(merges=(("l", "o"), ("o", "w"), ("l", "ow")), tokens=("l", "o", "w", "low"))))
    ['low']
    """
    words = Encoder(replace(vocabulary, marker="none")).encode_words(vocabulary.tokens)
    return (token for token, pieces in zip(vocabulary.tokens, words, strict=True) if pieces != (token,))
