"""Pages that are made when the site is built: of commands, of keys, and of files in the root of the code.

the typer app  → reference/commands.md, reference/stream-commands.md
the schema     → reference/configuration.md
CHANGELOG.md   → changelog.md
CONTRIBUTING.md → contributing.md
notebooks/*.ipynb → notebooks/*.md, and their pictures
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from notebook_pages import notebook_files

ROOT = Path(__file__).resolve().parent.parent


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    made: dict[str, str | bytes] = {
        "reference/commands.md": commands_page(),
        "reference/stream-commands.md": stream_commands_page(),
        "reference/configuration.md": configuration_page(),
        "changelog.md": root_page("CHANGELOG.md"),
        "contributing.md": root_page("CONTRIBUTING.md"),
    }
    for place, content in (made | notebook_files()).items():
        files.append(File.generated(config, place, content=content))
    return files


def on_page_content(content: str, **_: Any) -> str:
    """Mark options, which are not broken, and long lines of prose that commands print, which are."""
    content = re.sub(r"<code>(--?\w[^<]{,28})</code>", r'<code class="option">\1</code>', content)
    return re.sub(r'<span class="go">([^<]{40,})</span>', _printed_line, content)


def _printed_line(found: re.Match[str]) -> str:
    """A line that a command prints; prose is indented by the width of its label, such as "answer    "."""
    text = found[1]
    label = re.match(r"\S+( \S+)? {2,}| *", text)[0]
    if "  " in text[len(label) :]:
        return found[0]
    return f'<span class="go prose" style="--hang: {len(label)}ch">{text}</span>'


def root_page(name: str) -> str:
    """A file of the root, whose links to other files of the code are plain text here."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#)[^)]+\)", r"\1", text)


# Commands


def commands_page() -> str:
    """Every command but those of streams."""
    tree = _tree()
    named = {f"volt {name}": command for name, command in tree.commands.items() if name != "stream"}
    return _page("Commands", "The same as `volt COMMAND --help`.", named)


def stream_commands_page() -> str:
    """Every command of streams."""
    tree = _tree().commands["stream"]
    named = {f"volt stream {name}": command for name, command in tree.commands.items()}
    return _page("Commands of streams", "The same as `volt stream COMMAND --help`.", named)


def _tree() -> Any:
    from typer.main import get_command

    from volt_cli.app import build_app

    return get_command(build_app())


def _page(title: str, introduction: str, commands: dict[str, Any]) -> str:
    return "\n\n".join(
        [f"# {title}", introduction, *(_section(*item) for item in commands.items())]
    )


def _section(name: str, command: Any) -> str:
    from volt_cli.command_help import EXAMPLES

    arguments = [param for param in command.params if param.param_type_name == "argument"]
    usage = " ".join([name, "[OPTIONS]", *(argument.metavar for argument in arguments)])
    examples = "\n".join(f"$ {line}" for line in EXAMPLES[name.removeprefix("volt ")])
    fences = f"```text\n{usage}\n```", f"```console\n{examples}\n```"
    return "\n\n".join(
        [f"## {name}", fences[0], escaped(command.help), *_tables(command), fences[1]]
    )


def _tables(command: Any) -> Iterator[str]:
    """A table for the arguments and options of each panel, in the order of the help."""
    panels = dict[str, list[Any]]()
    for param in command.params:
        usual = "Arguments" if param.param_type_name == "argument" else "Options"
        panels.setdefault(param.rich_help_panel or usual, []).append(param)
    for panel, params in panels.items():
        rows = "\n".join(f"| {_spelled(param)} | {_meaning(param)} |" for param in params)
        yield f"| {panel} | |\n| --- | --- |\n{rows}"


def _spelled(param: Any) -> str:
    if param.param_type_name == "argument":
        return f"`{param.metavar}`"
    value = (
        ""
        if param.is_flag
        else param.metavar or "|".join(get_args(param.type_descriptor.annotation))
    )
    names = sorted(param.opts, key=len, reverse=True) + param.secondary_opts
    return ", ".join(
        [
            f"`{names[0]} {value}`" if value else f"`{names[0]}`",
            *(f"`{name}`" for name in names[1:]),
        ]
    )


def _meaning(param: Any) -> str:
    shown = (
        param.show_default
        and not getattr(param, "is_flag", False)
        and param.default not in (None, "")
    )
    default = f" Default: `{param.default}`." if shown else ""
    return escaped(param.help or "") + default


def escaped(text: str) -> str:
    """Text that holds no Markdown but code between backticks.

    >>> escaped("Put `<s>` or </w> | *")
    'Put `<s>` or &lt;/w&gt; &#124; \\\\*'
    """
    parts = text.split("`")
    parts[::2] = [
        re.sub(r"([*_\[\]])", r"\\\1", html.escape(part, quote=False)).replace("|", "&#124;")
        for part in parts[::2]
    ]
    return "`".join(parts)


# Keys of a configuration


def configuration_page() -> str:
    """Return the output of `volt stream schema` as a page: sections, their options, and meanings."""
    from volt.stream.config.json_schema import as_text

    head = "# Configuration of a stream\n\nThe same as `volt stream schema`; `--json` prints a JSON schema.\n\n"
    return head + "\n".join(map(_schema_line, _unwrapped(as_text()).split("\n")))


def _unwrapped(text: str) -> str:
    """The text, in which what an option means is one line."""
    return re.sub(r"(?:\n {6}\S.*)+", lambda found: "\n      " + " ".join(found[0].split()), text)


def _schema_line(line: str) -> str:
    """A section's title, an option with its kind, what it means, or text."""
    if found := re.fullmatch(r"(\S.*?) — (.+)", line):
        return f"## {found[1]} {{ #{re.sub(r'[^a-z]+', '-', found[1].lower()).strip('-')} }}\n\n{escaped(found[2])}"
    if found := re.fullmatch(r"  (\S+): (.+)", line):
        return f"\n- `{found[1]}` *{escaped(found[2])}*{{ .kind }}\n"
    return f"    {escaped(line.strip())}" if line.startswith("      ") else escaped(line)
