"""Check the order of steps: a step that changes words must come before steps that add tags or split text into pieces.

Noise, case and most segmentations would break a tag, such as <de> or [BT].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from volt.errors import ConfigError, quoted
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.registry import TRANSFORMS
from volt.stream.transforms.transform import (
    LineFault,
    LoadedFiles,
    Transform,
    decodes,
    deterministic,
    loaded,
)
from volt.text.atoms import SPACE, SUFFIX

BOTH = (1, 2)  # the fields of a transform whose options do not name fields


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of a field after some steps.

    tags: tag → the step that added it
    pieces: the step that split the field into pieces; "" if it is still text
    """

    tags: Mapping[str, str] = field(default_factory=dict)
    pieces: str = ""


_Fields = dict[int, _Content]


def check_order(transforms: Iterable[Transform], files: LoadedFiles) -> None:
    """Raise ConfigError if a step would break a tag or piece that an earlier step added."""
    _after(transforms, {}, files)


def _after(transforms: Iterable[Any], fields: _Fields, files: LoadedFiles) -> _Fields:
    for transform in transforms:
        if transform.name == "choice":
            variants, fields = (
                [_after(variant.transforms, fields, files) for variant in transform.variants],
                {},
            )
            for number, content in (item for variant in variants for item in variant.items()):
                before = fields.get(number, _Content())
                fields[number] = _Content(
                    {**before.tags, **content.tags}, before.pieces or content.pieces
                )
        elif transform.name == "user" or transform.name not in TRANSFORMS:
            fields = {}  # the effect of user code is unknown
        else:
            for number in _numbers(transform):
                _check(transform, number, fields.get(number, _Content()), files)
            if transform.name == "copy":
                fields = fields | {transform.to: fields.get(transform.from_, _Content())}
            elif transform.name in ("multiply", "duplicate_mono"):
                n = getattr(transform, "n", 2)
                fields = fields | dict.fromkeys(range(1, n + 1), fields.get(1, _Content()))
            elif transform.name == "keep_fields":
                fields = {
                    new: fields.get(old, _Content()) for new, old in enumerate(transform.fields, 1)
                }
            fields = _output(transform, fields)
    return fields


def _numbers(transform: Any) -> tuple[int, ...]:
    if transform.name == "lang_prefix_both":
        return (1,)
    return getattr(transform, "fields", None) or BOTH


def _check(transform: Any, number: int, content: _Content, files: LoadedFiles) -> None:
    if content.pieces and getattr(transform, "changes", "") == "spelling":
        effect = f"splits field {number} into pieces, and {transform.name} after it changes their spelling"
        raise ConfigError(
            f"{content.pieces} {effect}; put {transform.name} before {content.pieces}"
        )
    changes = hasattr(transform, "changes") or decodes(transform)
    for tag, step in content.tags.items() if changes else ():
        if (broken := _broken(transform, number, tag, files)) is not None:
            effect = f"turns it into {quoted(broken)}" if broken else "may change it"
            remedy = f"put {step} after {transform.name}"
            if transform.name in ("encode", "spm_encode", "sentencepiece"):
                remedy += f", or give {transform.name} a vocabulary that contains {tag} as a token"
            raise ConfigError(
                f"{step} adds {tag} to field {number}, and {transform.name} after it {effect}; {remedy}"
            )


def _broken(transform: Any, number: int, tag: str, files: LoadedFiles) -> str | None:
    """Return the text that a step turns a tag into: None if the tag stays whole, "" if the text is unpredictable."""
    step: Any = next(iter(deterministic([transform])), None)
    if step is None or decodes(step):  # decoding joins a tag and its neighbours
        return ""
    step = replace(step, to="pieces") if hasattr(step, "to") else step
    line = "\t".join([tag] * max(number, getattr(step, "if_cased", None) or 1))
    call = loaded(step, files)
    try:
        output = call(Batch.of([line]), LineRng(0, 0)).column(number).strings()[0]
    except LineFault:  # a table lacks the tag
        return ""
    return (
        None
        if tag in (piece.removeprefix(SPACE).removesuffix(SUFFIX) for piece in output.split(" "))
        else output
    )


def _output(transform: Any, fields: _Fields) -> _Fields:
    added = transform.special_tokens() if hasattr(transform, "special_tokens") else ()
    tags = {tag: transform.name for tag in added if _is_tag(tag)}
    result = dict(fields)
    for number in _numbers(transform):
        content = fields.get(number, _Content())
        pieces = transform.name if getattr(transform, "changes", "") == "pieces" else content.pieces
        result[number] = _Content({**content.tags, **tags}, "" if decodes(transform) else pieces)
    return result


def _is_tag(text: str) -> bool:
    return len(text) > 2 and not text[0].isalnum() and not text[-1].isalnum()
