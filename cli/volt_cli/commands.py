"""How every command looks: `-h`, flags without a type, two examples at the end of the help, advice on old spellings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from volt_cli.examples import EXAMPLES
from volt_cli.old_spellings import refuse_old_spellings
from volt_cli.option_groups import expanded

SETTINGS = {"help_option_names": ["-h", "--help"]}


class Command(TyperCommand):
    """A command."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Arguments and options, as the help shows them."""
        return _without_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line. Raises ConfigError, with the new spelling, if it holds an old one."""
        if not ctx.resilient_parsing:  # as completion does
            refuse_old_spellings(self.name or "", args)
        return super().parse_args(ctx, args)


class Group(TyperGroup):
    """A command that holds others."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Options, as the help shows them."""
        return _without_types(super().get_params(ctx))


def _without_types(parameters: list[Any]) -> list[Any]:
    """typer writes <bool> behind flags, which take no value, and <list[str]> behind arguments: shown empty instead."""
    for parameter in parameters:
        if isinstance(parameter, TyperOption) and parameter.is_flag:
            parameter.metavar = ""
        elif isinstance(parameter, TyperArgument):
            vars(parameter)["display_type_rich"] = lambda ctx: ""
    return parameters


def group(name: str, help: str, *, add_completion: bool = False) -> typer.Typer:
    """A command that holds others."""
    return typer.Typer(
        name=name, cls=Group, help=help, epilog=epilog(name), context_settings=SETTINGS, no_args_is_help=True,
        add_completion=add_completion, pretty_exceptions_enable=False, rich_markup_mode="rich",
    )  # fmt: skip


def add(app: typer.Typer, name: str, function: Callable[..., None], *, within: str = "") -> None:
    """Make a function a command; its docstring is the help. within: the command that holds it."""
    help = _paragraphs(inspect.getdoc(function) or "")
    app.command(name, cls=Command, help=help, epilog=epilog(f"{within} {name}".strip()))(expanded(function))


def epilog(command: str) -> str:
    """The examples of a command, as they stand at the end of its help."""
    return "\n".join(("[dim]Examples[/]", *(f"  $ {example}" for example in EXAMPLES[command])))


def _paragraphs(text: str) -> str:
    r"""Text whose lines end where a paragraph does.

    >>> _paragraphs("One,\ntwo.\n\nThree.")
    'One, two.\n\nThree.'
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
