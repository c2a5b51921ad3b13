"""The transforms that a configuration can name.

`TRANSFORMS` is a dictionary from names to classes. It imports a class's module when the class is
first looked up, so that names can be listed without loading every transform.

>>> TRANSFORMS["lower"](fields=(1,))
Lower(fields=(1,), if_cased=None)
>>> "skip_blank" in TRANSFORMS
True
"""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Any

from volt.stream.transforms.transform import Transform

# module → its transforms; the class has the transform's name in camel case: skip_blank → SkipBlank
_NAMES = {
    "case": ("lower", "upper", "title"),
    "tags": ("tag", "lang_prefix_both"),
    "field_edits": ("append", "copy", "duplicate_mono", "multiply", "keep_fields"),
    "filters": (
        "skip_blank",
        "bitext",
        "match",
        "regex",
        "length",
        "ratio",
        "where",
        "filter_too_long",
    ),
    "choice": ("choice",),
    "noise": ("typos", "punctuation", "drop", "reorder"),
    "vocabulary_noise": ("switchout", "insertion", "wb_noise"),
    "documents": ("documents", "repeat"),
    "subwords": ("encode", "decode", "strip_eos"),
    "spm": ("spm_encode", "spm_decode"),
    "random_segmentation": (
        "sentencepiece",
        "morfessor_em",
        "deterministic_segmentation",
        "join_pieces",
    ),
    "taboo_segmentation": ("morfessor_em_taboo", "morfessor_em_taboo_reordered", "taboo"),
    "user_code": ("user",),
}


class _LazyClasses(UserDict[str, Any]):
    """A dictionary of classes. A value that is text names the module of a class not yet imported."""

    def __getitem__(self, name: str) -> type[Transform]:
        value = self.data[name]
        if isinstance(value, str):
            module = import_module(f"volt.stream.transforms.{value}")
            class_name = name.title().replace("_", "")
            self.data[name] = getattr(module, class_name)
        transform_class: type[Transform] = self.data[name]
        return transform_class


TRANSFORMS = _LazyClasses()
for _module, _names in _NAMES.items():
    TRANSFORMS.update(dict.fromkeys(_names, _module))
