"""`volt stream cache` and `merge-states`; `vocabulary` is tested in test_debug.py."""

import json
from pathlib import Path


def test_the_cache_is_reported_and_pruned(volt_stream, stream_folder):
    """`volt stream cache` prints the size of the cache; --prune removes files not used for --days,
    which are created again."""
    first = volt_stream("run stream.yaml --limit 20 -q")
    report = json.loads(volt_stream("cache --json").stdout)
    assert report["folder"] == str(stream_folder / "cache" / "volt" / "stream")
    assert report["bytes"] > 0
    assert json.loads(volt_stream("cache --prune --json").stdout) == report
    pruned = json.loads(volt_stream("cache --prune --days 0 --json").stdout)
    assert (pruned["freed"], pruned["bytes"]) == (report["bytes"], 0)
    assert "0.0 MB, and 0.0 MB were removed" in volt_stream("cache nowhere --prune").message
    assert volt_stream("run stream.yaml --limit 20 -q") == first
    assert "needs --prune" in volt_stream("cache --days 3", status=2).message


def test_states_of_ranks_are_merged(volt_stream, stream_folder):
    """A run from the merged state of two ranks writes the lines that neither rank has written."""
    (stream_folder / "stream.yaml").write_text(
        "sources: {one: {path: one.tsv, epochs: 1, block_lines: 30}}"
    )
    lines = []
    for rank in (0, 1):
        options = f"--rank {rank} --world 2 --state {rank}.json --limit {10 + 30 * rank}"
        lines += volt_stream(f"run stream.yaml -q {options}").lines
    assert "2 states, 50 lines" in volt_stream("merge-states 0.json 1.json -o m.json").message
    lines += volt_stream("run stream.yaml --from-state m.json -q").lines
    assert sorted(lines) == sorted((stream_folder / "one.tsv").read_text().splitlines())
    assert json.loads(volt_stream("merge-states 0.json 1.json -o -").stdout)["n"] == 50
    volt_stream("merge-states 0.json 1.json -o 0.json", status=2)


def test_merged_states_say_where_new_ranks_continue(volt_stream):
    """`volt stream merge-states --world` prints the line at which each new rank continues, and from
    which --ack counts."""
    for rank in (0, 1):
        options = f"--rank {rank} --world 2 --state {rank}.json --limit {40 + rank}"
        volt_stream(f"run default one.tsv -q {options}")
    message = volt_stream("merge-states 0.json 1.json -o m.json --world 4").message
    assert "rank 0 of 4: continue from line 21; count from 21 for --ack" in message
    assert "ranks 1 to 3 of 4: continue from line 20; count from 20 for --ack" in message
    Path("used").write_text("23\n")
    command = "run default one.tsv --rank 0 --world 4 --from-state m.json -q"
    lines = volt_stream(f"{command} --limit 5").lines
    assert volt_stream(f"{command} --limit 3 --ack used").lines == lines[2:]


def test_lines_after_a_state_are_skipped(volt_stream):
    """`volt stream skip` writes a state that continues after the range; `trace --state` reports the
    skipped lines."""
    whole = volt_stream("run stream.yaml -q --limit 60").lines
    volt_stream("run stream.yaml -q --limit 20 --state a.json")
    assert "continues at 30" in volt_stream("skip stream.yaml a.json 20:30 -o b.json").message
    assert volt_stream("run stream.yaml -q --limit 30 --state b.json --resume").lines == whole[30:]
    for line, is_skipped in ((19, False), (20, True), (29, True), (30, False)):
        trace = volt_stream(f"trace stream.yaml {line} --state b.json --json").stdout
        assert json.loads(trace)["skipped"] is is_skipped
    shown = volt_stream("trace stream.yaml 20 --state b.json").stdout
    assert b"skipped  in the run of b.json" in shown
    assert "not line 10" in volt_stream("skip stream.yaml a.json 10:30 -o c.json", status=1).message
    assert "such as 120:130" in volt_stream("skip stream.yaml a.json 9 -o c.json", status=2).message
