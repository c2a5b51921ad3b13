"""`collate` and `collate_packed` return the arrays of twins that build lists from fairseq's
layout."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.batching import as_lists
from support.drawn import examples

from volt.batches import Samples, collate, collate_packed, to_torch, token_batches
from volt.errors import ConfigError, MissingLibraryError, StreamError, VoltError

EOS = 2
FEW = settings(deadline=None, max_examples=examples(50))
own_ids = st.lists(st.integers(0, 9), max_size=6)  # ids of padding among them
sides = own_ids.map(lambda ids: [*ids, EOS])


def padded(rows, width, pad, *, left):
    """Return rows of equal width."""
    if left:
        return [[pad] * (width - len(row)) + row for row in rows]
    return [row + [pad] * (width - len(row)) for row in rows]


def rounded(rows, multiple):
    """Return the longest length, rounded up to a multiple."""
    longest = max(map(len, rows))
    return longest + -longest % multiple


def shifted(rows):
    """Return rows with EOS moved from the end to the front; empty rows stay empty."""
    return [[EOS, *row[:-1]] if row else [] for row in rows]


@FEW
@given(
    st.lists(st.tuples(own_ids | sides, sides | st.just([])), min_size=1, max_size=6),
    st.data(),
    st.tuples(st.booleans(), st.booleans()),
    st.sampled_from([np.int64, np.int32]),
)
def test_collate_lays_out_pairs_as_fairseq(pairs, data, left, dtype):
    """`collate` returns fairseq's arrays of pairs for rows in any order, empty sides, any ids of
    padding, widths, multiples, sides of padding and types."""
    numbers = [10 * k for k in range(len(pairs))]
    fields = {"src": [pair[0] for pair in pairs], "tgt": [pair[1] for pair in pairs]}
    rows = data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=8))
    pads = {name: data.draw(st.integers(0, 99)) for name in fields}
    multiple = data.draw(st.integers(1, 9))
    extra = data.draw(st.none() | st.integers(0, 5))
    chosen = {name: [field[row] for row in rows] for name, field in fields.items()}
    widths = {name: max(map(len, own)) + (extra or 0) for name, own in chosen.items()}
    step = collate(
        Samples.of(fields, numbers),
        rows,
        pad=pads,
        eos={"tgt": EOS},
        width=None if extra is None else widths,
        pad_to_multiple=multiple,
        left_pad_source=left[0],
        left_pad_target=left[1],
        dtype=dtype,
    )

    def laid_out(name, values, pad):
        width = widths[name] + -widths[name] % multiple
        return padded(values, width, pad, left=left[name == "tgt"])

    def mask(name):
        ones = laid_out(name, [[1] * len(row) for row in chosen[name]], 0)
        return [list(map(bool, row)) for row in ones]

    source, target = chosen.values()
    assert as_lists(step) == {
        "id": [numbers[row] for row in rows],
        "nsentences": len(rows),
        "ntokens": sum(map(len, target)),
        "net_input": {
            "src_tokens": laid_out("src", source, pads["src"]),
            "src_lengths": list(map(len, source)),
            "prev_output_tokens": laid_out("tgt", shifted(target), pads["tgt"]),
        },
        "target": laid_out("tgt", target, pads["tgt"]),
        "src_mask": mask("src"),
        "tgt_mask": mask("tgt"),
    }
    for array in (step["target"], *list(step["net_input"].values())[::2]):
        assert array.dtype == np.dtype(dtype)
        assert array.flags.c_contiguous
        assert array.flags.writeable


def test_by_default_sources_are_padded_left_and_targets_right():
    """Without options, `collate` pads the source on the left and the target on the right, as in
    translation."""
    samples = Samples.of({"src": [[5, 2], [2]], "tgt": [[2], [6, 2]]})
    step = collate(samples, [0, 1], pad=1, eos=EOS)
    assert step["net_input"]["src_tokens"].tolist() == [[5, 2], [1, 2]]
    assert step["target"].tolist() == [[2, 1], [6, 2]]


@FEW
@given(st.lists(sides, min_size=1, max_size=6), st.integers(1, 9))
def test_a_language_model_reads_the_id_before_each_id(texts, multiple):
    """For samples of one field, `collate` returns the ids as `target`, and the id before each id,
    EOS first, as `src_tokens`."""
    samples = Samples.of({"text": texts})
    step = collate(samples, range(len(texts)), pad=1, eos=EOS, pad_to_multiple=multiple)
    width = rounded(texts, multiple)
    assert step["net_input"].keys() == {"src_tokens", "src_lengths"}
    assert step["target"].tolist() == padded(texts, width, 1, left=False)
    inputs = step["net_input"]["src_tokens"].tolist()
    assert inputs == padded(shifted(texts), width, 1, left=False)
    assert step["tgt_mask"].sum(axis=1).tolist() == step["net_input"]["src_lengths"].tolist()


@FEW
@given(st.lists(st.tuples(sides, sides), min_size=1, max_size=60), st.integers(1, 4))
def test_arrays_have_the_width_of_their_bucket(pairs, world):
    """With the width that `token_batches` returns for a batch, `collate` gives both sides this
    width."""
    source, target = zip(*pairs, strict=True)
    samples = Samples.of({"src": [*source], "tgt": [*target]})
    batches = token_batches(samples.lengths, max_tokens=200, buckets=[3, 5, 8], world=world)
    for rows, width in zip(batches, batches.longest, strict=True):
        step = collate(samples, rows, pad=1, eos=EOS, width=width)
        arrays = (step["net_input"]["src_tokens"], step["src_mask"], step["target"])
        assert {array.shape for array in arrays} == {(len(rows), width)}


def test_torch_tensors_share_the_memory_of_the_arrays():
    """`to_torch` turns arrays into tensors without a copy, leaves numbers unchanged, and refuses
    values that are not results of `collate`."""
    torch = pytest.importorskip("torch")
    step = collate(Samples.of({"src": [[5, 2]], "tgt": [[2]]}), [0], pad=1, eos=EOS)
    shared = to_torch(step)
    assert shared["nsentences"] is step["nsentences"]
    for arrays, tensors in ((step, shared), (step["net_input"], shared["net_input"])):
        assert arrays.keys() == tensors.keys()
        for name, array in arrays.items():
            if isinstance(array, np.ndarray):
                assert tensors[name].data_ptr() == array.ctypes.data
                assert tensors[name].tolist() == array.tolist()
    assert shared["target"].dtype == torch.int64
    assert shared["src_mask"].dtype == torch.bool
    for step, message in (
        ("low", "give the result of collate or collate_packed"),
        ({"id": np.array(["low"])}, "an array of <U3; give arrays of numbers"),
    ):
        with pytest.raises(VoltError, match=message):
            to_torch(step)


def test_without_torch_the_error_names_the_command(monkeypatch):
    """If torch is not installed, the error of `to_torch` contains the command that installs it."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingLibraryError, match=r"torch.*pip install 'volt-vocab\[torch\]'"):
        to_torch({})


PAIRS = Samples.of({"src": [[5, 2], [2]], "tgt": [[6, 2], [7]]}, [30, 40])
TEXT = Samples.of({"text": [[5, 2], [2], [7, 8, 2]]})


def pairs(rows=(0,), **options):
    return collate(options.pop("samples", PAIRS), rows, **{"pad": 1, "eos": 2, **options})


def packs(rows=((0,),), **options):
    samples = options.pop("samples", TEXT)
    return collate_packed(samples, rows, **{"pad": 1, "eos": 2, "length": 9, **options})


WRONG = [
    (ConfigError, "rows: no sample 2; there are 2, from 0 to 1", lambda: pairs([0, 2])),
    (ConfigError, "rows: no sample -1", lambda: pairs(np.array([-1]))),
    (ConfigError, "rows is empty; a batch needs one or more", lambda: pairs([])),
    (ConfigError, "give indices of samples", lambda: pairs(np.array([0.5]))),
    (ConfigError, "give indices of samples", lambda: pairs(np.array([[0]]))),
    (ConfigError, "rows[0] is 0.5 (float); give a whole number", lambda: pairs([0.5])),
    (ConfigError, "give int64 or int32", lambda: pairs(dtype=np.int16)),
    (ConfigError, "give int64 or int32", lambda: pairs(dtype="whole")),
    (ConfigError, "samples is a list; give a Samples", lambda: pairs(samples=[])),
    (
        ConfigError,
        "a batch has a source and a target, or one field",
        lambda: pairs(samples=Samples.of({name: [[2]] for name in "abc"})),
    ),
    (
        StreamError,
        "line 40 of the stream: field 'tgt' does not end in EOS, the id 2; make samples with eos=Tr",
        lambda: pairs([0, 1]),
    ),
    (
        ConfigError,
        "width is 1, but line 30 of the stream has 2 ids in field 'tgt'; give the step's lon",
        lambda: pairs(width=1),
    ),
    (ConfigError, "width lacks field 'src'; give one number", lambda: pairs(width={"tgt": 4})),
    (
        ConfigError,
        "pad lacks field 'src'; give one number for all, or one for each of src, tgt",
        lambda: pairs(pad={"tgt": 1}),
    ),
    (
        ConfigError,
        "pad: no field 'de' in these samples; choose from src, tgt",
        lambda: pairs(pad={"de": 1}),
    ),
    (ConfigError, "eos lacks field 'tgt'", lambda: pairs(eos={"src": 2})),
    (ConfigError, "pad['tgt'] is -1; give 0 or more", lambda: pairs(pad={"src": 0, "tgt": -1})),
    (ConfigError, "pad is None; give a whole number", lambda: pairs(pad=None)),
    (ConfigError, "pad: no field 'src' in these", lambda: packs(pad={"src": 1})),
    (ConfigError, "eos: no field 'src' in these", lambda: packs(eos={"src": 1})),
    (ConfigError, "packs take samples of one field", lambda: packs(samples=PAIRS)),
    (ConfigError, "packs is empty", lambda: packs([])),
    (ConfigError, "rows is empty", lambda: packs([[0], []])),
    (
        ConfigError,
        "packs[1] has 4 ids, more than length=3; give it fewer samples",
        lambda: packs([[0], [1, 2]], length=3),
    ),
]


@pytest.mark.parametrize(("error", "message", "call"), WRONG)
def test_collate_refuses_wrong_arguments_in_one_line(error, message, call):
    """The error of `collate` and `collate_packed` is one line, which names the argument or the line
    of the stream."""
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ids_may_be_given_by_field():
    """For samples of one field, `pad` and `eos` may be an id, or a dict from the field's name to an
    id."""
    for call, rows in ((pairs, [0, 1]), (packs, [[0], [1]])):
        named = call(rows, samples=TEXT, pad={"text": 7}, eos={"text": 2})
        assert as_lists(named) == as_lists(call(rows, samples=TEXT, pad=7, eos=2))
