"""`ErrorPolicy`: limits of unfit lines are exact, and quarantine files are checked before a run."""

import json
from pathlib import Path

import pytest

from volt.errors import ArgumentError, ConfigError, OutputError, StreamError
from volt.stream import ErrorPolicy
from volt.stream.reading.error_policy import (
    Fault,
    FaultCounter,
    check_quarantine,
    has_content,
    kind_of,
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_fault": "stop"}, "unknown on_fault 'stop'"),
        ({"on_fault": "quarantine"}, "give a quarantine file if, and only if, it is 'quarantine'"),
        ({"quarantine": "a"}, "give a quarantine file if, and only if, it is 'quarantine'"),
        ({"on_fault": "quarantine", "quarantine": 3}, "quarantine is 3"),
        (
            {"max_faults": -1},
            "max_faults=-1, max_share=None: give a count of 0 or more, and a share from 0 to 1",
        ),
        ({"max_faults": 1.5}, "max_faults is 1.5"),
        ({"max_share": 1.01}, "max_share=1.01: give a count"),
        ({"max_share": -0.01}, "max_share=-0.01: give a count"),
        ({"max_share": "1"}, "max_share is '1'"),
    ],
)
def test_limits_of_policies_are_checked(options, message):
    """ErrorPolicy accepts shares from 0 to 1 and counts of 0 or more, and refuses other values."""
    with pytest.raises((ConfigError, ArgumentError), match=message):
        ErrorPolicy(**options)
    ErrorPolicy(max_faults=0, max_share=0.0)
    ErrorPolicy(max_share=1)


@pytest.mark.parametrize(
    ("limits", "n_read", "n_faults", "exceeded"),
    [
        ({"max_faults": 2}, 0, 2, ""),
        ({"max_faults": 2}, 0, 3, "max_faults=2"),
        ({"max_faults": 0}, 0, 1, "max_faults=0"),
        ({"max_share": 0.25}, 999, 900, ""),
        ({"max_share": 0.25}, 1000, 250, ""),
        ({"max_share": 0.25}, 1000, 251, "max_share=0.25"),
        ({"max_share": 0.25}, 1001, 251, "max_share=0.25"),
        ({"max_share": 0.0, "max_faults": 9}, 1000, 1, "max_share=0.0"),
        ({}, 1000, 1000, ""),
    ],
)
def test_limits_of_faults_are_exact(limits, n_read, n_faults, exceeded):
    """FaultCounter allows the policy's number of faults; one more raises StreamError with the last
    fault and the limit."""
    counter = FaultCounter(ErrorPolicy("skip", **limits), n_read=n_read - 1, n_faults=n_faults - 1)
    fault = Fault("a.tsv", 7, "columns: 1")
    if exceeded:
        message = rf"^a\.tsv:7: columns: 1; unfit lines: {n_faults} of {n_read}, more than {exceeded} allows; fix the data$"
        with pytest.raises(StreamError, match=message):
            counter.charge(n_read=1, faults=[Fault("b", 0, "utf: x"), fault][1:])
    else:
        counter.charge(n_read=1, faults=[fault])
        counter.charge(n_read=2, faults=[])
        assert (counter.n_read, counter.n_faults, counter.reasons) == (
            n_read + 2,
            n_faults,
            {"columns": 1},
        )
    assert (fault.place, Fault("b", 0, "x: y").place, kind_of(fault)) == ("a.tsv:7", "b", "columns")


def test_quarantine_files_are_checked_and_appended_to(tmp_path):
    """FaultCounter refuses a URL, a folder, and a file in a missing folder; to other files, it
    appends faults in order."""
    for path, message in (
        ("s3://a/b", "it is a URL; name a local file"),
        (str(tmp_path), "it is a folder; name a file"),
        (str(tmp_path / "no" / "a"), "no such folder; create the folder"),
    ):
        with pytest.raises(OutputError, match=f"cannot be appended to: {message}"):
            check_quarantine(path)
    path = str(tmp_path / "unfit.jsonl")
    assert not has_content(None)
    assert not has_content(path)
    counter = FaultCounter(ErrorPolicy("quarantine", quarantine=path))
    for line in (2, 1):
        counter.charge(
            n_read=1, faults=[Fault("a", line, "utf: é", text="ü\t"), Fault("b", 0, "x")]
        )
    rows = [json.loads(row) for row in Path(path).read_text().splitlines()]
    assert [tuple(row.values()) for row in rows[::2]] == [
        ("a:2", "utf: é", "ü\t"),
        ("a:1", "utf: é", "ü\t"),
    ]
    assert "é" in Path(path).read_text()
    assert has_content(path)
