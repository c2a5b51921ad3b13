"""Errors name options of the command line."""

import ast
import re
from pathlib import Path

from support.commands import all_commands

import volt
from volt.errors import VoltError, as_argument
from volt_cli.options import show_as_option


def hints(modules):
    """Return the arguments and values that errors in these modules suggest."""
    return {
        (ast.literal_eval(key), value.value if isinstance(value, ast.Constant) else "N")
        for module in modules
        for call in ast.walk(module)
        if isinstance(call, ast.keyword) and call.arg == "hint"
        for hint in ast.walk(call.value)
        if isinstance(hint, ast.Dict)
        for key, value in zip(hint.keys, hint.values, strict=True)
        if key is not None
    }


def options(command):
    """Yield the options of a command and of those within it."""
    for option in command.params:
        yield from (*option.opts, *option.secondary_opts)
    for inner in getattr(command, "commands", {}).values():
        yield from options(inner)


def test_hints_name_arguments_and_options():
    """Each hint of an error in volt/ names an argument of a function, and an option of a command."""
    modules = [
        ast.parse(path.read_text(encoding="utf-8"))
        for path in Path(volt.__file__).parent.rglob("*.py")
    ]
    functions = [
        node for module in modules for node in ast.walk(module) if isinstance(node, ast.FunctionDef)
    ]
    arguments = {one.arg for node in functions for one in (*node.args.args, *node.args.kwonlyargs)}
    names = set(options(all_commands()["volt"]))
    suggested = hints(modules)
    assert len(suggested) > 9
    for argument, value in sorted(suggested, key=str):
        assert argument in arguments
        error = VoltError("a.txt: bad; pass", hint={argument: value})
        assert str(error) == f"a.txt: bad; pass {argument}={value!r}" == error.text(as_argument)
        option = error.text(show_as_option).removeprefix("a.txt: bad; pass ").partition(" ")[0]
        assert option in names, (argument, value)


def test_errors_of_the_library_name_no_option():
    """No text in volt/, except docstrings, names an option of the command line."""
    foreign = r"--(model_type|treat_whitespace|split_by|remove_extra|escape_whitespaces|vocabulary|glossaries|compress|head)"
    for path in Path(volt.__file__).parent.rglob("*.py"):
        if path.name == "example_streams.py":  # it shows command lines
            continue
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and id(node) not in docstrings:
                text = re.sub(foreign, "", str(node.value))
                assert not re.search(r"(?<![-\w])--[a-z]", text), f"{path.name}: {text}"


def test_errors_of_commands_name_options(run, tmp_path):
    """An error that a command prints names the option that solves the problem."""
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    assert b"pass --encoding-errors replace" in run("search latin.txt", status=1).stderr
    assert (
        b"learn with --min-pair-count 1"
        in run("search corpus.txt --min-pair-count 9999", status=1).stderr
    )
    kept = ("search", "corpus.txt", "--keep", "kept", "--memory", "1G", "--approximate")
    assert b"; remove --keep kept or --approximate\n" in run(*kept, status=2).stderr
    few = run("search corpus.txt --sizes 12:900:1 --candidates 5", status=1).stderr
    assert b"learn more with --candidates " in few
    assert b"find one with `volt search CORPUS" in run("inspect -m corpus.txt", status=1).stderr


def test_normalizers_are_named_in_any_case(run):
    """`volt search --normalizer NFKC` means nfkc, which the vocabulary stores."""
    run("search corpus.txt -q --normalizer NFKC+Lowercase -o a.volt")
    run("search corpus.txt -q --normalizer nfkc+lowercase -o b.volt")
    assert Path("a.volt").read_bytes() == Path("b.volt").read_bytes()
    assert volt.Vocabulary.load("a.volt").normalizer.name == "nfkc+lowercase"
