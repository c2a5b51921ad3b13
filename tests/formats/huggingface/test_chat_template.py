"""Laws of exports that chat: transformers applies templates, finds special tokens, and saves what
it loaded.
"""

import sys
import warnings
from dataclasses import replace

import pytest
from support.exports import LINES, learn

from volt.encode.encoder import Encoder
from volt.errors import ConfigError, MissingLibraryError
from volt.ext.transformers import tokenizer
from volt.formats import huggingface, read_vocabulary, write_vocabulary
from volt.formats.check import check, encode_as_library
from volt.text.byte_alphabet import ALPHABET
from volt.text.patterns.published import declared
from volt.text.special_tokens import SpecialTokens
from volt.vocabulary import Vocabulary

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # transformers warns of what it misses when it is imported
    transformers = pytest.importorskip("transformers")

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATES = {
    "chatml": CHATML,
    "llama2": "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token }}[INST] {{ m.content }} "
    "[/INST]{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}",
    "llama3": "{{ bos_token }}{% for m in messages %}<|header|>{{ m.role }}<|end_header|>\n\n"
    "{{ m.content }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|header|>assistant"
    "<|end_header|>\n\n{% endif %}",
    "plain": "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}",
}
USERS = ("<|im_start|>", "<|im_end|>", "<|header|>", "<|end_header|>", "<|eot_id|>", "<url>")
CHAT = [
    {"role": "user", "content": "the lower <url>"},
    {"role": "assistant", "content": "the newest </s> wide"},
]
KINDS = {
    "bytes": ("none", "bytes"),
    "superwords": ("none", declared("superbpe", is_bytes=True)),
    "gpt2": ("none", "gpt2"),
    "metaspace": ("none", "metaspace"),
    "prefix": ("prefix", "whitespace"),
    "suffix": ("suffix", "whitespace"),
}


def vocabulary_of(kind, users=USERS):
    return learn(LINES, *KINDS[kind], user=users)


def loaded(vocabulary, folder, template=None):
    """Export a vocabulary to a folder, and load it in transformers."""
    huggingface.write(vocabulary, folder, chat_template=template)
    return transformers.AutoTokenizer.from_pretrained(str(folder))


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("kind", KINDS)
def test_chats_have_the_ids_of_their_text(kind, template, tmp_path):
    """apply_chat_template returns the ids of its text. They are VOLT's ids, too, if user tokens do
    not cut words and VOLT finds roles in text.
    """
    vocabulary = vocabulary_of(kind)
    real = loaded(vocabulary, tmp_path / "m", TEMPLATES[template])
    roles = list(vocabulary.special.roles.values())
    for prompt in (False, True):
        options = {"add_generation_prompt": prompt}
        text = real.apply_chat_template(CHAT, tokenize=False, **options)
        ids = real.apply_chat_template(CHAT, tokenize=True, return_dict=False, **options)
        assert ids == real(text, add_special_tokens=False)["input_ids"]
        encoder = Encoder(vocabulary)
        if kind not in ("suffix", "gpt2"):  # there, text before a user token ends a word
            [pieces] = encode_as_library(encoder, [text], roles)
            assert ids == encoder.ids(pieces).tolist()
        if kind == "bytes":
            special = replace(vocabulary.special, user=(*roles, *USERS))
            other = replace(vocabulary, special=special, order=vocabulary.pieces)
            assert ids == Encoder(other).encode_ids(text).tolist()
    assert {vocabulary.ids["</s>"], vocabulary.ids["<url>"]} <= {*ids}


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_act_as_in_published_files(kind, tmp_path):
    """transformers finds each special token whole with VOLT's id; adding it again gives no new id;
    decoding skips all but <url>. Texts are padded with the padding token on either side, and their
    length is not limited.
    """
    vocabulary = vocabulary_of(kind)
    real = loaded(vocabulary, tmp_path / "m")
    assert len(real) == len(vocabulary.ids)
    for token in vocabulary.special.all:
        assert real.convert_tokens_to_ids(token) == vocabulary.ids[token]
        assert real.tokenize(f"low {token} low").count(token) == 1
    line = "</s> <|im_start|> low <url> low<|im_end|> </s>"
    ids = real(line)["input_ids"]
    assert ids == real(line, add_special_tokens=False)["input_ids"]
    assert real.decode(ids, skip_special_tokens=True).split() == ["low", "<url>", "low"]
    short, long = real(["low", "low lower"], padding=True)["input_ids"]
    low = real("low")["input_ids"]
    assert short == low + [real.pad_token_id] * (len(long) - len(low))
    real.padding_side = "left"
    assert real(["low", "low lower"], padding=True)["input_ids"][0][0] == real.pad_token_id
    assert real.model_max_length == transformers.tokenization_utils_base.VERY_LARGE_INTEGER
    real.add_tokens(list(vocabulary.special.all))
    assert len(real) == len(vocabulary.ids)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_in_memory_are_equal(kind, tmp_path):
    """The exported tokenizer, one that transformers saved and loaded again, and the one of
    `volt.ext.transformers.tokenizer` have equal tokens, templates and ids.
    """
    vocabulary = vocabulary_of(kind)
    real = loaded(vocabulary, tmp_path / "m", CHATML)
    real.save_pretrained(str(tmp_path / "again"))
    again = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "again"))
    for other in (again, tokenizer(vocabulary, chat_template=CHATML)):
        assert other.chat_template == CHATML
        assert other.get_vocab() == real.get_vocab()
        assert other.special_tokens_map == real.special_tokens_map
        assert other.all_special_ids == real.all_special_ids
        assert other.added_tokens_decoder.keys() == real.added_tokens_decoder.keys()
        for line in [*LINES, "<|im_start|>low <url></s>"]:
            assert other(line)["input_ids"] == real(line)["input_ids"]
        ids = other.apply_chat_template(CHAT, return_dict=False)
        assert ids == real.apply_chat_template(CHAT, return_dict=False)


@pytest.mark.parametrize("kind", KINDS)
def test_the_check_cuts_lines_at_special_tokens(kind, tmp_path):
    """`check` finds no difference in lines with special tokens, which transformers finds in text
    and VOLT does not.
    """
    vocabulary = vocabulary_of(kind, ())
    huggingface.write(vocabulary, tmp_path / "m")
    lines = ["</s>low</s>", "<s> low <pad>lower", "<unk>", "", "</s>", "a<s><s>b"]
    assert check(vocabulary, tmp_path / "m", "huggingface", lines).is_complete


def test_control_tokens_come_back(tmp_path):
    """An export is read back with its control tokens. If transformers saved it again, they are user
    tokens, with the same ids and roles.
    """
    special = SpecialTokens(control=("[A]", "<|b|>"), user=("<url>",))
    options = {"marker": "none", "pretokenizer": "bytes", "special": special}
    vocabulary = Vocabulary((), tuple(sorted(ALPHABET)), **options)
    real = loaded(vocabulary, tmp_path / "m")
    assert real.tokenize("x[A]<|b|></s>") == ["x", "[A]", "<|b|>", "</s>"]
    assert read_vocabulary(tmp_path / "m").special == special
    real.save_pretrained(str(tmp_path / "n"))
    again = read_vocabulary(tmp_path / "n")
    assert {*again.special.user} == {*special.all}
    assert again.special.roles == special.roles
    assert again.ids == vocabulary.ids


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("a\n{% if %}", "chat template:2: Expected an expression"),
        ("{{ x|unheard_of }}", "chat template:1: No filter named 'unheard_of'"),
        (" \n", "contains no template"),
        (3, "pass the template as a string"),
    ],
)
def test_an_invalid_template_is_refused(template, message, tmp_path):
    """The error for an invalid template says where and what is wrong, and no file is written."""
    vocabulary = vocabulary_of("suffix")
    with pytest.raises(ConfigError, match=message):
        huggingface.write(vocabulary, tmp_path / "m", chat_template=template)
    with pytest.raises(ConfigError, match=message):
        tokenizer(vocabulary, chat_template=template)
    assert not [*tmp_path.iterdir()]


def test_template_files(tmp_path):
    """An error in a template file names the file. Only huggingface's folder can store a template;
    one of an earlier export has a note.
    """
    file = tmp_path / "t.jinja"
    text = "{% generation %}{% endgeneration %}{% for m in messages %}{% break %}{% endfor %}low"
    cases = [
        (None, "m", "huggingface", r"t\.jinja: cannot be read: no such file"),
        (b"low\n\xff", "m", "huggingface", r"t\.jinja:2: not UTF-8"),
        (
            text.encode(),
            "m",
            "marian",
            r"marian has no place for a chat template.*to='huggingface'",
        ),
        (text.encode(), "m.json", "huggingface", "needs a folder"),
    ]
    vocabulary = vocabulary_of("suffix")
    for data, name, to, message in cases:
        if data:
            file.write_bytes(data)
        with pytest.raises(ConfigError, match=message):
            write_vocabulary(vocabulary, tmp_path / name, to=to, chat_template=file)
    assert [path.name for path in tmp_path.iterdir()] == ["t.jinja"]
    write_vocabulary(vocabulary, tmp_path / "m", to="huggingface", chat_template=file)
    assert (tmp_path / "m" / "chat_template.jinja").read_text() == text
    notes = write_vocabulary(vocabulary, tmp_path / "m", to="huggingface")
    assert "chat_template.jinja is from before" in notes[-1]


def test_without_transformers(monkeypatch):
    """If transformers is not installed, the error of `tokenizer` names the extra to install."""
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingLibraryError, match=r"pip install 'volt-vocab\[transformers\]'"):
        tokenizer(vocabulary_of("suffix"))
