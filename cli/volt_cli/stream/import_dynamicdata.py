"""`volt stream import-dynamicdata`: a configuration of OpenNMT-py's dynamicdata loader → one of a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from volt.errors import ConfigError
from volt_cli.console import say
from volt_cli.inputs import readable_config
from volt_cli.options import Quiet
from volt_cli.places import check_place, check_places, is_stdout, say_written, write_bytes
from volt_cli.stream.choosing import Settings, values_of


def import_dynamicdata(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", callback=readable_config, help="The YAML file of dynamicdata.")
    ],
    out: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write the configuration, or - for stdout.")
    ],
    batch_samples: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The samples of a minibatch, which its schedule counts.")
    ] = None,
    settings: Settings = None,
    quiet: Quiet = False,
) -> None:
    """Read a configuration of OpenNMT-py's dynamicdata loader, and write it as VOLT's.

    Inputs stand at the top level of dynamicdata's file, and name their tasks: inputs: {NAME: {src: FILE, tgt: FILE,
    task: TASK}}. Says on stderr, and in comments of the new file, which keys mean something else here or have no
    counterpart.
    """
    from volt.files.whole import read_text
    from volt.stream.config.dynamicdata import imported

    check_places([out], [config])
    check_place(out)
    folder = "" if is_stdout(out) else out.parent
    found = imported(
        read_text(config, kind=ConfigError), path=str(config), values=values_of(settings), folder=folder,
        batch_samples=batch_samples, check_files=True,
    )  # fmt: skip
    write_bytes(found.text.encode(), out)
    if not quiet:
        for note in found.notes:
            say(note, mark="note", style="bold yellow")
        say_written(out, f"next: volt stream preview {out}" if not is_stdout(out) else "")
