"""`transform` finds the replacements in validation, inverses, tokens, signatures and files of transforms."""

import pickle
from pathlib import Path

import pytest

from volt.errors import VoltError
from volt.stream.transforms.case import Lower, Upper, has_case
from volt.stream.transforms.choice import Choice, Variant
from volt.stream.transforms.documents import Repeat
from volt.stream.transforms.field_edits import DuplicateMono
from volt.stream.transforms.filters import FilterTooLong, SkipBlank
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.noise import Typos
from volt.stream.transforms.random_segmentation import JoinPieces, MorfessorEm
from volt.stream.transforms.subwords import Decode, Encode
from volt.stream.transforms.tags import Tag
from volt.stream.transforms.transform import (
    LineFault,
    LoadedFiles,
    SharedCache,
    find_files,
    invert,
    make_deterministic,
    max_copies,
    open_transform,
    signature,
    special_tokens,
)
from volt.vocabulary import Vocabulary


@pytest.fixture
def vocabulary(tmp_path):
    """A vocabulary of two merges."""
    path = tmp_path / "tiny.volt"
    letters = "Dadehilnorstuw!"
    tokens = (*letters, *(f"{letter}</w>" for letter in letters), "lo", "low</w>")
    Vocabulary(merges=(("l", "o"), ("lo", "w</w>")), tokens=tokens).save(path)
    return path


def lines_for_any_seed(transforms, lines):
    """Return lines after transforms, which must keep each line and be the same for all seeds."""
    results = []
    for seed in range(5):
        batch = Batch.of(lines)
        for step, transform in enumerate(transforms):
            batch = transform(batch, LineRng.of(seed, step))
        assert batch.origins.tolist() == list(range(len(lines)))
        results.append(batch.lines)
    assert results.count(results[0]) == len(results)
    return results[0]


def test_validation_skips_noise_and_filters():
    """make_deterministic drops noise and filters, and returns the other steps in order."""
    steps = (Lower(fields=(1,)), Tag("[BT]"), DuplicateMono())
    noisy = [steps[0], Typos(), steps[1], SkipBlank(), FilterTooLong(5), steps[2]]
    assert make_deterministic(noisy) == steps
    assert lines_for_any_seed(steps[:2], ["The low\tDas", ""]) == ["[BT] the low\tDas", "[BT] "]


def test_validation_encodes_without_dropout(vocabulary):
    """make_deterministic returns Encode without dropout, and invert returns its Decode, whether or
    not the files are loaded."""
    sampled = Encode(vocabulary, dropout=0.5)
    for transform in (sampled, open_transform(sampled, LoadedFiles())):
        assert make_deterministic([transform]) == (Encode(vocabulary),)
        assert invert([transform]) == (Decode(vocabulary, None),)
    lines = ["low low\tthe low !", "nest\t", "", "low"]
    encoded = lines_for_any_seed(make_deterministic([sampled]), lines)
    assert encoded[0] == "low</w> low</w>\tt h e</w> low</w> !</w>"
    assert lines_for_any_seed((*make_deterministic([sampled]), *invert([sampled])), lines) == lines


def test_validation_uses_the_heaviest_variant(vocabulary):
    """make_deterministic and invert use the steps of a Choice's heaviest variant; among equal
    weights, of the first."""
    heavy = Variant(2.0, (Typos(), Lower(), Encode(vocabulary, dropout=0.5)))
    choice = Choice((Variant(1.0, (Upper(),)), heavy, Variant(2.0)))
    for transform in (choice, open_transform(choice, LoadedFiles())):
        assert lines_for_any_seed(make_deterministic([transform]), ["LOW"]) == ["low</w>"]
        assert invert([transform]) == (Decode(vocabulary, None),)
    assert make_deterministic([Choice((Variant(1.0, (Typos(),)),))]) == ()
    several = Choice((Variant(1.0, (Tag("a"), Encode(vocabulary), Encode(vocabulary, (2,)))),))
    assert lines_for_any_seed(make_deterministic([several]), ["low\tlow"])[0].startswith(
        "a</w> low</w>"
    )
    assert invert([several]) == (Decode(vocabulary, (2,)), Decode(vocabulary, None))


def test_decoded_fields_are_not_inverted():
    """invert omits the fields that a later step of the list decodes."""
    step = MorfessorEm(Path("lexicon.tsv"))
    assert invert([step]) == (JoinPieces(),)
    assert invert([step, JoinPieces((1,))]) == (JoinPieces((2,)),)
    assert invert([step, JoinPieces()]) == ()


def test_copies_multiply_along_steps():
    """max_copies is the product over steps, and the maximum over the variants of a Choice."""
    assert max_copies([Repeat(3), Choice((Variant(1.0, (Repeat(4),)), Variant(1.0)))]) == 12


def test_special_tokens_are_distinct():
    """special_tokens lists each token once; a tag of two words is two tokens."""
    assert special_tokens([Tag(text="[BT] <de>"), Tag(text="[BT]")]) == ("[BT]", "<de>")


def test_signatures_contain_names_and_items():
    """signature writes functions and objects as names, and mappings and sequences as their items."""
    values = {"f": has_case, 3: (1, 2.5, None, True), "o": object()}
    name = f"{has_case.__module__}.has_case"
    assert signature(values) == {"f": name, "3": [1, 2.5, None, True], "o": "object"}


def test_paths_are_collected_from_inside():
    """find_files finds paths inside mappings and tuples."""
    paths = [Path("a.volt"), Path("b.model")]
    assert find_files((paths[0], {"model": paths[1]}, "text")) == paths


def test_a_full_cache_drops_its_oldest_value():
    """SharedCache computes a value once, drops its oldest value when it is full, and is empty after
    pickling."""
    cache = SharedCache(most=2)
    assert [cache.get(key, lambda n=n: n) for n, key in enumerate("aabcba")] == [0, 0, 2, 3, 2, 5]
    assert pickle.loads(pickle.dumps(cache)).get("c", lambda: 9) == 9


def test_changed_files_are_loaded_again(tmp_path):
    """LoadedFiles loads a file once for each function, and again after the file changes."""
    loader = LoadedFiles()
    path = tmp_path / "a"
    path.write_text("a")
    assert loader.load(path, Path.read_text) == "a"
    assert loader.load(path, lambda _: "b") == "b"
    path.write_text("longer")
    assert loader.load(path, Path.read_text) == "longer"


def test_faults_name_the_first_line():
    """LineFault has at least one reason, names the first unfit line, and keeps its result when it
    is pickled."""
    fault = LineFault({5: "b", 3: "a"}, result=Batch.of(["x"]))
    assert str(fault) == "2 unfit lines, the first at index 3: a"
    copy = pickle.loads(pickle.dumps(fault))
    assert (copy.reasons, copy.result.lines) == ({5: "b", 3: "a"}, ["x"])
    with pytest.raises(VoltError, match="reasons is empty; give the problem of at least one line"):
        LineFault({})
    with pytest.raises(VoltError, match="give a dict"):
        LineFault([1])
