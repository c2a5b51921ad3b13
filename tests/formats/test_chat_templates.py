"""Laws of exports that chat: transformers finds special tokens, applies chat templates, and saves what it loaded."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
from exports import LINES, learn

from volt.encode.encoder import Encoder
from volt.errors import ConfigError, MissingLibraryError, VocabularyError
from volt.ext.transformers import tokenizer
from volt.formats import huggingface, read_vocabulary, write_vocabulary
from volt.formats.check import check, encoded
from volt.text.byte_alphabet import ALPHABET
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # transformers warns of what it misses when it is imported
    transformers = pytest.importorskip("transformers")

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA2 = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token }}[INST] {{ m.content }} [/INST]"
    "{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}"
)
LLAMA3 = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content }}"
    "<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
PLAIN = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
TEMPLATES = {"chatml": CHATML, "llama2": LLAMA2, "llama3": LLAMA3, "plain": PLAIN}
USERS = (
    "<|im_start|>",
    "<|im_end|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<url>",
)
CHAT = [
    {"role": "user", "content": "the lower <url>"},
    {"role": "assistant", "content": "the newest </s> wide"},
]
KINDS = {
    "bytes": ("none", "bytes"),
    "gpt2": ("none", "gpt2"),
    "metaspace": ("none", "metaspace"),
    "prefix": ("prefix", "whitespace"),
    "suffix": ("suffix", "whitespace"),
}


def vocabulary(kind, users=USERS):
    return learn(LINES, *KINDS[kind], user=users)


def loaded(vocabulary, folder, template=None):
    """The exported folder in AutoTokenizer."""
    huggingface.write(vocabulary, folder, chat_template=template)
    return transformers.AutoTokenizer.from_pretrained(str(folder))


def ours(vocabulary, text, found=None):
    """The ids of a text in VOLT, which finds these tokens, by default the ones with roles, before user tokens."""
    encoder = Encoder(vocabulary)
    roles = [token for token in vocabulary.special.all if token not in vocabulary.special.user]
    [pieces] = encoded(encoder, [text], roles if found is None else found)
    return encoder.ids(pieces).tolist()


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("kind", KINDS)
def test_chats_have_the_ids_of_their_text(kind, template, tmp_path):
    """The ids of a chat are the ids of its rendered text: in VOLT, too, where user tokens cut no words, and over
    bytes even if VOLT finds all special tokens as user tokens."""
    model = vocabulary(kind)
    real = loaded(model, tmp_path / "m", TEMPLATES[template])
    for prompt in (False, True):
        text = real.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=prompt)
        ids = real.apply_chat_template(
            CHAT, tokenize=True, add_generation_prompt=prompt, return_dict=False
        )
        assert ids == real(text, add_special_tokens=False)["input_ids"]
        if kind not in (
            "suffix",
            "gpt2",
        ):  # there, text before a user token ends a word, which a note says
            assert ids == ours(model, text)
        if kind == "bytes":
            special = replace(model.special, user=(*model.special.roles.values(), *USERS))
            assert (
                ids
                == Encoder(replace(model, special=special, order=model.pieces))
                .encode_ids(text)
                .tolist()
            )
    assert {model.ids["</s>"], model.ids["<url>"]} <= {*ids}


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_act_as_in_published_files(kind, tmp_path):
    """Special and user tokens are added tokens with VOLT's ids: each is found whole, adding it again gives no new id,
    skip_special_tokens leaves user tokens such as <url>, and no token is added to a text."""
    model = vocabulary(kind)
    real = loaded(model, tmp_path / "m")
    assert len(real) == len(model.ids)
    for token in model.special.all:
        assert real.convert_tokens_to_ids(token) == model.ids[token]
        assert real.tokenize(f"low {token} low").count(token) == 1
    line = "</s> <|im_start|> low <url> low<|im_end|> </s>"
    before = real(line)["input_ids"]
    assert before == real(line, add_special_tokens=False)["input_ids"]
    assert real.decode(before, skip_special_tokens=True).split() == ["low", "<url>", "low"]
    real.add_tokens(list(model.special.all))
    assert len(real) == len(model.ids)
    assert [n for n in real(line)["input_ids"] if n < 10] == [n for n in before if n < 10]


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_in_memory_are_equal(kind, tmp_path):
    """A tokenizer that transformers saved and loaded again, and the one in memory, give the same ids, chats and roles
    as the export."""
    model = vocabulary(kind)
    real = loaded(model, tmp_path / "m", CHATML)
    real.save_pretrained(str(tmp_path / "again"))
    again = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "again"))
    for other in (again, tokenizer(model, chat_template=CHATML)):
        assert other.chat_template == CHATML
        assert other.get_vocab() == real.get_vocab()
        assert (other.special_tokens_map, other.all_special_ids) == (
            real.special_tokens_map,
            real.all_special_ids,
        )
        assert other.added_tokens_decoder.keys() == real.added_tokens_decoder.keys()
        for line in [*LINES, "<|im_start|>low <url></s>"]:
            assert other(line)["input_ids"] == real(line)["input_ids"]
        ids = other.apply_chat_template(CHAT, return_dict=False)
        assert ids == real.apply_chat_template(CHAT, return_dict=False)


def test_padding_and_length(tmp_path):
    """Texts are padded on the right with the padding token, or on the left if asked; no length limit is set."""
    real = loaded(vocabulary("suffix"), tmp_path / "m")
    short, long = real(["low", "low lower"], padding=True)["input_ids"]
    assert short == real("low")["input_ids"] + [real.pad_token_id] * (
        len(long) - len(real("low")["input_ids"])
    )
    real.padding_side = "left"
    assert real(["low", "low lower"], padding=True)["input_ids"][0][0] == real.pad_token_id
    assert real.model_max_length == transformers.tokenization_utils_base.VERY_LARGE_INTEGER


@pytest.mark.parametrize("kind", KINDS)
def test_the_check_follows_the_library(kind, tmp_path):
    """A check of text with special tokens compares with the library's rule: they cut a line before it is encoded."""
    model = vocabulary(kind, ())
    huggingface.write(model, tmp_path / "m")
    lines = ["</s>low</s>", "<s> low <pad>lower", "<unk>", "", "</s>", "a<s><s>b"]
    assert check(model, tmp_path / "m", "huggingface", lines).is_complete
    if kind != "suffix":
        assert Encoder(model).encode_lines(["</s>low"]) != encoded(
            Encoder(model), ["</s>low"], ["</s>"]
        )


def test_control_tokens_come_back(tmp_path):
    """Roles and control tokens come back from the export; saved by transformers, they are user tokens, as published."""
    special = SpecialTokens(control=("[A]", "<|b|>"), user=("<url>",))
    model = Vocabulary(
        (), tuple(sorted(ALPHABET)), marker="none", pretokenizer="bytes", special=special
    )
    real = loaded(model, tmp_path / "m")
    assert real.tokenize("x[A]<|b|></s>") == ["x", "[A]", "<|b|>", "</s>"]
    assert read_vocabulary(tmp_path / "m").special == special
    real.save_pretrained(str(tmp_path / "n"))
    again = read_vocabulary(tmp_path / "n")
    assert {*again.special.user} == {*special.all}
    assert again.special.roles == special.roles
    assert again.ids == model.ids


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("a\n{% if %}", "chat template:2: Expected an expression"),
        ("{{ x|unheard_of }}", "chat template:1: No filter named 'unheard_of'"),
        (" \n", "contains no template"),
        (3, "pass the template as a string"),
    ],
)
def test_a_bad_template_is_refused(template, message, tmp_path):
    """The error says where and what is wrong, and nothing is written."""
    with pytest.raises(ConfigError, match=message):
        huggingface.write(vocabulary("suffix"), tmp_path / "m", chat_template=template)
    with pytest.raises(ConfigError, match=message):
        tokenizer(vocabulary("suffix"), chat_template=template)
    assert not [*tmp_path.iterdir()]


def test_template_files(tmp_path):
    """A file's errors name it and the line; one format takes templates, in a folder; an old one is reported."""
    model, file = vocabulary("suffix"), tmp_path / "t.jinja"
    with pytest.raises(ConfigError, match=r"t\.jinja: cannot be read: no such file"):
        write_vocabulary(model, tmp_path / "m", to="huggingface", chat_template=file)
    file.write_bytes(b"low\n\xff")
    with pytest.raises(ConfigError, match=r"t\.jinja:2: not UTF-8"):
        write_vocabulary(model, tmp_path / "m", to="huggingface", chat_template=file)
    file.write_text(
        "{% generation %}{% endgeneration %}{% for m in messages %}{% break %}{% endfor %}low"
    )
    with pytest.raises(
        ConfigError, match=r"marian has no place for a chat template.*to='huggingface'"
    ):
        write_vocabulary(model, tmp_path / "m", to="marian", chat_template=file)
    with pytest.raises(ConfigError, match=r"needs a folder"):
        write_vocabulary(model, tmp_path / "m.json", to="huggingface", chat_template=file)
    assert [path.name for path in tmp_path.iterdir()] == ["t.jinja"]
    write_vocabulary(model, tmp_path / "m", to="huggingface", chat_template=file)
    assert (tmp_path / "m" / "chat_template.jinja").read_bytes() == file.read_bytes()
    assert (
        "chat_template.jinja is from before"
        in write_vocabulary(model, tmp_path / "m", to="huggingface")[-1]
    )


def test_a_special_token_that_merges_make(tmp_path):
    """A special token that merges spell, too, cannot be closed: the error names it, and nothing is written."""
    model = Vocabulary(
        (("<", "s"), ("<s", ">"), ("<s>", "x")), ("<", "s", ">", "x", "<s", "<s>x"), marker="none"
    )
    with pytest.raises(
        VocabularyError, match=r"'<s>', made by merges, is a special token, too; rename"
    ):
        huggingface.write(model, tmp_path / "m")
    assert not [*tmp_path.iterdir()]


def test_without_transformers(monkeypatch):
    """The error names the extra to install."""
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(MissingLibraryError, match=r"pip install 'volt-vocab\[transformers\]'"):
        tokenizer(vocabulary("suffix"))
