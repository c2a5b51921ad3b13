"""The options of a source, as a configuration says them → the source, with its files looked for.

>>> from volt.stream.config.models import SourceOptions
>>> from volt.stream.config.yaml import Document
>>> maker = Sources(Notes(Document("stream.yaml", {}, {})), Path("data"), LoadedFiles())
>>> made = maker.made("wmt", SourceOptions(pair={"src": "a.de", "tgt": "a.en"}), [], ("sources", "wmt"))
>>> made.paths if made else None
('data/a.de', 'data/a.en')
"""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from volt.errors import VoltError
from volt.files.paths import expand
from volt.stream.config.problems import Notes
from volt.stream.config.steps import Steps
from volt.stream.config.yaml import Place
from volt.stream.mixing.schedule import Schedule
from volt.stream.reading.checks import Checks
from volt.stream.reading.source import Source
from volt.stream.transforms.opening import LoadedFiles

if TYPE_CHECKING:
    from volt.stream.config.models import SourceOptions


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
        told = options.model_dump(exclude={"path", "pair", "columns", "weight", "transforms", "temperature"})
        checks = {key: told.pop(key) for key in ("min_fields", "max_fields", "max_chars", "blank")}
        names, keys = tuple(options.pair or options.columns or ()), tuple((options.columns or {}).values())
        steps = self.steps(names)
        if not isinstance(weight := options.weight, float):
            points = tuple((sample, value) for sample, value in weight.points)
            weight = self.notes.made(Schedule, (*place, "weight"), points=points, kind=weight.kind) or 1.0
        return cast(
            "Source | None",
            self.notes.made(
                Source,
                place,
                name=name,
                paths=self._paths(options, place),
                weight=weight,
                transforms=steps.of(options.transforms, (*place, "transforms")) + steps.of(common, ("transforms",)),
                checks=self.notes.made(Checks, place, **checks) or Checks(),
                names=names,
                keys=keys,
                **told,
            ),
        )

    def _paths(self, options: SourceOptions, place: Place) -> tuple[str, ...]:
        """The paths of a source, from here."""
        if (options.path is None) == (options.pair is None):
            both = "path and pair are both given; leave one out"
            self.notes.add(place, both if options.pair else "key 'path' is missing; give it, or pair")
            return ("",)
        if options.columns is not None and (options.pair is not None or not options.columns):
            self.notes.add((*place, "columns"), "goes with path, and names one field at least; mend it")
        if options.pair is not None:
            return self._pair(options.pair, (*place, "pair"))
        named = [options.path] if isinstance(options.path, str) else options.path or []
        paths = [self.file(path, (*place, "path", index)) for index, path in enumerate(named)]
        for index, path in enumerate(paths):
            self._look_for(path, (*place, "path", index))
        return tuple(paths)

    def _pair(self, told: dict[str, str], place: Place) -> tuple[str, ...]:
        """The paths of files that belong together, in the order of their fields."""
        if len(told) < 2:
            self.notes.add(place, "has fewer than two files; write path for one, or {src: FILE, tgt: FILE}")
        paths = {name: self.file(path, (*place, name)) for name, path in told.items()}
        for name, path in paths.items():
            if not name.isidentifier():
                self.notes.add((*place, name), f"{name!r} is no name for a field; give a word, such as src")
            if glob.has_magic(path) and not Path(path).exists():
                self.notes.add((*place, name), f"{path}: one file belongs to a field; name it, or use `each` for many")
            else:
                self._look_for(path, (*place, name))
        return tuple(paths.values()) or ("",)

    def _look_for(self, path: str, place: Place) -> None:
        try:
            if self.check_files:
                expand(path)
        except VoltError as error:
            self.notes.add(place, error)
