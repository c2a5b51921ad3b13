"""What of a configuration a command is about: the values of a template, a split, some tasks.

>>> TaskChoice(settings=["src=de", "n=3"]).values
{'src': 'de', 'n': '3'}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from volt.errors import ConfigError

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Write this where the configuration has {{KEY}}; repeatable."),
]


@dataclass(frozen=True)
class TaskChoice:
    """What of a configuration is wanted."""

    PANEL = "Tasks and templates"

    settings: Settings = None
    split: Annotated[
        Literal["train", "valid"],
        typer.Option(help="valid: the tasks of that split, every line once, in order, without noise."),
    ] = "train"
    task: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="This task alone; repeatable. With --split valid, one of any split."),
    ] = None

    @property
    def values(self) -> dict[str, str]:
        """The values of a template by their keys. Raises ConfigError if one is given twice, or without a key."""
        return values_of(self.settings)

    @property
    def options(self) -> dict[str, Any]:
        """The options of `Stream.from_config`."""
        return {"values": self.values, "split": self.split, "tasks": self.task or None}

    def refuse(self, name: object) -> None:
        """Raise ConfigError if anything is wanted of what has no tasks and no places."""
        if self.settings or self.task or self.split != "train":
            raise ConfigError(f"{name}: a pipeline is no configuration file; leave --set, --split and --task out")


def values_of(settings: list[str] | None) -> dict[str, str]:
    """The values of a template by their keys, from KEY=VALUE.

    >>> values_of(["src"])
    Traceback (most recent call last):
        ...
    volt.errors.ConfigError: --set src: gives no value; write --set src=VALUE
    """
    found = dict[str, str]()
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting}: gives no value; write --set {setting}=VALUE")
        if not key.isidentifier():
            raise ConfigError(f"--set {setting}: {key!r} is no key; give a word before =, such as src=de")
        if key in found:
            raise ConfigError(f"--set {setting}: {key} is given twice; leave one out")
        found[key] = value
    return found
