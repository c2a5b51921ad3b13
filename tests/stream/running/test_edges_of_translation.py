"""Around a translation system: outputs over inputs, steps that decode, tags on the target side, bytes, odd answers."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Run

from volt.errors import ArgumentError, ConfigError, CorpusError, StreamError
from volt.files.blocks import Block, read_blocks
from volt.stream.config.configuration import parse_config
from volt.stream.running.translation import Translation
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.random_segmentation import JoinPieces, MorfessorEm
from volt.stream.transforms.subwords import Decode, Encode
from volt.stream.transforms.tags import Tag
from volt.stream.transforms.transform import LoadedFiles, inverse, loaded
from volt.vocabulary import Vocabulary

TASK = "tasks: {{t: {{type: {kind}, inputs: {{i: {{{files}}}}}, transforms: [{steps}]}}}}\n"
PARA, MONO = ("para", "src: train.de, tgt: train.en"), ("mono", "mono: train.en")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a vocabulary, a table, a lexicon and a corpus."""
    monkeypatch.chdir(tmp_path)
    tokens = ("l", "o", "w", "l</w>", "o</w>", "w</w>", "low</w>", "lo")
    Vocabulary((("l", "o"), ("lo", "w</w>")), tokens).save("v.volt")
    Path("table.tsv").write_text("▁low\t▁lo w\n▁lower\t▁low er\n")
    Path("lexicon.tsv").write_text("8\t▁low\n4\ter\n1\tl\n1\to\n1\tw\n1\t▁\n")
    for name in ("train.de", "train.en", "other.txt"):
        Path(name).write_text("low\n")
    return tmp_path


def translation(steps: str, kind: str = "para", files: str = PARA[1]) -> Translation:
    """A task with these steps."""
    Path("t.yaml").write_text(TASK.format(kind=kind, files=files, steps=steps))
    return Translation("t.yaml", "t")


@pytest.mark.parametrize("command", ["translate-input", "translate-output"])
def test_nothing_that_the_configuration_names_is_written_over(
    folder: Path, run: Run, command: str
) -> None:
    """Vocabularies, tables and models of any step and source, and corpora, though these are not read."""
    steps = (
        "encode: v.volt",
        "choice: [{weight: 1, transforms: [morfessor_em: lexicon.tsv]}, {weight: 2}]",
        "deterministic_segmentation: table.tsv",
    )
    text = TASK.format(
        kind=PARA[0], files=PARA[1], steps=", ".join(f"{{{step}}}" for step in steps)
    )
    Path("t.yaml").write_text(f"sources: {{s: {{path: other*}}}}\n{text}")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for name in (
        "v.volt",
        "table.tsv",
        "lexicon.tsv",
        "train.de",
        "train.en",
        "other.txt",
        "t.yaml",
    ):
        done = run(command, "t.yaml", "--task", "t", "-o", name, stdin=b"", status=2)
        assert b"would be written over" in done.stderr
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    run(command, "t.yaml", "--task", "t", "-o", "new.txt", stdin=b"")


def test_what_a_task_decodes_itself_is_not_decoded_again(folder: Path) -> None:
    """The nearest earlier encoding of each field is done with; others stay to be undone."""
    v = Path("v.volt")
    encode, decode, both = Encode(v), Decode(v, None), Decode(v, (1, 2))
    assert (
        inverse([encode, decode])
        == inverse([encode, both])
        == inverse([decode, encode, decode])
        == ()
    )
    assert inverse([decode, encode]) == (decode,)
    assert inverse([encode, Encode(v, (2,)), Decode(v, (2,))]) == (decode,)
    assert inverse([encode, Decode(v, (2,))]) == (Decode(v, (1,)),)
    assert inverse([MorfessorEm(Path("lexicon.tsv"), fields=(2,)), JoinPieces()]) == ()
    assert inverse([loaded(encode, LoadedFiles()), loaded(decode, LoadedFiles())]) == ()
    assert inverse([encode, Choice((Variant(1.0), Variant(2.0, (both,))))]) == ()
    assert inverse([Choice((Variant(1.0), Variant(2.0, (encode, both))))]) == ()


def test_the_answer_to_a_task_that_decodes_is_text(folder: Path) -> None:
    """It comes back as it is, though no piece of the vocabulary spells it so."""
    steps = "{encode: v.volt}, {decode: v.volt}"
    found = translation(steps)
    assert found.input(["low  lo"]) == ["low lo"]
    assert found.output(["low</w> lo"]) == ["low</w> lo"]
    for fields in ("", ", fields: [1]"):
        steps = f"{{encode: v.volt}}, {{decode: {{vocabulary: v.volt{fields}}}}}"
        kind, files = (PARA, MONO)[bool(fields)]
        assert translation(steps, kind, files).output(["low</w> lo"]) == ["low</w> lo"]


def test_tags_of_the_target_side_are_taken_off(folder: Path) -> None:
    """Where they were put, once, and only where they are."""
    found = translation(
        "{encode: {vocabulary: v.volt, fields: [2]}}, {tag: {text: <en>, fields: [1, 2]}}"
    )
    assert found.output(["<en> low</w>", "low</w>", "l o</w>"]) == ["low", "low", "lo"]
    start = translation("{tag: {text: <en>, fields: [2]}}")
    lines = ["<en> low", "low <en>", "<en>", "<en> <en> low", "<en>low", ""]
    assert start.output(lines) == ["low", "low <en>", "", "<en> low", "<en>low", ""]
    end = translation("{tag: {text: <en>, fields: [2], position: end, separator: '_'}}")
    assert end.output(["low_<en>", "<en>_low", "low <en>"]) == ["low", "<en>_low", "low <en>"]
    assert inverse([Tag("<en>")]) == ()


@pytest.mark.parametrize("size", [1, 3, 7, 1 << 20])
def test_lines_before_bad_utf8_come_first(folder: Path, size: int) -> None:
    """However the file is cut into blocks, every good line is answered, and then the error names the bad one."""
    Path("a.txt").write_bytes(
        "low\n\né\nlow\xff\nlow\n".encode("latin-1").replace(b"\xe9", "é".encode())
    )

    def answers(blocks: Iterator[Block]) -> Iterator[bytes]:
        return translation("upper").input_blocks(blocks)

    got = list[bytes]()
    with pytest.raises(CorpusError, match=r"a.txt:4: invalid UTF-8 byte 0xff at column 4"):
        got.extend(answers(read_blocks("a.txt", block_size=size)))
    assert b"".join(got).decode() == "LOW\n\nÉ\n"


def test_no_remedy_is_reported_that_there_is_not(folder: Path, run: Run) -> None:
    """These commands answer every line, so they cannot skip one."""
    translation("upper")
    done = run("translate-input", "t.yaml", "--task", "t", stdin=b"low\n\xff\n", status=1)
    assert done.stdout == b"LOW\n"
    assert " ".join(done.stderr.decode().split()).endswith(
        "convert the file or pass --encoding-errors replace"
    )


def test_what_is_no_id_is_named(folder: Path) -> None:
    """With the line, as are ids that a vocabulary or a SentencePiece model has not."""
    found = translation("{encode: {vocabulary: v.volt, to: ids}}")
    for bad in ("x", "1_0", "٣", "1.5"):
        with pytest.raises(
            StreamError,
            match=rf"line 2: step 'decode': field 2 .*: '{bad}' is not an id; give whole num",
        ):
            found.output(["5", f"5 {bad}"])
    spm, made = (
        pytest.importorskip("sentencepiece", reason="needs the package sentencepiece"),
        io.BytesIO(),
    )
    options: dict[str, Any] = {"vocab_size": 12, "hard_vocab_limit": False, "minloglevel": 2}
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(["low lower"] * 20), model_writer=made, **options
    )
    Path("m.model").write_bytes(made.getvalue())
    size = spm.SentencePieceProcessor(model_file="m.model").get_piece_size()
    found = translation("{spm_encode: {model: m.model, to: ids}}")
    assert found.output(found.input(["low"])) == ["low"]
    for bad in ("9999", "-1"):
        with pytest.raises(
            StreamError, match=rf"{bad} is not an id of the model; give ids from 0 to {size - 1}"
        ):
            found.output([bad])


def test_pieces_that_no_vocabulary_has_are_taken_as_they_are(folder: Path) -> None:
    """As the help of the command says."""
    assert translation("{encode: v.volt}").output(["low</w> qu x</w>"]) == ["low qux"]
    assert translation("{morfessor_em: lexicon.tsv}").output(["▁qu x ▁low"]) == ["qux low"]


def test_arguments_that_cannot_be_meant(folder: Path) -> None:
    """Told when the object is made."""
    Path("t.yaml").write_text(TASK.format(kind="mono", files=MONO[1], steps="lower"))
    with pytest.raises(ArgumentError, match=r"user_code is 'x' .*; give True or False"):
        Translation("t.yaml", "t", user_code="x")  # type: ignore[arg-type]
    for kind in (MorfessorEm, Encode):
        with pytest.raises(
            ConfigError, match=r"(model|vocabulary) is empty; give the path of a file"
        ):
            kind("")  # type: ignore[arg-type]


def test_the_files_that_a_configuration_names(folder: Path) -> None:
    """Of all its sources and tasks, chosen or not, each once; they are no argument of a stream."""
    text = "sources: {s: {path: other.txt}}\n" + TASK.format(
        kind="mono", files=MONO[1], steps="encode: v.volt"
    )
    found = parse_config(text, path=str(folder / "t.yaml"))
    assert [Path(path).name for path in found.named] == ["other.txt", "train.en", "v.volt"]
    assert "named" not in found.options
