"""The options of a source, as a configuration says them → the source, with its files looked for.

>>> from volt.stream.config.models import SourceOptions
>>> from volt.stream.config.yaml import Document
>>> maker = Sources(Notes(Document("stream.yaml", {}, {})), Path("data"), LoadedFiles())
>>> made = maker.made("wmt", SourceOptions(pair={"src": "a.de", "tgt": "a.en"}), [], ("sources", "wmt"))
>>> made.paths if made else None
('data/a.de', 'data/a.en')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from volt.display import counted
from volt.errors import VoltError
from volt.files.paths import expand, stands_for_several
from volt.stream.config.problems import Notes
from volt.stream.config.steps import Steps
from volt.stream.config.task_weights import schedule_of
from volt.stream.config.yaml import Place
from volt.stream.reading.checks import Checks
from volt.stream.reading.id_shard import bin_of
from volt.stream.reading.source import Source
from volt.stream.transforms.opening import LoadedFiles
from volt.stream.transforms.ordering import check_order

if TYPE_CHECKING:
    from volt.stream.config.models import ReadingOptions, SourceOptions

_CHECKS = {field.name for field in fields(Checks)}
_READING = _CHECKS | {field.name for field in fields(Source)} - {"name", "paths", "weight", "transforms"}


@dataclass(frozen=True, slots=True)
class Sources:
    """Makes sources of what a configuration says of them.

    notes: takes what is wrong.
    folder: what relative paths are relative to.
    files: what the transforms' files hold.
    check_files: whether files are looked for.
    user_code: whether a transform may name a Python file to run.
    """

    notes: Notes
    folder: Path
    files: LoadedFiles
    check_files: bool = False
    user_code: bool = True

    def steps(self, names: tuple[str, ...]) -> Steps:
        """What makes transforms, for lines whose fields have these names."""
        return Steps(self.notes, self.folder, self.files, user_code=self.user_code, names=names)

    def file(self, told: str, place: Place) -> str:
        """A path of the configuration, from here."""
        return self.notes.file(self.folder, told, place)

    def made(self, name: str, options: SourceOptions, common: list[Any], place: Place) -> Source | None:
        """A source; None if its options are wrong.

        common: the transforms of all sources
        """
        names, keys = tuple(options.pair or options.columns or ()), tuple((options.columns or {}).values())
        steps, told = self.steps(names), options.weight
        weight = told if isinstance(told, float) else schedule_of(told, self.notes, (*place, "weight"))
        paths = self._paths(options, place)
        transforms = steps.of(options.transforms, (*place, "transforms")) + steps.of(common, ("transforms",))
        return self.built(
            place, options, name=name, paths=paths, weight=weight, transforms=transforms, names=names, keys=keys
        )

    def built(self, place: Place, options: ReadingOptions, **more: Any) -> Source | None:
        """A source; None if its options are wrong. more: what the options do not hold."""
        name = str(more["name"])
        if not name or any(sign < " " for sign in name):
            self.notes.add(place, f"{name!r} is no name of a source; give one without tabs and line breaks")
        told = {key: getattr(options, key) for key in type(options).model_fields.keys() & _READING}
        checks = {key: told.pop(key) for key in _CHECKS}
        made = self.notes.made(Checks, place, **checks) or Checks()
        try:
            check_order(more["transforms"], self.files)
        except VoltError as error:
            self.notes.note(error, (*place, "transforms"))
        return cast("Source | None", self.notes.made(Source, place, checks=made, **told, **more))

    def _paths(self, options: SourceOptions, place: Place) -> tuple[str, ...]:
        """The paths of a source, from here."""
        if (options.path is None) == (options.pair is None):
            if options.pair:
                self.notes.add(place, "path and pair are both given; leave one out")
            else:
                told = (*place, "path") if (*place, "path") in self.notes.document.lines else place
                self.notes.add(told, "key 'path' is missing; give it, or pair")
            return ("",)
        if options.columns is not None and (options.pair is not None or not options.columns):
            self.notes.add((*place, "columns"), "goes with path, and names one field at least; mend it")
        if options.pair is not None:
            return self._pair(options.pair, (*place, "pair"))
        named = [options.path] if isinstance(options.path, str) else options.path or []
        paths = [self.file(path, (*place, "path", index)) for index, path in enumerate(named)]
        for index, path in enumerate(paths):
            self.look_for(path, (*place, "path", index))
        return tuple(paths)

    def _pair(self, told: Mapping[str, str | list[str]], place: Place) -> tuple[str, ...]:
        """The paths of files that belong together, in the order of their fields; those of the first pair first."""
        if len(told) < 2:
            self.notes.add(place, "has fewer than two files; write path for one, or {src: FILE, tgt: FILE}")
        for name in told:
            if not name.isidentifier():
                self.notes.add((*place, name), f"{name!r} is no name for a field; give a word, such as src")
        return self.groups(told, place) or ("",)

    def groups(self, told: Mapping[str, str | list[str]], place: Place) -> tuple[str, ...]:
        """The paths of line-aligned files: the first file of each name, the second of each, and so on."""
        columns = {name: self._column(files, (*place, name)) for name, files in told.items()}
        for name, paths in columns.items():
            first, least = next(iter(columns.items()))
            if len(paths) != len(least):
                counts = f"{first} has {counted(len(least), 'file')} and {name} {counted(len(paths), 'file')}"
                self.notes.add((*place, name), f"{counts}; give as many, in the same order")
                return ()
        return tuple(path for group in zip(*columns.values(), strict=True) for path in group)

    def _column(self, told: str | list[str], place: Place) -> list[str]:
        """The paths of one field."""
        named = told if isinstance(told, list) else [told]
        places = [(*place, index) if isinstance(told, list) else place for index in range(len(named))]
        paths = [self.file(path, at) for path, at in zip(named, places, strict=True)]
        for path, at in zip(paths, places, strict=True):
            if stands_for_several(path):
                self.notes.add(at, f"{path}: one file belongs to a field; name it, or use `each` for many")
            else:
                self.look_for(path, at)
        return paths

    def look_for(self, path: str, place: Place) -> None:
        """Note a path that leads to no file."""
        try:
            if self.check_files:
                expand(bin_of(path))
        except VoltError as error:
            self.notes.add(place, error)
