"""Every transform that a configuration can name.

>>> sorted(TRANSFORMS)[:4], TRANSFORMS["lower"](fields=(1,))
(['append', 'bitext', 'choice', 'copy'], Lower(fields=(1,), if_cased=None))
"""

from __future__ import annotations

from volt.stream.transforms.case import Lower, Title, Upper
from volt.stream.transforms.choice import Choice
from volt.stream.transforms.documents import Documents
from volt.stream.transforms.filters import Bitext, Length, Match, Ratio, Regex, SkipBlank
from volt.stream.transforms.noise import Punctuation, Typos
from volt.stream.transforms.segmentations import (
    DeterministicSegmentation,
    JoinPieces,
    MorfessorEm,
    Sentencepiece,
)
from volt.stream.transforms.sentencepiece import SpmDecode, SpmEncode
from volt.stream.transforms.subwords import Decode, Encode
from volt.stream.transforms.taboo import MorfessorEmTaboo, MorfessorEmTabooReordered, Taboo
from volt.stream.transforms.tags_and_fields import Append, Copy, KeepFields, Multiply, Repeat, Tag
from volt.stream.transforms.transform import Transform
from volt.stream.transforms.user_code import User
from volt.stream.transforms.where import Where

TRANSFORMS: dict[str, type[Transform]] = {
    "append": Append,
    "lower": Lower,
    "upper": Upper,
    "title": Title,
    "tag": Tag,
    "copy": Copy,
    "multiply": Multiply,
    "repeat": Repeat,
    "keep_fields": KeepFields,
    "skip_blank": SkipBlank,
    "bitext": Bitext,
    "match": Match,
    "regex": Regex,
    "length": Length,
    "ratio": Ratio,
    "where": Where,
    "choice": Choice,
    "typos": Typos,
    "punctuation": Punctuation,
    "documents": Documents,
    "encode": Encode,
    "decode": Decode,
    "spm_encode": SpmEncode,
    "spm_decode": SpmDecode,
    "sentencepiece": Sentencepiece,
    "morfessor_em": MorfessorEm,
    "morfessor_em_taboo": MorfessorEmTaboo,
    "morfessor_em_taboo_reordered": MorfessorEmTabooReordered,
    "taboo": Taboo,
    "deterministic_segmentation": DeterministicSegmentation,
    "join_pieces": JoinPieces,
    "user": User,
}
