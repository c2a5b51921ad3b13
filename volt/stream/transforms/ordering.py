"""Check the order of steps: a step that changes words must come before steps that add tags or split
text into pieces.

Noise, case and most segmentations would break a tag, such as <de> or [BT]: `[tag: "[BT]", lower]`
is an error, `[lower, tag: "[BT]"]` is not. Each transform declares its fields, what it `changes`,
which `special_tokens()` it adds, and how it has `moved` the contents of fields. `check_order` goes
through the steps, with the tags and pieces that each field contains so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from volt.errors import ConfigError, quoted
from volt.stream.transforms.case import Case
from volt.stream.transforms.choice import Choice
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.transform import (
    LineFault,
    LoadedFiles,
    Transform,
    changed_fields,
    decodes,
    make_deterministic,
    open_transform,
    special_tokens,
)
from volt.text.atoms import SPACE, SUFFIX


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of a field after some steps.

    tags: tag → the step that added it
    pieces: the step that split the field into pieces; "" if it is still text
    """

    tags: Mapping[str, str] = field(default_factory=dict)
    pieces: str = ""


_Fields = dict[int, _Content]
_EMPTY = _Content()


def check_order(transforms: Iterable[Transform], files: LoadedFiles) -> None:
    """Raise ConfigError if a step would break a tag or piece that an earlier step added."""
    _check_steps(transforms, {}, files)


def _check_steps(transforms: Iterable[Any], fields: _Fields, files: LoadedFiles) -> _Fields:
    """Check steps in turn. Return the contents of fields after them.

    fields: field → its content before the steps
    """
    for transform in transforms:
        if isinstance(transform, Choice):
            variants = transform.variants
            fields = _merge(_check_steps(each.transforms, fields, files) for each in variants)
        elif getattr(transform, "changes", "anything") == "anything":
            fields = {}
        else:
            for number in changed_fields(transform):
                _check_step(transform, number, fields.get(number, _EMPTY), files)
            if hasattr(transform, "moved"):
                fields = transform.moved(fields)
            fields = _update(transform, fields)
    return fields


def _merge(variants: Iterable[_Fields]) -> _Fields:
    """Return the contents that fields may have after any of the variants."""
    result = _Fields()
    for fields in variants:
        for number, content in fields.items():
            other = result.get(number, _EMPTY)
            tags = {**other.tags, **content.tags}
            result[number] = _Content(tags, other.pieces or content.pieces)
    return result


def _update(transform: Any, fields: _Fields) -> _Fields:
    """Return the contents of fields after a transform."""
    tags = {tag: transform.name for tag in special_tokens([transform]) if _is_tag(tag)}
    result = dict(fields)
    for number in changed_fields(transform):
        content = fields.get(number, _EMPTY)
        pieces = content.pieces
        if transform.changes == "pieces":
            pieces = transform.name
        elif decodes(transform):
            pieces = ""
        result[number] = _Content({**content.tags, **tags}, pieces)
    return result


def _check_step(transform: Any, number: int, content: _Content, files: LoadedFiles) -> None:
    name = transform.name
    if content.pieces and transform.changes == "spelling":
        raise ConfigError(
            f"{content.pieces} splits field {number} into pieces, and {name} after it changes their "
            f"spelling; put {name} before {content.pieces}"
        )
    if transform.changes == "nothing" and not decodes(transform):
        return

    step: Any = next(iter(make_deterministic([transform])), None)
    for tag, tagging in content.tags.items():
        broken = _break_tag(step, number, tag, files)
        if broken is None:
            continue
        effect = f"turns it into {quoted(broken)}" if broken else "may change it"
        remedy = f"put {tagging} after {name}"
        if hasattr(step, "to"):
            remedy += f", or give {name} a vocabulary that contains {tag} as a token"
        raise ConfigError(
            f"{tagging} adds {tag} to field {number}, and {name} after it {effect}; {remedy}"
        )


def _break_tag(step: Any, number: int, tag: str, files: LoadedFiles) -> str | None:
    """Return the text that a step turns a tag into; None if the tag stays whole, "" if the text is
    random.

    step: the deterministic form of a transform; None for noise
    """
    if step is None or decodes(step):  # decoding joins a tag and its neighbours
        return ""

    if hasattr(step, "to"):
        step = replace(step, to="pieces")
    if isinstance(step, Case):
        step = replace(step, if_cased=None)
    batch = Batch.of(["\t".join([tag] * number)])
    try:
        [output] = open_transform(step, files)(batch, LineRng(0, 0)).column(number).strings()
    except LineFault:  # a table lacks the tag
        return ""

    words = [piece.removeprefix(SPACE).removesuffix(SUFFIX) for piece in output.split(" ")]
    return None if tag in words else output


def _is_tag(text: str) -> bool:
    return len(text) > 2 and not text[0].isalnum() and not text[-1].isalnum()
