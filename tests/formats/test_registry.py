"""Laws of all formats together: the protocol, recognition by content, known files, and one warning
a file.
"""

import os
import pickle
import threading
import warnings
from dataclasses import replace
from html import escape
from inspect import signature
from pathlib import Path

import pytest
from formats.fitting import LIBRARIES, fitting, place
from formats.support import ranks_file, ranks_of, tokenizer_json
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn import examples

import volt
from volt.encode.encoder import Encoder
from volt.errors import ConfigError, VocabularyError, VoltWarning
from volt.formats.protocol import HOOKS, Format, get_hook
from volt.formats.registry import (
    FORMATS,
    files_read,
    files_written,
    format_module,
    guess_format,
    peer_loader,
    read_vocabulary,
    write_vocabulary,
)
from volt.text.patterns.published import NAMED
from volt.vocabulary import Vocabulary

LISTS = [name for name in FORMATS if get_hook(format_module(name), "read_rows")]


def parameters(function):
    """Return name, kind, default and type of each parameter."""
    found = signature(function).parameters.values()
    return [(each.name, each.kind, each.default, each.annotation) for each in found]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_fulfils_the_protocol(name):
    """Each format's `write`, `read` and `recognises` have the parameters of `Format`. Each format
    of a library that can be installed has a `peer`.
    """
    module = format_module(name)
    for part in ("write", "read", "recognises"):
        expected = parameters(getattr(Format, part))[1:]
        assert parameters(getattr(module, part))[: len(expected)] == expected
    load = peer_loader(name)
    assert (load is None) == (name not in LIBRARIES)
    assert load is None or [*signature(load).parameters] == ["path", "vocabulary"]
    assert {"peer", "read_rows"} <= HOOKS.keys()


def test_the_documentation_names_every_format():
    """The page docs/pages/reference/formats.md contains the name of each format."""
    page = Path(__file__).parents[2] / "docs/pages/reference/formats.md"
    text = page.read_text(encoding="utf-8")
    assert [name for name in FORMATS if f"`{name}`" not in text] == []


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("has_usual_name", [True, False])
def test_files_are_recognised_by_content(name, has_usual_name, tmp_path):
    """`read_vocabulary` reads what a format wrote without the name of the format; a list also needs
    its merges.
    """
    pytest.importorskip("sentencepiece")
    vocabulary = fitting(name)
    path = place(tmp_path, name) if has_usual_name else tmp_path / "written"
    vocabulary.save(tmp_path / "v.volt")
    write_vocabulary(vocabulary, path, to=name)
    merges = tmp_path / "v.volt" if name in LISTS else None
    again = read_vocabulary(path, merges=merges)
    assert set(vocabulary.tokens) <= set(again.pieces)
    assert set(vocabulary.merges) == set(again.merges)
    if has_usual_name and name != "fairseq":
        head = b"" if path.is_dir() else path.read_bytes()[:4096]
        assert guess_format(path, head) == name


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("written", ["written", "written.json", "written.model"])
def test_the_files_of_a_format_are_known_before(name, written, tmp_path):
    """`files_written` returns exactly the files that `write_vocabulary` writes, and `files_read`
    includes those that reading opens.
    """
    pytest.importorskip("sentencepiece")
    path = tmp_path / written
    write_vocabulary(fitting(name), path, to=name)
    files = {file for file in tmp_path.rglob("*") if file.is_file()}
    assert files == set(files_written(path, to=name))
    opened = {file for file in files if file.suffix != ".vocab" or name == "subword-nmt"}
    assert opened <= set(files_read(path, format=name))
    assert path.is_dir() or name in ("fairseq", "opennmt") or opened <= set(files_read(path))


def test_files_read_are_those_of_the_requested_format(tmp_path):
    """`files_read` returns only the path of a list of words. If a format is requested, the result
    also has this format's companion files.
    """
    path = tmp_path / "m"
    path.write_text("a\nb\n")
    names = ("special_tokens_map.json", "tokenizer_config.json", "tokenizer.json")
    companions = {
        "subword-nmt": {tmp_path / "m.vocab"},
        "huggingface": {path / name for name in names},
    }
    assert {*files_read(path)} == {path}
    for name in FORMATS:
        assert {*files_read(path, format=name)} - {path} == companions.get(name, set())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"two words\nand three more\n\xff\xfe\x00",
            r"neither a VOLT vocabulary nor.*subword-nmt.*tokens",
        ),
        (None, "cannot be read"),
        (b"", "x: empty; download"),
        (b"#version: 0.2\n", "x: contains no merge"),
        (b"<!doctype html>", "a web page"),
    ],
)
def test_unknown_files_are_refused(data, message, tmp_path):
    """The error for a file in no known format names all formats, or says what the file is."""
    path = tmp_path / "x"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(VocabularyError, match=message):
        read_vocabulary(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [("fairsec", "did you mean fairseq"), ("qqq", "choose from subword-nmt, sentencepiece")],
)
def test_unknown_formats_are_refused(name, message, tmp_path):
    """The error for an unknown name of a format suggests a similar name, or lists all names."""
    with pytest.raises(ConfigError, match=message):
        write_vocabulary(fitting("tokens"), tmp_path / "x", to=name)


def test_a_pipe_is_read_once(run):
    """`volt import` reads a pipe as it reads a file; `read_vocabulary` refuses a pipe."""
    tokenizer_json(Path("a.json"), "lo", cuts=[{"type": "WhitespaceSplit"}])
    os.mkfifo("pipe")
    with pytest.raises(VocabularyError, match="a pipe, which can be read only once"):
        read_vocabulary("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(Path("a.json").read_bytes()))
    writer.start()
    run("import", "pipe", "-o", "b.volt")
    writer.join()
    run("import", "a.json", "-o", "a.volt")
    assert Path("a.volt").read_bytes() == Path("b.volt").read_bytes()


def test_a_pattern_for_a_list_of_words_is_refused(tmp_path):
    """`read_vocabulary` with a pattern for a list of words raises an error that says how to read
    the file as ranks.
    """
    path = tmp_path / "d.txt"
    path.write_bytes(b"the 9\nword 8\n")
    message = (
        "remove the pattern; if it contains tiktoken's ranks, import it with format='tiktoken'"
    )
    with pytest.raises(ConfigError, match=message):
        read_vocabulary(path, pattern="cl100k")


NAMES = {"<|end|>": 270, "<|a|>": 265, "[INST]": 264}
RANKS = ranks_of(["th", "he", "the", " the", "123", "!!", "<|"])


@given(
    st.lists(
        st.sampled_from([*NAMES, "the", " ", "  ", "123", "!!", "<|", "é", "\t", "a"]), max_size=9
    ).map("".join)
)
@settings(deadline=None, max_examples=examples(60))
def test_named_tokens_encode_as_in_tiktoken(tmp_path_factory, text):
    """Special tokens that the caller of `read_vocabulary` names have the ids that tiktoken gives
    them with allowed_special="all".
    """
    tiktoken = pytest.importorskip("tiktoken")
    path = ranks_file(tmp_path_factory.getbasetemp() / "x.tiktoken", RANKS)
    encoder = Encoder(read_vocabulary(path, pattern="cl100k", special=NAMES, eos="<|end|>"))
    [split] = NAMED["cl100k"]
    options = {"pat_str": split.pattern, "mergeable_ranks": RANKS, "special_tokens": dict(NAMES)}
    ids = tiktoken.Encoding("x", **options).encode(text, allowed_special="all")
    assert encoder.encode_ids(text).tolist() == ids
    assert encoder.decode_ids(ids) == text


def test_notes_that_no_longer_hold_are_removed(tmp_path):
    """If the caller names special tokens, the note that the file names none is gone. An id that
    another token has is refused, with the file's name.
    """
    path = ranks_file(tmp_path / "x.tiktoken", RANKS)
    note = "The file names no special tokens"
    assert any(note in each for each in read_vocabulary(path, pattern="cl100k").notes)
    named = read_vocabulary(path, pattern="cl100k", eos={"<|end|>": 300})
    assert not any(note in each for each in named.notes)
    assert (named.ids["<|end|>"], named.special.user, named.special.eos) == (300, (), "<|end|>")
    with pytest.raises(ConfigError, match=r"x\.tiktoken: the id 5 of '<\|end\|>' belongs to 'ą'"):
        read_vocabulary(path, pattern="cl100k", special={"<|end|>": 5})


def test_import_names_tokens_and_checks_with_them(run):
    """`volt import --special TOKEN=ID --eos TOKEN --check` compares with the library that got the
    same tokens; exports of the result agree, too. Two ids for one token are refused.
    """
    pytest.importorskip("tiktoken")
    ranks_file(Path("x.tiktoken"), RANKS)
    Path("t.txt").write_text("the <|end|>the[INST] <|a|>\nx\n", encoding="utf-8")
    named = [word for name, number in NAMES.items() for word in ("--special", f"{name}={number}")]
    command = ["import", "x.tiktoken", "--pattern", "cl100k"]
    done = run(*command, "t.txt", "-o", "v.volt", "--check", *named, "--eos", "<|end|>")
    assert done.lines == ["tiktoken: 2 of 2 lines have equal pieces, 2 equal ids"]
    for to in ("tiktoken", "huggingface"):
        done = run("export", "-m", "v.volt", "--to", to, "-o", f"out-{to}", "--check", "t.txt")
        assert "2 of 2 lines have equal pieces, 2 equal ids" in done.stdout.decode()
    for two in (("<a>=7", "<a>=8"), ("<a>=7", "<a>=0"), ("<a>=0", "<a>"), ("<a>", "<a>=7")):
        special = [word for name in two for word in ("--special", name)]
        message = run(*command, "-o", "w.volt", *special, status=2).stderr
        assert b"--special '<a>' has two different ids; remove one" in message


@pytest.fixture
def codes(tmp_path):
    """Write codes of subword-nmt without an end of a word, whose import has a note, and return the
    path.
    """
    path = tmp_path / "codes"
    path.write_text("#version: 0.2\nt h\nth e\n", encoding="utf-8")
    return path


def test_one_warning_has_the_file_and_all_notes(codes):
    """`read_vocabulary` warns once: the warning has the caller's line, the file, and all sentences
    of `Vocabulary.notes`.
    """
    with pytest.warns(VoltWarning) as caught:
        vocabulary = volt.read_vocabulary(codes)
    [warning] = caught
    assert warning.filename == __file__
    assert str(warning.message) == f"{codes}: {' '.join(vocabulary.notes)}"
    assert "VOLT assumes subword-nmt's codes" in vocabulary.notes[0]
    assert escape(vocabulary.notes[0]) in vocabulary._repr_html_()


def test_a_warning_is_not_repeated(codes, tmp_path):
    """A VOLT file keeps the notes of an import. Loading it, unpickling, encoding and streaming do
    not warn again.
    """
    vocabulary = volt.read_vocabulary(codes)
    vocabulary.save(tmp_path / "own.volt")
    (tmp_path / "text").write_text("the\n", encoding="utf-8")
    steps = f"[{{encode: {{vocabulary: {codes}}}}}]"
    source = f"{{path: {tmp_path / 'text'}, epochs: 1, transforms: {steps}}}"
    config = tmp_path / "stream.yaml"
    config.write_text(f"seed: 1\nsources: {{text: {source}}}\n", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own = volt.read_vocabulary(tmp_path / "own.volt")
        assert own.notes == pickle.loads(pickle.dumps(vocabulary)).notes == vocabulary.notes
        lines = list(volt.Stream.from_config(config))
    assert lines == [" ".join(volt.Encoder(own).encode("the"))]


def test_a_tokenizer_in_memory_warns_of_added_tokens():
    """`volt.ext.transformers.tokenizer` warns if it has to close a pruned vocabulary, and states
    the number of rows that an embedding needs.
    """
    pytest.importorskip("transformers")
    from volt.ext.transformers import tokenizer

    options = {"marker": "none", "pretokenizer": "bytes"}
    full = Vocabulary((("t", "h"), ("th", "e")), ("t", "h", "e", "th", "the"), **options)
    with pytest.warns(VoltWarning, match="1 token is added, with the id 8.* needs 9 rows.*closed"):
        tokenizer(replace(full, tokens=("t", "h", "e", "the")))
    with warnings.catch_warnings():
        warnings.simplefilter("error", VoltWarning)
        tokenizer(full)
