"""Make the transforms of a list in a configuration.

An item is a name, or a mapping of the name to its options. Options may name fields; a value that is
not a mapping belongs to the first option:

    transforms: [skip_blank, lower: {fields: [tgt]}, multiply: 3]    # multiply: {n: 3}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

from volt.errors import VoltError
from volt.files.paths import is_file
from volt.stream.config.json_schema import field_options, first_option, make_adapter
from volt.stream.config.problems import Problems, suggest_name
from volt.stream.config.yaml_document import Place, Values
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.registry import TRANSFORMS
from volt.stream.transforms.transform import LoadedFiles, Transform, open_transform


@dataclass(frozen=True, slots=True)
class TransformBuilder:
    """Makes transforms, and collects the problems of their options.

    problems: the problems of the configuration
    files: the files that transforms have loaded
    user_code: whether a transform may name a Python file to run
    field_names: the names of the fields that the transforms process, in order
    task_options: the languages and prefix of a task, for transforms that use them
    defaults: transform name → its default options

    >>> from volt.stream.config.yaml_document import parse_yaml
    >>> document = parse_yaml("[skip_blank, lower: [tgt]]", path="stream.yaml")
    >>> builder = TransformBuilder(Problems(document), LoadedFiles(), field_names=("src", "tgt"))
    >>> builder.build_list(document.value, ())
    (SkipBlank(fields=None), Lower(fields=(2,), if_cased=None))
    """

    problems: Problems
    files: LoadedFiles
    user_code: bool = True
    field_names: tuple[str, ...] = ()
    task_options: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def build_list(self, items: object, place: Place) -> tuple[Transform, ...]:
        """Return the valid transforms of a list."""
        if items is None:
            return ()
        if not isinstance(items, list):
            fault = "should be a list of transforms; put a dash before each"
            self.problems.add(place, fault)
            return ()
        result = list[Transform]()
        for index, item in enumerate(items):
            transform = self._build_item(item, (*place, index))
            if transform is not None:
                result.append(transform)
        return tuple(result)

    def _build_item(self, item: object, place: Place) -> Transform | None:
        options = None
        if isinstance(item, str):
            name = item
        elif isinstance(item, dict) and len(item) == 1:
            [(name, options)] = item.items()
        else:
            value = repr(item)
            if isinstance(item, dict):
                value = f"{len(item)} keys"
            fault = f"expected a name, or one name with its indented options, not {value}"
            self.problems.add(place, fault)
            return None
        if not self._is_known(name, place):
            return None
        if isinstance(item, dict):
            place = (*place, name)
        if name != "user" or self.user_code:
            return self._build(name, options, place)
        file = _name_options(name, options).get("file")
        shown: object = "its file"
        if isinstance(file, str):
            shown = self.problems.document.folder / file
        fault = f"would run the code in {shown}; read it, then trust it (user_code)"
        self.problems.add(place, fault)
        return None

    def _is_known(self, name: str, place: Place) -> bool:
        if name not in TRANSFORMS:
            fault = f"unknown transform {name!r}; {suggest_name(name, list(TRANSFORMS))}"
            self.problems.add(place, fault)
        return name in TRANSFORMS

    def _build(self, name: str, options: object, place: Place) -> Transform | None:
        values = dict(self.defaults.get(name, {}))
        for option in getattr(TRANSFORMS[name], "from_task", ()):
            if option in self.task_options:
                values[option] = self.task_options[option]
        values |= _name_options(name, options)

        n_problems = len(self.problems.entries)
        numbered = self._number_fields(name, values, place)
        if len(self.problems.entries) > n_problems:
            return None
        transform = self.problems.validate(make_adapter(name), numbered, place)
        if transform is None:
            return None
        if name == "choice":
            return self._build_choice(transform, place)
        return self._load_files(transform, place)

    def _build_choice(self, options: Any, place: Place) -> Transform | None:
        """Return a choice. options: the validated `ChoiceOptions`"""
        variants_place = self.problems.find_place(("variants",), place)
        variants = list[Variant | None]()
        for index, variant in enumerate(options.variants):
            variant_place = (*variants_place, index)
            transforms = self.build_list(variant.transforms, (*variant_place, "transforms"))
            variants.append(
                self.problems.build(
                    Variant, variant_place, weight=variant.weight, transforms=transforms
                )
            )
        if None in variants:
            return None
        return self.problems.build(Choice, place, variants=tuple(variants))

    def _load_files(self, transform: Any, place: Place) -> Transform | None:
        """Return a transform with paths relative to the current folder, after loading its files."""
        with self.problems.catch_errors(place):
            for option in fields(transform):
                path = getattr(transform, option.name)
                if isinstance(path, Path):
                    file = Path(self.problems.resolve_path(str(path), place))
                    if not is_file(file):
                        raise VoltError(f"{option.name}: {file}: no such file; check the path")
                    transform = replace(transform, **{option.name: file})
            open_transform(transform, self.files)
            return cast(Transform, transform)
        return None

    def check_defaults(self, name: str, options: object, place: Place) -> Values:
        """Return the default options of a transform by name; {} if they are invalid."""
        if not self._is_known(name, place):
            return {}
        n_problems = len(self.problems.entries)
        values = _name_options(name, options)
        numbered = self._number_fields(name, values, place)
        self.problems.validate(make_adapter(name), numbered, place, is_part=True)
        return values if len(self.problems.entries) == n_problems else {}

    def _number_fields(self, name: str, options: Values, place: Place) -> Values:
        """Return the options with numbers for field names; `where` gets the names for its
        condition."""
        result = dict(options)
        for option in field_options(name):
            if option in options:
                result[option] = self._number_field(options[option], (*place, option))
        if self.field_names and name == "where":
            result.setdefault("names", list(self.field_names))
        return result

    def _number_field(self, value: object, place: Place) -> object:
        """Return the number of a field name, or the numbers of a list of names."""
        if isinstance(value, list):
            items = enumerate(value)
            return [self._number_field(item, (*place, index)) for index, item in items]
        if not isinstance(value, str) or not (self.field_names or value.isidentifier()):
            return value
        if value in self.field_names:
            return self.field_names.index(value) + 1
        remedy = "give a number, or name the fields by `pair` or `columns`"
        if self.field_names:
            remedy = suggest_name(value, self.field_names)
        self.problems.add(place, f"no field is called {value!r}; {remedy}")
        return value


def _name_options(name: str, options: object) -> Values:
    """Return a transform's options by name; a value that is not a mapping is the first option.

    >>> _name_options("multiply", 3)
    {'n': 3}
    """
    if isinstance(options, dict):
        return options
    if options is None:
        return {}
    return {first_option(name) or str(options): options}
