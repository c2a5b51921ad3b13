"""Read vocabularies and merges in any of `FORMATS`, given by name or recognised; write vocabularies to a file."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from volt import arguments
from volt.errors import (
    ArgumentError,
    CandidateError,
    ConfigError,
    VocabularyError,
    VoltError,
    VoltWarning,
    shown_path,
    unreadable,
)
from volt.files.remote_files import local_copy
from volt.files.small_files import is_pipe, read_bytes, read_head
from volt.formats.protocol import HEAD_SIZE, MergeList, named
from volt.urls import url_of

if TYPE_CHECKING:
    from volt.formats.protocol import Format, LoadPeer
    from volt.vocabulary import Vocabulary
    from volt.vocabulary.add_special_tokens import Ids


_ABLE = "a .volt vocabulary, a tokenizer.json, a .tiktoken file, subword-nmt or fastBPE codes, or a sentencepiece model"


def read_merges(path: str | Path) -> MergeList:
    """Return the merges of a file in any format, as candidates for a search.

    path: path of a file, or of a folder with the files of one model

    Raises CandidateError, with file and line, if the file contains no merges, or is damaged.

    >>> read_merges("/nowhere/codes")
    Traceback (most recent call last):
        ...
    volt.errors.CandidateError: /nowhere/codes: cannot be read: no such file or directory; check the path
    """
    from volt.formats import subword_nmt
    from volt.formats.sentencepiece import model_file

    place = Path(arguments.path(path))
    data = b"" if place.is_dir() else read_bytes(place, kind=CandidateError)
    if not data and not place.is_dir():
        raise CandidateError(f"{path}: empty; give {_ABLE}")
    if data.startswith(model_file.FIRST_BYTE):
        return model_file.read_merges(path, data)
    try:
        name = "volt" if data.startswith(_OWN) else guess_format(place, data[:HEAD_SIZE])
    except VocabularyError as error:
        if data.lstrip()[:1] == b"{" or not data:  # certainly not codes
            raise CandidateError(str(error)) from None
        name = "subword-nmt"
    return subword_nmt.read_merges(path, data) if name == "subword-nmt" else _merges_of(place, name)


def _merges_of(path: Path, name: str) -> MergeList:
    from volt.formats.tiktoken import reading as ranks

    if name in FORMATS and hasattr(format_module(name), "rows"):
        raise CandidateError(
            f"{path}: a list of tokens ({name}), which contains no merges; give {_ABLE}"
        )
    try:
        if name == "tiktoken":
            return ranks.read_merges(path)
        vocabulary, _ = read_with_format(path)
    except VocabularyError as error:
        raise error.reworded(error.message, CandidateError) from None
    if not vocabulary.merges:
        raise CandidateError(f"{path}: the vocabulary has no merges; give {_ABLE}")
    cut = arguments.shortened(vocabulary.pretokenizer.name)
    notes = [
        f"only its merges are taken, which were made for words cut by {cut}; its tokens and ids are not used"
    ]
    if unmade := len(vocabulary.unmade):
        notes.append(f"{unmade:,} of its tokens are dropped, because no merge makes them")
    pairs = _ranked_pairs(vocabulary) if vocabulary.merging == "ranks" else list(vocabulary.merges)
    return MergeList(pairs, vocabulary.marker, vocabulary.pretokenizer.is_bytes, tuple(notes))


def _ranked_pairs(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Return the merges of a vocabulary that merges by ranks, ordered so that a merge's parts are made before it."""
    from volt.formats.huggingface.writing import merges_of
    from volt.formats.tiktoken.ranks import merges_of as merges_of_ranks
    from volt.text.byte_alphabet import to_bytes

    if vocabulary.pretokenizer.is_bytes:
        return merges_of_ranks(
            [*map(to_bytes, vocabulary.atoms), *map(to_bytes, dict.fromkeys(vocabulary.made))]
        )
    known, pairs = set(vocabulary.atoms), list[tuple[str, str]]()
    for pair in merges_of(vocabulary):
        if known.issuperset(pair):
            known.add("".join(pair))
            pairs.append(pair)
    return pairs


# A new format is a module and one line here. The first format that recognises a file reads it, so formats that
# recognise many files, such as lists of words, come last.
FORMATS = {
    "subword-nmt": "volt.formats.subword_nmt",
    "sentencepiece": "volt.formats.sentencepiece.model_file",
    "huggingface": "volt.formats.huggingface",
    "tiktoken": "volt.formats.tiktoken",
    "fairseq": "volt.formats.fairseq",
    "marian": "volt.formats.marian",
    "opennmt": "volt.formats.opennmt",
    "tokens": "volt.formats.token_list",
}

_OTHERS = {  # the first bytes, in lower case, of files that are often given instead of a tokenizer
    **dict.fromkeys(
        (b"<!doctype html", b"<html"),
        "a web page, saved instead of a file; download the file itself",
    ),
    b"version https://git-lfs": "a pointer of Git LFS, not the file itself; fetch the file with git lfs pull",
    b"pk\x03\x04": "a zip archive; unpack it, and give a file in it",
    b"\xef\xbb\xbf": "text that starts with a byte order mark (U+FEFF); save it without one",
}
VOLT = "VOLT"
_UNLIKE_RANKS = (VOLT, "sentencepiece", "huggingface")  # a ranks file is never mistaken for these
_OWN = b'{"volt"'  # the first bytes of a VOLT file


def files_written(path: str | Path, *, to: str) -> tuple[Path, ...]:
    """Return the files that `write_vocabulary` writes at a path.

    >>> [str(path) for path in files_written("codes", to="subword-nmt")]
    ['codes', 'codes.vocab']
    """
    return _files(format_module(to), "files_written", Path(path))


def files_read(path: str | Path, *, format: str | None = None) -> tuple[Path, ...]:
    """Return the files that `read_vocabulary` may read at a path; the path itself if it is not a vocabulary."""
    path = _as_written(Path(path))
    if url_of(path) or not (path.is_file() or path.is_dir()):  # a pipe can be read only once
        return (path,)
    try:
        name = format or _format_at(path)
    except VocabularyError:  # reading it reports the error
        name = VOLT
    return (path,) if name == VOLT else (path, *_files(format_module(name), "files_read", path))


@contextmanager
def model_at_hand(path: str | Path, *, format: str | None = None) -> Iterator[Path]:
    """Yield a local path unchanged; for a URL, the path of a copy, next to copies of other files the format needs."""
    with local_copy(
        path, kind=VocabularyError, beside=lambda copy: files_read(copy, format=format)
    ) as place:
        yield place


def _files(module: Any, name: str, path: Path) -> tuple[Path, ...]:
    result: tuple[Path, ...] = (
        getattr(module, name)(path) if path.name and hasattr(module, name) else (path,)
    )
    return result


def write_vocabulary(
    vocabulary: Vocabulary, path: str | Path, *, to: str, chat_template: str | Path | None = None
) -> list[str]:
    """Write another library's format. Returns a sentence for each property that it lacks or handles differently.

    vocabulary: the vocabulary to write
    path: path of the file or folder
    to: the name of the format, one of `FORMATS`
    chat_template: for huggingface, a Jinja template as a string, or a Path to a file with one

    Raises ConfigError for an unknown format or a template that is not valid, VocabularyError if the format cannot store
    this vocabulary.

    >>> import tempfile
    >>> from volt.vocabulary import Vocabulary
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     write_vocabulary(Vocabulary(merges=(("l", "o"),), tokens=("l", "lo")), file.name, to="tokens")[1]
    'the list has no merges: reading it back requires a file of merges'
    """
    from volt.vocabulary import Vocabulary

    vocabulary = arguments.instance(vocabulary, Vocabulary, "vocabulary")
    module, place = format_module(to, "to"), Path(arguments.path(path))
    if (spaced := vocabulary.special.spaced) and not getattr(module, "STORES_WHITE_SPACE", False):
        what = f"{shown_path(place)}: {to} cannot store the user token {spaced[0]!r}, which contains white space"
        raise VocabularyError(f"{what}; write", hint={"to": "huggingface"})
    if chat_template is None:
        notes = module.write(vocabulary, place)
        strips = list(dict.fromkeys([*vocabulary.special.lstrip, *vocabulary.special.rstrip]))
        if strips and to != "huggingface":
            notes.append(
                f"In VOLT, and not there, white space next to a token belongs to it: {named(strips)}."
            )
        return notes
    if (write := getattr(module, "write_with_template", None)) is None:
        raise ConfigError(
            f"{to} has no place for a chat template; leave it out, or write",
            hint={"to": "huggingface"},
        )
    result: list[str] = write(vocabulary, place, chat_template=chat_template)
    return result


def read_vocabulary(
    path: str | Path,
    *,
    format: str | None = None,
    merges: str | Path | None = None,
    pattern: str | None = None,
    special: Iterable[str] | Ids = (),
    unk: str | Ids | None = None,
    bos: str | Ids | None = None,
    eos: str | Ids | None = None,
    pad: str | Ids | None = None,
) -> Vocabulary:
    """Read a vocabulary file of VOLT or of another library, which may be compressed.

    path: path or URL of the file
    format: the name of its format, one of `FORMATS`; by default, recognised by the content
    merges: a file of merges, for formats that list only tokens
    pattern: the pattern that cuts text into words, for formats that do not name it: a published pattern, such as
        cl100k, or a regular expression
    special: further tokens found in text and never split: a list, or a dict with ids, {"<|end|>": 100257}
    unk, bos, eos, pad: the token with this role, or a dict {token: id}; the same string in a line stays text
    Warns with a VoltWarning of what the file lacks, and of what VOLT does differently (`Vocabulary.notes`).
    Raises VocabularyError, with file and line, if the file is damaged or in an unknown format.
    Raises ConfigError for a pattern if the file names its own, or for an id that another token has.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"#version: 0.2\\nt h\\nth e</w>\\n") and file.flush()
    ...     read_vocabulary(file.name, eos="<end>").special.eos
    '<end>'
    """
    names = {"special": special, "unk": unk, "bos": bos, "eos": eos, "pad": pad}
    result, name = read_with_format(path, format=format, merges=merges, pattern=pattern, **names)
    if result.notes and name != VOLT:
        warnings.warn(" ".join([f"{shown_path(path)}:", *result.notes]), VoltWarning, stacklevel=2)
    return result


def read_with_format(
    path: str | Path,
    *,
    format: str | None = None,
    merges: str | Path | None = None,
    pattern: str | None = None,
    **names: Any,
) -> tuple[Vocabulary, str]:
    """Return what `read_vocabulary` does, without a warning, and the name of the format."""
    from volt.vocabulary import Vocabulary
    from volt.vocabulary.add_special_tokens import named
    from volt.vocabulary.cached_vocabulary import cached_vocabulary
    from volt.vocabulary.file_format import garbage_collection_paused

    with ExitStack() as stack:
        stack.enter_context(garbage_collection_paused())
        place = stack.enter_context(_at_hand(path, format=format))
        if merges is not None:
            copy = local_copy(arguments.path(merges, "merges"), kind=VocabularyError)
            merges = _no_pipe(stack.enter_context(copy))
        name = format or _format_at(place)
        is_cached = name in (
            "huggingface",
            "tiktoken",
        )  # `files_read` returns all their files, the main one last
        paths = files_read(place, format=name) if is_cached and merges is None else ()
        read = partial(_read, place, name, merges, pattern)
        output = cached_vocabulary(Vocabulary, paths, read, name, pattern)
        try:
            return named(output, **names), name
        except ArgumentError:
            raise
        except VoltError as error:
            raise error.reworded(f"{shown_path(place)}: {error.message}") from None


def _read(path: Path, format: str, merges: Path | None, pattern: str | None) -> Vocabulary:
    from volt.vocabulary import Vocabulary

    if pattern is None:
        return (
            Vocabulary.load(path)
            if format == VOLT
            else format_module(format).read(path, merges=merges)
        )
    read = None if format == VOLT else getattr(format_module(format), "read_with_pattern", None)
    if read is None:
        message = f"{path}: its format, {format}, defines how text is split into words; remove the pattern"
        if format in _UNLIKE_RANKS:
            raise ConfigError(message)
        raise ConfigError(
            f"{message}; if it contains tiktoken's ranks, import it with",
            hint={"format": "tiktoken"},
        )
    output: Vocabulary = read(path, merges=merges, pattern=arguments.text(pattern, "pattern"))
    return output


def format_of(path: str | Path) -> str:
    """Return the format of another library's file, one of `FORMATS`. Raises VocabularyError if it is unknown."""
    with _at_hand(path) as place:
        if (name := _format_at(place)) == VOLT:
            raise VocabularyError(
                f"{place}: a VOLT vocabulary, not a file of another library; use it as it is"
            )
        return name


def listed_pieces(path: str | Path) -> list[str] | None:
    """Return the pieces of a list without merges, in the file's spelling; None for other formats."""
    with _at_hand(path) as place:
        name = VOLT if place.is_dir() else _format_at(place)
        rows = None if name == VOLT else getattr(format_module(name), "rows", None)
        return None if rows is None else [row.piece for row in rows(place)]


@contextmanager
def _at_hand(path: str | Path, format: str | None = None) -> Iterator[Path]:
    with model_at_hand(arguments.path(path), format=format) as copy:
        yield _as_written(_no_pipe(copy))


def _format_at(path: Path) -> str:
    head = _head(path)
    if not head and not path.is_dir():
        raise VocabularyError(f"{path}: empty; download or export it again")
    return VOLT if head.startswith(_OWN) else guess_format(path, head)


def _as_written(path: Path) -> Path:
    """Return the path, or PATH.model if only that exists: sentencepiece's `write` adds the suffix."""
    model = path.parent / f"{path.name}.model"
    return model if model.is_file() and not path.exists() else path


def _no_pipe(path: Path) -> Path:
    if is_pipe(path):
        raise VocabularyError(
            f"{path}: a pipe, which can be read only once; give a file with its content"
        )
    return path


def guess_format(path: Path, head: bytes) -> str:
    """Return the first format that recognises a file by its first bytes. Raises VocabularyError if none does."""
    start = head.lstrip()[:99].lower()
    if other := next((what for sign, what in _OTHERS.items() if start.startswith(sign)), None):
        raise VocabularyError(f"{path}:1: {other}")
    for name in FORMATS:
        if format_module(name).recognises(path, head):
            return name
    if (odd := import_module(FORMATS["opennmt"]).odd_line(head)) is not None:
        raise VocabularyError(
            f"{path}:{odd}: is not `count<TAB>subword`, as the lines before it are; fix the line"
        )
    raise VocabularyError(
        f"{path}:1: neither a VOLT vocabulary nor a file of {', '.join(FORMATS)}; find one on your corpus"
    )


def peer_loader(name: str) -> LoadPeer | None:
    """Return the function that loads a format's real library; None for token lists, which have no library."""
    result: LoadPeer | None = getattr(format_module(name), "peer", None)
    return result


def closing_order(name: str) -> Literal["ids", "merges"]:
    """Return a format's order of tokens for `Vocabulary.closed`: "merges" if ids are ranks of merges, else "ids"."""
    result: Literal["ids", "merges"] = getattr(format_module(name), "CLOSING_ORDER", "ids")
    return result


def format_module(name: str, argument: str = "format") -> Format:
    """Return the module of a format. Raises ConfigError for an unknown name. argument: what errors call `name`"""
    if arguments.text(name, argument, remedy=f"choose from {', '.join(FORMATS)}") not in FORMATS:
        near = get_close_matches(name.lower(), FORMATS, n=1)
        hint = f"did you mean {near[0]}? The formats are" if near else "choose from"
        raise ConfigError(f"unknown format {name!r}; {hint} {', '.join(FORMATS)}")
    module: Format = import_module(FORMATS[name])
    return module


def _head(path: Path) -> bytes:
    try:
        is_folder = path.is_dir()
    except (OSError, ValueError) as error:
        raise unreadable(path, error, kind=VocabularyError) from None
    return b"" if is_folder else read_head(path, HEAD_SIZE, kind=VocabularyError)
