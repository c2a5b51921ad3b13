"""Laws of reading tokenizer.json: what tokenizers trains encodes alike in VOLT, what is damaged is refused by name."""

from __future__ import annotations

import json
import re
import tempfile
from functools import cache
from itertools import permutations
from pathlib import Path

import pytest
from exports import LINES, assert_agree, learn

from volt.encode.encoder import Encoder
from volt.errors import VocabularyError
from volt.formats import huggingface
from volt.text.byte_alphabet import ALPHABET
from volt.vocabulary import Vocabulary

pytest.importorskip("tokenizers")


@cache
def written(marker, pretokenizer):
    """The tokenizer.json of a vocabulary that is learned from the lines."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.json")
        huggingface.write(learn(LINES, marker, pretokenizer), path)
        return path.read_text()


def test_bytes_behind_a_pattern(tmp_path):
    """Split and ByteLevel without its regex: GPT-2's own pattern is read as bytes, another as bytes cut by it; words
    and ids agree."""
    data = json.loads(written("none", "bytes"))
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    gpt2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    path = tmp_path / "tokenizer.json"
    for pattern in (gpt2, r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+"):
        split = {
            "type": "Split",
            "pattern": {"Regex": pattern},
            "behavior": "Isolated",
            "invert": False,
        }
        data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, level]}
        path.write_text(json.dumps(data))
        vocabulary = huggingface.read(path)
        assert (vocabulary.pretokenizer.name == "bytes") == (pattern == gpt2)
        assert_agree(Encoder(vocabulary), huggingface.peer(path, vocabulary), LINES)


def _train(kind):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    special = ["<|end|>"] if kind == "bytes" else ["<unk>", "[MASK]"]
    options = {"vocab_size": 420, "special_tokens": special, "show_progress": False}
    suffix = {"end_of_word_suffix": "</w>"} if kind == "suffix" else {}
    real = Tokenizer(models.BPE(**({} if kind == "bytes" else {"unk_token": "<unk>"}), **suffix))
    if kind == "bytes":
        real.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        real.decoder = decoders.ByteLevel()
        options["initial_alphabet"] = pre_tokenizers.ByteLevel.alphabet()
    elif kind == "suffix":
        real.pre_tokenizer, real.normalizer = pre_tokenizers.WhitespaceSplit(), normalizers.NFC()
    elif kind == "bert":
        real.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    elif kind == "words":
        real.pre_tokenizer = pre_tokenizers.Whitespace()
    else:
        real.pre_tokenizer = pre_tokenizers.Metaspace(
            prepend_scheme="never" if kind == "never" else "always"
        )
    real.train_from_iterator(LINES, trainers.BpeTrainer(**options, **suffix))
    return real


@pytest.mark.parametrize("kind", ["bytes", "suffix", "metaspace", "never", "bert", "words"])
def test_trained_files_are_read_and_agree(kind, tmp_path):
    """What tokenizers trains and saves encodes in VOLT to the same pieces and ids; merges written as strings too."""
    real = _train(kind)
    real.save(str(tmp_path / "tokenizer.json"))
    data = json.loads((tmp_path / "tokenizer.json").read_text())
    data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
    (tmp_path / "old.json").write_text(json.dumps(data))
    peer = huggingface.peer(tmp_path, huggingface.read(tmp_path))
    new = ["other words: newlow wideest Größe 😀 Ж", "the [MASK] is", "the", "a  <|end|>b <|end|>"]
    lines = [*LINES, *new]
    for path in (tmp_path, tmp_path / "old.json"):
        assert_agree(Encoder(huggingface.read(path)), peer, lines)


FILES = {
    "dropout": ("whitespace", {"dropout": 0.3}, "The dropout of the file, 0.3"),
    "unk": ("whitespace", {"unk_token": None}, "Unknown characters leave nothing, but pieces"),
    "truncation": ("whitespace", {"truncation": {"max_length": 3}}, "Truncation is not imported"),
    "padding": ("whitespace", {"padding": {"length": 9}}, "Padding is not imported"),
    "post": (
        "whitespace",
        {"post_processor": {"type": "TemplateProcessing"}},
        r"post-processor \(TemplateProcessing\)",
    ),
    "word": ("bytes", {"single_word": True}, "<mask> is found as a whole word only there"),
    "normalized": (
        "bytes",
        {"normalized": True, "normalizer": {"type": "Lowercase"}},
        "<mask> is found in normalised",
    ),
    "lower": ("bytes", {"normalizer": {"type": "Lowercase"}}, "lowered to 'ς' here"),
    "orphan": (
        "whitespace",
        {"vocab": {"zzz": 999}},
        "1 token that no merge makes: kept as control tokens, such as 'zzz'",
    ),
    "spaced": (
        "whitespace",
        {"vocab": {"z z": 999}},
        "1 token that no merge makes: left out, such as 'z z'",
    ),
}


def test_a_note_names_every_token_that_it_is_about(tmp_path):
    """Two added tokens with one flag stand in one sentence."""
    data = json.loads(foreign("bytes"))
    data["added_tokens"] = [row | {"single_word": True} for row in data["added_tokens"]]
    (tmp_path / "a.json").write_text(json.dumps(data))
    lost = huggingface.read(tmp_path / "a.json").provenance["lost"]
    assert (
        "The added tokens <unk>, <mask> are found as whole words only there (single_word), and not here."
        in lost
    )


@cache
def foreign(kind):
    """A tokenizer.json that tokenizers trains, with an unknown and an added token."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    cuts = {"whitespace": pre_tokenizers.WhitespaceSplit(), "metaspace": pre_tokenizers.Metaspace()}
    real = Tokenizer(models.BPE(unk_token="<unk>"))
    real.pre_tokenizer = cuts.get(kind) or pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet() if kind == "bytes" else []
    options = {
        "special_tokens": ["<unk>", "<mask>"],
        "initial_alphabet": alphabet,
        "show_progress": False,
    }
    real.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=420, **options))
    return real.to_str()


@pytest.mark.parametrize("name", FILES)
def test_what_a_file_does_otherwise_is_reported(name, tmp_path):
    """Each thing that the library does with a file and VOLT does not stands in the provenance, and in no other file's;
    a file of VOLT's own loses nothing."""
    kind, changes, message = FILES[name]
    data = json.loads(foreign(kind))
    plain = tmp_path / "plain.json"
    plain.write_text(json.dumps(data))
    for key, value in changes.items():
        places = data, data["model"], data["added_tokens"][1]
        place = next(one for one in places if key in one)
        place[key] = place[key] | value if key == "vocab" else value
    (tmp_path / "a.json").write_text(json.dumps(data))
    lost = huggingface.read(tmp_path / "a.json").provenance["lost"]
    assert sum(bool(re.search(message, sentence)) for sentence in lost) == 1
    if changes:
        assert not re.search(message, " ".join(huggingface.read(plain).provenance["lost"]))
    huggingface.write(learn(LINES, "suffix", "whitespace"), tmp_path / "own.json")
    assert huggingface.read(tmp_path / "own.json").provenance["lost"] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"vocab": {}, "merges": []}, "model.vocab is missing, empty"),
        ({"vocab": {"<unk>": 0, "<s>": 1}, "merges": []}, None),
        ({"added": [(9000, "<x>"), (9000, "<y>")]}, "'<y>' has the id 9000, which '<x>' has"),
        ({"added": [(2, "<x>")]}, "'<x>' has the id 2, which '.+' has"),
        ({"added": [(0, "<x>")]}, "'<x>' has the id 0, which '<unk>' has"),
        ({"added": [(9000, "<unk>")]}, "'<unk>' has the id 9000, not its id in model.vocab"),
        ({"added": [(-1, "<x>")]}, "'<x>' has the id -1, not its id"),
    ],
)
def test_ids_belong_to_one_token(change, said, tmp_path):
    """An empty vocabulary and an id of two tokens are refused; two tokens are too few to be VOLT's, and are read."""
    data = json.loads(foreign("whitespace"))
    data["model"] |= {key: value for key, value in change.items() if key in data["model"]}
    if "vocab" in change:
        data["added_tokens"] = []
    data["added_tokens"] += [
        {"id": number, "content": token} for number, token in change.get("added", [])
    ]
    (tmp_path / "a.json").write_text(json.dumps(data))
    if said is None:
        assert huggingface.read(tmp_path / "a.json").tokens == ()
        return
    with pytest.raises(VocabularyError, match=rf"a\.json: .*{said}"):
        huggingface.read(tmp_path / "a.json")


@pytest.mark.parametrize(
    "added", list(permutations([("a", 0), ("<x>", 3), ("<y>", 4), ("<z>", 5)], 3))
)
def test_an_id_that_the_library_changes_is_reported(added, tmp_path):
    """Of added tokens, some of them in model.vocab: a note names the first that has another id in the library."""
    from tokenizers import Tokenizer

    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2}, "merges": []}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    rows = [{"id": number, "content": token, **flags} for token, number in added]
    data = {
        "version": "1.0",
        "model": model,
        "added_tokens": rows,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
    }
    (tmp_path / "a.json").write_text(json.dumps(data))
    theirs, vocabulary = (
        Tokenizer.from_file(str(tmp_path / "a.json")),
        huggingface.read(tmp_path / "a.json"),
    )
    assert {token: vocabulary.ids[token] for token, _ in added} == dict(added)
    other = [(token, theirs.token_to_id(token), number) for token, number in added]
    said = [note for note in vocabulary.provenance["lost"] if "which model.vocab lacks" in note]
    assert [
        re.findall(r"token (\S+), .* the id (\d+) there, (\d+) here", note)[0] for note in said
    ] == [(token, str(there), str(here)) for token, there, here in other if there != here][:1]


def test_some_byte_tokens_are_not_enough(tmp_path):
    """With byte_fallback and no byte token unknown characters stay unknown; with some, the file is refused."""
    data = json.loads(foreign("whitespace"))
    data["model"]["byte_fallback"] = True
    path = tmp_path / "a.json"
    path.write_text(json.dumps(data))
    assert not huggingface.read(path).byte_fallback
    data["model"]["vocab"]["<0x41>"] = 998
    path.write_text(json.dumps(data))
    with pytest.raises(VocabularyError, match=r"only 1 of the 256 byte tokens .*'<0x00>' is not"):
        huggingface.read(path)


def test_a_regex_that_the_library_cannot_read_is_refused(tmp_path):
    """A file that tokenizers could not load is not written."""
    with pytest.raises(VocabularyError, match=r"cannot read the regex '\(\?s\)\.'.*Oniguruma"):
        huggingface.write(learn(LINES, "none", "regex:(?s)."), tmp_path / "m")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("level", ["metaspace", "unicode"])
def test_the_first_word_keeps_its_space_beside_user_tokens(level, tmp_path):
    """With an end marker and user tokens, too, a line starts with "▁", and so does a user token behind a space; but a
    line that is just one, as notes say; the file reads back to an equal fingerprint."""
    vocabulary = learn(LINES, "suffix", level, user=("<url>",))
    notes = huggingface.write(vocabulary, tmp_path / "m")
    assert any("just <url> gets no '▁'" in note for note in notes)
    lines = [
        "the lower",
        "the newest, the widest",
        "größe naïve",
        "x",
        " the  <url> lower",
        "<url> the",
        "<url><url>",
        "  ",
    ]
    assert_agree(Encoder(vocabulary), huggingface.peer(tmp_path / "m", vocabulary), lines)
    assert huggingface.read(tmp_path / "m").fingerprint == vocabulary.fingerprint


def test_of_equal_merges_the_last_counts(tmp_path):
    """A merge that is listed twice has its later rank, in VOLT as in tokenizers, in a folder of merges.txt as well."""
    merges = [["a", "b"], ["b", "c"], ["a", "b"]]
    vocab = {token: number for number, token in enumerate(["a", "b", "c", "ab", "bc"])}
    model = {"type": "BPE", "vocab": vocab, "merges": merges}
    path = tmp_path / "tokenizer.json"
    path.write_text(
        json.dumps({"version": "1.0", "model": model, "pre_tokenizer": {"type": "WhitespaceSplit"}})
    )
    vocabulary = huggingface.read(path)
    pieces = Encoder(vocabulary).encode_lines(["abc ab"])
    assert pieces == huggingface.peer(path, vocabulary).pieces(["abc ab"]) == [["a", "bc", "ab"]]
    (folder := tmp_path / "m").mkdir()
    (folder / "vocab.json").write_text(
        json.dumps({token: n for n, token in enumerate([*ALPHABET, "ab", "bc", "Ġt"])})
    )
    (folder / "merges.txt").write_text("#version: 0.2\na b\nb c\nĠ t\na b\n", encoding="utf-8")
    vocabulary = huggingface.read(folder)
    pieces = Encoder(vocabulary).encode_lines(["abc ab"])
    assert (
        pieces
        == huggingface.peer(folder, vocabulary).pieces(["abc ab"])
        == [["a", "bc", "Ġ", "ab"]]
    )


def _join(model, left, right):
    """Add a merge of two tokens, and both of them, of which nothing makes those of several characters."""
    for token in (left, right, left + right):
        model["vocab"].setdefault(token, 1 + max(model["vocab"].values()))
    model["merges"].append([left, right])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda data: data["model"].update(type="WordPiece"), "'WordPiece'.*find a vocabulary"),
        (lambda data: data["model"].update(type="Unigram"), "'Unigram'.*sentencepiece .model"),
        (lambda data: data.update(version="9.0"), "version is '9.0'"),
        (lambda data: data.pop("model"), "'model' is missing"),
        (lambda data: data["model"]["merges"].append(["no", "such"]), "'no' is not in"),
        (lambda data: data["model"]["merges"].append("a b c"), "not a pair of strings"),
        (lambda data: data["model"].pop("merges"), "model.merges is missing"),
        (
            lambda data: data["model"].update(unk_token=["<unk>"]),
            r"unk_token is \['<unk>'\] instead of a token",
        ),
        (
            lambda data: _join(data["model"], "<0x41>", "t"),
            r"merges, entry \d+: .*neither a character nor made by an earlier merge",
        ),
        (lambda data: data["model"]["vocab"].update(t=5), "the same id 5"),
        (lambda data: data["model"]["vocab"].update(t=-1), "'t' has the id -1"),
        (lambda data: data["model"]["vocab"].update(t="1"), "'t' has the id '1'"),
        (lambda data: data["model"].update(continuing_subword_prefix="##"), "start with '##'"),
        (lambda data: data["model"].update(end_of_word_suffix="@@"), "end_of_word_suffix is '@@'"),
        (lambda data: data.update(normalizer={"type": "NFD"}), "normalizer NFD"),
        (
            lambda data: data.update(pre_tokenizer={"type": "UnicodeScripts"}),
            "UnicodeScripts of the pre_tokenizer",
        ),
        (lambda data: data.update(added_tokens=[{"content": "x\0y", "id": 999}]), "unprintable"),
        (lambda data: data.update(added_tokens=[{"id": 999}]), "added_tokens must be"),
        (
            lambda data: data.update(added_tokens=[{"content": "the</w>", "id": 1}]),
            "not its id in model.vocab",
        ),
    ],
)
def test_damaged_files_are_refused(change, text, tmp_path):
    """Each fault gives an error that names the file and what is wrong."""
    data = json.loads(written("suffix", "whitespace"))
    change(data)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(data))
    with pytest.raises(VocabularyError, match=f"tokenizer.json: .*{text}"):
        huggingface.read(path)


def test_files_that_are_no_json_are_refused(tmp_path):
    """Cut at any place, in another encoding, absent: the error names the file and, where there is one, the line."""
    text, path = written("suffix", "whitespace"), tmp_path / "tokenizer.json"
    for cut in range(0, len(text) - 2, len(text) // 12):
        path.write_text(text[:cut])
        with pytest.raises(VocabularyError, match=r"tokenizer.json:\d+: damaged"):
            huggingface.read(path)
    path.write_bytes(text.encode("utf-16"))
    with pytest.raises(VocabularyError, match=r"tokenizer.json:1: not UTF-8"):
        huggingface.read(path)
    path.write_text(text.replace('"l": ', '"o": ', 1))
    with pytest.raises(VocabularyError, match="'o' occurs twice"):
        huggingface.read(path)
    with pytest.raises(VocabularyError, match="cannot be read"):
        huggingface.read(tmp_path / "none.json")
    with pytest.raises(VocabularyError, match="cannot load"):
        huggingface.peer(tmp_path / "none.json", Vocabulary((), ("a",)))
