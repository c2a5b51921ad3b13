"""A state with two sources: one in the middle of an epoch whose lines ranks have divided, and one
that has ended."""

from volt.stream.reading.unread_lines import FOREVER, LineBlock, UnreadLines
from volt.stream.running.state import Cursor, State

SOURCE = {"n_lines": 40, "block_lines": 8, "epochs": None, "weight": 1.0, "transforms": ["drop 1a"]}
UNREAD = (
    UnreadLines(
        2,
        (range(8), range(20, 30)),
        (
            LineBlock(
                2, 8, 8, range(1, FOREVER, 2), ((range(3, FOREVER, 2), range(6, FOREVER, 2)),)
            ),
        ),
    ),
    UnreadLines(3, (range(40),)),
)
CURSORS = {"wmt": Cursor(50, 3, 0, 5, unread=UNREAD), "crawl": Cursor(20, 0, 16, 4, 2, 3)}
STATE = State(
    70,
    CURSORS,
    {"seed": 1, "rank": 0, "world": 1, "sources": {"wmt": SOURCE, "crawl": SOURCE}},
    60,
    {"wmt": 40, "crawl": 20},
    ("crawl",),
    90,
    3,
    {"columns": 2, "utf": 1},
    ("weights",),
)
