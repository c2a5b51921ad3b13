"""A configuration's list of transforms → the transforms, with their files loaded.

A step is `name`, or `name: options`. Where a source names its fields, an option may name one instead of numbering it.

>>> from volt.stream.config.document import parse
>>> document = parse("[skip_blank, lower: [tgt]]", path="stream.yaml")
>>> TransformBuilder(Notes(document), Path(), LoadedFiles(), names=("src", "tgt")).of(document.value, ())
(SkipBlank(fields=None), Lower(fields=(2,), if_cased=None))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

from volt.errors import VoltError
from volt.files.paths import is_file
from volt.stream.config.document import Notes, Place, near
from volt.stream.transforms.registry import TRANSFORMS
from volt.stream.transforms.transform import LoadedFiles, Transform, loaded


@dataclass(frozen=True, slots=True)
class TransformBuilder:
    """Makes the transforms of a source.

    names: the names of the source's fields.
    task: the languages and prefix of a task, for transforms that use them.
    defaults: options of transforms, by the transform's name, that a step may leave out.
    """

    notes: Notes
    folder: Path
    files: LoadedFiles
    user_code: bool = True
    names: tuple[str, ...] = ()
    task: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, value: object, place: Place) -> tuple[Transform, ...]:
        """Return the transforms of a list, without the invalid ones."""
        if value is None:
            return ()
        if not isinstance(value, list):
            self.notes.add(place, "should be a list of transforms; put a dash before each")
            return ()
        steps = [self._step(item, (*place, index)) for index, item in enumerate(value)]
        return tuple(step for step in steps if step is not None)

    def _step(self, item: object, place: Place) -> Transform | None:
        pairs = [(item, {})] if isinstance(item, str) else list(item.items()) if isinstance(item, dict) else []
        if len(pairs) != 1:
            value = f"{len(pairs)} keys" if isinstance(item, dict) else repr(item)
            message = f"a transform is a name, or a name with its options, not {value}"
            self.notes.add(place, f"{message}; put a dash before each, and indent its options")
            return None
        name, options = pairs[0]
        if not self._is_known(name, place):
            return None
        current = (*place, name) if isinstance(item, dict) else place
        if name == "user" and not self.user_code:
            file = options.get("file") if isinstance(options, dict) else options
            shown = self.folder / file if isinstance(file, str) else "its file"
            self.notes.add(current, f"would run the code in {shown}; read it, then trust it (user_code)")
            return None
        return self._transform(name, options, current)

    def _is_known(self, name: str, place: Place) -> bool:
        if name not in TRANSFORMS:
            self.notes.add(place, f"unknown transform {name!r}; {near(name, list(TRANSFORMS))}")
        return name in TRANSFORMS

    def default(self, name: str, options: object, place: Place) -> dict[str, Any]:
        """Return options that steps of a transform may leave out; {} if they are invalid."""
        from volt.stream.config.schema import options_of

        if not self._is_known(name, place):
            return {}
        n_problems = len(self.notes.problems)
        named = _by_name(name, options)
        self.notes.checked(options_of(name), self._numbered(name, named, place), place, is_part=True)
        return named if len(self.notes.problems) == n_problems else {}

    def _transform(self, name: str, options: object, place: Place) -> Transform | None:
        from volt.stream.config.schema import options_of

        wanted = getattr(TRANSFORMS[name], "from_task", ())
        known = {key: value for key, value in self.task.items() if key in wanted}
        values = {**self.defaults.get(name, {}), **known, **_by_name(name, options)}
        n_problems = len(self.notes.problems)
        numbered = self._numbered(name, values, place)
        if len(self.notes.problems) > n_problems:
            return None
        checked = self.notes.checked(options_of(name), numbered, place)
        if checked is None:
            return None
        return self._choice(checked, place) if name == "choice" else self._loaded(checked, place)

    def _numbered(self, name: str, options: dict[str, Any], place: Place) -> dict[str, Any]:
        """Return the options with the numbers of fields in place of their names; a condition knows the names."""
        from volt.stream.config.schema import field_options

        if self.names and name == "where":
            options = {"names": list(self.names)} | options
        by_field = {key: options[key] for key in field_options(name) if key in options}
        return options | {key: self._numbers(value, (*place, key)) for key, value in by_field.items()}

    def _numbers(self, value: object, place: Place) -> object:
        if isinstance(value, list):
            return [self._numbers(item, (*place, index)) for index, item in enumerate(value)]
        if not isinstance(value, str) or (not self.names and not value.isidentifier()):
            return value
        if value in self.names:
            return self.names.index(value) + 1
        without_names = "fields have names where the source has a `pair` or `columns`; give a number"
        remedy = near(value, self.names) if self.names else without_names
        self.notes.add(place, f"no field is called {value!r}; {remedy}")
        return value

    def _choice(self, options: Any, place: Place) -> Transform | None:
        from volt.stream.transforms.choice import Choice, Variant

        within = (*place, "variants") if (*place, "variants") in self.notes.document.lines else place
        variants = list[Variant | None]()
        for index, variant in enumerate(options.variants):
            steps = self.of(variant.transforms, (*within, index, "transforms"))
            variants.append(self.notes.build(Variant, (*within, index), weight=variant.weight, transforms=steps))
        if None in variants:
            return None
        return cast("Transform | None", self.notes.build(Choice, place, variants=tuple(variants)))

    def _loaded(self, transform: Any, place: Place) -> Transform | None:
        """Return a transform with paths relative to the current folder, and load its files."""
        try:
            for option in fields(transform):
                if isinstance(path := getattr(transform, option.name), Path):
                    file = Path(self.notes.file(self.folder, str(path), place))
                    if not is_file(file):
                        raise VoltError(f"{option.name}: {file}: no such file; check the path")
                    transform = replace(transform, **{option.name: file})
            loaded(transform, self.files)
        except VoltError as error:
            self.notes.note(error, place)
            return None
        return cast(Transform, transform)


def _by_name(name: str, options: object) -> dict[str, Any]:
    """Return the options of a transform by their names; a single value belongs to the first option.

    >>> _by_name("multiply", 3)
    {'n': 3}
    """
    from volt.stream.config.schema import first_option

    if isinstance(options, dict):
        return options
    return {} if options is None else {first_option(name) or str(options): options}
