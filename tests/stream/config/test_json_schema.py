"""The JSON schema documents every key, and accepts valid configurations."""

import json

import pytest
from support.configurations import FULL
from support.golden import check

from volt.stream.config.json_schema import (
    as_text,
    describe_type,
    first_option,
    json_schema,
    transform_schema,
)
from volt.stream.config.pydantic_models import MOST_WORKERS
from volt.stream.config.yaml_document import parse_yaml
from volt.stream.example_streams import RECIPES, write_recipe
from volt.stream.transforms.registry import TRANSFORMS
from volt_cli import options


def test_the_command_line_knows_the_limit_of_workers():
    """The command line's limit of workers equals the library's."""
    assert options.MOST_WORKERS == MOST_WORKERS


def test_every_key_is_documented():
    """Every key of configurations and every option of transforms has a description, in the JSON
    schema and in the text."""
    schema, text = json_schema(), as_text()
    models = {"(the file)": schema, **schema["$defs"]}
    for name, model in models.items():
        for key, option in model.get("properties", {}).items():
            assert option.get("description"), (name, key)
            assert f"\n  {key}: " in text
            assert (
                option.get("default", 0) is not None
                or f"\n  {key}: {describe_type(option)}, default none\n" in text
            )
            assert f"\n      {option['description'].strip().splitlines()[-1].strip()}\n" in text
    assert set(TRANSFORMS) <= set(models)
    for name in TRANSFORMS:
        assert f"\n{name} — " in text
        assert transform_schema(name)["description"]
        assert first_option(name) == next(iter(transform_schema(name)["properties"]), None)


LIMITS = (
    "default",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minItems",
    "minLength",
)


def _limits(node):
    """Yield the limits and the default of a key."""
    if isinstance(node, list):
        yield from (limit for one in node for limit in _limits(one))
    for key, value in node.items() if isinstance(node, dict) else ():
        yield from [f"{key} {value}"] if key in LIMITS else _limits(value)


def test_types_limits_and_defaults_equal_golden_values():
    """The type, limits and default of each key in the JSON schema equal the stored ones."""
    schema, found = json_schema(), {}
    models = {
        "": schema,
        **{name: model for name, model in schema["$defs"].items() if name.endswith("Options")},
    }
    shared = models["SourceOptions"]["properties"]
    for name, model in models.items():
        for key, option in model["properties"].items():
            if name == "SourceOptions" or option != shared.get(key):
                assert option["description"]
                need = ["required"] * (key in model.get("required", ()))
                found[f"{name.removesuffix('Options')}.{key}"] = "; ".join(
                    [describe_type(option), *need, *sorted(_limits(option))]
                )
    check("config keys", found)


def test_valid_configurations_fit_the_json_schema(tmp_path):
    """The JSON schema accepts all example configurations, and refuses a misspelt key."""
    jsonschema = pytest.importorskip("jsonschema")
    validate = jsonschema.Draft202012Validator(json_schema()).validate
    documents = [parse_yaml(FULL, path="f").value]
    for name in RECIPES:
        path, *_ = write_recipe(name, tmp_path / name)
        documents.append(parse_yaml(path.read_text(), path="f").value)
    for document in documents:
        validate(json.loads(json.dumps(document)))
    documents[0]["sources"]["wmt"]["transforms"][1]["choice"][1]["transforms"][0]["lower"][
        "feilds"
    ] = [1]
    with pytest.raises(jsonschema.ValidationError):
        validate(documents[0])
