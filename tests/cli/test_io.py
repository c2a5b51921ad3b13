"""Places of inputs and outputs: no output replaces an input; stdout holds one thing; tables are not text."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import tempfile
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from support.commands import TEXT, VOLT, Run, all_commands, listed
from support.named_pipes import pipe
from support.stream_commands import DEADLINE, wait_for

from volt.encode.encoder import Encoder
from volt.errors import ConfigError, CorpusError
from volt.vocabulary import Vocabulary
from volt_cli.export import WRITE_SEVERAL
from volt_cli.options import FORMATS

COMMANDS = {
    name: command for name, command in all_commands().items() if name not in ("volt", "stream")
}
# Metavars of options: of those that name files, and of the others.
METAVARS_OF_FILES = """FILE PLACE FOLDER CORPUS TEXT MODEL PATH CONFIG CONFIG|NAME SYSTEM N|FILE FILE|N
    STATE"""
FILES = {*METAVARS_OF_FILES.split()}
OTHERS = """START:STOP:STEP RULE NAME N,N N TOKEN TOKEN[=ID] X P MARK FORMAT T RATE S SHARE TRANSFORM
    WHAT FORM KIND HOW BYTES L1-L2 SOURCE KEY=VALUE ID|TOKEN PATTERN HOST:PORT E H UNIT"""
PLAIN = {None, *OTHERS.split()}
VOCABULARY = Vocabulary(
    merges=(("t", "h"), ("th", "e</w>")), tokens=("t", "h", "e</w>", "th", "the</w>")
)
OUTPUTS = {"out", "markdown", "plots", "state", "summary", "html", "id_map"}
NAMES_OF_INPUTS = """corpus candidates model files text path merges sample heldout systems config
    from_state ack states sources expand extend texts chat_template"""
INPUTS = {*NAMES_OF_INPUTS.split()}
# Folders in which VOLT chooses the names, and a text to split.
NO_FILES = {("inspect", "text"), ("stream cache", "folder"), ("search", "keep")}
REPLACED = {
    ("stream run", "state", "from_state"),  # a state may be replaced by a later state
    ("binarize", "out", "model"),  # two files, PREFIX.bin and PREFIX.idx: test_binarize.py
    ("binarize", "out", "files"),
    ("trial", "out", "corpus"),  # a folder: test_trial.py
}
# Texts that may be written NAME=FILE.
NAMED = {("search", "corpus"), ("compare", "corpus"), ("compare", "heldout")}
# Values of parameters that a command needs.
NEEDED = {
    "corpus": "corpus.txt",
    "texts": "corpus.txt",
    "model": "m.volt",
    "path": "m.volt",
    "config": "stream.yaml",
}
WITH = {("export", "text"): "--check", ("import", "text"): "--check"}
ALWAYS = {
    "export": "--to subword-nmt",
    "shrink": "--to 6 -o out.volt",
    "translate-input": "--task t",
    "translate-output": "--task t",
}
# Files of the right kind for a parameter.
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


def parameters(command):
    """Return the parameters of a command that name files."""
    return {
        parameter.name: parameter
        for parameter in COMMANDS[command].params
        if parameter.metavar in FILES and (command, parameter.name) not in NO_FILES
    }


def pairs():
    """Yield a command, an output, and an input or output that must be another file."""
    for command in COMMANDS:
        names = parameters(command)
        outputs = [name for name in names if name in OUTPUTS]
        inputs = [name for name in names if name in INPUTS]
        for pair in [*product(outputs, inputs), *combinations(outputs, 2)]:
            if (command, *pair) not in REPLACED:
                yield (command, *pair)


@pytest.fixture
def folder(run, tmp_path):
    """Write a vocabulary, codes, and a configuration."""
    VOCABULARY.save("m.volt")
    (tmp_path / "codes").write_text("#version: 0.2\nt h\nth e</w>\n")
    (tmp_path / "stream.yaml").write_text(
        "sources: {one: {path: corpus.txt}}\ntasks: {two: {type: mono, inputs: {all: {mono: corpus.txt}}}}\n"
    )
    (tmp_path / "other.txt").write_text("12\n")
    return tmp_path


def words(command, values):
    """Return a command line with these values, and with values of the other needed parameters."""
    line = [*command.split(), *ALWAYS.get(command, "").split()]
    known = parameters(command)
    needed = {name: NEEDED[name] for name in known if name in NEEDED}
    for name, value in (needed | values).items():
        if known[name].param_type_name == "option":
            line.append(known[name].opts[-1])
        line += [value, *WITH.get((command, name), "").split()]
    return line


def test_every_option_is_in_the_tables():
    """Each metavar is in FILES or PLAIN, and each file is in OUTPUTS or INPUTS of this module."""
    for command, declared in COMMANDS.items():
        for parameter in declared.params:
            if not getattr(parameter, "is_flag", False):
                assert parameter.metavar in FILES | PLAIN, (command, parameter.name)
        for name in parameters(command):
            assert (name in OUTPUTS) != (name in INPUTS), (command, name)


@pytest.mark.parametrize(("command", "output", "other"), [*pairs()])
def test_no_output_is_an_input_or_another_output(command, output, other, run, folder):
    """Links to an input or output are refused with status 2 and one line; no file changes."""
    target = OWN.get(other, "other.txt" if other in INPUTS else "new.html")
    twin = _spelled_otherwise(target, charts=output == "plots")
    if other == "plots":
        target = "plots"
        twin = "plots/muv.svg"
    before = _content(folder)
    spellings = [target]
    if (command, other) in NAMED:
        spellings.append(f"name={target}")
    for spelled in spellings:
        message = run(*words(command, {output: twin, other: spelled}), status=2).stderr.decode()
        assert "would be written over" in message
        assert message.count("\n") == 1
        assert _content(folder) == before


def _spelled_otherwise(target, *, charts):
    """Return another path of a file: a hard link, or a path through a link to the folder."""
    if charts:
        Path("charts").mkdir()
        Path("charts/entropy.png").symlink_to(f"../{target}")
        return "charts"
    if Path(target).exists():
        Path("twin").hardlink_to(target)
        return "twin"
    Path("here").symlink_to(".")
    return f"here/{target}"


def _content(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("place", ["encoded/", "./"])
def test_outputs_in_a_folder_are_no_inputs(place, run, folder):
    """`encode -o FOLDER` checks all its outputs: arrays, offsets and the list of outputs."""
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


def test_a_folder_can_be_encoded_into_itself(run, folder):
    """A second run leaves out the outputs of the first; without other inputs, it fails."""
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


def test_what_belongs_to_a_model_is_no_output(run, folder):
    """Files that are read together with MODEL are not replaced."""
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
def test_a_pipe_takes_what_stdout_takes(line, run, folder):
    """A named pipe or a link gets the bytes that - prints, and stays a pipe or link."""
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


def test_arrays_need_a_file(run, folder):
    """npy and bin are two files, so a pipe is refused at once."""
    with pipe("pipe"):
        for form in ("npy", "bin"):
            message = run(f"encode -m m.volt corpus.txt --form {form} -o pipe", status=2).stderr
            assert f"pipe: not a file, and {form} needs two files; name a file" in message.decode()
            assert "offsets" not in " ".join(listed(folder))


def test_dev_stdout_is_stdout(run, folder):
    """/dev/stdout means -, so it holds one thing, and messages go to stderr."""
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
    """Impossible places end with status 1 and one line; nothing is written."""
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


def test_stdin_is_an_input_too(run, folder):
    """The file that the shell opened as stdin is not replaced, and stdout's file is not read."""
    from volt_cli.io import check_distinct_files

    with Path("corpus.txt").open("ab") as file:
        saved = os.dup(0), os.dup(1)
        try:
            os.dup2(file.fileno(), 0)
            with pytest.raises(
                ConfigError, match=r"corpus\.txt: would be written over stdin, which is read"
            ):
                check_distinct_files(["corpus.txt"], ["-"])
            os.dup2(file.fileno(), 1)
            with pytest.raises(
                ConfigError, match=r"stdout: would be written over corpus\.txt, which is read"
            ):
                check_distinct_files(["-"], ["corpus.txt"])
        finally:
            for number, descriptor in enumerate(saved):
                os.dup2(descriptor, number)
                os.close(descriptor)


# What a search writes unasked


def test_an_unnamed_vocabulary_makes_way_for_that_of_the_same_corpus(run, tmp_path):
    """A rerun replaces corpus.volt only if it was made from the same corpus."""
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
def test_a_file_that_no_search_made_is_refused_before_any_work(content, run, folder):
    """Notes, damaged and imported vocabularies with the default name are not replaced."""
    if content is None:
        shutil.copy("m.volt", "corpus.volt")
    else:
        Path("corpus.volt").write_bytes(content)
    before = _content(folder)
    assert b"corpus.volt: exists, but " in run("search corpus.txt", status=2).stderr
    assert _content(folder) == before


# Signals


def test_signals_end_a_command_and_leave_nothing_behind(folder):
    """SIGTERM ends with 143 and SIGHUP with 129, without a partial file; ignored signals stay
    ignored."""
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


def _start(number, *, ignored):
    """Start a command that has written a part of its output, and waits for stdin."""
    handler = signal.SIG_IGN if ignored else signal.SIG_DFL
    return subprocess.Popen(
        [*VOLT, "decode", "-m", "m.volt", "-o", f"out{number:d}"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, handler),
    )


@pytest.fixture
def model(run):
    """Search v.volt from corpus.txt."""
    run("search corpus.txt -q -o v.volt")
    return Path("v.volt")


def test_a_vocabulary_can_go_to_stdout(run, model, tmp_path):
    """`volt search -o -` prints the vocabulary on stdout, and the report on stderr."""
    done = run("search corpus.txt -o -")
    assert done.stdout == model.read_bytes()
    assert b"signature volt|corpus:" in done.stderr
    assert b"wrote stdout" in done.stderr
    assert listed(tmp_path) == ["corpus.txt", "v.volt"]


def test_encode_and_decode_take_a_dash(run, model, tmp_path):
    """-o - is the default of encode and decode."""
    pieces = run(f"encode -m {model} corpus.txt -o -").stdout
    assert pieces == run(f"encode -m {model} corpus.txt").stdout
    assert run(f"decode -m {model} -o -", stdin=pieces).stdout.decode() == TEXT
    assert listed(tmp_path) == ["corpus.txt", "v.volt"]


def test_import_and_export_take_a_dash(run, model, tmp_path):
    """Exports and imports print on stdout the bytes that a file would have."""
    run(f"export -m {model} --to tokens -o list")
    done = run(f"export -m {model} --to tokens -o -")
    assert done.stdout == Path("list").read_bytes()
    assert b"note: " in done.stderr
    imported = run(f"import list --from tokens --merges {model} -o -").stdout
    Path("again.volt").write_bytes(imported)
    assert Vocabulary.load("again.volt").tokens == Vocabulary.load(model).tokens
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("format", WRITE_SEVERAL)
@pytest.mark.parametrize("options", ["", "--closed"])
def test_what_is_more_than_one_file_needs_a_place(format, options, run, model):
    """Formats of several files are refused on stdout with status 2."""
    done = run(f"export -m {model} --to {format} {options}", "-o", "-", status=2)
    assert (
        f"-o -: {format} writes more than one file, but stdout takes only one; name a file or folder"
        in done.stderr.decode()
    )
    assert done.stdout == b""


def test_formats_of_several_files_are_known(run, tmp_path):
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


def test_messages_on_stdout_name_no_temporary_path(run, model):
    """Errors and notes name stdout instead of a temporary path."""
    refused = run(f"export -m {model} --to tiktoken -o -", status=1).stderr.decode()
    assert "stdout: tiktoken needs the pre-tokenizer bytes" in refused
    run("search corpus.txt -q -o b.volt --level bytes")
    error_text = run("export -m b.volt --to tiktoken --closed -o -").stderr.decode()
    assert "note: " in error_text
    for message in (refused, error_text):
        assert tempfile.gettempdir() not in message


def test_an_example_needs_a_folder(run):
    """`volt stream example -o -` is refused."""
    assert b"name a folder" in run("stream example mixing -o -", status=2).stderr


def test_a_comparison_can_go_to_stdout(run):
    """The page or the Markdown may go to stdout, but not both; the tables then go to stderr."""
    done = run("compare corpus.txt --with bpe:14 --markdown -")
    assert done.stdout.startswith(b"#")
    assert b"volt knee" in done.stderr
    page = run("compare corpus.txt --with bpe:14 -o - -q")
    assert page.stdout.lower().startswith(b"<!doctype html>")
    assert page.stderr == b""
    both = run("compare corpus.txt -o - --json", status=2)
    assert b"--json and --output would both write to stdout" in both.stderr


def test_json_of_a_search_and_its_vocabulary_cannot_both_be_stdout(run, tmp_path):
    """The status is 2 before any work; nothing is written."""
    assert (
        b"give one of them another place" in run("search corpus.txt -o - --json", status=2).stderr
    )
    assert listed(tmp_path) == ["corpus.txt"]


def test_preview_prints_json_too(run):
    """`volt stream preview --json` prints one array of lines."""
    run("stream example case-noise -o noise")
    for n in (3, 1):
        rows = json.loads(run(f"stream preview noise/stream.yaml -n {n} --json").stdout)
        assert [row["n"] for row in rows] == list(range(n))


@pytest.fixture
def pair_folder(run, model, tmp_path):
    """A folder with a vocabulary and two texts."""
    (tmp_path / "few.txt").write_text("low lower\n")
    (tmp_path / "many.txt").write_text("low\nlower low\nlowest\n")
    return tmp_path


def test_outputs_of_one_stem_have_their_own_offsets(run, pair_folder):
    """x.npy and x.bin have their own offsets, whichever was written last."""
    run("encode -m v.volt few.txt --form npy -o x.npy")
    run("encode -m v.volt many.txt --form bin -o x.bin")
    npy_offsets = np.load("x.npy.offsets.npy")
    bin_offsets = np.load("x.bin.offsets.npy")
    assert (len(npy_offsets), len(bin_offsets)) == (2, 4)
    assert npy_offsets[-1] == len(np.load("x.npy"))
    assert bin_offsets[-1] == len(np.fromfile("x.bin", "<i4"))
    run("encode -m v.volt few.txt --form bin -o x.bin")
    assert len(np.load("x.bin.offsets.npy")) == 2


FIRST_AND_SECOND = {
    "a pair over an array": ("encode --form bin few.txt -o x.bin", "binarize many.txt -o x"),
    "an array over a pair": ("binarize few.txt -o x", "encode --form bin many.txt -o x.bin"),
    "text over an index": ("binarize few.txt -o x", "encode --form ids many.txt -o x.idx"),
    "text over an array": ("encode --form npy few.txt -o x", "encode --form ids many.txt -o x"),
    "an array over offsets": (
        "encode --form npy few.txt -o x.npy",
        "encode --form npy many.txt -o x.npy.offsets.npy",
    ),
    "pairs over arrays": ("encode --form bin few.txt -o x/", "binarize few.txt -o x/"),
    "arrays over pairs": ("binarize few.txt -o x/", "encode --form bin few.txt -o x/"),
    "a list over codes' list": (
        "export --to subword-nmt -o x",
        "export -m prefix.volt --to sentencepiece -o x",
    ),
    "a list over a model's list": (
        "export -m prefix.volt --to sentencepiece -o x",
        "export --to subword-nmt -o x",
    ),
}


@pytest.mark.parametrize("name", FIRST_AND_SECOND)
def test_no_command_replaces_half_of_another_output(run, pair_folder, name):
    """The second command is refused and changes nothing; the first may run again."""
    run("search corpus.txt -q --marker prefix -o prefix.volt")
    first, second = FIRST_AND_SECOND[name]
    commands = [line if "-m" in line else f"{line} -m v.volt" for line in (first, second)]
    run(commands[0])
    before = _content(pair_folder)
    message = run(commands[1], status=2).stderr.decode()
    assert "choose another name" in message
    assert "belongs to" in message
    assert _content(pair_folder) == before
    run(commands[0])


def test_a_folder_of_texts_is_not_taken_for_a_trial(run, pair_folder):
    """A trial does not replace a foreign train.txt, and does not read its results as text."""
    (pair_folder / "train.txt").write_text("mine\n")
    message = run("trial corpus.txt --hours 0.1 -o . -q", status=2).stderr.decode()
    assert "train.txt: exists, but trial.jsonl does not" in message
    assert (pair_folder / "train.txt").read_text() == "mine\n"
    (pair_folder / "trial.jsonl").write_text("")
    assert b"which is read" in run("trial trial.jsonl --hours 0.1 -o . -q", status=2).stderr


JSON = '{"text": "low lower", "id": 3}\n'
READERS = {
    "search -o s.volt": "counted",
    "encode -m v.volt": "encoded",
    "encode -m v.volt -o out/": "encoded",
    "binarize -m v.volt -o pair": "encoded",
}
TABLES = {
    "csv": ('id,text\n1,"low, lower"\n', "commas"),
    "tsv": ("id\ttext\n1\tlow lower\n", "tabs"),
}


@pytest.mark.parametrize("command", READERS)
@pytest.mark.usefixtures("model")
def test_tables_give_a_warning(run, command):
    """The warning names the columns of a CSV or TSV file; --quiet suppresses it."""
    for kind, (text, separators) in TABLES.items():
        name = f"a.{kind}"
        Path(name).write_text(text * 3)
        message = " ".join(run(command, name).stderr.decode().split())
        columns = f"{name}: its lines have several columns between {separators}: 1 'id', 2 'text'"
        assert f"warning {columns}; all is {READERS[command]}." in message
        assert "warning" not in run(command, name, "-q").stderr.decode()


@pytest.mark.parametrize("command", READERS)
@pytest.mark.usefixtures("model")
def test_json_lines_are_refused(run, command):
    """The error names the file, compressed or not; nothing is written."""
    Path("a.jsonl").write_text(JSON)
    Path("b.ndjson.gz").write_bytes(gzip.compress(JSON.encode()))
    for name in ("a.jsonl", "b.ndjson.gz"):
        message = run(command, name, status=1).stderr.decode()
        assert f"{name}: JSON lines" in message
        assert "text" in message
    assert not any(Path(name).exists() for name in ("out", "pair.bin", "pair.idx"))


@pytest.mark.usefixtures("model")
def test_python_refuses_json_lines():
    """`Encoder.encode_file` refuses JSON lines."""
    Path("a.jsonl").write_text(JSON)
    with pytest.raises(CorpusError, match=r"a\.jsonl: JSON lines"):
        Encoder(Vocabulary.load("v.volt")).encode_file("a.jsonl")
