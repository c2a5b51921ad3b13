"""Laws of tokenizer.json with steps of other programs: VOLT's ids are the library's, or the file is
refused.
"""

import json
import random
from contextlib import suppress

import pytest
from formats.support import (
    DIGITS,
    LOWER,
    NFC,
    PREPEND,
    SPACES,
    WHITE,
    assert_ids_of_library,
    changed,
    level,
    library_of,
    metaspace,
    read_both,
    split,
    tokenizer_json,
)

from volt.encode.decoder import decode
from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats import huggingface
from volt.text.byte_alphabet import ALPHABET, BYTE_TOKENS

tokenizers = pytest.importorskip("tokenizers")

LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CLIP = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)
# The steps of two generations of SuperBPE, in whose words merges cross spaces
SUPERBPE = r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)"
GROUPS = r"(?=(\d{3})+(?!\d))"
RUNS_OF_DIGITS = {"type": "Digits", "individual_digits": False}
PATTERNS = (
    LLAMA,
    GROUPS,
    r"\p{N}{1,3}",
    "[一-龥]+",
    r"\s?\p{L}+",
    r"[\r\n]",
    r"\w+|[^\w\s]+",
    " ?[^(\\s|[.,!?])]+",
    r"(?>\p{N}{1,2})",
)
BEHAVIORS = ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous")
CHARACTERS = "abAB'sStTllre  \n\r\t--.,!?()123456²½٣ éß中文😀\u200d\u0301\x1c\u3000_\u166d\u061d"
RUNS_TO_SPACE = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}
BYTES = level(use_regex=False)
CUTS = {  # steps, and the suffix of words
    "gpt2": ([], [level()], None),
    "llama3": ([], [split(LLAMA), BYTES], None),
    "digits": ([NFC], [DIGITS, level()], None),
    "deepseek": ([], [split(r"\p{N}{1,3}"), split("[一-龥]+"), split(LLAMA), BYTES], None),
    "superbpe": ([], [split(SUPERBPE), BYTES], None),
    "superbpe groups": ([], [RUNS_OF_DIGITS, split(GROUPS), BYTES], None),
    "words": ([], [{"type": "Whitespace"}], None),
    "white, digits": ([], [WHITE, {"type": "Punctuation", "behavior": "Isolated"}, DIGITS], None),
    "marked words": ([LOWER], [WHITE, metaspace("always")], None),
    "suffix": ([], [WHITE], "</w>"),
    "clip": ([NFC, RUNS_TO_SPACE, LOWER], [split(CLIP, "Removed", invert=True), level()], "</w>"),
    "llama2": ([PREPEND, SPACES], [], None),
    "gemma": ([SPACES], [split(" ", "MergedWithPrevious", kind="String")], None),
    "metaspace": ([], [metaspace("always", cuts=True)], None),
    "first": ([], [metaspace("first")], None),
    "never": ([], [metaspace("never", cuts=True)], None),
}
SPANNING = [("▁", "▁"), ("e", "▁"), ("e▁", "t")]  # tokens of several words
SPECIAL = ("<|startoftext|>", "<|endoftext|>", "<unk>")


def text(chance):
    return "".join(chance.choice(CHARACTERS) for _ in range(chance.randrange(24)))


def file_of(kind, chance, folder, **model):
    """Write a tokenizer.json with the steps of `CUTS`, random merges, and random ids with gaps."""
    normalizer, cuts, suffix = CUTS[kind]
    is_bytes = any(step["type"] == "ByteLevel" for step in cuts)
    atoms = list(ALPHABET) if is_bytes else [*"abcdelorstw'.,-12▁é中", "😀"]
    if suffix:
        atoms += [atom + suffix for atom in atoms]
    made = [atom for atom in atoms if atom[0].isalpha() or atom[0] in "Ġ▁" or is_bytes]
    pairs = []
    while len(pairs) < 60:
        left = chance.choice(made)
        right = chance.choice(made)
        pair = (left, right)
        spans = not is_bytes and ("▁" in left[1:] or "▁" in right)
        ends = suffix and left.endswith(suffix)
        if not (spans or ends or len(left + right) > 12 or pair in pairs):
            pairs.append(pair)
            made.append(left + right)
    if not is_bytes and (not cuts or not cuts[-1].get("split", True) or kind == "gemma"):
        pairs += SPANNING
    tokens = list(dict.fromkeys([*atoms, *map("".join, pairs), *SPECIAL, "<unused>"]))
    chance.shuffle(tokens)
    ids = sorted(chance.sample(range(len(tokens) + 9), len(tokens)))
    options = {"ignore_merges": is_bytes and not suffix and chance.random() < 0.5}
    return tokenizer_json(
        folder,
        dict(zip(tokens, ids, strict=True)),
        pairs,
        added=[{"content": token, "special": True} for token in SPECIAL],
        normalizer=normalizer,
        cuts=cuts,
        **{"unk_token": "<unk>", "end_of_word_suffix": suffix} | options | model,
    )


def assert_same_ids(path, lines):
    vocabulary, library = read_both(path)
    assert_ids_of_library(vocabulary, library, lines)
    assert {piece: library.token_to_id(piece) for piece in vocabulary.ids} == vocabulary.ids
    return vocabulary


@pytest.mark.parametrize("kind", CUTS)
def test_random_files_have_the_ids_of_the_library(kind, tmp_path):
    """For each kind of steps, with any ids and merges, and added tokens anywhere in text, VOLT's
    ids are the library's.
    """
    chance = random.Random(kind)
    lines = [text(chance) for _ in range(60)]
    lines += [f"{text(chance)}<|endoftext|>{text(chance)}" for _ in range(20)]
    lines += ["", " ", "<|endoftext|>", "<unk><unk>  a <unk> "]
    for _ in range(3):
        assert_same_ids(file_of(kind, chance, tmp_path), lines)


WHITE_STEPS = [
    {"type": "Strip", "strip_left": True, "strip_right": True},
    RUNS_TO_SPACE,
    {"type": "Replace", "pattern": {"String": "\t"}, "content": " "},
]


@pytest.mark.parametrize("white", WHITE_STEPS)
def test_steps_about_white_space_are_read_if_it_is_dropped(white, tmp_path):
    """A step of the normalizer that only changes white space is read if later steps drop white
    space. Otherwise, the file is refused.
    """
    read = []
    for kind in CUTS:
        path = file_of(kind, random.Random(kind), tmp_path)
        steps = [white, *CUTS[kind][0]]
        changed(path, normalizer={"type": "Sequence", "normalizers": steps})
        with suppress(VocabularyError):
            assert_same_ids(path, ["  ab \t ba  a\tb ", " ", ""])
            read.append(kind)
    assert read == ["words", "white, digits", "marked words", "suffix", "clip"]


def random_step(chance):
    kind = chance.choice(["Split"] * 3 + ["Digits", "Punctuation", ""])
    if kind == "Split":
        behavior = chance.choice(BEHAVIORS) if chance.random() < 0.5 else "Isolated"
        return split(chance.choice(PATTERNS), behavior, invert=chance.random() < 0.25)
    if kind == "Digits":
        return {"type": kind, "individual_digits": chance.random() < 0.5}
    if kind == "Punctuation":
        return {"type": kind, "behavior": chance.choice(BEHAVIORS)}
    return {"type": chance.choice(["WhitespaceSplit", "Whitespace", "BertPreTokenizer"])}


def test_random_steps_cut_alike(tmp_path):
    """Any sequence of steps of the pre_tokenizer cuts text into the library's words, or is refused."""
    chance = random.Random(7)
    n_read = 0
    for _ in range(90):
        steps = [random_step(chance) for _ in range(chance.randrange(1, 4))]
        steps.append(level(use_regex=chance.random() < 0.3))
        path = tokenizer_json(tmp_path, ALPHABET, cuts=steps)
        with suppress(VocabularyError):
            cut = huggingface.read(path).pretokenizer
            n_read += 1
            theirs = library_of(path).pre_tokenizer
            for line in (text(chance) for _ in range(8)):
                words = [word for word, _ in theirs.pre_tokenize_str(line)]
                assert cut.split(line) == words, (steps, line)
    assert n_read > 25


def test_groups_of_digits_are_cut_from_the_right_as_by_the_library(tmp_path):
    """After Digits, a pattern that finds the places before groups of three digits cuts as in the
    library, in runs with other numbers, too; without Digits, the file is refused.
    """
    path = tokenizer_json(tmp_path, ALPHABET, cuts=CUTS["superbpe groups"][1])
    cut = huggingface.read(path).pretokenizer
    theirs = library_of(path).pre_tokenizer
    chance = random.Random(3)
    for _ in range(2000):
        line = "".join(chance.choice("0123²³½٣٤Ⅷ一 a.") for _ in range(chance.randrange(14)))
        assert cut.split(line) == [word for word, _ in theirs.pre_tokenize_str(line)], line
    tokenizer_json(tmp_path, ALPHABET, cuts=CUTS["superbpe groups"][1][1:])
    with pytest.raises(VocabularyError, match="does not follow Digits"):
        huggingface.read(path)


@pytest.mark.parametrize("kind", ["words", "suffix", "clip"])
def test_words_that_can_only_be_read_are_not_written(kind, tmp_path):
    """A pre-tokenizer that VOLT can read from a tokenizer.json and not write is refused on export,
    and no file is written.
    """
    vocabulary = huggingface.read(file_of(kind, random.Random(kind), tmp_path))
    with pytest.raises(VocabularyError, match="give the file that it comes from"):
        huggingface.write(vocabulary, tmp_path / "again.json")
    assert not (tmp_path / "again.json").exists()


def test_spaces_are_read_after_the_advised_change(tmp_path):
    """A file whose tokens contain spaces is refused. After the change that the error advises,
    VOLT's ids are those of the original file.
    """
    lines = ["1. e4 e5 2. Nf3 Nc6 3. Bb5", "12. O-O a6", " e4  x1-0 "] * 3
    real = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="[unknown]"))
    pattern = tokenizers.Regex(r" ?\d+\.|\. ?| ?[-\w]+|[#+]\s+")
    real.pre_tokenizer = tokenizers.pre_tokenizers.Split(pattern, "isolated")
    options = {"special_tokens": ["[unknown]"], "show_progress": False}
    real.train_from_iterator(lines, tokenizers.trainers.BpeTrainer(vocab_size=60, **options))
    path = tmp_path / "a.json"
    real.save(str(path))
    with pytest.raises(
        VocabularyError, match=r"contains a space.*write '▁' in model.vocab and model.merges"
    ):
        huggingface.read(path)
    data = json.loads(path.read_text())
    model = {
        "vocab": {token.replace(" ", "▁"): n for token, n in data["model"]["vocab"].items()},
        "merges": [[part.replace(" ", "▁") for part in pair] for pair in data["model"]["merges"]],
    }
    cuts = [data["pre_tokenizer"], metaspace("never")]
    changed(path, model=model, pre_tokenizer={"type": "Sequence", "pretokenizers": cuts})
    assert_ids_of_library(huggingface.read(path), real, lines)


SUFFIX = {"end_of_word_suffix": "</w>"}
FALLBACK = {"byte_fallback": True}
WHOLE = {"ignore_merges": True}
ALWAYS = metaspace("always")
SENTENCES = [split(" ", "MergedWithPrevious", kind="String")]
REFUSED = [
    ([], [{"type": "NFD"}], [WHITE], {}, "the normalizer NFD is not NFC"),
    ([], [{"type": "BertNormalizer"}], [WHITE], {}, "the normalizer BertNormalizer"),
    ([], [], [], {}, "no pre_tokenizer, but VOLT's words contain no spaces"),
    ([], [], [{"type": "UnicodeScripts"}], {}, "UnicodeScripts of the pre_tokenizer"),
    ([], [], [split("a*?")], {}, "lazy quantifier.*VOLT cannot cut by this pattern"),
    ([], [], [split("ab", "MergedWithNext")], {}, "'ab' is MergedWithNext.*one character"),
    ([], [], [level(adds_space=True)], {}, "add_prefix_space puts a space"),
    ([], [], [level(), DIGITS], {}, "after ByteLevel"),
    ([], [], [split("a"), WHITE], {}, "a later step drops text"),
    ([], [], [{"type": "Metaspace", "replacement": "_"}], {}, "Metaspace with '_'"),
    ([], [], [DIGITS, ALWAYS], {}, "Metaspace puts"),
    ([], [], [1], {}, r"found 1 instead of an object"),
    (
        [],
        [],
        [split("▁", kind="String"), metaspace("never")],
        {},
        "cuts text at '▁' before Metaspace",
    ),
    (["▁"], [], [DIGITS], {}, "'▁' stands for spaces, but no step writes '▁'"),
    (["▁"], [], [{"type": "Punctuation", "behavior": "Isolated"}], {}, "no step writes '▁'"),
    (["▁"], [], [split(" ", "MergedWithNext", kind="String")], {}, "no step writes '▁'"),
    (["▁"], [], [metaspace("never")], SUFFIX, "VOLT marks only one end; remove one"),
    ([*BYTE_TOKENS], [], [level()], FALLBACK, "not all letters of ByteLevel are tokens"),
    ([*BYTE_TOKENS], [], [DIGITS], FALLBACK, "<0x20>"),
    ([*BYTE_TOKENS], [], [WHITE], FALLBACK | SUFFIX, "the suffix of an unknown character"),
    (["▁"], [], [ALWAYS], WHOLE, "ignore_merges looks up whole lines in tokenizers"),
    (["▁"], [SPACES], SENTENCES, WHOLE, "looks up whole lines"),
    (
        [],
        [],
        [WHITE],
        WHOLE | SUFFIX,
        r"ignore_merges looks words up without their mark \(suffix\)",
    ),
]


@pytest.mark.parametrize(("tokens", "normalizer", "cuts", "model", "message"), REFUSED)
def test_other_steps_are_refused(tokens, normalizer, cuts, model, message, tmp_path):
    """The error for a step that VOLT cannot imitate names the file and the step, and says what to
    do.
    """
    path = tokenizer_json(tmp_path, [*tokens, "a", "b"], normalizer=normalizer, cuts=cuts, **model)
    with pytest.raises(VocabularyError, match=rf"tokenizer\.json: .*{message}.*"):
        huggingface.read(path)


SMALL = ["<unk>", "a", "b", "▁"]
AB = {"merges": [("a", "b")], "unk_token": "<unk>"}


@pytest.mark.parametrize("steps", [[PREPEND, SPACES], []])
def test_private_characters_are_text_without_user_tokens(steps, tmp_path):
    """Without user tokens, the characters that stand for user tokens get the library's ids."""
    cuts = [] if steps else [ALWAYS]
    path = tokenizer_json(tmp_path, [*SMALL, "ab"], normalizer=steps, cuts=cuts, **AB)
    lines = ["a\U0010c000b", "\U0010c000a", "a \U0010fffd\U0010c000 b"]
    assert_ids_of_library(*read_both(path), lines)


@pytest.mark.parametrize(
    ("normalizer", "cuts", "added"),
    [
        ([LOWER], [ALWAYS], []),
        ([NFC, LOWER], [metaspace("first")], []),
        ([SPACES], [], [{"content": "▁"}, {"content": "<t>"}]),
    ],
)
def test_an_import_is_exported_and_read_back(normalizer, cuts, added, tmp_path):
    """If a tokenizer.json with normalizers, pre-tokenizers or added tokens is read, written and read
    again, both readings give text the same ids."""
    options = {"normalizer": normalizer, "cuts": cuts, "added": added}
    first = huggingface.read(tokenizer_json(tmp_path, [*SMALL, "ab"], **AB | options))
    huggingface.write(first, tmp_path / "again.json")
    second = huggingface.read(tmp_path / "again.json")
    for line in ("a AB b", "▁a", "<t>▁ a", " Ab "):
        ids = [Encoder(each).encode_ids(line).tolist() for each in (first, second)]
        assert ids[0] == ids[1], line


CLIP_MERGES = ["t h", "th e</w>", "c a", "ca t</w>", "Ã ©</w>", "1 2</w>", "! !</w>"]
CLIP_LINES = [
    "The CAT  sat",
    "the caté, café!! 12's",
    "<|endoftext|>the cat<|endoftext|>",
    "我们 😀",
    " ",
]


@pytest.fixture
def clip(tmp_path):
    """Write a small file with CLIP's steps: lowered text, words of bytes that end in "</w>". Return
    its path.
    """
    pairs = [merge.split(" ") for merge in CLIP_MERGES]
    normalizer, _, suffix = CUTS["clip"]
    pattern = CLIP.removeprefix(r"<\|startoftext\|>|")
    return tokenizer_json(
        tmp_path,
        [
            *ALPHABET,
            *(f"{letter}</w>" for letter in ALPHABET),
            *map("".join, pairs),
            "<|endoftext|>",
        ],
        pairs,
        added=[{"content": "<|endoftext|>", "special": True}],
        normalizer=normalizer,
        cuts=[split(pattern, "Removed", invert=True), level()],
        unk_token="<|endoftext|>",
        end_of_word_suffix=suffix,
    )


def test_offsets_and_decoding_of_clip(clip):
    """With CLIP's steps, pieces have the library's offsets, and a decoded line encodes to the same
    pieces.
    """
    vocabulary, theirs = read_both(clip)
    encoder = Encoder(vocabulary)
    chance = random.Random(3)
    words = [word for line in CLIP_LINES for word in (*line.split(" "), " ")]
    for line in [*CLIP_LINES, *("".join(chance.choices(words, k=6)) for _ in range(60))]:
        pieces = encoder.encode(line)
        offsets = encoder.encode_offsets(line)
        assert [piece for piece, _, _ in offsets] == pieces
        assert encoder.encode(decode(vocabulary, pieces)) == pieces, line
        if line.isascii():
            expected = theirs.encode(line, add_special_tokens=False).offsets
            assert [(start, end) for _, start, end in offsets] == expected
    text = decode(vocabulary, encoder.encode("The CAT  caté!!"))
    assert text.split() == ["the", "cat", "caté", "!!"]


@pytest.mark.parametrize(
    ("late", "note"),
    [
        (False, "that the pattern names is cut otherwise there"),
        (True, "found in normalised text there"),
    ],
)
def test_capitals_that_spell_an_added_token_have_a_note(clip, late, note):
    """If <|ENDOFTEXT|> in text is lowered to an added token, the library finds or cuts it, and VOLT
    does not; a note says so.
    """
    [row] = json.loads(clip.read_text())["added_tokens"]
    changed(clip, added_tokens=[row | {"normalized": late}])
    vocabulary, theirs = read_both(clip)
    line = "the <|ENDOFTEXT|>"
    assert Encoder(vocabulary).encode_ids(line).tolist() != theirs.encode(line).ids
    assert any(note in each for each in vocabulary.notes)
    assert_ids_of_library(vocabulary, theirs, CLIP_LINES)
