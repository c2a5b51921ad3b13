"""`volt` as people start it: without arguments, with wrong words, with bad input, and interrupted."""

import contextlib
import gzip
import io
import json
import os
import platform
import signal
import subprocess
import sys
from importlib.metadata import version
from itertools import product
from pathlib import Path

import numpy
import polars
import pytest
from support.commands import TEXT, VOLT, foreign_options, listed, search_once, status_of
from support.drawn import in_turns

import volt
from volt.text.byte_alphabet import ALPHABET
from volt.text.pretokenizer import PreTokenizer
from volt.vocabulary import Vocabulary
from volt_cli.app import LIBRARIES


@pytest.fixture
def model(run):
    """Search v.volt from corpus.txt."""
    return search_once(run)


def test_search_writes_the_vocabulary_here(run, tmp_path):
    """`volt search corpus.txt` writes ./corpus.volt, and prints a report on stdout."""
    done = run("search corpus.txt --all")
    assert listed(tmp_path) == ["corpus.txt", "corpus.volt"]
    assert "wrote corpus.volt" in done.message
    report = done.stdout.decode()
    for part in ("knee", "muv", "f95", "renyi", "tokens", "signature volt|corpus:", "tiny corpus"):
        assert part in report


@pytest.mark.usefixtures("model")
def test_decoding_restores_the_text(run):
    """`volt decode` restores the text that `volt encode` encoded, through pieces, ids and
    subword-nmt's separator."""
    for options in ("", "--form ids", "--separator @@"):
        encoded = run(f"encode -m v.volt corpus.txt {options}").stdout
        assert encoded.count(b"\n") == TEXT.count("\n")
        assert run(f"decode -m v.volt {options}", stdin=encoded).stdout.decode() == TEXT


def test_metaspace_restores_every_space(run):
    """With --pretokenizer metaspace, decoding restores the text byte for byte."""
    text = b"  two  spaces \n\nlow lower  \n"
    run("search corpus.txt -q -o v.volt --pretokenizer metaspace")
    encoded = run("encode -m v.volt", stdin=text).stdout
    assert run("decode -m v.volt", stdin=encoded).stdout == text


def test_equal_input_gives_equal_bytes(run, model, tmp_path):
    """The bytes of a vocabulary do not depend on whether the corpus is a file, compressed or
    stdin."""
    (tmp_path / "again.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    run("search again.txt.gz -q -o gz.volt")
    run("search - -q -o stdin.volt", stdin=TEXT.encode())
    for name in ("gz.volt", "stdin.volt"):
        assert Path(name).read_bytes() == model.read_bytes()


@pytest.mark.usefixtures("model")
def test_files_are_encoded_into_a_folder_once(run, tmp_path):
    """`volt encode -o FOLDER/` writes an output for each file; a second call reports the outputs as
    up to date."""
    (tmp_path / "more.txt").write_text("low lower\n")
    command = "encode -m v.volt corpus.txt more.txt -o out/ --form npy"
    assert "more.txt.npy: 1 line" in " ".join(run(command).message.split())
    outputs = [
        f"{name}.txt.npy{end}" for name in ("corpus", "more") for end in ("", ".offsets.npy")
    ]
    assert listed(tmp_path / "out") == [".volt-encoded.json", *outputs]
    assert run(command).message.count("is up to date") == 2
    refused = run("encode -m v.volt more.txt --form npy", status=2)
    assert "cannot go to a stream" in refused.message


@pytest.mark.usefixtures("model")
def test_dropout_is_repeatable_and_needs_a_seed(run):
    """`volt encode --dropout` gives equal pieces for equal seeds, and is refused without --seed."""
    command = "encode -m v.volt corpus.txt --dropout 0.5"
    first, second, *others = [run(f"{command} --seed {seed}").stdout for seed in "0078"]
    assert first == second
    assert len({first, *others}) == 3
    message = "dropout needs a seed, a whole number of 0 or more; encode with --seed 1\n"
    assert message in run(command, status=2).message


def test_user_tokens_are_never_split(run):
    """A token of --special is one piece wherever it occurs, and decoding restores the text around
    it."""
    run("search corpus.txt -q -o v.volt --special <url>")
    text = b"see<url>the <url> cat\n"
    encoded = run("encode -m v.volt", stdin=text).stdout
    assert encoded.split().count(b"<url>") == 2
    assert run("decode -m v.volt", stdin=encoded).stdout == text
    marked = run("encode -m v.volt --separator @@", stdin=text).stdout
    assert b" <url>@@ " in marked
    assert b" <url> " in marked
    assert run("decode -m v.volt --separator @@", stdin=marked).stdout == text


def test_inspect_lists_unreachable_tokens(run):
    """`volt inspect` counts the tokens that no text can produce, by reason, and shows the first;
    --json has all."""
    merges = (("b", "c"), ("a", "b"), ("ab", "c"), ("A", "\x1b"))
    tokens = ("a", *map("".join, merges))
    volt.Vocabulary(merges, tokens, marker="none", normalizer="lowercase").save("v.volt")
    rows = [" ".join(line.split()) for line in run("inspect -m v.volt -n 1").lines]
    assert [row for row in rows if row.startswith("unreachable")] == [
        "unreachable 1 never the result of merging: abc",
        "unreachable 1 changed by the normalizer: A\\x1b",
    ]
    data = json.loads(run("inspect -m v.volt --json").stdout)
    assert data["unreachable"] == {"merges": ["abc"], "normalizer": ["A\x1b"]}


BAD_CORPORA = [
    ("missing.txt", None, "", "missing.txt: no such file"),
    ("empty.txt", b"", "", "empty.txt: no words"),
    ("blank.txt", b"\n \n", "", "blank.txt: no words in 2 lines"),
    ("binary.txt", bytes(range(256)), "", "binary.txt: looks like binary"),
    (
        "cut.txt.gz",
        gzip.compress(os.urandom(10_000).hex().encode())[:5_000],
        "",
        "cut.txt.gz: truncated",
    ),
    ("latin.txt", b"fine\n\xe9t\xe9\n", "", "latin.txt:2: invalid UTF-8 byte 0xe9"),
    ("lone.txt", b"fine\n\xed\xa0\x80\n", "", "lone.txt:2: invalid UTF-8"),
    ("one.txt", b"word\n", "", "nothing to merge"),
    ("letter.txt", b"a\n" * 1000, "", "nothing to merge"),
    ("rare.txt", b"abc def ghi\n", "", "nothing to merge"),
    ("bad.tsv", b"a\tb\nc\n", "--fields 2", "bad.tsv:2: field 2"),
    ("bad.jsonl", b'{"text": "a"}\n{x\n', "--column text", "bad.jsonl:2: invalid JSON"),
    ("text.txt", b"\nlow\n", "--column a", "text.txt:2: not JSON lines, Parquet,"),
    (
        "plain.jsonl",
        b'{"text": "a"}\n',
        "",
        "with columns of text 'text'; name one with --column text",
    ),
    ("counts.txt", b"the 5\ncat\n", "--word-counts", "counts.txt:2"),
]


@pytest.mark.parametrize(
    ("name", "data", "options", "message"), BAD_CORPORA, ids=[row[0] for row in BAD_CORPORA]
)
def test_a_bad_corpus_is_named_in_one_message(run, tmp_path, name, data, options, message):
    """A corpus that cannot be read ends a search with status 1 and one message with file and line;
    nothing is written."""
    if data is not None:
        (tmp_path / name).write_bytes(data)
    before = listed(tmp_path)
    done = run(f"search {name} {options}", status=1)
    assert message in done.message
    assert done.stdout == b""
    assert listed(tmp_path) == before


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ("--sizes 2:10:1", 1, "size 2 is below the"),
        ("--sizes 12:900:1", 1, "above the"),
        ("--sizes 20:10:1", 2, "sizes must increase"),
        ("--sizes 1k", 2, "START:STOP:STEP"),
        ("--candidates 0", 2, "--candidates 0: give 1 to 1,000,000,000 merges, or a file"),
        ("--candidates -5", 2, "--candidates -5: give 1 to"),
        ("--candidates 100000000000", 2, "--candidates 100000000000: give 1 to"),
        ("--multiple-of 0", 2, "multiple-of"),
        ("--multiple-of 100", 1, "multiple_of is 100, but 23 ids need 77 more merges"),
        ("--candidates nowhere.model", 1, "nowhere.model: cannot be read"),
        ("--transport epsilon=0", 2, "epsilon is 0"),
        ("--transport epsilon=nan", 2, "epsilon is nan"),
        ("--transport row_tau=0", 2, "row_tau is 0"),
        ("--transport column_tau=1.5", 2, "column_tau is 1.5"),
        ("--transport min_share=-1", 2, "min_share is -1"),
        ("--select best", 2, "unknown rule 'best'"),
        ("--select fixed:3", 1, "size 3 is below"),
        ("--transport mass=bytes", 2, "unknown mass 'bytes'; choose from tokens, characters"),
        ("--transport epsilon", 2, "no value; write --transport epsilon=VALUE"),
        ("--transport eps=1", 2, "--transport eps: unknown key; choose from length, mass, epsilon"),
        (
            "--transport max_iters=2.5",
            2,
            "max_iters=2.5: not a whole number; write a number, such as max_iters=1000",
        ),
        ("--marker infix", 2, "'infix' is not one of 'suffix', 'prefix', 'none'"),
        ("--pretokenizer regex:[", 2, "invalid pre-tokenizer regex"),
        ("--normalizer nfd", 2, "nfd"),
        ("--encoding-errors guess", 2, "'guess' is not one of 'strict', 'replace', 'skip'"),
        ("--special two\x01words", 2, "unprintable"),
        ("-o nowhere/v.volt", 1, "nowhere/v.volt: cannot be written"),
    ],
)
def test_a_bad_option_is_named_in_one_message(run, tmp_path, options, status, message):
    """A wrong option ends `volt search` with one message that states the fault and the remedy;
    nothing is written."""
    assert message in run(f"search corpus.txt {options}", status=status).message
    assert listed(tmp_path) == ["corpus.txt"]


@pytest.mark.parametrize("errors", ["replace", "skip"])
def test_lines_that_are_not_utf8_are_counted_and_reported(run, tmp_path, errors):
    """With --encoding-errors replace or skip, the report of a search states the number of lines
    that are not UTF-8."""
    (tmp_path / "mixed.txt").write_bytes(TEXT.encode() + b"caf\xe9\n" * 3)
    data = json.loads(run(f"search mixed.txt --encoding-errors {errors} --json").stdout)
    assert any("not UTF-8 or missing: 3 lines" in warning for warning in data["warnings"])


@pytest.mark.parametrize("command", ["encode", "decode"])
@pytest.mark.usefixtures("model")
def test_a_closed_pipe_is_silent(command, run, tmp_path):
    """If the reader of stdout ends, a command ends with status 0 and without a message."""
    (tmp_path / "text.txt").write_text(TEXT * 2_000, encoding="utf-8")
    run("encode -m v.volt text.txt -o long.txt -q")
    process = subprocess.Popen(
        [*VOLT, command, "-m", "v.volt", "long.txt"],
        cwd=tmp_path,
        # Plain Python would warn of overflows, which the hashing wants.
        env={**os.environ, "NUMBA_DISABLE_JIT": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 0
    process.stderr.close()


@pytest.mark.parametrize(
    "arguments",
    in_turns(
        [[["--help"]], [["--version"]], [["inspect", "-m", "v.volt"]], [["search", "--help"]]], 2
    ),
)
@pytest.mark.usefixtures("model")
def test_a_pipe_closed_before_the_exit_is_silent(arguments, tmp_path):
    """A command ends without a message also if rich, typer or Python notice the closed pipe at the
    exit."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*VOLT, *arguments], cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, timeout=60
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.usefixtures("model")
def test_a_negative_number_of_tokens_is_refused(run):
    """`volt inspect -n` refuses a negative number."""
    assert "-n -1: give 0 or more tokens" in run("inspect -m v.volt -n -1", status=2).message
    assert json.loads(run("inspect -m v.volt -n 0 --json").stdout)["longest"] == []


def test_ctrl_c_leaves_nothing_behind(tmp_path):
    """SIGINT during a search ends it with status 130, and leaves no file."""
    process = subprocess.Popen(
        [*VOLT, "search", "-"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    # This is more than a pipe holds, so it returns when the search is reading.
    process.stdin.write(TEXT.encode() * 2_000)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    assert listed(tmp_path) == []


@pytest.mark.usefixtures("model")
def test_errors_of_inspect_suggest_only_its_options(run):
    """Errors of `volt inspect` do not suggest --encoding-errors, which the command lacks."""
    assert "TEXT is not UTF-8" in run("inspect -m v.volt", "low\udcff", status=2).message
    message = "error a: not UTF-8; pass --encoding-errors skip"
    assert foreign_options(["inspect", "-m", "v.volt"], message) == {"--encoding-errors"}
    assert not foreign_options(["encode", "-m", "v.volt"], message)


def test_help_names_every_command_and_option(run):
    """--help of `volt` names every command, and --help of each command shows its usage."""
    listing = run("--help").stdout.decode()
    for command in ("search", "encode", "decode", "inspect", "demo"):
        assert command in listing
        assert b"Usage" in run(f"{command} --help").stdout


def test_the_demo_writes_its_vocabulary(run, monkeypatch):
    """`volt demo -o FILE` writes the vocabulary that a search of Python's documentation topics
    would write."""
    texts = {"a": TEXT, "b": "two new lines\nof topics"}
    monkeypatch.setattr("pydoc_data.topics.topics", texts)
    done = run("demo -o demo.volt --select tokens")
    assert "the 2 documentation topics" in done.message
    Path("topics.txt").write_text("\n".join(texts.values()))
    run("search topics.txt --select tokens -q -o searched.volt")
    assert volt.Vocabulary.load("demo.volt") == volt.Vocabulary.load("searched.volt")


def test_too_many_candidates_give_a_note(run, model):
    """If --candidates exceeds the merges of a corpus, all are learned, and a note states their
    number."""
    message = run("search corpus.txt --candidates 100000000 -o all.volt").message
    assert "note: --candidates 100000000: this corpus gives only 11 merges" in message
    all_merges, usual = (volt.Vocabulary.load(name) for name in ("all.volt", model))
    assert (all_merges.merges, all_merges.tokens) == (usual.merges, usual.tokens)


def test_ids_are_rounded_up_with_real_merges(run):
    """`volt search --multiple-of` rounds the number of ids up with the merges that are learned
    next."""
    run("search corpus.txt --select fixed:14 -o plain.volt")
    done = run("search corpus.txt --select fixed:14 --multiple-of 8 -o eight.volt")
    plain, eight = (volt.Vocabulary.load(name) for name in ("plain.volt", "eight.volt"))
    n_ids = len(eight.pieces)
    assert n_ids % 8 == 0
    assert len(plain.pieces) < n_ids < len(plain.pieces) + 8
    assert eight.merges[: len(plain.merges)] == plain.merges
    assert set(plain.tokens) < set(eight.tokens)
    assert f"{n_ids} ids" in " ".join(done.stdout.decode().split())


def test_json_is_all_that_reaches_stdout(run):
    """With --json, `volt search` prints one JSON object on stdout, with the values of the report."""
    data = json.loads(run("search corpus.txt --json -o v.volt").stdout)
    keys = {"steps", "picks", "pick", "warnings", "cuts", "seconds", "signature", "output"}
    assert keys <= set(data)
    assert data["pick"]["size"] == data["best"]["size"]
    sizes = [step["size"] for step in data["steps"]]
    assert sizes == sorted(sizes)


@pytest.mark.usefixtures("model")
def test_inspect_shows_a_vocabulary_and_splits_a_text(run):
    """`volt inspect` shows sizes, provenance and tokens of a vocabulary, and the pieces of a text,
    as text and JSON."""
    shown = run("inspect -m v.volt the cat").stdout.decode()
    assert "fingerprint" in shown
    assert "the</w>" in shown
    assert shown.split("unreachable")[1].split()[0] == "none"
    data = json.loads(run("inspect -m v.volt --json", "the cat").stdout)
    assert "".join(data["pieces"]) == "the</w>cat</w>"
    assert data["unreachable"] == {}


@pytest.mark.usefixtures("model")
def test_inspect_counts_tokens_that_cross_spaces(run, tmp_path):
    """`volt inspect` counts superwords, which contain a space after another character, and names
    the first merge that makes one. Line ends before spaces do not count.
    """
    merges = (("a", "b"), ("Ċ", "Ġ"), ("Ġ", "Ġ"), ("Ġ", "a"), ("ab", "Ġa"), ("ab", "Ġ"))
    tokens = (*ALPHABET, *map("".join, merges))
    pretokenizer = PreTokenizer.of_pattern("superbpe", level="bytes")
    superwords = Vocabulary(merges, tokens, marker="none", pretokenizer=pretokenizer)
    superwords.save(tmp_path / "s.volt")
    shown = " ".join(run("inspect -m s.volt").stdout.decode().split())
    assert "superwords 2 cross a space, the first made by merge 5 most" in shown
    data = json.loads(run("inspect -m s.volt --json").stdout)
    assert (data["superwords"], data["first_superword"]) == (2, 5)
    assert "superwords" not in json.loads(run("inspect -m v.volt --json").stdout)


def test_version_describes_the_installation(run):
    """`volt --version` prints the versions of VOLT, Python and libraries, and the processor."""
    first, *rest = run("--version").lines
    assert first == f"volt {volt.__version__}"
    rows = dict(line.split(maxsplit=1) for line in rest)
    assert platform.python_version() in rows.pop("python")
    assert rows.pop("cpu").endswith(" cores")
    assert rows == {name: version(name) for name in LIBRARIES}
    assert (rows["numpy"], rows["polars"]) == (numpy.__version__, polars.__version__)


@pytest.mark.parametrize("command", ["", "stream"])
def test_a_bare_command_shows_its_help(command, run):
    """`volt` without arguments prints its help, and ends with status 2."""
    assert run(command, status=2).stdout.split() == run(f"{command} --help").stdout.split()


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ("encod", "'encode'"),
        ("stream previw", "'preview'"),
        ("encode -m corpus.txt --sepaartor @@", "--separator"),
        ("encode -m corpus.txt --form pices", "'pieces'"),
        ("search corpus.txt --select kne", "knee"),
        ("export -m corpus.txt --to fairsec -o x", "fairseq"),
        ("stream schema uper", "upper"),
    ],
)
def test_errors_suggest_a_similar_word(arguments, meant, run):
    """The error for an unknown command, option or value suggests a similar one."""
    assert meant in run(arguments, status=2).message


def test_a_vocabulary_may_come_from_stdin(run, model):
    """`-m -` reads the vocabulary from stdin, and is refused if the text is stdin, too."""
    data = model.read_bytes()
    piped = json.loads(run("inspect -m - --json", "the cat", stdin=data).stdout)
    read = json.loads(run("inspect -m v.volt --json", "the cat").stdout)
    assert piped == {**read, "file": "-"}
    encoded = run("encode -m v.volt corpus.txt").stdout
    assert run("encode -m - corpus.txt", stdin=data).stdout == encoded
    for command in ("encode -m -", "decode -m -"):
        refused = run(command, stdin=data, status=2)
        assert "stdin cannot be both the vocabulary and the text" in refused.message
    assert run("inspect -m -", stdin=b"no", status=1).message.startswith("error stdin: ")


@pytest.mark.parametrize("command", ["encode", "decode"])
def test_an_empty_separator_is_refused(command, run):
    """`volt encode` and `volt decode` refuse an empty --separator."""
    refused = run(f"{command} -m corpus.txt corpus.txt --separator", "", status=2)
    assert "marks nothing" in refused.message


def test_files_of_a_comparison_are_written_before_it_is_printed(run, monkeypatch):
    """The files of `volt compare` are complete even if the reader of stdout ends at once."""

    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

        def fileno(self):
            return nothing.fileno()

        @property
        def buffer(self):
            return self

    monkeypatch.setattr(
        "volt.comparison.page.page.write_page",
        lambda comparison, path, **_: path.write_text("a page"),
    )
    arguments = ["compare", "corpus.txt", "--with", "bpe:15", "--sizes", "15:20:1", "--json"]
    with open("nothing", "wb") as nothing:
        monkeypatch.setattr(sys, "stdout", Closed())
        assert status_of([*arguments, "-o", "page.html", "--markdown", "tables.md"]) == 0
    assert Path("page.html").read_text() == "a page"
    assert Path("tables.md").read_text().startswith("# Vocabularies compared")


# Interrupts the process itself when a module is looked for, so that no test depends on how fast a machine is.
HOOK = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["AT"]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
"""
MODULES = ("typer", "volt_cli.options", "volt_cli.encode", "llvmlite", "volt.encode.encoder")
SCRIPT = [sys.executable, "-c", "from volt_cli.start import main; main()"]


def _interrupted(folder, module, command, **options):
    """Run a command that gets SIGINT when it imports a module."""
    (folder / "sitecustomize.py").write_text(HOOK)
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    environment = {**os.environ, "AT": module, "PYTHONPATH": path}
    return subprocess.run(command, env=environment, capture_output=True, **options)


@pytest.mark.parametrize(("module", "command"), in_turns(product(MODULES, [VOLT, SCRIPT]), 2))
def test_an_interrupted_import_prints_no_traceback(command, module, tmp_path):
    """SIGINT during an import at the start ends a command with status 130 and no traceback."""
    model = tmp_path / "a.volt"
    Vocabulary(merges=(("l", "o"),), tokens=("l", "o", "lo")).save(model)
    line = [*command, "encode", "-m", str(model)]
    done = _interrupted(tmp_path, module, line, stdin=subprocess.DEVNULL)
    assert done.returncode == 130
    assert done.stderr in (b"", b"interrupted\n")


def test_a_job_that_ignores_interrupts_keeps_ignoring_them(tmp_path):
    """A command that a shell starts in the background, with SIGINT ignored, continues after SIGINT."""
    line = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *VOLT, "--version"]
    done = _interrupted(tmp_path, "typer", line)
    assert (done.returncode, done.stderr) == (0, b"")
