"""The transforms that a configuration can name: name → class, whose module is imported at its first use.

>>> TRANSFORMS["lower"](fields=(1,))
Lower(fields=(1,), if_cased=None)
"""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Any

from volt.stream.transforms.transform import Transform

_HOMES = {
    "append": "edits.Append",
    "lower": "case.Lower",
    "upper": "case.Upper",
    "title": "case.Title",
    "tag": "edits.Tag",
    "copy": "edits.Copy",
    "multiply": "edits.Multiply",
    "repeat": "edits.Repeat",
    "keep_fields": "edits.KeepFields",
    "skip_blank": "filters.SkipBlank",
    "bitext": "filters.Bitext",
    "match": "filters.Match",
    "regex": "filters.Regex",
    "length": "filters.Length",
    "ratio": "filters.Ratio",
    "where": "filters.Where",
    "choice": "choice.Choice",
    "typos": "noise.Typos",
    "punctuation": "noise.Punctuation",
    "documents": "documents.Documents",
    "duplicate_mono": "edits.DuplicateMono",
    "lang_prefix_both": "edits.LangPrefixBoth",
    "drop": "noise.Drop",
    "reorder": "noise.Reorder",
    "switchout": "vocabulary_noise.Switchout",
    "insertion": "vocabulary_noise.Insertion",
    "wb_noise": "vocabulary_noise.WbNoise",
    "filter_too_long": "filters.FilterTooLong",
    "strip_eos": "edits.StripEos",
    "encode": "subwords.Encode",
    "decode": "subwords.Decode",
    "spm_encode": "sentencepiece.SpmEncode",
    "spm_decode": "sentencepiece.SpmDecode",
    "sentencepiece": "segmentations.Sentencepiece",
    "morfessor_em": "segmentations.MorfessorEm",
    "morfessor_em_taboo": "taboo_segmentation.MorfessorEmTaboo",
    "morfessor_em_taboo_reordered": "taboo_segmentation.MorfessorEmTabooReordered",
    "taboo": "taboo_segmentation.Taboo",
    "deterministic_segmentation": "segmentations.DeterministicSegmentation",
    "join_pieces": "segmentations.JoinPieces",
    "user": "user_code.User",
}


class _Transforms(UserDict[str, Any]):
    def __getitem__(self, name: str) -> type[Transform]:
        if isinstance(self.data[name], str):
            module, _, attribute = self.data[name].partition(".")
            self.data[name] = getattr(import_module(f"volt.stream.transforms.{module}"), attribute)
        kind: type[Transform] = self.data[name]
        return kind


TRANSFORMS = _Transforms(_HOMES)
