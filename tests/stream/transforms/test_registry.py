"""Every transform with all of its options, over a few lines and two seeds: values that must not change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden import check

from volt.stream.config.configuration import parse_config
from volt.stream.transforms import transform as steps
from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch
from volt.stream.transforms.line_rng import LineRng
from volt.stream.transforms.registry import TRANSFORMS
from volt.stream.transforms.transform import LineFault, LoadedFiles, Transform, loaded
from volt.vocabulary import Vocabulary

TEXT = [
    "Low low lower, 3.5% don't (so).\tDie „Nieder“ ÉTÉ ΟΔΟΣ\tx",
    "the low house\tdas Haus\tx",
    "",
    "  a  b \t \ty\tz",
    "你好，世界\tß ǆ e\u0301",
    "low low low low low low low low\tnewest newest\t",
]
PIECES = ["▁low ▁low er ▁a ▁b", "▁a\t▁b a ▁low", "", "▁b ▁b ▁b ▁b ▁b ▁b ▁b ▁b\t▁low er"]
ROWS = {
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
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)
SCORES = {"▁": -2.0, "▁low": -3.0, "low": -3.5, "lo": -2.5, "er": -3.0, "▁a": -3.0, "▁b": -3.5}
LETTERS = dict.fromkeys("lowerabntsdhiu,.", -4.0)


def model(path: Path, kind: int, *, byte_fallback: bool = False) -> None:
    """Write a SentencePiece model of a few pieces, two of the user's and one that is not used."""
    from volt.formats.sentencepiece.charsmap import model_class

    made = model_class()()
    made.trainer_spec.model_type, made.trainer_spec.byte_fallback = kind, byte_fallback
    rows: list[tuple[str, float, int]] = [
        ("<unk>", 0.0, UNKNOWN),
        ("<s>", 0.0, CONTROL),
        ("</s>", 0.0, CONTROL),
    ]
    rows += [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256 * byte_fallback)]
    rows += [("est", 0.0, USER), ("%", 0.0, USER), ("we", -2.0, UNUSED)]
    rows += [(piece, score, NORMAL) for piece, score in (SCORES | LETTERS).items()]
    for text, score, one in rows:
        made.pieces.add(piece=text, score=score, type=one)
    path.write_bytes(made.SerializeToString())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files for all rows."""
    folder = tmp_path_factory.mktemp("golden")
    merges = (
        ("l", "o"),
        ("lo", "w</w>"),
        ("lo", "w"),
        ("e", "r</w>"),
        ("low", "er</w>"),
        ("e", "s"),
        ("es", "t</w>"),
    )
    letters = "".join(dict.fromkeys("LowerthusanDiHAZM,.%5N"))
    tokens = (*letters, *(f"{letter}</w>" for letter in letters), *map("".join, merges))
    Vocabulary(merges=merges, tokens=tokens).save(folder / "v.volt")
    lexicon = "8\t▁\n4\t▁low\n2\t▁lo\n6\tw\n3\ter\n1\tlo\n2\tl\n2\to\n1\te\n1\tr\n4\ta\n4\tb\n1\tst\n2\tt\n2\ts\n"
    (folder / "em.tsv").write_text(lexicon)
    (folder / "morfessor.txt").write_text("# text\n2 low + er\n3 new + est\n5 low\n1 the\n")
    (folder / "table.tsv").write_text(
        "low\tl ow\nthe\tt he\nhouse\thou se\na\ta\nb\tb\nnewest\tn ew est\n"
    )
    (folder / "words.tsv").write_text("9\t▁low\n9\tlow\n5\t▁b\n5\tb\n3\ter\n2\t<s>\n1\t▁a\n")
    (folder / "mine.py").write_text(CODE)
    return folder


def step_of(folder: Path, row: str) -> Transform:
    """The transform of a row, as a configuration names it."""
    name, _, options = row.partition(": ")
    libraries = {
        "spm": "sentencepiece",
        "sentencepiece": "sentencepiece",
        "where": "polars",
    }
    for word, library in {
        **libraries,
        "morfessor.txt": "morfessor",
        ".model": "sentencepiece",
    }.items():
        if word in row:
            pytest.importorskip(library)
    if ".model" in row and not (folder / "uni.model").exists():
        model(folder / "uni.model", 1)
        model(folder / "bytes.model", 1, byte_fallback=True)
        model(folder / "bpe.model", 2)
    text = f"sources: {{s: {{path: a.tsv, transforms: [{row if options else name}]}}}}"
    return parse_config(text, path=str(folder / "stream.yaml")).sources[0].transforms[0]


def batch_of(kind: str) -> Batch:
    """The lines of a kind of rows; their numbers begin at 5."""
    if kind != "ids":
        documents = [f"a {k}\td\t{'xy'[k > 6]}" for k in range(10)]
        batch = Batch.of({"text": TEXT, "pieces": PIECES, "documents": documents}[kind])
        return Batch(batch.columns, batch.rest, np.arange(len(batch)) + 5)
    ids = Column.of_ids(
        np.array([4, 5, 5, 7, 2, 2, 30, 31, 2, 5], np.int32), np.array([0, 4, 5, 5, 8, 10])
    )
    return Batch((ids, ids.take([4, 3, 2, 1, 1])), None, np.arange(5) + 5)


def made(step: Transform, batch: Batch, rng: LineRng) -> list[str]:
    """Each line with its number, "=" for a field that is the input's, and the reasons of unfit lines."""
    try:
        result = step(batch, rng)
    except LineFault as fault:
        unfit = [f"{batch.origins[index]}! {reason}" for index, reason in fault.reasons.items()]
        others = batch.take(np.delete(np.arange(len(batch)), list(fault.reasons)))
        return unfit + ([] if fault.result is not None else made(step, others, rng))
    before, lines = dict(zip(batch.origins, batch.rows, strict=True)), list[str]()
    for origin, row in zip(result.origins, result.rows, strict=True):
        pairs = zip(row, before[origin] + [""] * len(row), strict=False)
        lines.append(
            f"{origin} " + "\t".join("=" if new == old and new else new for new, old in pairs)
        )
    return lines


@pytest.mark.parametrize(
    ("kind", "row"), [(kind, row) for kind, rows in ROWS.items() for row in rows.splitlines()]
)
def test_lines_of_every_transform(folder: Path, kind: str, row: str) -> None:
    """The lines of a transform, and its random numbers, do not change."""
    step, batch = loaded(step_of(folder, row), LoadedFiles()), batch_of(kind)
    results = [" | ".join(made(step, batch, LineRng.of(seed, "s", 0, 0))) for seed in (1, 2)]
    check(f"transforms {kind} {row}", " ‖ ".join(dict.fromkeys(results)).replace(f"{folder}/", ""))


SEVERAL = {
    "taboo",
    "bitext",
    "choice",
    "spm_encode",
    "encode",
    "user",
}  # traits depend on the options
STEPS = [row for rows in ROWS.values() for row in rows.splitlines()]
FIRST = {row.partition(":")[0]: row for row in reversed(STEPS)}


@pytest.mark.parametrize(
    "row", [row for row in STEPS if row in FIRST.values() or row.partition(":")[0] in SEVERAL]
)
def test_traits_of_every_transform(folder: Path, row: str) -> None:
    """Signatures, which states of streams contain, and what streams rely on do not change."""
    assert FIRST.keys() == TRANSFORMS.keys()
    step = step_of(folder, row)
    traits: tuple[Any, ...] = (
        steps.is_compiled,
        steps.joins_lines,
        steps.keeps_lines,
        steps.decodes,
    )
    names = [trait.__name__ for trait in traits if trait(step)] + [
        step.changes.replace("nothing", "")
    ]
    text = (
        f"{step.name}: {' '.join(names)} {steps.max_copies([step])} {steps.special_tokens([step])} "
    )
    text += " | ".join(map(repr, (step, steps.deterministic([step]), steps.inverse([step]))))
    values: Any = steps.signature(step)
    text += f" | {json.dumps({key: value for key, value in values.items() if key != 'library'})}"
    check(f"transforms traits {row}", text.replace(f"{folder}/", ""))
    opened = loaded(step, LoadedFiles())
    for function in (
        steps.signature,
        lambda one: steps.deterministic([one]),
        lambda one: steps.inverse([one]),
        *traits,
    ):
        assert function(opened) == function(step)
