"""Options of transforms: limits are included, and errors name the option, the value and the remedy."""

import math
from pathlib import Path

import pytest
import yaml

from volt.errors import ConfigError
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.registry import TRANSFORMS
from volt.stream.transforms.transform import _list_checks

# Name, option, least and greatest value
LIMITS = """\
repeat n 1 10000
multiply n 1 10000
documents max_tokens 1 up
documents max_lines 1 up
documents probability 0.0 1.0
typos rate 0.0 1.0
punctuation drop 0.0 1.0
punctuation final 0.0 1.0
drop rate 0.0 1.0
drop temperature 0.0 up
reorder max_dist 0.0 1000.0
length max 0 up
length min 0 up
filter_too_long max_len 0 up
ratio max 1.0 up
strip_eos id 0 up
encode dropout 0.0 1.0
encode alpha 0.0 up
encode nbest 1 up
spm_encode alpha 0.0 up
spm_encode nbest -1 512
sentencepiece theta 0.0 up
morfessor_em n_samples 1 64
morfessor_em theta 0.0 inf
taboo dropout 0.0 1.0
switchout rate 0.0 1.0
switchout temperature 0.0 up"""
FIELDS = "lower fields|lower if_cased|copy from_|copy to|documents id_field|typos fields"
FILES = {
    "vocabulary": ("encode", "decode", "switchout"),
    "table": ("deterministic_segmentation",),
    "file": ("user",),
    "model": ("spm_encode", "sentencepiece", "morfessor_em", "taboo"),
}


def build(name, **options):
    """Return a transform with options, and a path if it needs one."""
    paths = {option: Path("m") for option, names in FILES.items() if name in names}
    return TRANSFORMS[name](**paths | options)


def refusal(name, **options):
    """Return the error for options."""
    with pytest.raises(ConfigError) as error:
        build(name, **options)
    return str(error.value)


@pytest.mark.parametrize("row", LIMITS.splitlines())
def test_limits_are_included(row):
    """An option of a transform accepts its least and greatest number, and refuses numbers beyond
    them and other values."""
    _list_checks.cache_clear()
    name, option, least, most = row.split()
    kind = float if "." in least else int
    low = kind(least)
    high = math.inf if most in ("up", "inf") else kind(most)
    large = 10**30 if kind is int else 1e300
    for value in (low, large if most == "up" else high):
        assert getattr(build(name, **{option: value}), option) == value

    if kind is int:
        beyond = [low - 1, high + 1]
    else:
        beyond = [math.nextafter(low, -9), math.nextafter(high, math.inf)]
    noun = "probability" if most == "1.0" else "number"
    limit = "up" if high == math.inf else f"to {high:,g}"
    for value in beyond if most != "inf" else beyond[:1]:
        message = refusal(name, **{option: value})
        assert message.startswith(option)
        if kind is float:
            assert message == f"{option}: {value}; give a {noun} from {low:g} {limit}"
    for value in ("1", True, 1.5 if kind is int else math.nan):
        assert refusal(name, **{option: value}).startswith(option)


@pytest.mark.parametrize("row", FIELDS.split("|"))
def test_fields_count_from_one(row):
    """Options that take fields accept numbers from 1 to 65,536, each once."""
    name, option = row.split()
    shown = option.rstrip("_")

    def of(number):
        return {option: (number,) if option == "fields" else number}

    build(name, **of(1 << 16))
    assert refusal(name, **of(0)) == f"{shown}: 0; fields count from 1, the first is field 1"
    assert refusal(name, **of(-1)).startswith(f"{shown}: -1; ")
    message = f"{shown}: 65537; a field's number is 65,536 at most"
    assert refusal(name, **of((1 << 16) + 1)) == message
    if option == "fields":
        assert refusal(name, fields=()) == "fields: 0 fields; give one or more"
        assert refusal(name, fields=(2, 1, 2)) == "fields: 2 is given twice; name each field once"
        message = "fields is 3 (int); give a tuple of numbers, such as (1, 2)"
        assert refusal(name, fields=3) == message
        build(name, fields=[2, 1])


# Name, options → the start of the error
FAULTS = r"""
tag {text: "a\tb"} → text: 'a\tb' contains a tab or a line break; remove it
tag {text: a, separator: "\r"} → separator: '\r' contains a tab or a line break
tag {text: a, position: middle} → unknown position 'middle'; choose from start, end
append {text: "a\nb"} → text: 'a\nb' contains
append {text: 3} → text is 3 (int); give a str
documents {separator: "\t"} → separator: '\t' contains
match {pattern: (} → pattern: '(' is not a regular expression: missing ), unterminated subpattern
regex {pattern: "*"} → pattern: '*' is not a regular expression
regex {pattern: ""} → pattern: is empty, so every line matches; give a regular expression
bitext {fields: [1]} → fields: 1 fields; give 2
ratio {max: 2, fields: [1]} → fields: 1 fields; give 2
match {pattern: a, fields: [1, 2, 3]} → fields: 3 fields; give 2
length {min: 3, max: 2} → length: min is 3 and max is 2; no line could be kept, so change one
length {unit: lines} → unknown unit 'lines'; choose from words, characters, bytes
typos {kinds: []} → kinds: []; give some of swap, drop, insert, replace, each once
typos {kinds: [swap, swap]} → kinds: ['swap', 'swap']; give some of
typos {kinds: [swap, swop]} → kinds: ['swap', 'swop']; give some of
typos {kinds: 3} → kinds is 3 (int); give a tuple of some of swap, drop, insert, replace
drop {temperature: 2.0, rate: 0.1} → temperature: 2.0 and rate: 0.1; give one of them
switchout {temperature: 0.0, rate: 0.0} → temperature: 0.0 and rate: 0.0; give one of them
switchout {without: <x>} → without is '<x>' (str); give a tuple of tokens
encode {to: words} → unknown to 'words'; choose from pieces, ids
encode {vocabulary: ""} → vocabulary is empty; give the path of a file
encode {vocabulary: null} → vocabulary is None; give the path of a file
decode {from_: words} → unknown from 'words'; choose from pieces, ids
morfessor_em {marks: none} → unknown marks 'none'; choose from auto, given, word, pieces
taboo {segmenter: x} → unknown segmenter 'x'; choose from morfessor, sentencepiece, vocabulary, table
taboo {segmenter: vocabulary, marks: word} → marks: 'word'; a vocabulary marks words itself; remove
taboo {segmenter: sentencepiece, marks: pieces} → marks: 'pieces'; a sentencepiece marks words itself
lang_prefix_both {tgt_lang: en} → src_lang: is missing; give it here, or as src_lang of the task
lang_prefix_both {src_lang: de} → tgt_lang: is missing; give it here, or as tgt_lang of the task
lang_prefix_both {src_lang: de at, tgt_lang: en} → src_lang: 'de at'; give a language's name without
lang_prefix_both {src_lang: de, tgt_lang: ""} → tgt_lang: ''; give a language's name without spaces
lang_prefix_both {src_lang: de, tgt_lang: en, extra_prefix: "\t"} → extra_prefix: '\t' contains
user {function: 3} → function is 3 (int); give the name of a function in the file
user {function: f, takes: all} → unknown takes 'all'; choose from fields, stream
choice {variants: []} → choice: the weights of the variants sum to 0; give at least one a weight above 0
choice {variants: [lower]} → variants[0] is 'lower' (str); give Variant(weight, transforms)
choice {variants: 3} → variants is 3 (int); give a tuple of Variant
where {condition: f1 = 'a', names: ab} → names is 'ab' (str); give a tuple of names
where {condition: 3} → condition is 3 (int); give a str"""


@pytest.mark.parametrize("row", FAULTS.strip().splitlines())
def test_wrong_options_are_refused(row):
    """A transform with a wrong option raises ConfigError when it is created."""
    call, _, message = row.partition(" → ")
    name, _, options = call.partition(" ")
    assert refusal(name, **yaml.safe_load(options)).startswith(message)


def test_weights_are_finite_and_not_negative():
    """Weights of variants are finite and not negative; some of them, but not all, may be 0."""
    for weight in (-1.0, math.nan, math.inf):
        with pytest.raises(ConfigError, match=f"weight: {weight}; give a number from 0 up"):
            Variant(weight)
    assert Choice((Variant(0.0), Variant(1e-9))).heaviest == ()
    with pytest.raises(ConfigError, match="the weights of the variants sum to 0"):
        Choice((Variant(0.0), Variant(0)))
