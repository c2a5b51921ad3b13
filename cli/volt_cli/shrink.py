"""`volt shrink`: a vocabulary with fewer ids, and a map from the old ids to the new ones."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from volt.display import counted
from volt.errors import ConfigError, VocabularyError
from volt_cli.console import Phases, prepare_kernels, print_json, say, warn
from volt_cli.io import (
    check_destinations,
    count_text,
    load_model,
    report_written,
    save_vocabulary,
    warn_of_table_columns,
    write_bytes,
)
from volt_cli.options import (
    Json,
    Output,
    Quiet,
    TableReading,
    argument,
    expand_inputs,
    flag,
    option,
    readable,
)

if TYPE_CHECKING:
    from volt.choose.shrink import Shrunk

MOST_UNKNOWN = 0.01  # share of unknown pieces; with more, the texts seem to be the wrong ones


@dataclass(frozen=True, kw_only=True)
class ShrinkOptions:
    model: Annotated[
        Path,
        argument(
            "MODEL", "A file of VOLT or of another library.", callback=readable(VocabularyError)
        ),
    ]
    to: Annotated[
        int, option("N", "Number of remaining ids, including special and byte tokens.", "--to")
    ]
    texts: Annotated[
        list[str],
        option(
            "TEXT",
            "Files, globs or folders to encode; may be repeated.",
            "--on",
            callback=expand_inputs,
        ),
    ]
    reading: TableReading
    out: Output
    id_map: Annotated[
        Path | None,
        option(
            "FILE", "Where to write each old id's new id, -1 if dropped: .npy or .json.", "--map"
        ),
    ] = None
    closed: Annotated[
        bool,
        flag(
            "Keep tokens that longer ones need, for other libraries; what MODEL dropped before stays dropped.",
            "--closed",
        ),
    ] = False
    drop_atoms: Annotated[
        bool, flag("Also drop characters that TEXT lacks; they become unknown.", "--drop-atoms")
    ] = False
    as_json: Json = False
    quiet: Quiet = False


def shrink(options: ShrinkOptions) -> None:
    """Drop the tokens of a vocabulary that a corpus needs least.

    Encodes TEXT, and drops one token at a time, always the one whose removal adds the fewest
    pieces, or of a unigram model, costs the text the least probability. The remaining ids keep
    their order. --map writes the new id of each old id, for copying the rows of an embedding.
    """
    from volt.choose.shrink import shrink as run_shrink

    model = options.model
    out = options.out
    id_map = options.id_map
    check_destinations(
        {"output": out, "map": id_map}, options.texts, model=model, json=options.as_json
    )
    if id_map is not None and not str(id_map).endswith((".npy", ".json")):
        raise ConfigError(f"--map {id_map}: has an unknown format; end its name with .npy or .json")
    old = load_model(model, texts=options.texts, option="MODEL", quiet=options.quiet)
    if not options.quiet and not options.reading.names_columns:
        warn_of_table_columns(options.texts, "counted")
    phases = Phases(quiet=options.quiet)
    prepare_kernels(phases, "words")
    counts = count_text(
        options.texts,
        phases,
        normalizer=old.normalizer,
        pretokenizer=old.pretokenizer,
        special=old.special,
        **options.reading.limits,
    )
    keep_atoms = not options.drop_atoms
    with phases.phase("shrink"):
        result = run_shrink(
            old, counts, to=options.to, closed=options.closed, keep_atoms=keep_atoms
        )

    save_vocabulary(result.vocabulary, out)
    if id_map is not None:
        write_bytes(_id_map_bytes(result, id_map), id_map)
    summary = _summary(result, counts.n_lines or 1)
    if options.as_json:
        print_json({**summary, "output": str(out), "map": id_map and str(id_map)}, indent=1)
    elif not options.quiet:
        _report(result, summary, out, id_map, closed=options.closed)


def _id_map_bytes(result: Shrunk, path: Path) -> bytes:
    """Return the new id of each old id, as JSON or in NumPy's format, by the ending of the file."""
    import numpy as np

    if str(path).endswith(".json"):
        return json.dumps(result.new_ids.tolist()).encode() + b"\n"
    file = io.BytesIO()
    np.save(file, result.new_ids)
    return file.getvalue()


def _summary(result: Shrunk, n_lines: int) -> dict[str, Any]:
    return {
        "ids": len(result.vocabulary),
        "dropped": int((result.new_ids < 0).sum()),
        "scaffolding": len(result.vocabulary.scaffolding),
        "pieces_before": result.n_pieces_before,
        "pieces": result.n_pieces,
        "pieces_per_line_before": result.n_pieces_before / n_lines,
        "pieces_per_line": result.n_pieces / n_lines,
        "fingerprint": result.vocabulary.fingerprint,
    }


def _report(
    result: Shrunk, summary: dict[str, Any], out: Path, id_map: Path | None, *, closed: bool
) -> None:
    if result.n_unknown > MOST_UNKNOWN * result.n_pieces:
        share = 100 * result.n_unknown / result.n_pieces
        warn(f"{share:.3g} % of the pieces are unknown characters; --on may be of another language")
    before = summary["pieces_per_line_before"]
    after = summary["pieces_per_line"]
    say(f"{before:.2f} pieces a line become {after:.2f}: {after / before - 1:+.1%}")
    if summary["scaffolding"]:
        merged = counted(summary["scaffolding"], "dropped token")
        remedy = "--closed keeps such tokens"
        if closed:
            remedy = "MODEL had dropped them before, and an export adds them"
        say(f"note: encoding still merges {merged}, and splits the result; {remedy}")
    n_ids = len(result.new_ids)
    model = result.vocabulary.describe_model()
    report_written(out, f"{summary['ids']:,} ids of {n_ids:,}, {model}")
    if id_map is not None:
        report_written(id_map, f"the new id of each of {n_ids:,} old ids")
