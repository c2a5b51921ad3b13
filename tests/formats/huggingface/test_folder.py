"""Laws of the files in a tokenizer's folder: they say which tokens have roles, and which decoding
skips.
"""

import json

import pytest
from formats.support import level, library_of, tokenizer_json

import volt
from volt.encode.encoder import Encoder
from volt.formats import huggingface
from volt.text.byte_alphabet import ALPHABET

tokenizers = pytest.importorskip("tokenizers")
A, B, C = ADDED = ("<|a|>", "<|b|>", "<c>")


def file_of(folder, *flags, **files):
    """Write a tokenizer.json of bytes with three added tokens, and JSON files in its folder. flags:
    of the added tokens
    """
    rows = [{"content": token} for token in ADDED]
    for row, row_flags in zip(rows, flags, strict=False):
        row |= row_flags
    path = tokenizer_json(folder, ALPHABET, added=rows, cuts=[level()], decoder=level())
    for name, data in files.items():
        (folder / f"{name}.json").write_text(json.dumps(data))
    return path


def test_only_named_tokens_have_roles(tmp_path):
    """A role is None if no file names it, or if its token does not exist. One token may have
    several roles.
    """
    names = {"bos_token": A, "pad_token": "<none>"}
    file_of(tmp_path, special_tokens_map={"eos_token": {"content": A}}, tokenizer_config=names)
    special = huggingface.read(tmp_path).special
    assert special.roles == {"bos": A, "eos": A}
    assert special.user == ADDED


def template(*parts):
    """Return a template of a post-processor: these tokens, with "A" for the line."""
    steps = []
    for part in parts:
        kind = "Sequence" if part == "A" else "SpecialToken"
        steps.append({kind: {"id": part, "type_id": 0}})
    return {"type": "TemplateProcessing", "single": steps, "pair": steps}


@pytest.mark.parametrize(
    ("section", "roles"),
    [
        (template(A, "A"), {"bos": A}),
        (template("A", B), {"eos": B}),
        ({"type": "Sequence", "processors": [level(), template(A, "A", C)]}, {"bos": A, "eos": C}),
        ({"type": "RobertaProcessing", "sep": [B, 0], "cls": [A, 0]}, {"bos": A, "eos": B}),
        (template(A, B, "A"), {}),
        (template("A"), {}),
        ({"type": "RobertaProcessing", "cls": 3, "sep": []}, {}),
        ({"type": "TemplateProcessing", "single": [1]}, {}),
        (7, {}),
    ],
)
def test_the_post_processor_names_the_tokens_around_a_line(section, roles, tmp_path):
    """The token that the post-processor puts before a line is bos, and the one after it eos, unless
    a configuration names others. A damaged post-processor names none.
    """
    path = file_of(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"post_processor": section}))
    assert huggingface.read(path).special.roles == roles
    names = {"bos_token": C, "eos_token": C}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names))
    assert huggingface.read(path).special.roles == {"bos": C, "eos": C}


def test_bos_and_eos_of_a_template_have_the_ids_of_the_library(tmp_path):
    """`encode_ids` with add_bos and add_eos returns the ids of `tokenizers` with the
    post-processor.
    """
    path = file_of(tmp_path)
    real = library_of(path)
    ids = [(token, real.token_to_id(token)) for token in (A, B)]
    processor = tokenizers.processors.TemplateProcessing
    real.post_processor = processor(single=f"{A} $A {B}", special_tokens=ids)
    real.save(str(path))
    encoder = Encoder(huggingface.read(path))
    line = encoder.encode_ids("de 12", add_bos=True, add_eos=True)
    assert line.tolist() == real.encode("de 12").ids


USUAL = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer_config": {"bos_token": B}},
        {"special_tokens_map": {"cls_token": USUAL | {"content": C}}},
        {
            "tokenizer_config": {
                "added_tokens_decoder": {
                    "256": USUAL | {"content": A, "special": False},
                    "257": USUAL | {"content": B, "special": True},
                }
            }
        },
    ],
)
def test_decoding_skips_what_transformers_skips(files, tmp_path):
    """Decoding with skip_special skips the tokens that transformers skips, if a configuration makes
    tokens special, or special tokens ordinary.
    """
    transformers = pytest.importorskip("transformers")
    config = {"tokenizer_class": "PreTrainedTokenizerFast"} | files.pop("tokenizer_config", {})
    file_of(tmp_path, {"special": True}, tokenizer_config=config, **files)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = Encoder(volt.read_vocabulary(tmp_path))
    row = [ours.vocabulary.ids[token] for token in (*ADDED, "x", *ADDED)]
    assert ours.decode_ids(row, skip_special=True) == theirs.decode(row, skip_special_tokens=True)
