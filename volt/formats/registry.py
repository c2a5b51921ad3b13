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
from volt.formats.protocol import HEAD_SIZE, MergeList, Pair, hook, named
from volt.urls import url_of

if TYPE_CHECKING:
    from volt.formats.protocol import Format, LoadPeer
    from volt.vocabulary import Vocabulary
    from volt.vocabulary.add_special_tokens import Ids


_ABLE = (
    "a .volt vocabulary, a tokenizer.json, a .tiktoken file, subword-nmt or fastBPE codes, "
    "or a sentencepiece model"
)


def read_merges(path: str | Path) -> MergeList:
    """Return the merges of a file in any format, as candidates for a search.

    path: path of a file, or of a folder with the files of one model

    Raises CandidateError, with file and line, if the file contains no merges, or is damaged.

    >>> read_merges("/nowhere/codes")
    Traceback (most recent call last):
        ...
    volt.errors.CandidateError: /nowhere/codes: cannot be read: no such file or directory; check the path
    """
    place = Path(arguments.path(path))
    data = b""
    if not place.is_dir():
        data = read_bytes(place, kind=CandidateError)
        if not data:
            raise CandidateError(f"{path}: empty; give {_ABLE}")

    name = _format_with_merges(place, data)
    module = _module_of(name)
    if hook(module, "read_rows"):
        raise CandidateError(
            f"{path}: a list of tokens ({name}), which contains no merges; give {_ABLE}"
        )
    try:
        if read := hook(module, "read_merges"):
            result: MergeList = read(path, data)
            return result
        vocabulary, _ = read_with_format(place)
    except VocabularyError as error:
        raise error.reworded(error.message, CandidateError) from None
    return _merges_of(path, vocabulary)


def _format_with_merges(path: Path, data: bytes) -> str:
    from volt.formats.sentencepiece.model_file import FIRST_BYTE

    if data.startswith(FIRST_BYTE):
        return "sentencepiece"
    if data.startswith(_OWN):
        return VOLT
    try:
        return guess_format(path, data[:HEAD_SIZE])
    except VocabularyError as error:
        if not data or data.lstrip().startswith(b"{"):  # certainly not codes
            raise CandidateError(str(error)) from None
        return "subword-nmt"


def _merges_of(path: str | Path, vocabulary: Vocabulary) -> MergeList:
    if not vocabulary.merges:
        raise CandidateError(f"{path}: the vocabulary has no merges; give {_ABLE}")
    cut = vocabulary.pretokenizer
    notes = [
        f"only its merges are taken, which were made for words cut by "
        f"{arguments.shortened(cut.name)}; its tokens and ids are not used"
    ]
    if unmade := len(vocabulary.unmade):
        notes.append(f"{unmade:,} of its tokens are dropped, because no merge makes them")
    pairs = list(vocabulary.merges)
    if vocabulary.merging == "ranks":
        pairs = _ranked_pairs(vocabulary)
    return MergeList(pairs, vocabulary.marker, cut.is_bytes, tuple(notes))


def _ranked_pairs(vocabulary: Vocabulary) -> list[Pair]:
    """Return the merges of a vocabulary that merges by ranks, ordered so that a merge's parts are made before it."""
    from volt.formats.huggingface.writing import merges_of
    from volt.formats.tiktoken.ranks import merges_of as merges_of_ranks
    from volt.text.byte_alphabet import to_bytes

    if vocabulary.pretokenizer.is_bytes:
        tokens = dict.fromkeys((*vocabulary.atoms, *vocabulary.made))
        return merges_of_ranks(list(map(to_bytes, tokens)))
    known = set(vocabulary.atoms)
    pairs = list[Pair]()
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
    b"version https://git-lfs": "a pointer of Git LFS, not the file itself; "
    "fetch the file with git lfs pull",
    b"pk\x03\x04": "a zip archive; unpack it, and give a file in it",
    b"\xef\xbb\xbf": "text that starts with a byte order mark (U+FEFF); save it without one",
}
VOLT = "VOLT"
_CACHED = ("huggingface", "tiktoken")  # `files_read` returns all their files, the main one last
_UNLIKE_RANKS = (VOLT, "sentencepiece", "huggingface")  # a ranks file is never mistaken for these
_OWN = b'{"volt"'  # the first bytes of a VOLT file


def files_written(path: str | Path, *, to: str) -> tuple[Path, ...]:
    """Return the files that `write_vocabulary` writes at a path.

    >>> [str(path) for path in files_written("codes", to="subword-nmt")]
    ['codes', 'codes.vocab']
    """
    return _files("files_written", to, Path(path))


def files_read(path: str | Path, *, format: str | None = None) -> tuple[Path, ...]:
    """Return the files that `read_vocabulary` may read at a path; the path itself if it is not a vocabulary."""
    path = _as_written(Path(path))
    is_readable = path.is_file() or path.is_dir()  # a pipe can be read only once
    if url_of(path) or not is_readable:
        return (path,)
    try:
        name = format or _format_at(path)
    except VocabularyError:  # reading it reports the error
        return (path,)
    if name == VOLT:
        return (path,)
    return path, *_files("files_read", name, path)


def _files(name: str, format: str, path: Path) -> tuple[Path, ...]:
    if not path.name:
        return (path,)
    result: tuple[Path, ...] = hook(format_module(format), name)(path)
    return result


@contextmanager
def model_at_hand(path: str | Path, *, format: str | None = None) -> Iterator[Path]:
    """Yield a local path unchanged; for a URL, the path of a copy, next to copies of other files the format needs."""

    def others(copy: Path) -> tuple[Path, ...]:
        return files_read(copy, format=format)

    with local_copy(path, kind=VocabularyError, beside=others) as place:
        yield place


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
    module = format_module(to, "to")
    place = Path(arguments.path(path))
    special = vocabulary.special
    if special.spaced and not hook(module, "STORES_WHITE_SPACE"):
        raise VocabularyError(
            f"{shown_path(place)}: {to} cannot store the user token {special.spaced[0]!r}, which "
            "contains white space; write",
            hint={"to": "huggingface"},
        )
    if hook(module, "STORES_TEMPLATES"):
        return module.write(vocabulary, place, chat_template=chat_template)  # type: ignore[call-arg]
    if chat_template is not None:
        raise ConfigError(
            f"{to} has no place for a chat template; leave it out, or write",
            hint={"to": "huggingface"},
        )
    notes = module.write(vocabulary, place)
    if strips := list(dict.fromkeys(special.lstrip + special.rstrip)):
        notes.append(
            f"In VOLT, and not there, white space next to a token belongs to it: {named(strips)}."
        )
    return notes


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
    result, name = read_with_format(
        path,
        format=format,
        merges=merges,
        pattern=pattern,
        special=special,
        unk=unk,
        bos=bos,
        eos=eos,
        pad=pad,
    )
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
    from volt.vocabulary.add_special_tokens import add_unnamed
    from volt.vocabulary.cached_vocabulary import cached_vocabulary
    from volt.vocabulary.file_format import garbage_collection_paused

    with ExitStack() as stack:
        stack.enter_context(garbage_collection_paused())
        place = stack.enter_context(_at_hand(path, format=format))
        if merges is not None:
            copy = local_copy(arguments.path(merges, "merges"), kind=VocabularyError)
            merges = _no_pipe(stack.enter_context(copy))
        name = format or _format_at(place)
        paths: tuple[Path, ...] = ()
        if name in _CACHED and merges is None:
            paths = files_read(place, format=name)
        read = partial(_read, place, name, merges, pattern)
        vocabulary = cached_vocabulary(Vocabulary, paths, read, name, pattern)
        try:
            return add_unnamed(vocabulary, **names), name
        except ArgumentError:
            raise
        except VoltError as error:
            raise error.reworded(f"{shown_path(place)}: {error.message}") from None


def _read(path: Path, format: str, merges: Path | None, pattern: str | None) -> Vocabulary:
    from volt.vocabulary import Vocabulary

    module = _module_of(format)
    if pattern is None:
        if module is None:
            return Vocabulary.load(path)
        return module.read(path, merges=merges)
    if read := hook(module, "read_with_pattern"):
        result: Vocabulary = read(path, merges=merges, pattern=arguments.text(pattern, "pattern"))
        return result
    message = (
        f"{path}: its format, {format}, defines how text is split into words; remove the pattern"
    )
    if format in _UNLIKE_RANKS:
        raise ConfigError(message)
    raise ConfigError(
        f"{message}; if it contains tiktoken's ranks, import it with",
        hint={"format": "tiktoken"},
    )


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
        rows = hook(_module_of(name), "read_rows")
        return None if rows is None else [row.piece for row in rows(place)]


@contextmanager
def _at_hand(path: str | Path, format: str | None = None) -> Iterator[Path]:
    with model_at_hand(arguments.path(path), format=format) as copy:
        yield _as_written(_no_pipe(copy))


def _format_at(path: Path) -> str:
    try:
        is_folder = path.is_dir()
    except (OSError, ValueError) as error:
        raise unreadable(path, error, kind=VocabularyError) from None
    if is_folder:
        return guess_format(path, b"")
    head = read_head(path, HEAD_SIZE, kind=VocabularyError)
    if not head:
        raise VocabularyError(f"{path}: empty; download or export it again")
    if head.startswith(_OWN):
        return VOLT
    return guess_format(path, head)


def _as_written(path: Path) -> Path:
    """Return the path, or PATH.model if only that exists: sentencepiece's `write` adds the suffix."""
    model = path.parent / f"{path.name}.model"
    if model.is_file() and not path.exists():
        return model
    return path


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
    odd = import_module(FORMATS["opennmt"]).find_invalid_line(head)
    if odd is not None:
        raise VocabularyError(
            f"{path}:{odd}: is not `count<TAB>subword`, as the lines before it are; fix the line"
        )
    raise VocabularyError(
        f"{path}:1: neither a VOLT vocabulary nor a file of {', '.join(FORMATS)}; find one on your corpus"
    )


def peer_loader(name: str) -> LoadPeer | None:
    """Return the function that loads a format's real library; None for token lists, which have no library."""
    result: LoadPeer | None = hook(format_module(name), "peer")
    return result


def closing_order(name: str) -> Literal["ids", "merges"]:
    """Return a format's order of tokens for `Vocabulary.closed`: "merges" if ids are ranks of merges, else "ids"."""
    result: Literal["ids", "merges"] = hook(format_module(name), "CLOSING_ORDER")
    return result


def _module_of(name: str) -> Format | None:
    return None if name == VOLT else format_module(name)


def format_module(name: str, argument: str = "format") -> Format:
    """Return the module of a format. Raises ConfigError for an unknown name. argument: what errors call `name`"""
    choices = f"choose from {', '.join(FORMATS)}"
    if arguments.text(name, argument, remedy=choices) not in FORMATS:
        if near := get_close_matches(name.lower(), FORMATS, n=1):
            choices = f"did you mean {near[0]}? The formats are {', '.join(FORMATS)}"
        raise ConfigError(f"unknown format {name!r}; {choices}")
    module: Format = import_module(FORMATS[name])
    return module
