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
from volt.stream.transforms.sentencepiece import SpmDecode, SpmEncode
from volt.stream.transforms.subwords import Decode, Encode
from volt.stream.transforms.tags_and_fields import Append, Copy, KeepFields, Multiply, Repeat, Tag
from volt.stream.transforms.task_sides import DuplicateMono, FilterTooLong, LangPrefixBoth
from volt.stream.transforms.token_noise import Drop, Reorder
from volt.stream.transforms.transform import Transform
from volt.stream.transforms.user_code import User
from volt.stream.transforms.vocabulary_noise import Insertion, Switchout, WbNoise
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
    "duplicate_mono": DuplicateMono,
    "lang_prefix_both": LangPrefixBoth,
    "drop": Drop,
    "reorder": Reorder,
    "switchout": Switchout,
    "insertion": Insertion,
    "wb_noise": WbNoise,
    "filter_too_long": FilterTooLong,
    "encode": Encode,
    "decode": Decode,
    "spm_encode": SpmEncode,
    "spm_decode": SpmDecode,
    "user": User,
}
