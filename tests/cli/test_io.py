"""Inputs and outputs of all commands: no output replaces an input, and at most one goes to stdout."""

import gzip
import json
import os
import shutil
import tempfile
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from support.commands import TEXT, all_commands, listed, search_once
from support.named_pipes import pipe

import volt
from volt.encode.encoder import Encoder
from volt.errors import ConfigError, CorpusError
from volt.vocabulary import Vocabulary
from volt_cli.export import WRITE_SEVERAL
from volt_cli.io import check_distinct_files
from volt_cli.options import FORMATS

COMMANDS = {
    name: command for name, command in all_commands().items() if name not in ("volt", "stream")
}
# Metavars of options that name files, and of the others.
METAVARS_OF_FILES = """FILE PLACE FOLDER CORPUS TEXT MODEL PATH CONFIG CONFIG|NAME SYSTEM N|FILE FILE|N
    STATE"""
FILES = {*METAVARS_OF_FILES.split()}
OTHERS = """A START:STOP:STEP RULE NAME N,N N TOKEN TOKEN[=ID] X P MARK FORMAT T RATE S SHARE TRANSFORM
    WHAT FORM KIND HOW BYTES L1-L2 SOURCE START:STOP KEY=VALUE ID|TOKEN PATTERN HOST:PORT E H UNIT N|SHARE|auto"""
PLAIN = {None, *OTHERS.split()}
VOCABULARY = Vocabulary(
    merges=(("t", "h"), ("th", "e</w>")), tokens=("t", "h", "e</w>", "th", "the</w>")
)
OUTPUTS = {"out", "markdown", "plots", "state", "summary", "html", "id_map"}
NAMES_OF_INPUTS = """corpus candidates model files text path merges sample heldout systems config
    from_state ack states sources expand extend texts chat_template on source target"""
INPUTS = {*NAMES_OF_INPUTS.split()}
# Folders in which VOLT chooses the names, and a text to split.
NO_FILES = {("inspect", "text"), ("stream cache", "folder"), ("search", "keep")}
REPLACED = {
    ("stream run", "state", "from_state"),  # a state may be replaced by a later state
    ("stream skip", "out", "from_state"),
    ("binarize", "out", "model"),  # two files, PREFIX.bin and PREFIX.idx: test_binarize.py
    ("binarize", "out", "files"),
    *(("trial", "out", name) for name in ("corpus", "source", "target")),  # a folder: test_trial.py
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
LAST = {"stream skip": "state.json 1:2"}
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
    """Return the parameters of a command that name files, by name."""
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
    return line + LAST.get(command, "").split()


def test_every_option_is_in_a_table_of_this_module():
    """Each metavar of an option is in FILES or PLAIN, and each option that names a file is in
    OUTPUTS or INPUTS."""
    for command, declared in COMMANDS.items():
        for parameter in declared.params:
            if not getattr(parameter, "is_flag", False):
                assert parameter.metavar in FILES | PLAIN, (command, parameter.name)
        for name in parameters(command):
            assert (name in OUTPUTS) != (name in INPUTS), (command, name)


@pytest.mark.parametrize(("command", "output", "other"), [*pairs()])
def test_no_output_is_an_input_or_another_output(command, output, other, run, folder):
    """Every command refuses an output that is a link to an input or to another output; no file
    changes."""
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
    """`volt encode -o FOLDER` refuses inputs that are one of its outputs: an array, offsets, or its
    manifest."""
    os.makedirs(place, exist_ok=True)
    for name in ("corpus.txt.npy", "corpus.txt.npy.offsets.npy", ".volt-encoded.json"):
        path = Path(place, name)
        os.replace("m.volt", path)
        before = _content(Path(place))
        command = f"encode -m {place}{name} corpus.txt --form npy -o {place}"
        message = run(command, status=2).message
        assert f"{place.removeprefix('./')}{name}: would be written over" in message
        assert _content(Path(place)) == before
        os.replace(path, "m.volt")
    Path("corpus.txt.npy.offsets").write_text("low\n")
    command = f"encode -m m.volt corpus.txt corpus.txt.npy.offsets --form npy -o {place}"
    assert "which is written too" in run(command, status=2).message


def test_a_folder_can_be_encoded_into_itself(run, folder):
    """A second `volt encode` of a folder into itself leaves out the outputs of the first; without
    other inputs, it fails."""
    os.mkdir("texts")
    shutil.copy("corpus.txt", "texts/a.txt")
    command = "encode -m m.volt texts -o texts/"
    run(command)
    before = _content(Path("texts"))
    assert run(command).message.splitlines()[-2:] == [
        "left out 1 file that earlier runs wrote to texts/",
        "texts/a.txt.pieces: is up to date",
    ]
    assert _content(Path("texts")) == before
    os.remove("texts/a.txt")
    assert "name other files, or another folder" in run(command, status=2).message


def test_files_of_a_model_are_not_replaced(run, folder):
    """No command replaces a file that is read together with MODEL."""
    run("export -m m.volt --to huggingface -o hf -q")
    for command in (
        "import codes -o codes.vocab",
        "import hf -o hf/tokenizer.json",
        "import hf/tokenizer.json -o hf/tokenizer_config.json",
        "export -m hf --to huggingface -o ./hf",
        "export -m codes --to subword-nmt -o codes",
    ):
        assert "which is read" in run(command, status=2).message


@pytest.mark.parametrize(
    "command",
    [
        "search corpus.txt -q -o",
        "encode -m m.volt corpus.txt -o",
        "encode -m m.volt corpus.txt --form ids -o",
        "decode -m m.volt pieces.txt -o",
        "export -m m.volt --to tokens -q -o",
        "import m.volt -q -o",
    ],
)
def test_pipes_and_links_get_the_bytes_of_stdout(command, run, folder):
    """A named pipe or link as output gets the bytes that - prints, and stays a pipe or link."""
    run("encode -m m.volt corpus.txt -q -o pieces.txt")
    printed = run(f"{command} -").stdout
    with pipe("pipe") as reader:
        Path("link").symlink_to("target")
        before = listed(folder)
        for place in ("pipe", "link"):
            run(f"{command} {place}")
        assert listed(folder) == sorted([*before, "target"])
        assert Path("link").is_symlink()
        written = [os.read(reader, 1 << 16), Path("target").read_bytes()]
    assert written == [printed, printed]


def test_arrays_cannot_go_to_a_pipe(run, folder):
    """`volt encode` refuses a pipe for npy and bin, which are two files."""
    with pipe("pipe"):
        for form in ("npy", "bin"):
            command = f"encode -m m.volt corpus.txt --form {form} -o pipe"
            message = "pipe: is a pipe or a device; give the path of a file"
            assert message in run(command, status=2).message
            assert "offsets" not in " ".join(listed(folder))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("export -m m.volt --to huggingface -o /dev/stdout", "more than one file"),
        ("search corpus.txt --json -o /dev/stdout", "--json and --output would both write to"),
        ("search corpus.txt --json -o -", "give one of them another place"),
        ("compare corpus.txt --json -o -", "--json and --output would both write to stdout"),
        ("stream run stream.yaml --state -", "stdout is for the lines"),
        ("stream run stream.yaml --summary -", "stdout is for the lines"),
        ("stream example mixing -o -", "name a folder"),
        ("compare corpus.txt --plots -", "name a folder"),
        *(
            (
                f"export -m m.volt --to {format} {options} -o -",
                f"-o -: {format} writes more than one file, but stdout takes only one; name a file or folder",
            )
            for format, options in product(WRITE_SEVERAL, ["", "--closed"])
        ),
    ],
)
def test_several_outputs_cannot_go_to_stdout(command, message, run, folder):
    """A command that would write several outputs or files to stdout is refused with status 2, and
    writes nothing."""
    before = listed(folder)
    done = run(command, status=2)
    assert message in done.message
    assert done.stdout == b""
    assert listed(folder) == before


@pytest.mark.parametrize("place", ["", ".", "made", "loop", "n" * 300, "none/x", "/proc/x"])
def test_unwritable_outputs_are_refused(place, run, folder):
    """An output that cannot be written ends a command with status 1 and one line; nothing is
    written."""
    Path("made").mkdir()
    Path("loop").symlink_to("loop")
    before = listed(folder)
    commands = [
        "search corpus.txt -o",
        "decode -m m.volt other.txt -o",
        "import m.volt -o",
        "export -m m.volt --to tokens -o",
    ]
    if place not in (".", "made"):  # folders for encode
        commands.append("encode -m m.volt corpus.txt -o")
    for command in commands:
        done = run(command, place, status=1)
        assert "cannot be written" in done.message, command
        assert done.message.count("\n") == 1
    assert listed(folder) == before


def test_redirected_files_are_protected(run):
    """`check_distinct_files` refuses to write the file that the shell opened as stdin, and to read
    stdout's file."""
    with Path("corpus.txt").open("ab") as file:
        saved = os.dup(0), os.dup(1)
        try:
            os.dup2(file.fileno(), 0)
            with pytest.raises(ConfigError, match=r"corpus\.txt: would be written over stdin"):
                check_distinct_files(["corpus.txt"], ["-"])
            os.dup2(file.fileno(), 1)
            with pytest.raises(ConfigError, match=r"stdout: would be written over corpus\.txt"):
                check_distinct_files(["-"], ["corpus.txt"])
        finally:
            for number, descriptor in enumerate(saved):
                os.dup2(descriptor, number)
                os.close(descriptor)


@pytest.fixture
def model(run):
    """Search v.volt from corpus.txt."""
    return search_once(run)


def test_search_writes_to_stdout(run, model, tmp_path):
    """`volt search -o -` prints the vocabulary on stdout, and the report on stderr."""
    for place in ("-", "/dev/stdout"):
        done = run(f"search corpus.txt --all -o {place}")
        assert done.stdout == model.read_bytes()
        assert "signature volt|corpus:" in done.message
        assert "wrote stdout" in done.message
    assert listed(tmp_path) == ["corpus.txt", "v.volt"]


def test_encode_and_decode_write_to_stdout(run, model, tmp_path):
    """`volt encode` and `volt decode` with -o - print what they print without -o, and create no
    file."""
    pieces = run("encode -m v.volt corpus.txt -o -").stdout
    assert pieces == run("encode -m v.volt corpus.txt").stdout
    assert run("decode -m v.volt -o -", stdin=pieces).stdout.decode() == TEXT
    assert listed(tmp_path) == ["corpus.txt", "v.volt"]


def test_import_and_export_write_to_stdout(run, model, tmp_path):
    """`volt export` and `volt import` with -o - print the bytes that a file would have."""
    run("export -m v.volt --to tokens -o list")
    done = run("export -m v.volt --to tokens -o -")
    assert done.stdout == Path("list").read_bytes()
    assert "note: " in done.message
    imported = run("import list --from tokens --merges v.volt -o -").stdout
    Path("again.volt").write_bytes(imported)
    assert Vocabulary.load("again.volt").tokens == Vocabulary.load(model).tokens
    assert not (tmp_path / "-").exists()


def test_a_comparison_can_go_to_stdout(run):
    """`volt compare` prints the page or the Markdown on stdout; its tables then go to stderr."""
    done = run("compare corpus.txt --with bpe:14 --markdown -")
    assert done.stdout.startswith(b"#")
    assert "verdict" in done.message
    page = run("compare corpus.txt --with bpe:14 -o - -q")
    assert page.stdout.lower().startswith(b"<!doctype html>")
    assert page.message == ""


def test_commands_certify_alike(run):
    """`volt search --certify`, `volt inspect --on` and `volt compare --certify` print the bound that
    `volt.certify` finds for the vocabulary that was searched."""
    search = json.loads(run("search corpus.txt --certify --json -o v.volt").stdout)
    inspected = json.loads(run("inspect -m v.volt --on corpus.txt --json").stdout)
    words = volt.count_words("corpus.txt")
    expected = volt.certify(Vocabulary.load("v.volt"), words)
    assert search["certificate"] == inspected["on"] == expected.data
    for command in ("search corpus.txt --certify -o v.volt", "inspect -m v.volt --on corpus.txt"):
        assert str(expected) in " ".join(run(command).stdout.decode().split())
    compared = run("compare corpus.txt --certify").stdout.decode()
    assert f"needs fewer than {expected.bound:,}" in " ".join(compared.split())


def test_formats_of_several_files_are_known(run, tmp_path):
    """WRITE_SEVERAL lists exactly the formats of which an export has more than one file."""
    models = {"tiktoken": "--level bytes", "sentencepiece": "--marker prefix"}
    for format in FORMATS:
        folder = tmp_path / format
        folder.mkdir()
        run(f"search corpus.txt -q -o v.volt {models.get(format, '')}")
        run(f"export -m v.volt --to {format} --closed -o {folder}/x")
        n_files = sum(path.is_file() and path.name != "x.closed.volt" for path in folder.rglob("*"))
        assert (n_files > 1) == (format in WRITE_SEVERAL), format


def test_messages_name_stdout(run, model):
    """Errors and notes of `volt export -o -` name stdout instead of a temporary path."""
    refused = run("export -m v.volt --to tiktoken -o -", status=1).message
    assert "stdout: tiktoken needs the pre-tokenizer bytes" in refused
    run("search corpus.txt -q -o b.volt --level bytes")
    notes = run("export -m b.volt --to tiktoken --closed -o -").message
    assert "note: " in notes
    assert tempfile.gettempdir() not in refused + notes


@pytest.fixture
def texts(model, tmp_path):
    """Write two texts."""
    (tmp_path / "few.txt").write_text("low lower\n")
    (tmp_path / "many.txt").write_text("low\nlower low\nlowest\n")
    return tmp_path


def test_outputs_of_one_stem_have_their_own_offsets(run, texts):
    """The arrays x.npy and x.bin have separate files of offsets, whichever was written last."""
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
def test_no_command_replaces_a_part_of_another_output(run, texts, name):
    """A command that would replace one file of a pair is refused, and changes nothing; the command
    that wrote the pair may run again."""
    run("search corpus.txt -q --marker prefix -o prefix.volt")
    first, second = FIRST_AND_SECOND[name]
    commands = [line if "-m" in line else f"{line} -m v.volt" for line in (first, second)]
    run(commands[0])
    before = _content(texts)
    message = run(commands[1], status=2).message
    assert "choose another name" in message
    assert "belongs to" in message
    assert _content(texts) == before
    run(commands[0])


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
def test_tables_read_as_text_give_a_warning(run, command):
    """A command that reads a CSV or TSV file as text warns with the columns; --quiet suppresses the
    warning."""
    for kind, (text, separators) in TABLES.items():
        name = f"a.{kind}"
        Path(name).write_text(text * 3)
        message = " ".join(run(command, name).message.split())
        columns = f"{name}: its lines have several columns between {separators}: 1 'id', 2 'text'"
        assert f"warning {columns}; all is {READERS[command]}." in message
        assert "warning" not in run(f"{command} {name} -q").message


@pytest.mark.parametrize("command", READERS)
@pytest.mark.usefixtures("model")
def test_json_lines_are_refused(run, command):
    """Commands and `Encoder.encode_file` refuse JSON lines, compressed or not; the error names the
    file, and nothing is written."""
    json_line = b'{"text": "low lower", "id": 3}\n'
    Path("a.jsonl").write_bytes(json_line)
    Path("b.ndjson.gz").write_bytes(gzip.compress(json_line))
    for name in ("a.jsonl", "b.ndjson.gz"):
        message = run(f"{command} {name}", status=1).message
        assert f"{name}: JSON lines" in message
        assert "text" in message
        with pytest.raises(CorpusError, match=f"{name}: JSON lines"):
            Encoder(Vocabulary.load("v.volt")).encode_file(name)
    assert not any(Path(name).exists() for name in ("out", "pair.bin", "pair.idx"))
