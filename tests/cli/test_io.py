"""Places of inputs and outputs: no output replaces an input; stdout holds one thing; tables are not text."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import TEXT, VOLT, Run, all_commands, listed
from named_pipes import pipe
from stream_commands import DEADLINE, wait_for

from volt.encode.encoder import Encoder
from volt.errors import ConfigError, CorpusError
from volt.vocabulary import Vocabulary
from volt_cli.export_import import WRITE_SEVERAL
from volt_cli.options import FORMATS

COMMANDS = {
    name: command for name, command in all_commands().items() if name not in ("volt", "stream")
}
# What the values of options are called: those that name files, and those that do not.
FILES = {
    "FILE",
    "PLACE",
    "FOLDER",
    "CORPUS",
    "TEXT",
    "MODEL",
    "PATH",
    "CONFIG",
    "CONFIG|NAME",
    "SYSTEM",
    "N|FILE",
    "FILE|N",
    "STATE",
}
PLAIN = {
    None,
    "START:STOP:STEP",
    "RULE",
    "NAME",
    "N,N",
    "N",
    "TOKEN",
    "TOKEN[=ID]",
    "X",
    "P",
    "MARK",
    "FORMAT",
    "T",
    "RATE",
    "S",
    "SHARE",
    "TRANSFORM",
    "WHAT",
    "FORM",
    "KIND",
    "HOW",
    "BYTES",
    "OVER",
    "OF",
    "L1-L2",
    "SOURCE",
    "KEY=VALUE",
    "ID|TOKEN",
    "PATTERN",
    "HOST:PORT",
    "E",
    "H",
    "UNIT",
}
VOCABULARY = Vocabulary(
    merges=(("t", "h"), ("th", "e</w>")), tokens=("t", "h", "e</w>", "th", "the</w>")
)
OUTPUTS = {"out", "markdown", "plots", "state", "summary", "html", "id_map"}
INPUTS = {
    "corpus",
    "candidates",
    "model",
    "files",
    "text",
    "path",
    "merges",
    "sample",
    "heldout",
    "systems",
    "config",
    "from_state",
    "ack",
    "states",
    "sources",
    "expand",
    "extend",
    "texts",
    "chat_template",
}
NO_FILES = {
    ("inspect", "text"),
    ("stream cache", "folder"),
    ("search", "keep"),
}  # folders with names of our own
REPLACED = {
    ("stream run", "state", "from_state"),  # a state makes way for the one that follows
    (
        "binarize",
        "out",
        "model",
    ),  # which writes PREFIX.bin and PREFIX.idx; tests/cli/test_binarize.py
    ("binarize", "out", "files"),
    (
        "trial",
        "out",
        "corpus",
    ),  # a folder, in which train.txt and others are written; tests/cli/test_trial.py
}
NAMED = {
    ("search", "corpus"),
    ("compare", "corpus"),
    ("compare", "heldout"),
}  # texts that may be NAME=FILE
# What an option must be given where the others do not say.
NEEDED = {
    "corpus": "corpus.txt",
    "texts": "corpus.txt",
    "model": "m.volt",
    "path": "m.volt",
    "config": "stream.yaml",
}
WITH = {("export", "text"): ["--check"], ("import", "text"): ["--check"]}
ALWAYS = {
    "export": ["--to", "subword-nmt"],
    "shrink": ["--to", "6", "-o", "out.volt"],
    "translate-input": ["--task", "t"],
    "translate-output": ["--task", "t"],
}
OWN = {
    "model": "m.volt",
    "systems": "m.volt",
    "path": "m.volt",
    "merges": "m.volt",
    "candidates": "codes",
    "extend": "m.volt",
    "id_map": "map.npy",
    "config": "stream.yaml",
}


def parameters(command: str) -> dict[str, Any]:
    """The parameters of a command that name files, by their names."""
    return {
        parameter.name: parameter
        for parameter in COMMANDS[command].params
        if parameter.metavar in FILES and (command, parameter.name) not in NO_FILES
    }


def pairs() -> Iterator[tuple[str, str, str]]:
    """Command, output, and an input or another output that may not be the same file."""
    for command in COMMANDS:
        names = parameters(command)
        outputs = [name for name in names if name in OUTPUTS]
        yield from (
            (command, output, other) for output in outputs for other in names if other in INPUTS
        )
        yield from ((command, *both) for both in combinations(outputs, 2))


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    """A corpus, a vocabulary, codes, and a configuration."""
    VOCABULARY.save("m.volt")
    (tmp_path / "codes").write_text("#version: 0.2\nt h\nth e</w>\n")
    (tmp_path / "stream.yaml").write_text(
        "sources: {one: {path: corpus.txt}}\ntasks: {two: {type: mono, inputs: {all: {mono: corpus.txt}}}}\n"
    )
    (tmp_path / "other.txt").write_text("12\n")
    return tmp_path


def words(command: str, given: dict[str, str]) -> list[str]:
    """A command line with these values, and those that the command needs besides."""
    named = {name: NEEDED[name] for name in parameters(command) if name in NEEDED} | given
    line = [*command.split(), *ALWAYS.get(command, [])]
    for name, value in named.items():
        parameter = parameters(command)[name]
        is_option = parameter.param_type_name == "option"
        line += [
            *([parameter.opts[-1]] if is_option else []),
            value,
            *WITH.get((command, name), []),
        ]
    return line


def test_every_option_has_its_place_in_the_tables() -> None:
    """Whatever a command calls the values of its options is known here, and each file is an output or an input."""
    for command, found in COMMANDS.items():
        flags = [parameter for parameter in found.params if getattr(parameter, "is_flag", False)]
        for parameter in found.params:
            assert parameter in flags or parameter.metavar in FILES | PLAIN, (
                command,
                parameter.name,
            )
        for name in parameters(command):
            assert (name in OUTPUTS) != (name in INPUTS), (command, name)


@pytest.mark.parametrize(
    ("command", "output", "other"), [pair for pair in pairs() if pair not in REPLACED]
)
def test_no_output_is_an_input_or_another_output(
    command: str, output: str, other: str, run: Run, folder: Path
) -> None:
    """Status 2 and one line with both names, whatever links lead there; no byte is changed, nothing appears."""
    target = OWN.get(other, "other.txt" if other in INPUTS else "new.html")
    twin = _spelled_otherwise(target, charts=output == "plots")
    if other == "plots":
        target, twin = "plots", "plots/muv.svg"
    before = _content(folder)
    for spelled in (target, f"name={target}") if (command, other) in NAMED else (target,):
        message = run(*words(command, {output: twin, other: spelled}), status=2).stderr.decode()
        assert "would be written over" in message
        assert message.count("\n") == 1
        assert _content(folder) == before


def _spelled_otherwise(target: str, *, charts: bool) -> str:
    """Another way to the same file: through a hard link, or, where there is no file, a folder's link."""
    if charts:
        Path("charts").mkdir()
        Path("charts/entropy.png").symlink_to(f"../{target}")
        return "charts"
    if Path(target).exists():
        Path("twin").hardlink_to(target)
        return "twin"
    Path("here").symlink_to(".")
    return f"here/{target}"


def _content(folder: Path) -> dict[str, bytes]:
    return {
        name: (folder / name).read_bytes() for name in listed(folder) if (folder / name).is_file()
    }


@pytest.mark.parametrize("place", ["encoded/", "./"])
def test_outputs_in_a_folder_are_no_inputs(place: str, run: Run, folder: Path) -> None:
    """`encode -o FOLDER` looks at all that it would write: outputs, their offsets, the list of both."""
    os.makedirs(place, exist_ok=True)
    for name in ("corpus.txt.npy", "corpus.txt.npy.offsets.npy", ".volt-encoded.json"):
        os.replace("m.volt", Path(place, name))
        before = _content(Path(place))
        message = run(
            "encode -m", f"{place}{name}", "corpus.txt", "--form", "npy", "-o", place, status=2
        ).stderr
        assert f"{place.removeprefix('./')}{name}: would be written over".encode() in message
        assert _content(Path(place)) == before
        os.replace(Path(place, name), "m.volt")
    Path("corpus.txt.npy.offsets").write_text("low\n")
    files = ["corpus.txt", "corpus.txt.npy.offsets"]
    assert (
        b"which is written too"
        in run("encode -m m.volt", *files, "--form", "npy", "-o", place, status=2).stderr
    )


def test_a_folder_can_be_encoded_into_itself(run: Run, folder: Path) -> None:
    """`encode FOLDER -o FOLDER`, run again, says that its outputs are no input; with no other input it fails."""
    os.mkdir("texts")
    shutil.copy("corpus.txt", "texts/a.txt")
    command = "encode", "-m", "m.volt", "texts", "-o", "texts/"
    run(*command)
    before = _content(Path("texts"))
    message = run(*command).stderr
    assert message.splitlines()[-2:] == [
        b"left out 1 file that earlier runs wrote to texts/",
        b"texts/a.txt.pieces: is up to date",
    ]
    assert _content(Path("texts")) == before
    os.remove("texts/a.txt")
    assert b"name other files, or another folder" in run(*command, status=2).stderr


def test_what_belongs_to_a_model_is_no_output(run: Run, folder: Path) -> None:
    """The vocabulary beside codes, and the files of a folder, are read with the one that is named."""
    run("export -m m.volt --to huggingface -o hf -q")
    config = "hf/tokenizer_config.json"
    for model, out in (
        ("codes", "codes.vocab"),
        ("hf", "hf/tokenizer.json"),
        ("hf/tokenizer.json", config),
    ):
        assert b"which is read" in run(f"import {model} -o", out, status=2).stderr
    assert b"which is read" in run("export -m hf --to huggingface -o ./hf", status=2).stderr
    assert b"which is read" in run("export -m codes --to subword-nmt -o codes", status=2).stderr


# What stands where a command writes


@pytest.mark.parametrize(
    "line",
    [
        "search corpus.txt -q -o",
        "encode -m m.volt corpus.txt -o",
        "encode -m m.volt corpus.txt --form ids -o",
        "decode -m m.volt pieces.txt -o",
        "export -m m.volt --to tokens -q -o",
        "import m.volt -q -o",
    ],
)
def test_a_pipe_takes_what_stdout_takes(line: str, run: Run, folder: Path) -> None:
    """A named pipe, and a link to a file, get the bytes that - prints; both stay what they are; nothing is left."""
    run("encode -m m.volt corpus.txt -q -o pieces.txt")
    printed = run(*line.split(), "-").stdout
    with pipe("pipe") as reader:
        Path("link").symlink_to("target")
        before = listed(folder)
        for place in ("pipe", "link"):
            run(*line.split(), place)
        assert listed(folder) == sorted([*before, "target"])
        assert Path("link").is_symlink()
        found = [os.read(reader, 1 << 16), Path("target").read_bytes()]
    assert found == [printed, printed]


def test_arrays_need_a_file(run: Run, folder: Path) -> None:
    """npy and bin are two files: a pipe is refused in one line, before anything waits for its reader."""
    with pipe("pipe"):
        for form in ("npy", "bin"):
            message = run(f"encode -m m.volt corpus.txt --form {form} -o pipe", status=2).stderr
            assert f"pipe: not a file, and {form} needs two files; name a file" in message.decode()
            assert "offsets" not in " ".join(listed(folder))


def test_dev_stdout_is_stdout(run: Run, folder: Path) -> None:
    """/dev/stdout is one more name of -: one thing goes there, and what is said goes to stderr."""
    assert b"wrote stdout" in run("import m.volt -o /dev/stdout").stderr
    assert (
        b"more than one file"
        in run("export -m m.volt --to huggingface -o /dev/stdout", status=2).stderr
    )
    assert (
        b"both write to stdout" in run("search corpus.txt --json -o /dev/stdout", status=2).stderr
    )
    for option in ("--state", "--summary"):
        assert (
            b"stdout is for the lines"
            in run("stream run stream.yaml", option, "-", status=2).stderr
        )
    assert b"name a folder" in run("compare corpus.txt --plots -", status=2).stderr


@pytest.mark.parametrize("place", ["", ".", "made", "loop", "n" * 300, "none/x", "/proc/x"])
def test_a_place_that_cannot_be_is_reported_in_one_line(place: str, run: Run, folder: Path) -> None:
    """A folder, no name, a loop of links, a name too long, no folder, no permission: status 1, nothing made."""
    Path("made").mkdir()
    Path("loop").symlink_to("loop")
    before = listed(folder)
    lines = [
        "search corpus.txt -o",
        "decode -m m.volt other.txt -o",
        "import m.volt -o",
        "export -m m.volt --to tokens -o",
    ]
    if place not in (".", "made"):  # folders for encode
        lines.append("encode -m m.volt corpus.txt -o")
    for line in lines:
        done = run(*line.split(), place, status=1)
        assert b"cannot be written" in done.stderr, line
        assert done.stderr.count(b"\n") == 1
    assert listed(folder) == before


def test_stdin_is_an_input_too(run: Run, folder: Path) -> None:
    """A file that the shell opened as stdin is not written over, nor one that it opened as stdout read."""
    from volt_cli.io import check_places

    with Path("corpus.txt").open("ab") as file:
        saved = os.dup(0), os.dup(1)
        try:
            os.dup2(file.fileno(), 0)
            with pytest.raises(
                ConfigError, match=r"corpus\.txt: would be written over stdin, which is read"
            ):
                check_places(["corpus.txt"], ["-"])
            os.dup2(file.fileno(), 1)
            with pytest.raises(
                ConfigError, match=r"stdout: would be written over corpus\.txt, which is read"
            ):
                check_places(["-"], ["corpus.txt"])
        finally:
            for number, descriptor in enumerate(saved):
                os.dup2(descriptor, number)
                os.close(descriptor)


# What a search writes unasked


def test_an_unnamed_vocabulary_makes_way_for_that_of_the_same_corpus(
    run: Run, tmp_path: Path
) -> None:
    """Whatever the options, a rerun replaces corpus.volt; another corpus of that name, or another file, does not."""
    run("search corpus.txt -q")
    first = Path("corpus.volt").read_bytes()
    run(
        "search corpus.txt -q --normalizer lowercase --min-count 2 --pretokenizer unicode",
    )
    second = Path("corpus.volt").read_bytes()
    assert second != first
    shutil.copy("corpus.txt", "same.txt")
    as_many_lines = Path("corpus.txt").read_text().replace("cat", "lion")
    as_many_bytes = Path("corpus.txt").read_text().replace("\n", " ", 1).replace("cat", "dog")
    for text, options in product((as_many_lines, as_many_bytes), ([], ["--json"])):
        Path("corpus.txt").write_text(text)
        message, what = run("search corpus.txt", *options, status=2), "another corpus"
        assert f"corpus.volt: exists, but was made from {what}" in message.stderr.decode()
        assert b"choose another file with -o, or replace it with --force" in message.stderr
        assert Path("corpus.volt").read_bytes() == second
    run("search corpus.txt -q --force")
    third = Path("corpus.volt").read_bytes()
    assert third != second
    run("search same.txt -q -o corpus.volt")  # whoever names a place means it
    assert Path("corpus.volt").read_bytes() != third


@pytest.mark.parametrize("content", [b"notes", b"", b'{"volt": 1}', None])
def test_a_file_that_no_search_made_is_refused_before_any_work(
    content: bytes | None, run: Run, folder: Path
) -> None:
    """Notes, a damaged vocabulary, and one of another origin stay what they are."""
    if content is None:
        shutil.copy("m.volt", "corpus.volt")
    else:
        Path("corpus.volt").write_bytes(content)
    before = _content(folder)
    assert b"corpus.volt: exists, but " in run("search corpus.txt", status=2).stderr
    assert _content(folder) == before


# Signals


def test_signals_end_a_command_and_leave_nothing_behind(folder: Path) -> None:
    """SIGTERM: 143; SIGHUP: 129; one line is said and the part is gone. A signal that is ignored stays so."""
    running = {number: _start(number, ignored=False) for number in (signal.SIGTERM, signal.SIGHUP)}
    ignoring = _start(0, ignored=True)
    try:
        wait_for(lambda: sum(name.endswith(".part") for name in listed(folder)) == 3)
        for number, process in running.items():
            process.send_signal(number)
        ignoring.send_signal(signal.SIGHUP)
        for number, process in running.items():
            assert process.wait(DEADLINE) == 128 + number
            assert process.stderr is not None
            assert process.stderr.read().decode() == f"ended by {number.name}\n"
        _, message = ignoring.communicate(b"t h e</w>\n", timeout=DEADLINE)
        assert (ignoring.returncode, message) == (0, b"")
    finally:
        for process in (ignoring, *running.values()):
            process.kill()
            process.communicate()
    assert [name for name in listed(folder) if name.startswith((".", "out"))] == ["out0"]
    assert Path("out0").read_bytes() == b"the\n"


def _start(number: int, *, ignored: bool) -> subprocess.Popen[bytes]:
    """A command that waits for its stdin, behind the start of its output."""
    handler = signal.SIG_IGN if ignored else signal.SIG_DFL
    return subprocess.Popen(
        [*VOLT, "decode", "-m", "m.volt", "-o", f"out{number:d}"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, handler),
    )


@pytest.fixture
def model(run: Run) -> Path:
    """v.volt, from corpus.txt."""
    run("search corpus.txt -q -o v.volt")
    return Path("v.volt")


def test_a_vocabulary_can_go_to_stdout(run: Run, model: Path, tmp_path: Path) -> None:
    """`volt search -o -` prints the file that it would have written; the report goes to stderr."""
    done = run("search corpus.txt -o -")
    assert done.stdout == model.read_bytes()
    assert b"signature volt|corpus:" in done.stderr
    assert b"wrote stdout" in done.stderr
    assert listed(tmp_path) == ["corpus.txt", "v.volt"]


def test_encode_and_decode_take_a_dash(run: Run, model: Path, tmp_path: Path) -> None:
    """-o - is what they do anyway."""
    pieces = run(f"encode -m {model} corpus.txt -o -").stdout
    assert pieces == run(f"encode -m {model} corpus.txt").stdout
    assert run(f"decode -m {model} -o -", stdin=pieces).stdout.decode() == TEXT
    assert listed(tmp_path) == ["corpus.txt", "v.volt"]


def test_import_and_export_take_a_dash(run: Run, model: Path, tmp_path: Path) -> None:
    """A list of tokens, and the vocabulary made of it, are printed as they would be written."""
    run(f"export -m {model} --to tokens -o list")
    done = run(f"export -m {model} --to tokens -o -")
    assert done.stdout == Path("list").read_bytes()
    assert b"note: " in done.stderr
    imported = run(f"import list --from tokens --merges {model} -o -").stdout
    Path("again.volt").write_bytes(imported)
    assert Vocabulary.load("again.volt").tokens == Vocabulary.load(model).tokens
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("format", WRITE_SEVERAL)
@pytest.mark.parametrize("options", [[], ["--closed"]])
def test_what_is_more_than_one_file_needs_a_place(
    format: str, options: list[str], run: Run, model: Path
) -> None:
    """stdout takes one file: status 2 whatever the vocabulary is, nothing on stdout."""
    done = run(f"export -m {model} --to {format}", *options, "-o", "-", status=2)
    assert (
        f"-o -: {format} writes more than one file, but stdout takes only one; name a file or folder"
        in done.stderr.decode()
    )
    assert done.stdout == b""


def test_formats_of_several_files_are_known(run: Run, tmp_path: Path) -> None:
    """Exactly those in WRITE_SEVERAL write more than one file."""
    run("search corpus.txt -q -o b.volt --level bytes")
    run("search corpus.txt -q -o p.volt --marker prefix")
    run("search corpus.txt -q -o s.volt")
    models = {"tiktoken": "b.volt", "sentencepiece": "p.volt"}
    for format in FORMATS:
        folder = tmp_path / format
        folder.mkdir()
        run(
            "export -m",
            models.get(format, "s.volt"),
            "--to",
            format,
            "--closed",
            "-o",
            str(folder / "x"),
        )
        n_files = sum(path.is_file() and path.name != "x.closed.volt" for path in folder.rglob("*"))
        assert (n_files > 1) == (format in WRITE_SEVERAL), format


def test_messages_on_stdout_name_no_temporary_path(run: Run, model: Path) -> None:
    """Refusals and notes about an export to stdout say "stdout" instead of a temporary path."""
    refused = run(f"export -m {model} --to tiktoken -o -", status=1).stderr.decode()
    assert "stdout: tiktoken needs the pre-tokenizer bytes" in refused
    run("search corpus.txt -q -o b.volt --level bytes")
    error_text = run("export -m b.volt --to tiktoken --closed -o -").stderr.decode()
    assert "note: " in error_text
    for message in (refused, error_text):
        assert tempfile.gettempdir() not in message


def test_an_example_needs_a_folder(run: Run) -> None:
    """So does an example of a stream."""
    assert b"name a folder" in run("stream example mixing -o -", status=2).stderr


def test_a_comparison_can_go_to_stdout(run: Run) -> None:
    """The page or the Markdown takes the place of the tables, which go to stderr; two of them are too many."""
    done = run("compare corpus.txt --with bpe:14 --markdown -")
    assert done.stdout.startswith(b"#")
    assert b"volt knee" in done.stderr
    page = run("compare corpus.txt --with bpe:14 -o - -q")
    assert page.stdout.lower().startswith(b"<!doctype html>")
    assert page.stderr == b""
    both = run("compare corpus.txt -o - --json", status=2)
    assert b"--json and --output would both write to stdout" in both.stderr


def test_json_of_a_search_and_its_vocabulary_cannot_both_be_stdout(
    run: Run, tmp_path: Path
) -> None:
    """Status 2 before any work, nothing written."""
    assert (
        b"give one of them another place" in run("search corpus.txt -o - --json", status=2).stderr
    )
    assert listed(tmp_path) == ["corpus.txt"]


def test_preview_prints_json_too(run: Run) -> None:
    """`volt stream preview --json` prints one JSON document: an array of the lines, also of one."""
    run("stream example case-noise -o noise")
    for n in (3, 1):
        rows = json.loads(run(f"stream preview noise/stream.yaml -n {n} --json").stdout)
        assert [row["n"] for row in rows] == list(range(n))


TEXTS = {"few.txt": "low lower\n", "many.txt": "low\nlower low\nlowest\n"}
ENCODE = ("encode", "-m", "v.volt", "-q", "--form")
BINARIZE = ("binarize", "-m", "v.volt", "-q")


@pytest.fixture
def pair_folder(run: Run, tmp_path: Path) -> Path:
    """The current pair_folder, with a vocabulary and two texts."""
    run("search corpus.txt -q -o v.volt")
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def _bytes_of(pair_folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(pair_folder)): path.read_bytes()
        for path in pair_folder.rglob("*")
        if path.is_file()
    }


def test_outputs_of_one_stem_have_their_own_offsets(run: Run, pair_folder: Path) -> None:
    """x.npy and x.bin are read with their own offsets, whichever was written last."""
    run(*ENCODE, "npy", "few.txt", "-o", "x.npy")
    run(*ENCODE, "bin", "many.txt", "-o", "x.bin")
    assert [len(np.load(f"x.{form}.offsets.npy")) - 1 for form in ("npy", "bin")] == [1, 3]
    assert np.load("x.npy.offsets.npy")[-1] == len(np.load("x.npy"))
    assert np.load("x.bin.offsets.npy")[-1] == len(np.fromfile("x.bin", "<i4"))
    run(*ENCODE, "bin", "few.txt", "-o", "x.bin")
    assert len(np.load("x.bin.offsets.npy")) == 2


OPTIONS = {"sentencepiece": ["--marker", "prefix"], "subword-nmt": []}
EXPORTS = {to: ("export", "-m", f"{to}.volt", "-q", "--to", to, "-o", "x") for to in OPTIONS}
FIRST_AND_SECOND = {
    "a pair over an array": (
        (*ENCODE, "bin", "few.txt", "-o", "x.bin"),
        (*BINARIZE, "many.txt", "-o", "x"),
    ),
    "an array over a pair": (
        (*BINARIZE, "few.txt", "-o", "x"),
        (*ENCODE, "bin", "many.txt", "-o", "x.bin"),
    ),
    "text over an index": (
        (*BINARIZE, "few.txt", "-o", "x"),
        (*ENCODE, "ids", "many.txt", "-o", "x.idx"),
    ),
    "text over an array": (
        (*ENCODE, "npy", "few.txt", "-o", "x"),
        (*ENCODE, "ids", "many.txt", "-o", "x"),
    ),
    "an array over offsets": (
        (*ENCODE, "npy", "few.txt", "-o", "x.npy"),
        (*ENCODE, "npy", "many.txt", "-o", "x.npy.offsets.npy"),
    ),
    "pairs over arrays": (
        (*ENCODE, "bin", "few.txt", "-o", "x/"),
        (*BINARIZE, "few.txt", "-o", "x/"),
    ),
    "arrays over pairs": (
        (*BINARIZE, "few.txt", "-o", "x/"),
        (*ENCODE, "bin", "few.txt", "-o", "x/"),
    ),
    "a list over codes' list": (EXPORTS["subword-nmt"], EXPORTS["sentencepiece"]),
    "a list over a model's list": (EXPORTS["sentencepiece"], EXPORTS["subword-nmt"]),
}


@pytest.mark.parametrize("name", FIRST_AND_SECOND)
def test_no_command_replaces_half_of_another_output(run: Run, pair_folder: Path, name: str) -> None:
    """The second command is refused and changes nothing; the first may run again."""
    first, second = FIRST_AND_SECOND[name]
    if "export" in first:
        for to, options in OPTIONS.items():
            run("search corpus.txt -q -o", f"{to}.volt", *options)
    run(*first)
    before = _bytes_of(pair_folder)
    message = run(*second, status=2).stderr.decode()
    assert "choose another name" in message
    assert "belongs to" in message
    assert _bytes_of(pair_folder) == before
    run(*first)


def test_a_folder_of_texts_is_not_taken_for_a_trial(run: Run, pair_folder: Path) -> None:
    """A trial writes train.txt only beside its own results, and reads no results as text."""
    (pair_folder / "train.txt").write_text("mine\n")
    message = run("trial corpus.txt --hours 0.1 -o . -q", status=2).stderr.decode()
    assert "train.txt: exists, but trial.jsonl does not" in message
    assert (pair_folder / "train.txt").read_text() == "mine\n"
    (pair_folder / "trial.jsonl").write_text("")
    assert b"which is read" in run("trial trial.jsonl --hours 0.1 -o . -q", status=2).stderr


JSON = '{"text": "low lower", "id": 3}\n'
READERS = {
    "search": ["search", "-o", "s.volt"],
    "encode": ["encode", "-m", "v.volt"],
    "encode to a folder": ["encode", "-m", "v.volt", "-o", "out/"],
    "binarize": ["binarize", "-m", "v.volt", "-o", "pair"],
}
WARNED = {
    "a.csv": (
        'id,text\n1,"low, lower"\n',
        "a.csv: its lines have several columns between commas: 1 'id', 2 'text'",
    ),
    "a.tsv": (
        "id\ttext\n1\tlow lower\n",
        "a.tsv: its lines have several columns between tabs: 1 'id', 2 'text'",
    ),
}


@pytest.mark.parametrize("command", READERS)
@pytest.mark.usefixtures("model")
def test_tables_give_a_warning(run: Run, command: str) -> None:
    """CSV and TSV; --quiet leaves the warning out."""
    done = "counted" if command == "search" else "encoded"
    for name, (text, warning) in WARNED.items():
        Path(name).write_text(text * 3)
        message = " ".join(run(*READERS[command], name).stderr.decode().split())
        assert f"warning {warning}; all is {done}." in message
        assert "warning" not in run(*READERS[command], name, "-q").stderr.decode()


@pytest.mark.parametrize("command", READERS)
@pytest.mark.usefixtures("model")
def test_json_lines_are_refused(run: Run, command: str) -> None:
    """By name, compressed too; nothing is written."""
    Path("a.jsonl").write_text(JSON)
    Path("b.ndjson.gz").write_bytes(gzip.compress(JSON.encode()))
    for name in ("a.jsonl", "b.ndjson.gz"):
        message = run(*READERS[command], name, status=1).stderr.decode()
        assert f"{name}: JSON lines" in message
        assert "text" in message
    assert not any(Path(name).exists() for name in ("out", "pair.bin", "pair.idx"))


@pytest.mark.usefixtures("model")
def test_python_refuses_json_lines() -> None:
    """`encode_file` too."""
    Path("a.jsonl").write_text(JSON)
    with pytest.raises(CorpusError, match=r"a\.jsonl: JSON lines"):
        Encoder(Vocabulary.load("v.volt")).encode_file("a.jsonl")
