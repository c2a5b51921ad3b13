# ruff: noqa: E501 (each row is one configuration)
"""Right configurations of streams, whose lines say what their values may be, and changes that are no line's.

Kinds: whole LOW [HIGH], number LOW [HIGH], bool, word A|B, text, path (of what need not exist), regex, file (that
exists); `null` behind them allows null; `with` says that a fault may lie with another key, and be told a level up.
`free` marks a name that the user makes up.

>>> sorted(RIGHT)
['batches', 'each', 'mix', 'packs', 'pair', 'steps', 'table', 'user', 'whole']
"""

from __future__ import annotations

from typing import NamedTuple

FILES: dict[str, str] = {
    "a.tsv": "".join(f"a{n} x{n}\tb{n} y{n}\n" for n in range(40)),
    "b.tsv": "".join(f"c{n}\td{n}\n" for n in range(9)),
    "de.txt": "eins\nzwei\n",
    "en.txt": "one\ntwo\n",
    "rows.jsonl": '{"de": "eins", "en": "one"}\n{"de": "zwei", "en": "two"}\n',
    "mine.py": "def swap(fields, *, times=1):\n    return fields[::-1]\n",
    "dict.txt": "a0 2\nb0 1\n",
    "lang/de.tsv": "eins\tone\n",
    "lang/fr.tsv": "un\tone\n",
}
RIGHT: dict[str, str] = {
    "whole": """\
seed: 3  # whole 0
ends: drop  # word stop|drop
workers: 0  # whole 0 256
time_limit: 60  # number 1e-300 null
cache: cache  # path null
sources:
  one:  # free
    path: a.tsv  # file
    weight: 2  # number 0 1e9 with
    shuffle: lines  # word lines|outputs|none
    epochs: 2  # whole 1 null
    block_lines: 4  # whole 1
    block_bytes: 1000  # whole 1
    split_lines: 3  # whole 1 null
    min_fields: 1  # whole 0 3 with
    max_fields: 3  # whole 1 null with
    max_chars: 100  # whole 1 null
    max_line: 1000  # whole 0 null
    blank: true  # bool
  two:  # free
    path:
      - b.tsv
    weight:
      kind: linear  # word steps|linear
      points:
        - [0, 1]
        - [10, 2.5]
errors:
  on_fault: quarantine  # word quarantine
  quarantine: bad.jsonl  # path with
  max_faults: 5  # whole 0 null
  max_share: 0.5  # number 0 1 null
""",
    "steps": """\
sources:
  one:  # free
    path: a.tsv  # file
    epochs: 1  # whole 1 null
    transforms:
      - skip_blank
      - match:
          pattern: '[0-9]'  # regex
          invert: false  # bool
      - regex:
          pattern: zzz  # regex
          invert: false  # bool
      - length:
          max: 50  # whole 1 null with
          min: 1  # whole 0 50 with
          unit: words  # word words|characters|bytes
      - ratio:
          max: 3  # number 1
          unit: words  # word words|characters|bytes
      - lower:
          if_cased: 1  # whole 1 65536 null
      - tag:
          text: "[BT]"  # text
          position: start  # word start|end
      - typos:
          rate: 0.1  # number 0 1
      - punctuation:
          drop: 0.1  # number 0 1
          final: 0.1  # number 0 1
      - copy:
          from: 2  # whole 1 65536
          to: 1  # whole 1 65536
      - multiply:
          n: 3  # whole 1 10000
      - repeat:
          n: 2  # whole 1 10000
      - choice:
          variants:
            - weight: 0.5  # number 0
            - weight: 0.5  # number 0
              transforms:
                - upper
transforms:
  - where: "length(f1) > 0"
""",
    "pair": """\
sources:
  one:  # free
    pair:
      src: de.txt  # free
      tgt: en.txt  # free
    transforms:
      - lower: [src]
      - length: {max: 9, fields: [tgt]}
""",
    "table": """\
sources:
  one:  # free
    path: rows.jsonl  # file
    columns:
      src: de  # free
      tgt: en  # free
    max_line: 1000  # whole 0 null
    split_lines: 3  # whole 1 null
""",
    "each": """\
each:
  path: "lang/*.tsv"
  weight: 2  # number 1e-300 with
  temperature: 5  # number 1e-300
  transforms:
    - tag: "<{name}>"
""",
    "mix": """\
mix:
  by: temperature  # word temperature
  temperature: 5  # number 1 with
sources:
  one:  # free
    path: a.tsv  # file
  two:  # free
    path: b.tsv  # file
""",
    "batches": """\
sources:
  one:  # free
    path: a.tsv  # file
batches:
  fields:
    src:  # free
      vocabulary: dict.txt  # file
      prefix: ["<2en>"]
    tgt:  # free
      vocabulary: dict.txt  # file
  holds: pieces  # word text|pieces|ids null
  bos: true  # bool
  eos: true  # bool
  max_length: 100  # whole 1 2147483647 with
  beyond: truncate  # word refuse|truncate
  unknown: refuse  # word refuse|replace
  max_tokens: 4096  # whole 1 9007199254740992
  max_sentences: 256  # whole 1 2147483647 null
  multiple: 8  # whole 1 2147483647
  sort: length  # word length with
  noise: 0.1  # number 0 1
  longest: 2000  # whole 1 2147483647 null
  shortest: 1  # whole 1 2000
  buckets: [16, 32]
  on_long: report  # word raise|report
  window: 1024  # whole 1 2147483647
  shuffle: true  # bool
  pad: "<pad>"  # regex
  pad_to_multiple: 8  # whole 1 65536
  left_pad_source: true  # bool
  left_pad_target: false  # bool
  dtype: int64  # word int64|int32
""",
    "packs": """\
sources:
  one:  # free
    path: de.txt  # file
batches:
  fields:
    text: dict.txt  # free
  pack:
    length: 1024  # whole 1 16777216
    rows: 8  # whole 1 16777216
    on_long: split  # word raise|report|split
  window: epoch  # free
""",
    "user": """\
sources:
  one:  # free
    path: b.tsv  # file
    transforms:
      - user:
          file: mine.py  # file
          function: swap
          takes: fields  # word fields
          append: false  # bool
          options:
            times: 2  # free
""",
}
_TWO = "sources: {one: {path: a.tsv}, two: {path: b.tsv}}\n"
_ONE = "sources: {one: {path: a.tsv, transforms: [%s]}}\n"


class Special(NamedTuple):
    """A change that is no line's. line: of what is wrong, 0 for any."""

    kind: str
    told: str
    text: str | bytes
    line: int = 1
    is_legal: bool = False


def _source(more: str) -> str:
    return f"sources:\n  one:\n    path: a.tsv\n    {more}\n"


_STEPS = (
    "uper", "no", "[upper]", "1", "null", "{upper: null, lower: null}", "upper: {field: [1]}", "upper: {fields: [0]}",
    "upper: {fields: [-1]}", "upper: {fields: []}", "upper: {fields: [1, 1]}", "upper: {fields: 1}", "upper: {fields: [src]}",
    "upper: {fields: ['1']}", "upper: {fields: [1.5]}", "upper: {fields: [.nan]}", "match: '('", "match: '*'",
    "regex: '[z-a]'", "regex: '(?P<1>a)'", "match: {pattern: a, fields: [1]}", "match: {pattern: a, fields: [1, 2, 3]}",
    "match", "length: {min: 3, max: 2}", "length: {unit: letters}", "ratio", "ratio: 0.5", "ratio: {max: .inf}",
    "tag", "tag: {text: x, position: middle}", "typos: {kinds: [swop]}", "typos: {kinds: []}", "typos: 1.5", "typos: -1",
    "choice", "choice: []", "choice: [{weight: 0}]", "choice: [{weight: -1}, {weight: 2}]", "choice: [{transforms: [upper]}]",
    "choice: [{weight: .nan}]", "choice: [{weight: .inf}]", "choice: [{weight: 1, transforms: [uper]}]", "choice: {weight: 1}",
    "choice: [{weight: 1, transforms: upper}]", "repeat: 0", "repeat: 10001", "multiply: 1e9", "keep_fields: []",
    "documents: {max_tokens: 0}", "documents: {probability: 2}", "documents: {fields: [3], id_field: 3}",
    "encode: nowhere.volt", "encode: a.tsv", "encode: {vocabulary: a.tsv, dropout: 2}", "decode: nowhere.volt",
    "spm_encode: nowhere.model", "spm_encode: a.tsv", "where: ''", "where: 'length(f1)'", "where: 'f0 > 1'",
    "where: 'no_such(f1) > 1'", "where: 'rank(f1) > 1'", "where: {condition: 'f1 > 1', names: src}",
    "user: {file: nowhere.py, function: swap}", "user: {file: a.tsv, function: swap}", "user: {file: mine.py}",
    "user: {file: mine.py, function: swop}", "user: {file: mine.py, function: swap, options: {time: 2}}",
    "user: {file: mine.py, function: swap, options: [2]}", "user: {file: mine.py, function: swap, takes: lines}",
    "user: {file: mine.py, function: swap, takes: batch, append: true}", "user: {function: swap}",
)  # fmt: skip
_SOURCES = {
    "weights": (
        "weight: {points: []}", "weight: {points: [[0]]}", "weight: {points: [[0, 1, 2]]}", "weight: {points: [[5, 1]]}",
        "weight: {points: [[0, 1], [0, 2]]}", "weight: {points: [[0, 1], [9, 2], [8, 2]]}", "weight: {points: [[0, -1]]}",
        "weight: {points: [[0, .nan]]}", "weight: {points: [[0, .inf]]}", "weight: {points: [[0.5, 1]]}",
        "weight: {kind: cubic, points: [[0, 1]]}", "weight: {kind: linear}", "weight: [1, 2]", "weight: 2,1",
        "weight: {points: [[0, 0]]}", "weight: {points: [[99999999999999999999, 1]]}",
    ),
    "keys that do not go together": (
        "pair: {src: de.txt, tgt: en.txt}", "columns: {}", "min_fields: 3\n    max_fields: 2", "columns: {src: de}",
    ),
}  # fmt: skip
_BATCHES = "sources: {one: {pair: {src: de.txt, tgt: en.txt}}}\nbatches:\n  fields: {src: dict.txt, tgt: dict.txt}\n"
_WRONG_BATCHES = (
    "max_sentences: 9",
    "max_tokens: null",
    "pack: {length: 8, rows: 2}",
    "max_tokens: 9\n  pack: {length: 8, rows: 2}",
    "max_tokens: 9\n  window: all",
    "max_tokens: 9\n  window: 1.5",
    "max_tokens: 9\n  beyond: truncate",
    "max_tokens: 9\n  sort: sides\n  noise: 0.1",
    "max_tokens: 9\n  noise: 0.1\n  shuffle: false",
    "max_tokens: 9\n  shortest: 10",
    "max_tokens: 9\n  max_tokens: 8",
    "max_tokens: 9\n  dtype: int16",
)
SPECIAL: list[Special] = [
    *(Special("steps", step, _source(f"transforms:\n      - {step}"), 5) for step in _STEPS),
    *(Special(kind, more, _source(more), 0) for kind, told in _SOURCES.items() for more in told),
    Special("whole file", "nothing", ""),
    Special("whole file", "a comment", "# a stream\n"),
    Special("whole file", "a word", "stream\n"),
    Special("whole file", "a list", "- sources\n"),
    Special("whole file", "null", "null\n"),
    Special("whole file", "no sources", "seed: 1\n"),
    Special("whole file", "sources: nothing", "seed: 1\nsources:\n", 2),
    Special("whole file", "sources: a list", "seed: 1\nsources: [a.tsv]\n", 2),
    Special("whole file", "source: a path", "sources:\n  one: a.tsv\n", 2),
    Special("whole file", "source: nothing", "sources:\n  one:\n", 2),
    Special("whole file", "no path", "sources:\n  one: {weight: 2}\n", 2),
    Special("whole file", "path: nothing in a list", "sources:\n  one:\n    path: []\n", 3),
    Special("whole file", "path: a number", "sources:\n  one:\n    path: [3]\n", 3),
    Special("whole file", "path: a folder without texts", "sources:\n  one:\n    path: empty\n", 3),
    Special("whole file", "path: a pattern that matches nothing", "sources:\n  one:\n    path: '*.zzz'\n", 3),
    Special("whole file", "two documents", _ONE % "upper" + "---\nseed: 1\n", 2),
    Special("whole file", "a directive", "%YAML 3.0\n---\n" + _ONE % "upper"),
    Special("whole file", "UTF-16", (_ONE % "upper").encode("utf-16"), 0),
    Special("whole file", "bad UTF-8", b"seed: 1\nsources: {one: {path: \xff.tsv}}\n", 2),
    Special("whole file", "a control character", "seed: 1\n\x01\n" + _ONE % "upper", 2),
    Special("whole file", "a byte 0", b"seed: 1\n\0\n", 2),
    Special("whole file", "a mark of the byte order", "\ufeff" + _ONE % "upper", is_legal=True),
    Special("whole file", "line ends of Windows", (_ONE % "upper").replace("\n", "\r\n"), is_legal=True),
    Special("whole file", "a document between its marks", f"---\n{_ONE % 'upper'}...\n", is_legal=True),
    Special("depth", "a thousand lists", f"sources: {'[' * 1000}{']' * 1000}\n"),
    Special("depth", "a hundred thousand lists", "sources: " + "[" * 100_000),
    Special("depth", "sixty mappings", f"sources: {'{a: ' * 60}{'}' * 60}\n"),
    Special("depth", "choices within choices", _ONE % ("choice: [{weight: 1, transforms: [" * 20 + "upper" + "]}]" * 20)),
    Special("anchor", "a bomb", "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(f"{b}: &{b} [{', '.join(['*' + a] * 10)}]\n" for a, b in zip("abcdef", "bcdefg", strict=True)), 0),
    Special("anchor", "an alias", "sources:\n  one: &it {path: a.tsv}\n  two: *it\n", is_legal=True),
    Special("anchor", "an alias of an alias of itself", "sources: &s\n  one: *s\n", 0),
    Special("merge key", "a merge", "sources:\n  one: &it {path: a.tsv}\n  two: {<<: *it, weight: 2}\n", is_legal=True),
    Special("merge key", "of a word", "sources:\n  one: {<<: a.tsv}\n", 2),
    Special("merge key", "of itself", "sources: &s\n  <<: *s\n", 0),
    Special("merge key", "of a wrong key", "sources:\n  one: &it {paht: a.tsv}\n  two: {<<: *it}\n", 2),
    Special("merge key", "of a list of words", "sources:\n  one: {<<: [a, b]}\n", 2),
    Special("names", "a language that is no word of YAML 1.1", "sources:\n  no: {path: a.tsv}\n", is_legal=True),
    Special("names", "a number", "sources:\n  1: {path: a.tsv}\n", is_legal=True),
    Special("names", "null", "sources:\n  null: {path: a.tsv}\n", is_legal=True),
    Special("names", "nothing", "sources:\n  '': {path: a.tsv}\n", 2),
    Special("names", "a list", "sources:\n  [a]: {path: a.tsv}\n", 2),
    Special("names", "a tab", 'sources:\n  "a\\tb": {path: a.tsv}\n', 2),
    Special("names", "a byte 0", 'sources:\n  "a\\0b": {path: a.tsv}\n', 2),
    Special("names", "half a character", 'sources:\n  "\\ud800": {path: a.tsv}\n', 2),
    Special("pair", "one file", "sources:\n  one:\n    pair: {src: de.txt}\n", 3),
    Special("pair", "no file", "sources:\n  one:\n    pair: {}\n", 0),
    Special("pair", "a file that is missing", "sources:\n  one:\n    pair: {src: de.txt, tgt: nowhere.txt}\n", 3),
    Special("pair", "a name that is none", "sources:\n  one:\n    pair: {src: de.txt, '2': en.txt}\n", 3),
    Special("pair", "a list", "sources:\n  one:\n    pair: [de.txt, en.txt]\n", 3),
    Special("pair", "a pattern", "sources:\n  one:\n    pair: {src: 'd*.txt', tgt: en.txt}\n", 3),
    Special("pair", "files of other lengths", "sources:\n  one:\n    pair: {src: a.tsv, tgt: b.tsv}\n", 0),
    Special("pair", "a field of another name", "sources:\n  one:\n    pair: {de: de.txt, en: en.txt}\n    transforms: [lower: [src]]\n", 4),
    Special("table", "a column that is missing", "sources:\n  one: {path: rows.jsonl, columns: {src: fr}}\n", 0),
    Special("table", "lines that are no rows", "sources:\n  one: {path: a.tsv, columns: {src: fr}}\n", 0),
    Special("table", "a number for a column", "sources:\n  one: {path: rows.jsonl, columns: {src: 1}}\n", 2),
    Special("each", "no star", "each:\n  path: lang/de.tsv\n", 2),
    Special("each", "two stars", "each:\n  path: '*/*.tsv'\n", 2),
    Special("each", "no file", "each:\n  path: 'lang/*.zzz'\n", 2),
    Special("each", "path and pair", "each:\n  path: 'lang/*.tsv'\n  pair: {a: '*.x', b: '*.y'}\n", 0),
    Special("each", "nothing", "each:\n", 0),
    Special("each", "temperature 0", "each:\n  path: 'lang/*.tsv'\n  temperature: 0\n", 3),
    Special("each", "temperature without end", "each:\n  path: 'lang/*.tsv'\n  temperature: .inf\n", 3),
    Special("each", "a name that is taken", "each:\n  path: 'lang/*.tsv'\nsources:\n  de: {path: a.tsv}\n", 1),
    Special("mix", "by temperature", "mix: {}\n" + _TWO, is_legal=True),
    *(Special("mix", f"by {by}", f"mix: {{by: {by}}}\n{_TWO}", is_legal=True) for by in ("uniform", "concatenation", "weights")),
    *(Special("mix", f"{by} with a temperature", f"mix:\n  by: {by}\n  temperature: 2\n{_TWO}", 3) for by in ("uniform", "weights")),
    *(Special("mix", f"temperature {told}", f"mix:\n  temperature: {told}\n{_TWO}", 2) for told in ("0", "-1", ".nan", ".inf", "hot", "[1]")),
    Special("mix", "a temperature that leaves nothing", "seed: 1\nmix: {temperature: 1e-3}\n" + _TWO, 2),
    Special("mix", "by an unknown word", "mix:\n  by: size\n" + _TWO, 2),
    Special("mix", "a word", "mix: uniform\n" + _TWO),
    Special("mix", "no sources", "mix: {by: uniform}\n"),
    Special("mix", "a weight", "mix: {by: uniform}\n" + _source("weight: 2"), 5),
    Special("mix", "an end", "mix: {by: uniform}\n" + _source("epochs: 2"), 5),
    Special("mix", "an end, and weights", "mix: {by: weights}\n" + _source("epochs: 2"), is_legal=True),
    Special("mix", "a weight of a pattern", "mix: {by: uniform}\neach:\n  path: 'lang/*.tsv'\n  weight: 2\n", 4),
    Special("mix", "a temperature of a pattern", "mix: {by: uniform}\neach:\n  path: 'lang/*.tsv'\n  temperature: 2\n", 4),
    Special("mix", "a pattern", "mix: {by: uniform}\neach:\n  path: 'lang/*.tsv'\n", is_legal=True),
    *(Special("batches", told, _BATCHES + f"  {told}\n", 0) for told in _WRONG_BATCHES),
    Special("batches", "a path for a field", _BATCHES + "  max_tokens: 9\n", is_legal=True),
    Special("errors", "a file without the policy", _ONE % "upper" + "errors: {quarantine: bad.jsonl}\n", 2),
    Special("errors", "the policy without a file", _ONE % "upper" + "errors: {on_fault: quarantine}\n", 2),
    Special("errors", "a folder that is missing", _ONE % "upper" + "errors: {on_fault: quarantine, quarantine: no/x}\n", 2),
    Special("errors", "a file that is read", _ONE % "upper" + "errors: {on_fault: quarantine, quarantine: a.tsv}\n", 0),
    Special("errors", "a word", _ONE % "upper" + "errors: skip\n", 2),
]  # fmt: skip
