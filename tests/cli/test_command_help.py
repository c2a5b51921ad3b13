"""Help pages, their examples, and completion."""

import gzip
import os
import subprocess
import sys
from dataclasses import fields
from itertools import chain, product
from pydoc_data.topics import topics
from typing import get_args, get_type_hints

import pytest
from support.commands import VOLT, all_commands, status_of
from support.drawn import in_turns
from support.shell import run_line

from volt.choose.size_steps import SearchParameters
from volt.encode.files import Output
from volt.files.blocks import Errors
from volt.formats.registry import FORMATS
from volt.text.normalizer import Normalizer
from volt.text.pretokenizer import PreTokenizer
from volt_cli import options, search_options
from volt_cli.command_help import EXAMPLES
from volt_cli.encode import EncodeOptions
from volt_cli.search_options import NamedSourceOptions

COMMANDS = all_commands()


def arguments(command):
    return [] if command == "volt" else command.split()


@pytest.mark.parametrize(("command", "flag"), in_turns(product(COMMANDS, ["-h", "--help"]), 2))
def test_help_ends_with_two_examples(command, flag, run):
    """-h and --help print usage, options (flags without a type), and two examples."""
    shown = run(*arguments(command), flag).stdout.decode()
    assert "Usage" in shown
    assert "<bool>" not in shown
    assert "list[" not in shown
    lines = [line.strip() for line in shown.strip().splitlines()]
    assert lines[-3:] == ["Examples", *(f"$ {example}" for example in EXAMPLES[command])]


def test_every_command_has_examples_of_its_own():
    """EXAMPLES has two lines for each command, which call that command and contain no markup of
    rich."""
    assert EXAMPLES.keys() == COMMANDS.keys()
    for command, both in EXAMPLES.items():
        assert len(both) == 2
        for example in both:
            assert "[" not in example
            assert command == "volt" or f"volt {command} " in f"{example} "


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_examples_run(tmp_path, monkeypatch, capfdbinary):
    """The commands of EXAMPLES, run from top to bottom in one folder, end with status 0."""
    monkeypatch.chdir(tmp_path)
    text = "\n".join(topics.values())[:250_000]
    (tmp_path / "corpus.txt").write_text(text, encoding="utf-8")
    (tmp_path / "heldout.txt").write_text(text[:10_000], encoding="utf-8")
    (tmp_path / "corpus.txt.gz").write_bytes(gzip.compress(text.encode()))
    dynamicdata = "tasks: {a: {type: mono}}\ninputs: {i: {mono: corpus.txt, task: a}}\n"
    (tmp_path / "dynamicdata.yaml").write_text(dynamicdata)

    def volt(arguments, stdin):
        status = status_of(arguments, stdin=stdin)
        out, err = capfdbinary.readouterr()
        assert status == 0, (arguments, err.decode())
        return out

    examples = [lines for name, lines in EXAMPLES.items() if name != "trial"]  # takes hours
    for example in chain.from_iterable(examples):
        line = example.replace("--demand 900", "--demand 1")  # this machine may be busy
        line = line.replace(" 1000000 ", " 1000 ")  # whose lines are all computed
        line = line.replace("stream plan ", "stream plan --seconds 0.2 ")
        if "| head" in line:  # of a stream without end
            subprocess.run(
                line.replace("volt ", f"{' '.join(VOLT)} ", 1), shell=True, timeout=60, check=True
            )
        else:
            run_line(line, volt)


# One kind of option


@pytest.mark.parametrize("command", COMMANDS)
def test_short_options_mean_the_same_everywhere(command):
    """In every command, -o is --output, -m is --model, -q is --quiet, and --json and --quiet are
    flags."""
    options = {name: option for option in COMMANDS[command].params for name in option.opts}
    for short, long in (("-o", "--output"), ("-m", "--model"), ("-q", "--quiet")):
        assert options.get(short) is options.get(long)
    for flag in ("--json", "--quiet"):
        assert flag not in options or options[flag].is_flag
    assert not options.keys() & {"--out", "--ids"}


def test_the_groups_of_a_search_are_headings(run):
    """`volt search --help` shows the options of each group under the heading of the group."""
    shown = run("search --help").stdout.decode()
    for group in (
        search_options.SizeOptions,
        search_options.TrainingOptions,
        search_options.CountOptions,
        NamedSourceOptions,
        search_options.CandidateOptions,
        search_options.SpecialOptions,
        search_options.TransportOptions,
    ):
        part = shown[shown.index(f"─ {group.PANEL} ─") :].partition("╰")[0]
        for field in fields(group):
            assert f"--{field.name.replace('_', '-')} " in part


def test_options_equal_the_arguments_of_the_library():
    """Defaults, choices and names of options equal the library's, of which the command line has
    copies."""
    assert search_options.TransportOptions().parameters() == SearchParameters()
    for group, field, choices in (
        (EncodeOptions, "form", Output),
        (search_options.CountOptions, "encoding_errors", Errors),
    ):
        assert get_args(get_type_hints(group)[field]) == get_args(choices)
    assert list(FORMATS) == list(options.FORMATS)
    for cls, names in (
        (Normalizer, search_options.NORMALIZERS),
        (PreTokenizer, search_options.PRETOKENIZERS),
    ):
        assert tuple(cls.parse(name).name for name in names) == names


# Completion


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("volt enc", ["encode"]),
        ("volt encode --fo", ["--form"]),
        ("volt encode --form n", ["npy"]),
        ("volt search --select m", ["median500", "muv"]),
        ("volt stream tr", ["trace"]),
    ],
)
def test_bash_completes_words(typed, offered, run, monkeypatch):
    """TAB in bash completes commands, options and values."""
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    monkeypatch.setenv("_VOLT_COMPLETE", "complete_bash")
    assert run().stdout.decode().split() == offered


def test_completion_is_installed_for_bash(tmp_path):
    """--install-completion writes a script for bash, and .bashrc loads it."""
    started_by_bash = ["bash", "-c", f"{sys.executable} -m volt_cli --install-completion; exit $?"]
    done = subprocess.run(
        started_by_bash,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    script = tmp_path / ".bash_completions" / "volt.sh"
    assert str(script) in (tmp_path / ".bashrc").read_text()
    assert "complete -o default" in script.read_text()
