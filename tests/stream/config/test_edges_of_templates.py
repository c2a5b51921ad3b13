"""Templates whose tags stand within lines, and where faults in a template are found."""

from __future__ import annotations

import pytest

from volt.errors import ConfigError
from volt.stream.config.template_rendering import expanded, parse_template


@pytest.mark.parametrize("kind", ["v", "w"])
def test_a_tag_at_the_end_of_a_line_takes_no_line_end(kind: str) -> None:
    """Neither of a comment, which would swallow the next key, nor of a value, to which the next line would be added."""
    text = '# mix {% if k == "v" %}big{% endif %}\nweight: {% if k == "v" %}1{% else %}2{% endif %}\nseed: 3\n'
    found = parse_template(text, path="a", values={"k": kind})
    assert found.value == {"weight": 1 if kind == "v" else 2, "seed": 3}
    assert [found.line((key,)) for key in ("weight", "seed")] == [2, 3]


def test_a_tag_before_a_key_takes_no_indent() -> None:
    """The key stays where it is, and an error names its line, also if another line's indent stands before it."""
    found = parse_template("a:\n    b: 1\n    {% if 1 %}weight: 3{% endif %}\nseed: 3\n", path="a")
    assert found.value == {"a": {"b": 1, "weight": 3}, "seed": 3}
    assert found.line(("a", "weight")) == 3
    moved = expanded("a:\n    {% if 0 %}\n    b: 1\n    {% endif %}weight: 3\n", path="a")
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
def test_faults_are_where_they_begin(text: str, message: str) -> None:
    """A place that has no end is reported with the line in which it opens, and other faults with their own line."""
    with pytest.raises(ConfigError, match=message):
        expanded(text, path="a")
