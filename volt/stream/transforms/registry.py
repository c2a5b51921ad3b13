"""The transforms that a configuration can name: name → class, whose module is imported at its first use.

>>> TRANSFORMS["lower"](fields=(1,))
Lower(fields=(1,), if_cased=None)
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module

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
    "morfessor_em_taboo": "taboo.MorfessorEmTaboo",
    "morfessor_em_taboo_reordered": "taboo.MorfessorEmTabooReordered",
    "taboo": "taboo.Taboo",
    "deterministic_segmentation": "segmentations.DeterministicSegmentation",
    "join_pieces": "segmentations.JoinPieces",
    "user": "user_code.User",
}


class _Transforms(MutableMapping[str, type[Transform]]):
    def __init__(self) -> None:
        self._classes: dict[str, str | type[Transform]] = {**_HOMES}

    def __getitem__(self, name: str) -> type[Transform]:
        kind = self._classes[name]
        if isinstance(kind, str):
            module, _, attribute = kind.partition(".")
            self._classes[name] = kind = getattr(import_module(f"volt.stream.transforms.{module}"), attribute)
        return kind

    def __setitem__(self, name: str, kind: type[Transform]) -> None:
        self._classes[name] = kind

    def __delitem__(self, name: str) -> None:
        del self._classes[name]

    def __contains__(self, name: object) -> bool:
        return name in self._classes

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


TRANSFORMS = _Transforms()
