"""Laws of all formats together: each has its module, is reported from others by content, agrees with its library."""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import signature
from pathlib import Path

import pytest

from volt.choose.search import search
from volt.count.word_counts import WordCounts
from volt.errors import ConfigError, MissingLibraryError, VocabularyError
from volt.formats import check
from volt.formats.check import Agreement, probe_lines
from volt.formats.protocol import Format, Peer
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
from volt.learn.bpe import learn_bpe
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary

LIBRARIES = {
    "subword-nmt": ["subword_nmt", "subword_nmt.apply_bpe"],
    "sentencepiece": ["sentencepiece"],
    "huggingface": ["tokenizers"],
    "tiktoken": ["tiktoken"],
}
LISTS = [name for name in FORMATS if name not in LIBRARIES]
WORDS = {
    "the": 90,
    "cat": 40,
    "sat": 30,
    "mat": 20,
    "hat": 20,
    "that": 40,
    "had": 20,
    "on": 30,
    "höre": 3,
}


def made(level: str = "characters", **options: object) -> Vocabulary:
    """A small vocabulary; for bytes, with every byte, as the formats for bytes want it."""
    if level == "bytes":
        from volt.text.byte_alphabet import ALPHABET, to_characters

        words = {to_characters(f" {word}".encode()): count for word, count in WORDS.items()}
        words |= dict.fromkeys(ALPHABET, 1)
        counts = WordCounts.from_pairs(words, pretokenizer=PreTokenizer("bytes"))
    else:
        counts = WordCounts.from_pairs(WORDS)
    return search(learn_bpe(counts, 20, **options), select="tokens").vocabulary.closed()  # type: ignore[arg-type]


def fitting(name: str) -> Vocabulary:
    """A vocabulary that this format is for."""
    if name == "tiktoken":
        return made("bytes")
    return made(marker="prefix") if name == "sentencepiece" else made()


def place(folder: Path, name: str) -> Path:
    return folder / {"marian": "out.yml", "sentencepiece": "out.model", "huggingface": "out"}.get(
        name, "out.txt"
    )


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_fulfils_the_protocol(name: str) -> None:
    """Each module writes, reads and recognises as `Format` does; those that are no lists load a library to compare."""
    module, load = format_module(name), peer_loader(name)
    for part in ("read", "recognises"):
        assert parameters(getattr(module, part)) == parameters(getattr(Format, part))[1:]
    assert (load is None) == (name in LISTS)
    assert load is None or [*signature(load).parameters] == ["path", "vocabulary"]


def parameters(function: Callable[..., object]) -> list[tuple[object, ...]]:
    """What a function takes: name, kind, default and type of each."""
    found = signature(function).parameters.values()
    return [(one.name, one.kind, one.default, one.annotation) for one in found]


def test_the_site_names_every_format() -> None:
    """The page on formats tells of all that there are."""
    page = (Path(__file__).parents[2] / "docs/pages/reference/formats.md").read_text(
        encoding="utf-8"
    )
    assert [name for name in FORMATS if f"`{name}`" not in page] == []


@pytest.mark.parametrize("name", FORMATS)
def test_files_are_recognised_by_content(name: str, tmp_path: Path) -> None:
    """What a format writes is read back without naming the format, lists with their merges."""
    vocabulary, path = fitting(name), place(tmp_path, name)
    vocabulary.save(tmp_path / "v.volt")
    write_vocabulary(vocabulary, path, to=name)
    found = read_vocabulary(path, merges=tmp_path / "v.volt" if name in LISTS else None)
    assert set(vocabulary.tokens) <= set(found.pieces)
    head = b"" if path.is_dir() else path.read_bytes()[:4096]
    if name != "fairseq":
        assert guess_format(path, head) == name


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in LISTS])
def test_the_library_agrees_on_text_made_of_the_vocabulary(name: str, tmp_path: Path) -> None:
    """The real library cuts probe lines as we do, or the notes say why not."""
    vocabulary, path = fitting(name), place(tmp_path, name)
    notes = write_vocabulary(vocabulary, path, to=name)
    agreement = check.check(vocabulary, path, name, probe_lines(vocabulary))
    assert agreement.is_complete or notes, agreement.differences[:1]
    assert agreement.n_lines > 50


def test_a_volt_file_needs_no_format(tmp_path: Path) -> None:
    """read_vocabulary reads VOLT's own files."""
    vocabulary = made()
    vocabulary.save(tmp_path / "v.volt")
    assert read_vocabulary(tmp_path / "v.volt") == vocabulary


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_is_read_by_the_name_that_it_was_written_by(name: str, tmp_path: Path) -> None:
    """Even where the format puts an ending behind it, and nobody says which format it is."""
    pytest.importorskip("sentencepiece")
    vocabulary, path = fitting(name), tmp_path / "written"
    vocabulary.save(tmp_path / "v.volt")
    write_vocabulary(vocabulary, path, to=name)
    found = read_vocabulary(path, merges=tmp_path / "v.volt" if name in LISTS else None)
    assert set(found.merges) == set(vocabulary.merges)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("written", ["written", "written.json", "written.model"])
def test_the_files_of_a_format_are_known_before_they_are_written(
    name: str, written: str, tmp_path: Path
) -> None:
    """`files_written` names exactly what `write` writes; what reading opens is among `files_read`."""
    pytest.importorskip("sentencepiece")
    path = tmp_path / written
    write_vocabulary(fitting(name), path, to=name)
    made = {file for file in tmp_path.rglob("*") if file.is_file()}
    assert made == set(files_written(path, to=name))
    opened = {file for file in made if file.suffix != ".vocab" or name == "subword-nmt"}
    assert opened <= set(files_read(path, format=name))
    assert path.is_dir() or name in ("fairseq", "opennmt") or opened <= set(files_read(path))


def test_files_are_those_of_the_format_that_is_given(tmp_path: Path) -> None:
    """A list of words is read alone; read as another format, it has the companions of this format."""
    (path := tmp_path / "m").write_text("a\nb\n")
    folder = {
        path / name
        for name in ("special_tokens_map.json", "tokenizer_config.json", "tokenizer.json")
    }
    companions = {"subword-nmt": {tmp_path / "m.vocab"}, "huggingface": folder}
    assert {*files_read(path)} == {path}
    for name in FORMATS:
        assert {*files_read(path, format=name)} - {path} == companions.get(name, set())


def test_unknown_formats_and_files_are_reported(tmp_path: Path) -> None:
    """A format that is none: ConfigError with the near one; a file in none: VocabularyError with all names."""
    with pytest.raises(ConfigError, match="did you mean fairseq"):
        write_vocabulary(made(), tmp_path / "x", to="fairsec")
    with pytest.raises(ConfigError, match="choose from subword-nmt, sentencepiece"):
        write_vocabulary(made(), tmp_path / "x", to="qqq")
    (tmp_path / "x").write_bytes(b"two words\nand three more\n\xff\xfe\x00")
    with pytest.raises(
        VocabularyError, match=r"neither a VOLT vocabulary nor.*subword-nmt.*tokens"
    ):
        read_vocabulary(tmp_path / "x")
    with pytest.raises(VocabularyError, match="cannot be read"):
        read_vocabulary(tmp_path / "nowhere")
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(VocabularyError, match="x: empty; download"):
        read_vocabulary(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"#version: 0.2\n")
    with pytest.raises(VocabularyError, match="x: contains no merge"):
        read_vocabulary(tmp_path / "x")


def test_differences_have_lines_and_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that differs in one line's pieces and another's ids: counted, and the first are shown."""
    vocabulary = Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo", "o</w>"))

    def cut(lines: object) -> list[list[str]]:
        return [["lo", "o</w>"], ["l", "o", "o</w>"], ["lo", "o</w>"]]

    peer = Peer("someone", cut, lambda lines: [[6, 7], [4, 5, 7], [6, 5]])
    monkeypatch.setattr(check, "peer_loader", lambda format: lambda path, vocabulary: peer)
    found = check.check(vocabulary, "x", "subword-nmt", ["loo"] * 3)
    assert (found.n_equal_pieces, found.n_equal_ids, found.is_complete) == (2, 1, False)
    assert [(row.line, row.ours, row.theirs) for row in found.differences] == [
        (2, ["lo", "o</w>"], ["l", "o", "o</w>"]),
        (3, ["6", "7"], ["6", "5"]),
    ]
    assert Agreement("someone", 3, 3, None, ()).is_complete


def test_lists_have_no_library(tmp_path: Path) -> None:
    """Checking a list of tokens is refused, and the formats that can be checked are named."""
    with pytest.raises(ConfigError, match="subword-nmt, sentencepiece, huggingface, tiktoken"):
        check.check(made(), tmp_path / "x", "tokens", ["a"])


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_missing_library_gives_the_pip_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the library, the peer is a MissingLibraryError that holds the pip command."""
    path = place(tmp_path, name)
    write_vocabulary(fitting(name), path, to=name)
    for library in LIBRARIES[name]:
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingLibraryError, match="pip install"):
        check.check(fitting(name), path, name, [])
