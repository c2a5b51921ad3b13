"""Templates are expanded within limits; errors have the lines of the template."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.configurations import parse_config
from support.drawn import examples

from volt.errors import ArgumentError, ConfigError
from volt.stream.config.configuration import load_config
from volt.stream.config.template_rendering import (
    MOST_CHARS,
    Expanded,
    expand_template,
    parse_template,
    read_template,
)
from volt.stream.running.stream import Stream

TEMPLATE = """\
seed: {{seed}}
tasks:
{% for lang in [first, second] %}
  {{lang}}_en:
    type: para
    inputs: {wmt: {src: a.{{lang}}, tgt: a.en}}
    {% if lang == "fr" %}
    weight: {{ weight|int * 2 }}
    {% endif %}
    src_lang: {{ lang|upper }}
{% endfor %}
"""
VALUES = {"seed": 5, "first": "de", "second": "fr", "weight": "3"}


def test_a_template_becomes_a_configuration():
    """A template's placeholders, loops and conditions are expanded to a configuration; `int`
    converts a text to a number."""
    config = parse_config(TEMPLATE, values=VALUES)
    assert [(task.name, task.src_lang, task.weight) for task in config.tasks] == [
        ("de_en", "DE", 1),
        ("fr_en", "FR", 6),
    ]
    assert config.seed == 5


@given(st.text())
def test_a_text_without_placeholders_is_unchanged(text):
    """expand_template does not change a text without {{ and {%."""
    if "{{" not in text and "{%" not in text:
        assert expand_template(text, path="a") == Expanded(text)


LINES = [
    "a: {{x}}",
    "b",
    "{% if x %}",
    "{% endif %}",
    "{{x}}: 1",
    "  {{x}}{{x}}",
    "",
    "# {% if x %}{{x}}{% endif %}",
    "w: {% if x %}1{% else %}2{% endif %}",
    "    {% if x %}",
    "    {% endif %}d: 3",
    "{% if not x %}",
    " {%- if x -%}",
]


@settings(max_examples=examples(80))
@given(st.lists(st.sampled_from(LINES)))
def test_each_line_comes_from_one_of_the_template(lines):
    """expand_template gives each line of the text the number of a template's line with that text,
    in order."""
    text = "{{x}}\n" + "\n".join(lines)
    try:
        result = expand_template(text, {"x": "v"}, path="a")
    except ConfigError:  # a condition without its end
        return
    assert list(result.lines) == sorted(result.lines)
    assert len(result.lines) == result.text.count("\n") + 1
    for line, number in zip(result.text.split("\n"), result.lines, strict=True):
        own = re.sub(r"{% else %}2|{%.*?%}", "", text.split("\n")[number - 1].replace("{{x}}", "v"))
        # Lines become one, which is that of its first letter
        is_joined = "{%-" in text or "not x" in text
        assert (line.strip()[:1] if is_joined else line.strip()) in own


def test_faults_name_the_lines_of_the_template():
    """A fault in an expanded line is reported with the line of the template, and a hint."""
    with pytest.raises(ConfigError) as error:
        parse_config(TEMPLATE.replace("src_lang", "scr_lang"), values=VALUES)
    first, *_, last = str(error.value).split("\n")
    assert first == "stream.yaml:10: tasks.de_en.scr_lang: unknown key; did you mean src_lang?"
    assert last == "(the file is a template; expand it to see the text that is read)"
    with pytest.raises(
        ConfigError, match=r"stream.yaml:6: not YAML: [^\n]*\n\(the file is a template"
    ):
        parse_config(TEMPLATE.replace("inputs: {wmt", "inputs: [wmt"), values=VALUES)
    twice = TEMPLATE.replace("{{ lang|upper }}", "{{ lang ~ '\\n    src_lang: y' }}")
    with pytest.raises(
        ConfigError, match=r"stream.yaml:10: key 'src_lang' repeats line 10; remove one\n"
    ):
        parse_config(twice, values=VALUES)


HOSTILE = {
    "a class": ("{{ ''.__class__ }}", "access to attribute '__class__'"),
    "a class by index": ("{{ ''['__class__'] }}", "access to attribute '__class__'"),
    "a class by filter": ("{{ ''|attr('__class__') }}", "No filter named 'attr'"),
    "a class of a loop": (
        "{% for i in 'ab' %}{{ loop.__class__ }}{% endfor %}",
        "access to attribute '__class__'",
    ),
    "a method": ("{{ 'x'.format(1) }}", "is not safely callable"),
    "a method by another name": (
        "{% for range in ['x'.zfill] %}{{ range(1000000000) }}{% endfor %}",
        "not safely callable",
    ),
    "a function": ("{{ lipsum() }}", "is not safely callable"),
    "the template": ("{{ self }}", "name is not allowed in templates"),
    "a large range": (
        "{% for i in range(1000000000) %}{% endfor %}",
        "Range too big. The sandbox blocks ranges larger than",
    ),
    "loops in loops": (
        "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
        "all loops together have more than 10,000 rounds",
    ),
    "a large power": ("{{ 9 ** 9 ** 9 }}", "pow is not allowed in templates"),
    "a large text": ("{{ 'x' * 1000000000 }}", "* takes numbers, not text"),
    "a wide text": ("{{ '%1000000000d' % 1 }}", "mod is not allowed in templates"),
    "a text that doubles": ("{% set x = 'a' ~ 'a' %}", "assign is not allowed in templates"),
    "a long output": (
        "{% for i in range(9000) %}{{ x }}{% endfor %}",
        "expands to more than 1,048,576 characters",
    ),
    "another file": ("{% include '/etc/passwd' %}", "include is not allowed in templates"),
    "a macro": ("{% macro f() %}{% endmacro %}", "macro is not allowed in templates"),
    "a recursion": (
        "{% for i in 'ab' recursive %}{{ loop('ab') }}{% endfor %}",
        "is not safely callable",
    ),
    "deep nesting": (
        "{% for i in 'a' %}" * 40 + "{% endfor %}" * 40,
        "values are nested more than 50 deep",
    ),
    "a test": ("{{ 1 is sameas 1 }}", "No test named 'sameas'"),
    "no end": ("{{ x", "not a valid template: unexpected end of template"),
    "a filter's fault": ("{{ 1 + 'a' }}", "unsupported operand type"),
    "a key of nothing": ("{{ 'x'[100] }}", "has no element 100"),
}


@pytest.mark.parametrize(("text", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_templates_are_refused(text, message):
    """expand_template refuses templates that reach into Python, run forever or fill the memory,
    with the line."""
    with pytest.raises(ConfigError) as error:
        expand_template(
            f"seed: 1\n{text}\n",
            {"x": "y" * 1000} if "x }" in text and "'" not in text else {},
            path="stream.yaml",
        )
    assert message in str(error.value)
    where = 1 if message.startswith(("expands", "values are")) else 2
    assert str(error.value).startswith(f"stream.yaml:{where}: ")


def test_placeholders_and_values_must_match():
    """expand_template refuses a placeholder without a value, with its line, and a value without a
    placeholder, with a similar key."""
    with pytest.raises(
        ConfigError, match=r"a:2: \{\{src\}\} has no value; set src, or write \{% raw"
    ):
        expand_template("seed: 1\nx: {{src}}", path="a")
    with pytest.raises(
        ConfigError,
        match=r"a: the value 'scr' is not used: the file has no \{\{scr\}\}; did you mean src\?",
    ):
        expand_template("x: {{src}}", {"scr": "de"}, path="a")
    with pytest.raises(
        ConfigError, match=r"the value 'src' is not used.* no key is allowed; remove it"
    ):
        expand_template("x: 1", {"src": "de"}, path="a")
    assert (
        expand_template("{{src|default('de')}}{% if tgt is defined %}x{% endif %}", path="a").text
        == "de"
    )
    assert expand_template("{% raw %}{{src}}{% endraw %}", path="a").text == "{{src}}"
    for value in (None, ["de"]):
        with pytest.raises(ArgumentError, match=r"values\['src'\]"):
            expand_template("{{src}}", {"src": value}, path="a")
    for wrong in ({"a b": "x"}, {"src": "x" * (MOST_CHARS + 1)}, {"src": "\x00"}):
        with pytest.raises(ConfigError, match="values"):
            expand_template("{{src}}", wrong, path="a")


def test_sizes_have_limits():
    """expand_template accepts templates, values, texts and loops up to their limits, and refuses
    larger ones."""
    most, text = "x" * MOST_CHARS, "{{y}}"
    assert expand_template(text, {"y": most}, path="a").text == most
    assert expand_template(text + most[5:], {"y": "x"}, path="a").text == most[4:]
    loop = "{% for i in range(2500) %}{% for j in [1, 2, 3] %}{% endfor %}{% endfor %}"  # 2,500 + 7,500 rounds
    assert expand_template(loop, path="a").text == ""
    for refused, values, message in (
        (
            text + most[4:],
            {"y": "x"},
            "a:1: the template is binary, or longer than 1,048,576 characters",
        ),
        (text * 2, {"y": most}, "a:1: expands to more than 1,048,576 characters"),
        (text, {"y": most + "x"}, "values.*longer than 1,048,576 characters"),
        (
            loop + "{% for i in [1] %}{% endfor %}",
            {},
            "a:1: all loops together have more than 10,000 rounds",
        ),
        (text + "\x00", {"y": "x"}, "a:1: the template is binary"),
    ):
        with pytest.raises(ConfigError, match=message):
            expand_template(refused, values, path="a")


def test_a_state_depends_only_on_the_expanded_text(tmp_path):
    """A stream of a template continues from the state of a stream of the expanded text."""
    (tmp_path / "a.tsv").write_text("".join(f"{i}\n" for i in range(50)))
    (tmp_path / "plain.yaml").write_text("seed: 4\nsources: {s: {path: a.tsv, weight: 2}}\n")
    (tmp_path / "template.yaml").write_text(
        "seed: {{n}}\nsources: {s: {path: a.tsv, weight: {{n|int - 2}}}}\n"
    )
    with Stream.from_config(tmp_path / "plain.yaml") as stream:
        lines = [line for line, _ in zip(stream, range(30), strict=False)]
        state, rest = stream.state(at=20), lines[20:]
    with Stream.from_config(tmp_path / "template.yaml", values={"n": 4}) as stream:
        stream.restore(state)
        assert [line for line, _ in zip(stream, range(10), strict=False)] == rest
    assert load_config(tmp_path / "template.yaml", values={"n": 4}).sources[0].weight == 2.0
    assert parse_template(read_template(tmp_path / "plain.yaml"), path="a").hint == ""
    assert parse_template("seed: {{n}}", path="a", values={"n": 1}).value == {"seed": 1}


@pytest.mark.parametrize("kind", ["v", "w"])
def test_a_tag_at_the_end_of_a_line_preserves_the_line_end(kind):
    """expand_template does not join the line after a comment or value that ends in a tag."""
    text = '# mix {% if k == "v" %}big{% endif %}\nweight: {% if k == "v" %}1{% else %}2{% endif %}\nseed: 3\n'
    result = parse_template(text, path="a", values={"k": kind})
    assert result.value == {"weight": 1 if kind == "v" else 2, "seed": 3}
    assert [result.find_line((key,)) for key in ("weight", "seed")] == [2, 3]


def test_a_tag_before_a_key_preserves_the_indent():
    """expand_template preserves the indent and the line of a key after a tag."""
    result = parse_template("a:\n    b: 1\n    {% if 1 %}weight: 3{% endif %}\nseed: 3\n", path="a")
    assert result.value == {"a": {"b": 1, "weight": 3}, "seed": 3}
    assert result.find_line(("a", "weight")) == 3
    moved = expand_template("a:\n    {% if 0 %}\n    b: 1\n    {% endif %}weight: 3\n", path="a")
    assert moved.text == "a:\n    weight: 3\n"
    assert moved.lines == (1, 4, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a: 1\nb: {{ k\nc: 1\n",
            "a:2: not a valid template: expected token 'end of print statement'",
        ),
        (
            "a: 1\nb: {{ k\nc: {{ x }}\n",
            "a:2: not a valid template: expected token 'end of print statement'",
        ),
        (
            "a: 1\nb: {% if k\n\nc: 1\n",
            "a:2: not a valid template: expected token 'end of statement block'",
        ),
        (
            "a: {{ 1 }}\nb: {% endif %}\n",
            "a:2: not a valid template: Encountered unknown tag 'endif'",
        ),
        ("a: 1\nb: {{ 2 ** 3 }}\n", r"a:2: pow is not allowed in templates"),
        (
            "{% for i in [1] %}\n{{ loop([2]) }}{% endfor %}\n",
            "a:2: not a valid template: .* is not safely callable",
        ),
    ],
)
def test_faults_are_reported_where_they_begin(text, message):
    """expand_template reports an open tag with the line where it begins, and other faults with
    their own line."""
    with pytest.raises(ConfigError, match=message):
        expand_template(text, path="a")
