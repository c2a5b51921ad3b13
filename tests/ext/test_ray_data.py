"""`volt.ext.ray.encode` adds the ids of the local encoder to a dataset."""

import pyarrow as pa
import pytest

from volt import Encoder, SpecialTokens, WordCounts, learn_bpe, search

pytest.importorskip("pandas", reason="ray.data needs pandas")
data = pytest.importorskip("ray.data", reason="needs ray: make ray")

from ray.exceptions import RayTaskError  # noqa: E402

from volt.ext.ray import encode  # noqa: E402
from volt.ext.ray_cluster import connected  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
TEXTS = ["low lower", "", "für den newest", "two\nlines"] * 300 + ["last <url> Ω"]


@pytest.fixture(scope="module")
def cluster():
    with connected():
        yield


@pytest.fixture(scope="module")
def encoder():
    counts = WordCounts.from_pairs({"low": 5, "lower": 2, "newest": 6, "für": 3, "den": 1})
    special = SpecialTokens(user=("<url>",))
    return Encoder(search(learn_bpe(counts, 12), sizes=[15, 20], special=special).vocabulary)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("options", [{}, {"add_eos": True, "truncate": 3}], ids=str)
def test_ids_are_those_of_the_local_encoder(cluster, encoder, options, kind):
    """`encode` adds the ids of the local encoder to a dataset of several blocks, and changes
    neither the order nor the other columns."""
    table = pa.table({"number": range(len(TEXTS)), "line": pa.array(TEXTS, kind)})
    dataset = data.from_arrow([table[:500], table[500:]])
    found = encode(dataset, encoder.vocabulary, column="line", ids="tokens", **options)
    rows = sorted(found.take_all(), key=lambda row: row["number"])
    expected = encoder.encode_batch(TEXTS, **options)
    assert [list(row["tokens"]) for row in rows] == [
        expected[line].tolist() for line in range(len(TEXTS))
    ]
    assert [row["line"] for row in rows] == TEXTS
    assert pa.types.is_large_list(found.schema().base_schema.field("tokens").type)


@pytest.mark.parametrize(
    ("columns", "texts", "message"),
    [
        ({}, ["a"], "the dataset has no column 'text'; set column and ids; its columns are: line"),
        ({"column": "line", "ids": "line"}, ["a"], "the dataset already has a column 'line'"),
        ({"column": "line"}, ["a", None], "lines[1] is null; give an array without nulls"),
    ],
)
def test_wrong_columns_and_null_are_errors(cluster, encoder, columns, texts, message):
    """`encode` refuses a missing or existing column, and a null text.

    The error lists the columns; Ray wraps it in its own error.
    """
    dataset = data.from_arrow(pa.table({"line": pa.array(texts, pa.string())}))
    with pytest.raises(RayTaskError) as caught:
        encode(dataset, encoder.vocabulary, **columns).take_all()
    assert f"volt.errors.ConfigError: {message}" in str(caught.value)
