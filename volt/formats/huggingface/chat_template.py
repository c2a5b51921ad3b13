"""Chat templates: Jinja that turns the messages of a chat into one text, as `apply_chat_template`
of transformers does.

>>> template_text("{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}")[:15]
'{{ bos_token }}'
>>> template_text("{{ bos_token }}\\n{% if %}")
Traceback (most recent call last):
    ...
volt.errors.ConfigError: chat template:2: Expected an expression, got 'end of statement block'; fix the template
"""

from __future__ import annotations

from pathlib import Path

from volt.errors import ConfigError, quoted, shown_path
from volt.files.small_files import read_text


def template_text(template: str | Path) -> str:
    """Return the text of a chat template whose syntax is valid.

    template: the text, or the path of a file as a Path

    Raises ConfigError, with file and line, if the file cannot be read, or if transformers cannot
    compile the template.
    """
    place = "chat template"
    text = template
    if isinstance(template, Path):
        place = shown_path(template)
        text = read_text(template, kind=ConfigError)
    if not isinstance(text, str):
        raise ConfigError(
            f"chat_template is {quoted(repr(template))}; "
            "pass the template as a string, or a Path to it"
        )
    if not text.strip():
        raise ConfigError(f"{place}: contains no template; write one, or leave it out")
    _compile(text, place)
    return text


def _compile(text: str, place: str) -> None:
    """Compile a template as transformers does, which adds the block `generation`, break and
    continue to Jinja.
    """
    from jinja2 import TemplateSyntaxError, nodes
    from jinja2.ext import Extension
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        tags = {"generation"}  # noqa: RUF012 - the type of the base class

        def parse(self, parser: Parser) -> list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    try:
        ImmutableSandboxedEnvironment(
            extensions=[Generation, "jinja2.ext.loopcontrols"]
        ).from_string(text)
    except TemplateSyntaxError as error:
        what = (error.message or "invalid syntax").rstrip(".")
        raise ConfigError(f"{place}:{error.lineno}: {what}; fix the template") from None
