"""Read and write vocabularies, and read merges, in VOLT's own format and in those of other
libraries (`FORMATS`).

The caller names a format, or the file's first bytes tell it (`guess_format`). The module of the
format does the rest; `volt.formats.protocol` describes its functions and hooks.

`path` is an argument, which may be a URL or a pipe; `local` is the path of a file or folder on this
machine.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
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
from volt.formats.protocol import HEAD_SIZE, MergeList, Pair, get_hook, name_tokens
from volt.urls import url_of

if TYPE_CHECKING:
    from volt.formats.protocol import Format, LoadPeer
    from volt.vocabulary import Vocabulary
    from volt.vocabulary.add_special_tokens import Ids

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
VOLT = "VOLT"  # the name of VOLT's own format
_VOLT_START = b'{"volt"'  # the first bytes of a VOLT file
# `files_read` returns all their files, the main one last
_CACHED = ("huggingface", "sentencepiece", "tiktoken")
_UNLIKE_RANKS = (
    VOLT,
    "sentencepiece",
    "huggingface",
)  # a file of ranks is never mistaken for these
_FORMATS_WITH_MERGES = (
    "a .volt vocabulary, a tokenizer.json, a .tiktoken file, subword-nmt or fastBPE codes, "
    "or a sentencepiece model"
)
_NEED_MERGES = ("subword-nmt", "tiktoken")  # formats
# The first bytes, in lower case, of files that are often given instead of a tokenizer → what to do.
_OTHER_FILES = {
    **dict.fromkeys(
        (b"<!doctype html", b"<html"),
        "a web page, saved instead of a file; download the file itself",
    ),
    b"version https://git-lfs": "a pointer of Git LFS, not the file itself; "
    "fetch the file with git lfs pull",
    b"[pad]\n": "a list of WordPiece (BERT), which VOLT lacks; encode with tokenizers",
    b"pk\x03\x04": "a zip archive; unpack it, and give a file in it",
    b"\xef\xbb\xbf": "text that starts with a byte order mark (U+FEFF); save it without one",
}


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
    pattern: the pattern that cuts text into words, for formats that do not name it: a published
        pattern, such as cl100k, or a regular expression
    special: further tokens found in text and never split: a list, or a dict with ids, {"<|end|>":
        100257}
    unk, bos, eos, pad: the token with this role, or a dict {token: id}; the same string in a line
        stays text

    Warns with a VoltWarning of properties that the file lacks, and of text that VOLT encodes
    otherwise than the library of the file (`Vocabulary.notes`). Raises VocabularyError, with file
    and line, if the file is damaged or in an unknown format. Raises ConfigError for a pattern if
    the file names its own, or for an id that another token has.

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
    **special_tokens: Any,
) -> tuple[Vocabulary, str]:
    """Return the vocabulary that `read_vocabulary` reads, and the name of its format, without a
    warning.

    special_tokens: the arguments `special`, `unk`, `bos`, `eos` and `pad` of `read_vocabulary`
    """
    from volt.vocabulary import Vocabulary
    from volt.vocabulary.add_special_tokens import add_unnamed
    from volt.vocabulary.cached_vocabulary import cached_vocabulary
    from volt.vocabulary.file_format import garbage_collection_paused

    with ExitStack() as stack:
        stack.enter_context(garbage_collection_paused())
        local = stack.enter_context(_open_model(path, format=format))
        if merges is not None:
            copy = local_copy(arguments.path(merges, "merges"), kind=VocabularyError)
            merges = _refuse_pipe(stack.enter_context(copy))
        name = format or _recognise(local)
        cached_files: tuple[Path, ...] = ()
        if name in _CACHED and merges is None:
            cached_files = files_read(local, format=name)
        read = partial(_read, local, name, merges, pattern)
        read = partial(cached_vocabulary, Vocabulary, cached_files, read, name, pattern)
        if all(tokens in (None, ()) for tokens in special_tokens.values()):
            return read(), name

        def read_and_add() -> Vocabulary:
            try:
                return add_unnamed(read(), **special_tokens)
            except ArgumentError:
                raise
            except VoltError as error:
                raise error.reworded(f"{shown_path(local)}: {error.message}") from None

        try:
            json.dumps(special_tokens)
        except TypeError:  # an iterator, for example, which can be read only once
            return read_and_add(), name
        added = repr(special_tokens)
        return cached_vocabulary(Vocabulary, cached_files, read_and_add, name, pattern, added), name


def _read(local: Path, format: str, merges: Path | None, pattern: str | None) -> Vocabulary:
    from volt.vocabulary import Vocabulary

    module = _module_of(format)
    if pattern is None:
        if module is None:
            return Vocabulary.load(local)
        return module.read(local, merges=merges)
    if read := get_hook(module, "read_with_pattern"):
        result: Vocabulary = read(local, merges=merges, pattern=arguments.text(pattern, "pattern"))
        return result
    message = (
        f"{local}: its format, {format}, defines how text is split into words; remove the pattern"
    )
    if format in _UNLIKE_RANKS:
        raise ConfigError(message)
    raise ConfigError(
        f"{message}; if it contains tiktoken's ranks, import it with",
        hint={"format": "tiktoken"},
    )


def write_vocabulary(
    vocabulary: Vocabulary, path: str | Path, *, to: str, chat_template: str | Path | None = None
) -> list[str]:
    """Write a vocabulary to a file of another library.

    Returns a sentence for each property that the file lacks, or that the library handles
    differently.

    vocabulary: the vocabulary to write
    path: path of the file or folder
    to: the name of the format, one of `FORMATS`
    chat_template: for huggingface, a Jinja template as a string, or a Path to a file with one

    Raises ConfigError for an unknown format or a template that is not valid, VocabularyError if the
    format cannot store this vocabulary.

    >>> import tempfile
    >>> from volt.vocabulary import Vocabulary
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     write_vocabulary(Vocabulary(merges=(("l", "o"),), tokens=("l", "lo")), file.name, to="tokens")[1]
    'the list has no merges: reading it back requires a file of merges'
    """
    from volt.vocabulary import Vocabulary

    vocabulary = arguments.instance(vocabulary, Vocabulary, "vocabulary")
    module = format_module(to, "to")
    local = Path(arguments.path(path))
    special = vocabulary.special
    fault = ""
    if special.spaced and not get_hook(module, "STORES_WHITE_SPACE"):
        fault = f"cannot store the user token {special.spaced[0]!r}, which contains white space"
    if vocabulary.is_unigram and to in _NEED_MERGES:
        fault = "needs merges, and a unigram model has none"
    if fault:
        message = f"{shown_path(local)}: {to} {fault}; write"
        raise VocabularyError(message, hint={"to": "huggingface"})
    if get_hook(module, "STORES_TEMPLATES"):
        return module.write(vocabulary, local, chat_template=chat_template)  # type: ignore[call-arg]
    if chat_template is not None:
        raise ConfigError(
            f"{to} has no place for a chat template; leave it out, or write",
            hint={"to": "huggingface"},
        )
    notes = module.write(vocabulary, local)
    if stripping := list(dict.fromkeys(special.lstrip + special.rstrip)):
        notes.append(
            f"In VOLT, and not there, white space next to a token belongs to it: {name_tokens(stripping)}."
        )
    return notes


def read_merges(path: str | Path) -> MergeList:
    """Return the merges of a file in any format, as candidates for a search.

    path: path of a file, or of a folder with the files of one model

    Raises CandidateError, with file and line, if the file contains no merges, or is damaged.

    >>> read_merges("/nowhere/codes")
    Traceback (most recent call last):
        ...
    volt.errors.CandidateError: /nowhere/codes: cannot be read: no such file or directory; check the path
    """
    local = Path(arguments.path(path))
    data = b""
    if not local.is_dir():
        data = read_bytes(local, kind=CandidateError)
        if not data:
            raise CandidateError(f"{path}: empty; give {_FORMATS_WITH_MERGES}")

    name = _recognise_merges(local, data)
    module = _module_of(name)
    if get_hook(module, "read_rows"):
        raise CandidateError(
            f"{path}: a list of tokens ({name}), which contains no merges; give {_FORMATS_WITH_MERGES}"
        )
    try:
        if read := get_hook(module, "read_merges"):
            result: MergeList = read(path, data)
            return result
        vocabulary, _ = read_with_format(local)
    except VocabularyError as error:
        raise error.reworded(error.message, CandidateError) from None
    return _merges_of(path, vocabulary)


def _recognise_merges(local: Path, data: bytes) -> str:
    """Return the format of a file; "subword-nmt" for text in an unknown format, so that its module
    reports the line.
    """
    from volt.formats.sentencepiece.model_file import FIRST_BYTE

    if data.startswith(FIRST_BYTE):
        return "sentencepiece"
    if data.startswith(_VOLT_START):
        return VOLT
    try:
        return guess_format(local, data[:HEAD_SIZE])
    except VocabularyError as error:
        if not data or data.lstrip().startswith(b"{"):
            raise CandidateError(str(error)) from None
        return "subword-nmt"


def _merges_of(path: str | Path, vocabulary: Vocabulary) -> MergeList:
    if vocabulary.is_unigram:
        from volt.formats.sentencepiece.merges import merges_that_make

        scored = zip(vocabulary.scores, vocabulary.tokens, strict=True)
        ordered = sorted(scored, key=lambda row: (-row[0], row[1]))
        return MergeList(list(merges_that_make([token for _, token in ordered])), "prefix")
    if not vocabulary.merges:
        raise CandidateError(f"{path}: the vocabulary has no merges; give {_FORMATS_WITH_MERGES}")
    cut = vocabulary.pretokenizer
    notes = [
        f"only its merges are taken, which were made for words cut by "
        f"{arguments.shortened(cut.name)}; its tokens and ids are not used"
    ]
    if n_unmade := len(vocabulary.unmade):
        notes.append(f"{n_unmade:,} of its tokens are dropped, because no merge makes them")
    pairs = list(vocabulary.merges)
    if vocabulary.merging == "ranks":
        pairs = _order_ranked_pairs(vocabulary)
    return MergeList(pairs, vocabulary.marker, cut.is_bytes, tuple(notes))


def _order_ranked_pairs(vocabulary: Vocabulary) -> list[Pair]:
    """Return pairs that spell the results of a vocabulary's merges, each after the pairs of its
    parts.

    vocabulary: one whose merging is "ranks"
    """
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


def listed_pieces(path: str | Path) -> list[str] | None:
    """Return the pieces of a list without merges, in the file's spelling; None for other formats."""
    with _open_model(path) as local:
        name = VOLT if local.is_dir() else _recognise(local)
        read_rows = get_hook(_module_of(name), "read_rows")
        return None if read_rows is None else [row.piece for row in read_rows(local)]


def format_of(path: str | Path) -> str:
    """Return the format of another library's file, one of `FORMATS`.

    Raises VocabularyError if it is unknown.
    """
    with _open_model(path) as local:
        name = _recognise(local)
        if name == VOLT:
            raise VocabularyError(
                f"{local}: a VOLT vocabulary, not a file of another library; use it as it is"
            )
        return name


def _recognise(local: Path) -> str:
    """Return the format of a file or folder: one of `FORMATS`, or `VOLT`."""
    try:
        is_folder = local.is_dir()
    except (OSError, ValueError) as error:
        raise unreadable(local, error, kind=VocabularyError) from None
    if is_folder:
        return guess_format(local, b"")
    head = read_head(local, HEAD_SIZE, kind=VocabularyError)
    if not head:
        raise VocabularyError(f"{local}: empty; download or export it again")
    if head.startswith(_VOLT_START):
        return VOLT
    return guess_format(local, head)


def guess_format(local: Path, head: bytes) -> str:
    """Return the first of `FORMATS` whose module recognises a file.

    Raises VocabularyError if none does.

    head: the first bytes of the file; b"" for a folder
    """
    start = head.lstrip()[:99].lower()
    for first_bytes, description in _OTHER_FILES.items():
        if start.startswith(first_bytes):
            raise VocabularyError(f"{local}:1: {description}")
    for name in FORMATS:
        if format_module(name).recognises(local, head):
            return name
    line = import_module(FORMATS["opennmt"]).find_invalid_line(head)
    if line is not None:
        raise VocabularyError(
            f"{local}:{line}: is not `count<TAB>subword`, as the lines before it are; fix the line"
        )
    raise VocabularyError(
        f"{local}:1: neither a VOLT vocabulary nor a file of {', '.join(FORMATS)}; find one on your corpus"
    )


@contextmanager
def _open_model(path: str | Path, format: str | None = None) -> Iterator[Path]:
    with model_at_hand(arguments.path(path), format=format) as local:
        yield _complete_suffix(_refuse_pipe(local))


def model_at_hand(path: str | Path, *, format: str | None = None) -> AbstractContextManager[Path]:
    """Return a context manager that yields a local path unchanged; for a URL, a temporary copy's.

    Other files that the format needs are copied to the folder of the copy, too.
    """
    return local_copy(path, kind=VocabularyError, beside=partial(files_read, format=format))


def _refuse_pipe(local: Path) -> Path:
    if is_pipe(local):
        raise VocabularyError(
            f"{local}: a pipe, which can be read only once; copy its content to a file, and give the file"
        )
    return local


def _complete_suffix(local: Path) -> Path:
    """Return the path, or PATH.model if only that exists: sentencepiece's `write` adds the suffix."""
    model = local.parent / f"{local.name}.model"
    if model.is_file() and not local.exists():
        return model
    return local


def files_written(path: str | Path, *, to: str) -> tuple[Path, ...]:
    """Return the files that `write_vocabulary` writes at a path.

    >>> [str(path) for path in files_written("codes", to="subword-nmt")]
    ['codes', 'codes.vocab']
    """
    return _list_files(to, Path(path), "files_written")


def files_read(path: str | Path, *, format: str | None = None) -> tuple[Path, ...]:
    """Return the files that `read_vocabulary` may read at a path.

    The result is only the path itself if no vocabulary is there, or if it is a URL or a pipe.
    """
    path = _complete_suffix(Path(path))
    is_readable = path.is_file() or path.is_dir()  # a pipe can be read only once
    if url_of(path) or not is_readable:
        return (path,)
    try:
        name = format or _recognise(path)
    except VocabularyError:  # `read_vocabulary` reports the error
        return (path,)
    if name == VOLT:
        return (path,)
    return path, *_list_files(name, path, "files_read")


def _list_files(format: str, path: Path, hook_name: str) -> tuple[Path, ...]:
    if not path.name:
        return (path,)
    result: tuple[Path, ...] = get_hook(format_module(format), hook_name)(path)
    return result


def peer_loader(name: str) -> LoadPeer | None:
    """Return the function that loads a file of a format in its library; None for lists of tokens."""
    result: LoadPeer | None = get_hook(format_module(name), "peer")
    return result


def closing_order(name: str) -> Literal["ids", "merges"]:
    """Return the order of tokens for `Vocabulary.closed` in a format: "merges" if its ids are
    ranks, else "ids".
    """
    result: Literal["ids", "merges"] = get_hook(format_module(name), "CLOSING_ORDER")
    return result


def _module_of(name: str) -> Format | None:
    return None if name == VOLT else format_module(name)


def format_module(name: str, argument: str = "format") -> Format:
    """Return the module of a format.

    Raises ConfigError for an unknown name. argument: what errors call `name`
    """
    choices = f"choose from {', '.join(FORMATS)}"
    if arguments.text(name, argument, remedy=choices) not in FORMATS:
        if near := get_close_matches(name.lower(), FORMATS, n=1):
            choices = f"did you mean {near[0]}? The formats are {', '.join(FORMATS)}"
        raise ConfigError(f"unknown format {name!r}; {choices}")
    module: Format = import_module(FORMATS[name])
    return module
