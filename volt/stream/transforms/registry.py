"""The transforms that a configuration can name: name → class. A class's module is imported at its
first use.

>>> TRANSFORMS["lower"](fields=(1,))
Lower(fields=(1,), if_cased=None)
"""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Any

from volt.stream.transforms.transform import Transform

_NAMES = {  # module → the names of its transforms; their classes have the same names in camel case
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


class _Transforms(UserDict[str, Any]):
    def __getitem__(self, name: str) -> type[Transform]:
        if isinstance(self.data[name], str):
            module = import_module(f"volt.stream.transforms.{self.data[name]}")
            self.data[name] = getattr(module, name.title().replace("_", ""))
        kind: type[Transform] = self.data[name]
        return kind


TRANSFORMS = _Transforms({name: module for module, names in _NAMES.items() for name in names})
