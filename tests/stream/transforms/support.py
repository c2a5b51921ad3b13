"""Helpers of several tests of transforms: rows of fields, lines of tokens, and each transform with its options."""

import math

import numpy as np
from hypothesis import strategies as st
from support.splitmix import Drawn

from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch, LineRng

# Lines of any fields

FIELD = st.text(st.characters(exclude_characters="\t\n", exclude_categories=["Cs"]), max_size=20)
ROWS = st.lists(st.lists(FIELD, min_size=2, max_size=4), max_size=8)
RAGGED = st.lists(st.lists(FIELD, min_size=1, max_size=4), max_size=8)
CUTS = st.integers(0, 6)  # the number of fields into which a batch is already split


def apply(transform, rows, *, seed=0):
    """Apply a transform to rows."""
    return transform(Batch.of(list(map("\t".join, rows))), LineRng.of("test", seed)).rows


# Lines of tokens, and the noise that hits them

_ANY = st.characters(exclude_characters=" \t\n", exclude_categories=["Cs"])
_HARD = ["", "▁", "▁a", "a", "▁▁a", "▁b", "é一𐐀", "\xa0", "▁▁▁", "x" * 63, "x" * 64]
TOKEN = st.sampled_from(_HARD) | st.text(_ANY, max_size=4)  # an empty one makes several spaces
LINES = st.lists(st.lists(TOKEN, max_size=14).map(" ".join), max_size=6)
ID_LINES = st.lists(st.lists(st.integers(-2, 9), max_size=14), max_size=6)
Amount = tuple[float | None, float | None]  # temperature, rate
_TEMPERATURES = [(value, None) for value in (0.0, 0.5, 2.0, 50.0)]
AMOUNTS = st.sampled_from([*_TEMPERATURES, (None, 0.0), (None, 0.3), (None, 1.0)])
SEEDS = st.integers(0, 99)


def tokens_of(value):
    """Return the runs of characters other than the space."""
    return [token for token in value.split(" ") if token]


def id_batch(lines):
    """Return lines with one field of ids."""
    ids = np.array([number for line in lines for number in line], np.int32)
    column = Column.of_ids(ids, np.cumsum([0, *map(len, lines)]))
    return Batch((column,), None, np.arange(len(lines)))


def ids_of(column):
    """Return the ids of each value."""
    assert column.is_ids
    return [list(map(int, tokens_of(value))) for value in column.strings()]


def noisy_text(noise, values, rng):
    """Return field 1 after noise."""
    return noise(Batch.of(values), rng).column(1).strings()


def hit_lines(
    counts,
    amount,
    rng,
    *,
    n_choices=1,
    spared=0,
):
    """Return the draws for each token of field 1 of each line; None for tokens that are not hit."""
    origins = np.arange(len(counts))
    field_rng = rng.at(1)
    uniform = field_rng.uniform(origins).tolist()
    words = field_rng.words(origins).tolist()
    seeds = field_rng.at("tokens").words(origins).tolist()
    result = []
    for n, fraction, word, seed in zip(counts, uniform, words, seeds, strict=True):
        n_hits = min(_n_hits(n, amount, fraction, Drawn(word)), n - spared)
        drawn = Drawn(seed)
        line = []
        for n_left in range(n, 0, -1):
            is_hit = n_hits > 0 and drawn.below(n_left) < n_hits
            line.append(drawn.below(n_choices) if is_hit else None)
            n_hits -= is_hit
        result.append(line)
    return result


def _n_hits(n, amount, fraction, drawn):
    """Return how many of n tokens are hit."""
    temperature, rate = amount
    if rate is not None:
        return sum(drawn.fraction() < rate for _ in range(n))
    if not n or not temperature:
        return int(fraction * n)
    number = -math.log1p(fraction * math.expm1(-temperature * n)) / temperature
    return min(n - 1, int(number))


# Every transform

# Kind of lines → transforms for such lines
TRANSFORMS_FOR = {
    "text": """\
lower
lower: {fields: [3]}
upper: {if_cased: 2}
upper: {fields: [2], if_cased: 1}
title
tag: <t>
tag: {text: <t> x, fields: [2, 1], separator: "", position: end}
lang_prefix_both: {src_lang: de, tgt_lang: en, extra_prefix: <BT>}
append: new
copy
copy: {from: 2, to: 5}
copy: {from: 2, to: 1}
multiply
multiply: 5
keep_fields
keep_fields: [2, 1]
duplicate_mono
repeat
repeat: 3
skip_blank
skip_blank: {fields: [2, 3]}
bitext
bitext: {only: true, fields: [2, 1]}
match: {pattern: "[0-9]|low"}
match: {pattern: "(l)o|N", invert: true}
regex: low
regex: {pattern: "[^ ]", fields: [2], invert: true}
length: 3
length: {max: 13, min: 5, unit: characters}
length: {min: 10, fields: [1], unit: bytes}
filter_too_long: 3
ratio: 1.5
ratio: {max: 2, fields: [2, 3], unit: bytes}
where: "length(f1) > 7 OR f2 IS NULL"
choice: [{weight: 1}, {weight: 2, transforms: [upper, tag: u]}, {weight: 1, transforms: [repeat, append: x, drop: 0.5]}]
choice: [{weight: 0, transforms: [upper]}, {weight: 3, transforms: [skip_blank]}, {weight: 3}]
typos: 0.3
typos: {rate: 0.4, kinds: [insert], fields: [1, 2]}
typos: {rate: 0.4, kinds: [drop, replace]}
typos: {rate: 0.4, kinds: [replace, swap]}
punctuation: {drop: 0.5}
punctuation: {drop: 0, final: 0.5, fields: [2, 1]}
drop
drop: 0.3
drop: {rate: 0.5, fields: [2]}
reorder
reorder: {max_dist: 1.5, fields: [2]}
documents
encode: v.volt
encode: {vocabulary: v.volt, dropout: 0.5, fields: [1]}
encode: {vocabulary: v.volt, dropout: 0.5, to: ids}
spm_encode: uni.model
spm_encode: {model: uni.model, alpha: 0.5}
spm_encode: {model: uni.model, alpha: 0.5, nbest: 3, to: ids}
spm_encode: {model: uni.model, alpha: 0.5, nbest: 3, fields: [1]}
spm_encode: {model: bytes.model, alpha: 0.2}
spm_encode: {model: bytes.model, alpha: 0.2, to: ids}
spm_encode: {model: bpe.model, alpha: 0.5}
spm_encode: {model: bpe.model, alpha: 0.5, to: ids, fields: [2]}
sentencepiece: uni.model
sentencepiece: {model: uni.model, nbest: 2, theta: 0.1}
morfessor_em: em.tsv
morfessor_em: {model: em.tsv, theta: 0, n_samples: 2, marks: word}
morfessor_em: {model: em.tsv, theta: 0.1, marks: pieces, fields: [1]}
morfessor_em: {model: em.tsv, theta: .inf, marks: given}
morfessor_em: {model: morfessor.txt, theta: 0.1}
morfessor_em_taboo: em.tsv
morfessor_em_taboo_reordered: {model: em.tsv, theta: 0}
taboo: {model: v.volt, segmenter: vocabulary}
taboo: {model: v.volt, segmenter: vocabulary, dropout: 0.5, n_samples: 2, reordered: true}
taboo: {model: em.tsv, theta: 0, marks: pieces}
taboo: {model: uni.model, segmenter: sentencepiece, theta: 0.1}
taboo: {model: table.tsv, segmenter: table}
deterministic_segmentation: table.tsv
user: {file: mine.py, function: mixed}
user: {file: mine.py, function: number, options: {mark: "!"}}
user: {file: mine.py, function: stream, takes: stream}
user: {file: mine.py, function: first, takes: stream}""",
    "pieces": """\
join_pieces
join_pieces: {fields: [2]}
drop: 0.5
reorder: 5
switchout: {vocabulary: words.tsv, rate: 0.5}
switchout: {vocabulary: words.tsv, temperature: 0.5, fields: [1], without: [▁b]}
insertion: words.tsv
insertion: {vocabulary: words.tsv, rate: 0.5}
wb_noise: {vocabulary: words.tsv, rate: 0.5}
wb_noise: {vocabulary: words.tsv, temperature: 0}
decode: v.volt
spm_decode: uni.model
spm_decode: {model: uni.model, fields: null}""",
    "documents": """\
documents: {max_lines: 2, separator: ""}
documents: {fields: [1], max_tokens: 5, probability: 0.6}
documents: {id_field: 2, fields: [3, 1], max_tokens: 9, separator: "|"}
documents: {max_tokens: 8, sample_length: true}""",
    "ids": """\
decode: {vocabulary: v.volt, from: ids}
decode: {vocabulary: v.volt, from: ids, fields: [2]}
spm_decode: {model: uni.model, from: ids}
strip_eos
strip_eos: {id: 5, fields: [2]}
drop: 0.5
reorder
filter_too_long: 2
length: {max: 3, unit: characters}
ratio: 2
skip_blank
documents: {id_field: 2, fields: [1], separator: ""}
switchout: {vocabulary: v.volt, rate: 0.5}
insertion: {vocabulary: uni.model, rate: 0.5}
wb_noise: {vocabulary: uni.model, rate: 0.5}""",
}
STEPS = [row for rows in TRANSFORMS_FOR.values() for row in rows.splitlines()]
FIRST = {row.partition(":")[0]: row for row in reversed(STEPS)}  # name → its first row
CODE = """
def mixed(fields):
    return None if not fields[0] else [fields, fields[::-1]] if len(fields) == 3 else fields * 2
def number(fields, rng, mark):
    return [*fields, str(rng.integers(1000)) + mark]
def stream(rows, rng):
    for row in rows:
        if len(row) > 1:
            yield [str(rng.integers(1000)), *row]
def first(rows):
    yield next(rows) + next(rows)
"""
FILES = {
    "em.tsv": "8\t▁\n4\t▁low\n2\t▁lo\n6\tw\n3\ter\n1\tlo\n2\tl\n2\to\n1\te\n1\tr\n4\ta\n4\tb\n1\tst\n2\tt\n2\ts\n",
    "morfessor.txt": "# text\n2 low + er\n3 new + est\n5 low\n1 the\n",
    "table.tsv": "low\tl ow\nthe\tt he\nhouse\thou se\na\ta\nb\tb\nnewest\tn ew est\n",
    "words.tsv": "9\t▁low\n9\tlow\n5\t▁b\n5\tb\n3\ter\n2\t<s>\n1\t▁a\n",
    "mine.py": CODE,
}
LIBRARIES = {
    "spm": "sentencepiece",
    "sentencepiece": "sentencepiece",
    ".model": "sentencepiece",
    "where": "polars",
    "morfessor.txt": "morfessor",
}
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)
SPECIAL = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL}
OTHERS = {"est": (0.0, USER), "%": (0.0, USER), "we": (-2.0, UNUSED)}
SCORES = {"▁": -2.0, "▁low": -3.0, "low": -3.5, "lo": -2.5, "er": -3.0, "▁a": -3.0, "▁b": -3.5}
LETTERS = dict.fromkeys("lowerabntsdhiu,.", -4.0)


def write_model(path, kind, *, byte_fallback=False):
    """Write a SentencePiece model of a few pieces, two of which are user-defined and one unused."""
    from volt.formats.sentencepiece.charsmap import model_class

    model = model_class()()
    model.trainer_spec.model_type = kind
    model.trainer_spec.byte_fallback = byte_fallback
    pieces = {text: (0.0, role) for text, role in SPECIAL.items()}
    if byte_fallback:
        pieces |= {f"<0x{byte:02X}>": (0.0, BYTE) for byte in range(256)}
    pieces |= OTHERS
    pieces |= {text: (score, NORMAL) for text, score in (SCORES | LETTERS).items()}
    for text, (score, role) in pieces.items():
        model.pieces.add(piece=text, score=score, type=role)
    path.write_bytes(model.SerializeToString())
