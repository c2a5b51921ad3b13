r"""Hugging Face tokenizer.json, alone or in a folder that transformers loads ⇄ vocabulary.

Written: id for id the same strings, the same pieces on any text, but for what `write` returns. Only user tokens are
"added tokens", because tokenizers would find the others, such as "</s>", in text, and VOLT never does; transformers is
told the same by `split_special_tokens`. Encoding adds no bos or eos.

Read: files of type BPE. Tokens stay in the order of their ids, behind unk, bos, eos, pad, user tokens and byte tokens,
so ids stay only in files that VOLT wrote. Added tokens that have no role become user tokens. Left out: tokens that
nothing makes, what a post-processor adds, dropout, fused unknowns. Where VOLT's rules differ from the library's, VOLT's
hold: tokens with a role are plain text in text, U+001C to U+001F are white space, a metaspace line that starts with a
space gets its "▁" all the same, and a final "Σ" is lowered to "ς".

>>> import json, tempfile
>>> vocabulary = Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=("l", "o", "w</w>", "lo", "low</w>"))
>>> with tempfile.TemporaryDirectory() as folder:
...     notes = write(vocabulary, Path(folder, "model"))
...     sorted(found.name for found in Path(folder, "model").iterdir()), notes
...     read(Path(folder, "model")).fingerprint == vocabulary.fingerprint
(['special_tokens_map.json', 'tokenizer.json', 'tokenizer_config.json'], [])
True
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import Any

from volt.atoms import PREFIX, SUFFIX, Marker, atom_code
from volt.encoder import Encoder
from volt.errors import ConfigError, MissingLibraryError, OutputError, VocabularyError
from volt.formats import Peer
from volt.special import BYTE_TOKENS, FIRST_HIDDEN, LAST_HIDDEN, SpecialTokens
from volt.text import Normalizer, PreTokenizer
from volt.vocabulary import Vocabulary
from volt.writer import write_atomic

Json = dict[str, Any]

_FILE, _CONFIG, _MAP = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
_ROLES = ("unk", "bos", "eos", "pad")
_SPACES = "\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # what str.split() cuts at
_GPT2 = (
    rf"'s|'t|'re|'ve|'m|'ll|'d|{PREFIX}?\p{{L}}+|{PREFIX}?\p{{N}}+|{PREFIX}?[^\s{PREFIX}\p{{L}}\p{{N}}]+"
    rf"|[\s{PREFIX}]+(?![^\s{PREFIX}])|[\s{PREFIX}]+"
)
# Lowercase lowers character by character; only at the end of a word is Σ another letter (Unicode's Final_Sigma).
_FINAL_SIGMA = r"\p{Cased}\p{Case_Ignorable}*\KΣ(?!\p{Case_Ignorable}*\p{Cased})"
_BERT_WORDS = r"[!-/:-@\[-`{-~\p{P}]|[^\s!-/:-@\[-`{-~\p{P}]+"
_SMALL = {"NFC": "nfc", "NFKC": "nfkc", "Lowercase": "lowercase"}


@dataclass(frozen=True, slots=True)
class _Scheme:
    """How text becomes words, and words atoms. hides: whether there are user tokens."""

    marker: Marker
    normalizer: str
    pretokenizer: str
    hides: bool

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> _Scheme:
        names = vocabulary.normalizer.name, vocabulary.pretokenizer.name
        return cls(vocabulary.marker, *names, hides=bool(vocabulary.special.user))

    @property
    def cut(self) -> PreTokenizer:
        """The pre-tokeniser."""
        return PreTokenizer(self.pretokenizer)


def write(vocabulary: Vocabulary, path: Path) -> list[str]:
    """Write a folder, or one file if `path` ends in .json; what the format cannot carry or does differently.

    Raises VocabularyError if it cannot hold this vocabulary, OutputError if the place cannot be written to.
    """
    _refuse(vocabulary, path)
    notes, text = list(_notes(vocabulary)), _json(_tokenizer(vocabulary))
    if path.suffix == ".json":
        _write_file(path, text)
        return notes
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OutputError(f"{path}: no folder can be made here: {reason}; choose another place with -o") from None
    roles = {f"{role}_token": getattr(vocabulary.special, role) for role in _ROLES}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **roles, "split_special_tokens": True}
    _write_file(path / _MAP, _json(roles))
    _write_file(path / _CONFIG, _json(config | {"clean_up_tokenization_spaces": False}))
    _write_file(path / _FILE, text)
    return notes


def read(path: Path, *, merges: Path | None = None) -> Vocabulary:
    """Read a tokenizer.json, or the folder that holds one; see the top of this module.

    Raises VocabularyError, with file and place, if it is damaged, of another type, or cuts text in a way VOLT cannot.
    """
    if merges is not None:
        raise VocabularyError(f"{merges}: a tokenizer.json holds its merges itself; leave out the merges file")
    path = path / _FILE if path.is_dir() else path
    data = _load(path)
    model = _section(path, data)
    vocabulary, pairs = _vocab(path, model), list(_merges(path, model))
    try:
        scheme = _read_scheme(data, model, vocabulary)
        arguments = _read_tokens(scheme, model, vocabulary, pairs, _named(path, model), _added(data, vocabulary))
        result = Vocabulary(**arguments)
    except (VocabularyError, ConfigError) as error:
        raise VocabularyError(f"{path}: {error}") from None
    if model.get("ignore_merges"):
        _check_whole_words(path, result)
    return result


def recognises(path: Path, head: bytes) -> bool:
    """Whether this is a tokenizer.json, or a folder that holds one."""
    if path.is_dir():
        return (path / _FILE).is_file()
    return head.lstrip()[:1] == b"{" and (b'"added_tokens"' in head or b'"truncation"' in head)


def peer(path: Path) -> Peer:
    """tokenizers with the file loaded; it has ids in common with VOLT if VOLT wrote the file.

    Raises MissingLibraryError if tokenizers is not installed, VocabularyError if it refuses the file.
    """
    path = path / _FILE if path.is_dir() else path
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingLibraryError("comparing with tokenizers needs: pip install 'volt-vocab[interop]'") from None
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # it raises nothing narrower
        raise VocabularyError(f"{path}: tokenizers cannot load it ({error}); restore the file") from None
    try:
        shares_ids = read(path).ids == tokenizer.get_vocab()
    except VocabularyError:
        shares_ids = False

    def pieces(lines: Sequence[str]) -> list[list[str]]:
        found = tokenizer.encode_batch(list(lines), add_special_tokens=False)
        return [_spelled(tokenizer, line, one.tokens) for line, one in zip(lines, found, strict=True)]

    def ids(lines: Sequence[str]) -> list[list[int]]:
        return [one.ids for one in tokenizer.encode_batch(list(lines), add_special_tokens=False)]

    return Peer("tokenizers", pieces, ids if shares_ids else None)


def _write_file(path: Path, text: str) -> None:
    with write_atomic(path) as file:
        file.write(text.encode())


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


# ---- vocabulary → file


def _refuse(vocabulary: Vocabulary, path: Path) -> None:
    """Raise VocabularyError if the format cannot hold this vocabulary."""
    scaffolding, cut, marker = vocabulary.scaffolding, vocabulary.pretokenizer, vocabulary.marker
    lost = [atom for atom in vocabulary.atoms if atom not in vocabulary.ids]
    if scaffolding:
        raise VocabularyError(
            f"{path}: the vocabulary is pruned: {len(scaffolding):,} tokens, such as {scaffolding[0]!r}, are made on "
            "the way and split back into their parts, but this format cannot split back: they would come out as "
            "pieces. Export with --closed (Vocabulary.closed()), which keeps them as tokens"
        )
    if lost:
        raise VocabularyError(
            f"{path}: merges use {lost[0]!r}, which is no token ({len(lost):,} characters in all), and this format "
            "merges tokens only; add these characters to the tokens, or remove their merges"
        )
    if marker != "none" and (cut.is_bytes or (marker == "prefix" and cut.keeps_spaces)):
        raise VocabularyError(
            f"{path}: this format cannot mark words by {marker!r} that the pre-tokenizer {cut.name!r} cuts; "
            "search with --marker none"
        )


def _notes(vocabulary: Vocabulary) -> Iterator[str]:
    """What the format cannot carry or does differently, a sentence each."""
    scheme, special = _Scheme.of(vocabulary), vocabulary.special
    if vocabulary.counts:
        yield "The counts of the tokens are not in the file: the format has no place for them."
    if len(set(vocabulary.merges)) < len(vocabulary.merges):
        yield "Merges that repeat an earlier one are not in the file: they have no effect."
    if special.user:
        yield from _user_notes(scheme, special.user[0])
    if vocabulary.byte_fallback and vocabulary.marker == "suffix":
        yield (
            "An unknown character that ends a word becomes its bytes and the four bytes of '</w>', where VOLT gives "
            "its bytes and the token '</w>'."
        )
    if vocabulary.normalizer.form == "nfkc":
        yield (
            "Characters newer than the Unicode version of tokenizers, such as U+1FBF7 in 0.23, stay as they are, "
            "where VOLT's NFKC changes them."
        )
    if scheme.pretokenizer.startswith("regex:"):
        yield (
            "The regex is read by another engine (Oniguruma), whose \\w, \\d and \\b differ on rare characters, such "
            "as '¼': check your text with --check."
        )
        if vocabulary.marker == "prefix":
            yield "A word that itself begins with '▁' gets no second '▁' in front."
    for left, right in _remade(vocabulary.merges):
        yield (
            f"Where {left!r}, {right!r} occur twice in a row the cut may differ: VOLT merges both before it looks for "
            "merges of a lower rank, tokenizers does not."
        )
        break


def _user_notes(scheme: _Scheme, example: str) -> Iterator[str]:
    """How text around user tokens is treated differently."""
    if scheme.marker == "suffix":
        yield (
            f"User tokens, such as {example}, cut the words that they touch: the part before one ends in '</w>', and "
            f"no lone '</w>' piece follows one that ends a word, as it does in VOLT."
        )
    elif scheme.marker == "prefix":
        yield (
            f"User tokens, such as {example}, cut the words that they touch: the part behind one starts with '▁', "
            "and no lone '▁' piece precedes one that starts a word, as it does in VOLT."
        )
    elif scheme.cut.dummy_prefix:
        yield (
            f"A line that begins with a user token, such as {example}, or with a space gets no further '▁' in front, "
            "as it does in VOLT: transformers and tokenizers cannot have both user tokens and that."
        )
    elif not scheme.cut.is_bytes:
        yield (
            f"Text is cut at user tokens, such as {example}, before it is cut into words, where VOLT cuts it into "
            "words with the tokens in it: white space or symbols beside one may fall into other pieces."
        )


def _remade(merges: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Merges whose token an earlier merge makes too, and may by a lower rank take from the next occurrence."""
    made, uses = set[str](), defaultdict[str, list[tuple[str, str]]](list)
    for left, right in merges:
        reached, waiting = {left + right}, [left + right] * (left + right in made)
        while waiting:
            part = waiting.pop()
            if (part, left) in uses[part]:
                yield left, right
                break
            new = {"".join(pair) for pair in uses[part]} - reached
            reached |= new
            waiting += new
        made.add(left + right)
        for part in {left, right}:
            uses[part].append((left, right))


def _tokenizer(vocabulary: Vocabulary) -> Json:
    """The content of tokenizer.json."""
    scheme, special = _Scheme.of(vocabulary), vocabulary.special
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": vocabulary.ids[token], "content": token, **flags} for token in special.user],
        "normalizer": _sequence("normalizers", _normalizers(scheme)),
        "pre_tokenizer": _sequence("pretokenizers", _pre_tokenizers(scheme)),
        "post_processor": None,
        "decoder": _sequence("decoders", _decoders(scheme, vocabulary.byte_fallback)),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": special.unk,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": SUFFIX if vocabulary.marker == "suffix" else None,
            "fuse_unk": False,
            "byte_fallback": vocabulary.byte_fallback,
            "ignore_merges": False,
            "vocab": vocabulary.ids,
            "merges": [list(pair) for pair in dict.fromkeys(vocabulary.merges)],
        },
    }


def _sequence(name: str, steps: list[Json]) -> Json | None:
    return {"type": "Sequence", name: steps} if len(steps) > 1 else steps[0] if steps else None


def _normalizers(scheme: _Scheme) -> list[Json]:
    """What tokenizers does to a text before it cuts it."""
    normalizer, name = Normalizer.parse(scheme.normalizer), scheme.pretokenizer
    form = [{"type": normalizer.form.upper()}] * (normalizer.form != "none")
    lower = [_replace(_FINAL_SIGMA, "ς", regex=True), {"type": "Lowercase"}, *form]
    hidden = _replace(f"[{chr(FIRST_HIDDEN)}-{chr(LAST_HIDDEN)}]", "\ufffd", regex=True)
    steps = [hidden] * scheme.hides + form + lower * normalizer.lowercase
    prepend: list[Json] = [{"type": "Prepend", "prepend": PREFIX}]
    if scheme.marker == "prefix" and name == "whitespace":
        strip = {"type": "Strip", "strip_left": True, "strip_right": True}
        return [*steps, _replace(f"[{_SPACES}]+", " ", regex=True), strip, *prepend, _replace(" ", f" {PREFIX}")]
    if name.startswith("regex:"):
        return steps + [_replace(PREFIX, " ")] * scheme.cut.keeps_spaces
    if name == "gpt2" or scheme.cut.dummy_prefix:
        return steps + prepend * (scheme.cut.dummy_prefix and not scheme.hides) + [_replace(" ", PREFIX)]
    return steps


def _pre_tokenizers(scheme: _Scheme) -> list[Json]:
    """How tokenizers cuts a normalised text into words."""
    name, pattern = scheme.pretokenizer, scheme.cut.pattern
    first: list[Json] = [_metaspace("first", split=False)] * scheme.hides
    if scheme.cut.is_bytes:
        return [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]
    if name == "whitespace":
        return [_split(" " if scheme.marker == "prefix" else f"[{_SPACES}]+", "Removed")]
    if name == "metaspace":
        return [_metaspace("first" if scheme.hides else "never", split=True)]
    if name == "unicode":
        return [*first, _split(pattern, "Isolated")]
    if name == "gpt2":
        return [_split(_GPT2, "Isolated")]
    words = _split(pattern, "Removed", invert=True)
    return [words, _metaspace("always" if scheme.marker == "prefix" else "never", split=False)]


def _decoders(scheme: _Scheme, byte_fallback: bool) -> list[Json]:
    """How tokenizers makes text of tokens."""
    if scheme.cut.is_bytes:
        return [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]
    keeps_spaces, ends = scheme.cut.keeps_spaces, scheme.marker == "suffix"
    ending = [_replace(rf"{SUFFIX}\z", "" if keeps_spaces else " ", regex=True)] * ends
    spaces = [_replace(PREFIX, " ")] * (scheme.marker == "prefix" or keeps_spaces)
    bytes_last: list[Json] = [{"type": "ByteFallback"}] * byte_fallback
    starts = scheme.marker == "prefix" or scheme.cut.dummy_prefix
    first = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] * starts
    last = [_replace(r" \z", "", regex=True)] * (ends and not keeps_spaces)  # Strip panics on an empty text here
    return [*ending, *spaces, *bytes_last, {"type": "Fuse"}, *first, *last]


def _replace(found: str, content: str, *, regex: bool = False) -> Json:
    return {"type": "Replace", "pattern": {"Regex" if regex else "String": found}, "content": content}


def _split(pattern: str, behavior: str, *, invert: bool = False) -> Json:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def _metaspace(scheme: str, *, split: bool) -> Json:
    return {"type": "Metaspace", "replacement": PREFIX, "prepend_scheme": scheme, "split": split}


# ---- file → vocabulary


def _load(path: Path) -> Json:
    """The JSON object in a file."""
    try:
        data = json.loads(path.read_bytes().decode(), object_pairs_hook=_without_repeats)
    except OSError as error:
        raise VocabularyError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError as error:
        raise VocabularyError(f"{path}: byte {error.start} is no UTF-8, so this is no JSON; restore the file") from None
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


def _section(path: Path, data: Json) -> Json:
    """The model of the file, if it is one that VOLT can be."""
    model, version = data.get("model"), data.get("version", "1.0")
    if not isinstance(model, dict):
        raise VocabularyError(f"{path}: no tokenizer.json: 'model' is missing; give the tokenizer.json of a tokenizer")
    if version != "1.0":
        raise VocabularyError(f"{path}: version {version!r} of the format, and VOLT reads '1.0'; restore the file")
    kind = model.get("type", "BPE" if "merges" in model else None)
    if kind != "BPE":
        raise VocabularyError(f"{path}: a tokenizer of type {kind!r}; VOLT reads those of type 'BPE'")
    if model.get("continuing_subword_prefix"):
        raise VocabularyError(
            f"{path}: tokens inside words start with {model['continuing_subword_prefix']!r}, which VOLT cannot do; "
            "train one without continuing_subword_prefix"
        )
    if model.get("end_of_word_suffix") not in (None, "", SUFFIX):
        raise VocabularyError(f"{path}: words end in {model['end_of_word_suffix']!r}, and VOLT reads {SUFFIX!r} only")
    return model


def _vocab(path: Path, model: Json) -> dict[str, int]:
    """The ids of the model's tokens, in their order."""
    vocab, of_id = model.get("vocab"), dict[int, str]()
    if not isinstance(vocab, dict):
        raise VocabularyError(f"{path}: model.vocab is missing or no object; restore the file")
    for token, number in vocab.items():
        if type(number) is not int or number < 0:
            raise VocabularyError(f"{path}: model.vocab: token {token!r} has the id {number!r}; give 0 or more")
        if number in of_id:
            raise VocabularyError(
                f"{path}: model.vocab: tokens {of_id[number]!r} and {token!r} have the same id {number}; restore one"
            )
        of_id[number] = token
    return {of_id[number]: number for number in sorted(of_id)}


def _merges(path: Path, model: Json) -> Iterator[tuple[str, str]]:
    """The merges, each of two strings that are tokens and make a token."""
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


def _added(data: Json, vocab: Mapping[str, int]) -> list[str]:
    """The added tokens, in the order of their ids."""
    rows = data.get("added_tokens") or []
    shapes = isinstance(rows, list) and all(
        isinstance(row, dict) and isinstance(row.get("content"), str) and type(row.get("id")) is int for row in rows
    )
    if not shapes:
        raise VocabularyError("added_tokens must be a list of objects with 'id' and 'content'; restore the file")
    for row in rows:
        flags = [flag for flag in ("single_word", "lstrip", "rstrip") if row.get(flag) and not row.get("special")]
        if flags:
            raise VocabularyError(f"added token {row['content']!r} has {flags[0]}, which VOLT cannot do; remove it")
        if row["id"] < 0 or vocab.get(row["content"], row["id"]) != row["id"]:
            raise VocabularyError(f"added token {row['content']!r} has the id {row['id']}, not its own; restore it")
    return [row["content"] for row in sorted(rows, key=lambda row: int(row["id"]))]


def _named(path: Path, model: Json) -> dict[str, str]:
    """The tokens with a role that the model and the files beside it name."""
    found = {"unk": model.get("unk_token")}
    for name in (_MAP, _CONFIG):
        beside = path.with_name(name)
        if path.name == _FILE and beside.exists():
            found |= {role: value for role, value in _role_names(_load(beside)) if not found.get(role)}
    return {role: token for role, token in found.items() if isinstance(token, str)}


def _role_names(config: Json) -> Iterator[tuple[str, Any]]:
    for role in _ROLES:
        value = config.get(f"{role}_token")
        yield role, value.get("content") if isinstance(value, dict) else value


def _read_scheme(data: Json, model: Json, vocab: Mapping[str, int]) -> _Scheme:
    """The scheme that makes these normalizer and pre_tokenizer sections, or does what they do."""
    normalizer, cut = data.get("normalizer"), data.get("pre_tokenizer")
    suffix = model.get("end_of_word_suffix") == SUFFIX
    names = ["whitespace", "metaspace", "unicode", "gpt2", "bytes", *_patterns(cut)]
    markers: tuple[Marker, ...] = ("suffix",) if suffix else ("none", "prefix")
    for marker, name, form, lower, hides in product(markers, names, _FORMS, (False, True), (False, True)):
        scheme = _Scheme(marker, Normalizer(form, lower).name, name, hides)
        sections = _sequence("normalizers", _normalizers(scheme)), _sequence("pretokenizers", _pre_tokenizers(scheme))
        if sections == (normalizer, cut):
            return scheme
    steps = _flat(normalizer, "normalizers")
    if cut is None and [step.get("type") for step in steps[-2:]] == ["Prepend", "Replace"]:
        return _Scheme("none", _read_normalizer(steps[:-2]), _read_unsplit(steps[-2:], vocab), False)
    return _Scheme("suffix" if suffix else "none", _read_normalizer(steps), _read_cut(cut), False)


_FORMS = ("none", "nfc", "nfkc")


def _patterns(cut: Any) -> Iterator[str]:
    """The regex pre-tokenisers that a pre_tokenizer section may have come from."""
    for step in _flat(cut, "pretokenizers"):
        pattern = step.get("pattern")
        if step.get("type") == "Split" and step.get("invert") and isinstance(pattern, dict) and "Regex" in pattern:
            yield f"regex:{pattern['Regex']}"


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
    if steps != [{"type": "Prepend", "prepend": PREFIX}, _replace(" ", PREFIX)] or inside is not None:
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
    simple = {
        "WhitespaceSplit": "whitespace",
        "Whitespace": r"regex:\w+|[^\w\s]+",
        "BertPreTokenizer": f"regex:{_BERT_WORDS}",
    }
    if kind in simple:
        return simple[kind]
    shown = json.dumps(section, ensure_ascii=False)
    raise VocabularyError(
        f"the pre_tokenizer {shown if len(shown) < 300 else shown[:300] + '…'} cuts text in a way VOLT cannot; VOLT "
        "reads ByteLevel (GPT-2's regex, add_prefix_space false), Metaspace, WhitespaceSplit, Whitespace, "
        "BertPreTokenizer, and what it writes itself"
    )


def _read_tokens(
    scheme: _Scheme, model: Json, vocab: dict[str, int], merges: list[tuple[str, str]], named: dict[str, str],
    added: list[str],
) -> Json:  # fmt: skip
    """The arguments of Vocabulary."""
    made = set(map("".join, merges))
    fallback = bool(model.get("byte_fallback"))
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


def _special(
    named: dict[str, str], orphans: Sequence[str], added: Sequence[str], vocab: Mapping[str, int]
) -> SpecialTokens:
    """Roles: those named; in a file of VOLT's alone ids 0 to 3; otherwise the usual names, or free ones."""
    if [*vocab][:4] == [*orphans][:4] == [token for token, number in vocab.items() if number < 4]:
        named = dict(zip(_ROLES, orphans[:4], strict=True)) | named
    roles = dict[str, str]()
    for role, usual in zip(_ROLES, SpecialTokens().all, strict=True):
        token, known = named.get(role), {*orphans, *added}
        if token is None or token in roles.values():
            token = usual if usual in known or usual not in vocab else f"<volt-{role}>"
        roles[role] = token
    user = tuple(token for token in added if token not in roles.values())
    return SpecialTokens(**roles, user=user)


def _check_whole_words(path: Path, vocabulary: Vocabulary) -> None:
    """Raise VocabularyError if taking a word that is a token whole, as the file demands, gives another encoding."""
    words = Encoder(vocabulary).encode_words(vocabulary.tokens) if vocabulary.marker == "none" else [()]
    for token, pieces in zip(vocabulary.tokens, words, strict=False):
        if pieces != (token,):
            raise VocabularyError(
                f"{path}: with ignore_merges the word {token!r} is a token that its merges do not make; VOLT cannot "
                "encode so. Choose a tokenizer without ignore_merges"
            )


# ---- the real library


def _spelled(tokenizer: Any, line: str, tokens: list[str]) -> list[str]:
    """The tokens of a line with unknown characters as themselves, which is how VOLT spells them."""
    model = tokenizer.model
    if model.unk_token not in tokens or model.byte_fallback:
        return tokens
    atoms, place, result = list(_atoms(tokenizer, line, model.end_of_word_suffix or "")), 0, []
    for token in tokens:
        result.append(atoms[place] if token == model.unk_token else token)
        length = len(result[-1])
        while length > 0:
            length, place = length - len(atoms[place]), place + 1
    return result


def _atoms(tokenizer: Any, line: str, suffix: str) -> Iterator[str]:
    """The symbols that tokenizers starts to merge from; an added token is one."""
    added = sorted((one.content for one in tokenizer.get_added_tokens_decoder().values()), key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, added))})", line) if added else [line]
    for number, part in enumerate(parts):
        if part in added:
            yield part
        elif part:
            text = tokenizer.normalizer.normalize_str(part) if tokenizer.normalizer else part
            cut = tokenizer.pre_tokenizer
            words = cut.pre_tokenize_str(text) if cut else [(text, None)]
            if (number or not parts[0]) and cut and b'"first"' in cut.__getstate__() and text[0] != PREFIX:
                words[0] = (words[0][0].removeprefix(PREFIX), None)  # only a line's first part has it
            yield from chain.from_iterable((*word[:-1], word[-1] + suffix) for word, _ in words if word)
