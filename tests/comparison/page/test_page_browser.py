"""The page in a browser: it splits as the encoder does, sorts, searches, and loads nothing."""

import os
import shutil
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain

import pytest
from support.drawn import DRAWS_ALL
from support.pages import (
    HOSTILE,
    hostile_comparison,
    small_comparison,
    spaced_comparison,
    topics_comparison,
)

from volt.comparison.compare import compare
from volt.comparison.page.page import write_page
from volt.encode.encoder import Encoder

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is missing: pip install 'volt-vocab[dev]'"
)
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="the browser chromium is not installed")
WAIT = 20_000  # milliseconds; generous, so that only what hangs fails
WIDTHS = [1280, 390]
KEYS = ["token", "count", "rank", "length", "appears", "peak", "peak_count", "scaffolding"]


class Browsed:
    """A page in the browser, with its errors and requests."""

    def __init__(self, page, path):
        self.page = page
        self.path = path
        self.find = page.locator
        self.complaints = []
        page.set_default_timeout(WAIT)
        page.on(
            "console", lambda message: self.complaints.append(f"{message.type}: {message.text}")
        )
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (self.complaints.append("dialog"), dialog.dismiss()))
        page.route("**/*", self._refuse)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=yes]")

    def _refuse(self, route):
        if route.request.url.split("#")[0] == self.path.as_uri():
            route.continue_()
        else:
            self.complaints.append(f"request: {route.request.url}")
            route.abort()

    def pieces(self, box):
        """Return the pieces in an element, as the vocabulary spells them."""
        script = "(box) => [...document.querySelectorAll(box + ' .piece')].map((piece) => piece.dataset.piece)"
        return list(self.page.evaluate(script, box))

    def text(self, selector):
        """Return the text that an element shows."""
        return self.find(selector).inner_text()

    def move(self, index):
        """Set the slider to the size with this index."""
        self.find("#size").fill(str(index))

    def column(self, number, *, table="#token-table"):
        """Return the values of a column's cells. number: from 1"""
        script = "(cells) => [...document.querySelectorAll(cells)].map((cell) => JSON.parse(cell.dataset.value))"
        return list(self.page.evaluate(script, f"{table} tbody tr > :nth-child({number})"))

    def sort(self, number, *, table="#token-table"):
        """Press a column's header."""
        self.find(f"{table} thead th:nth-child({number}) button").click()

    def overflows(self):
        """Check whether the page is wider than the window."""
        script = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        return self.page.evaluate(script)


@contextmanager
def opened(browser, path, *, width=WIDTHS[0], **options):
    """Open a page; check that it had no errors and requests when it is closed."""
    browsed = Browsed(browser.new_page(viewport={"width": width, "height": 844}, **options), path)
    yield browsed
    browsed.page.close()
    assert browsed.complaints == []


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=2 * WAIT
        )
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def topics_page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "topics.html"
    write_page(topics_comparison(), path)
    return path


@pytest.fixture(params=WIDTHS if DRAWS_ALL else WIDTHS[-1:])
def topics(browser, topics_page, request):
    """Open the page in a narrow window, in campaigns also in a wide one."""
    with opened(browser, topics_page, width=request.param, color_scheme="light") as browsed:
        yield browsed


def encoder_at(comparison, index, *, splits):
    """Return the encoder of a searched size, with its kept tokens or all tokens."""
    candidates = comparison.search.candidates
    step = comparison.search.steps[index]
    tokens = zip(candidates.tokens, step.kept, strict=False)
    vocabulary = replace(
        comparison.search.vocabulary,
        merges=tuple(candidates.merges[: candidates.merges_at(step.size)]),
        tokens=tuple(token for token, is_kept in tokens if is_kept or not splits),
        counts=(),
    )
    return Encoder(vocabulary)


def assert_cuts_as_encoder(browsed, comparison, own):
    """Compare samples and typed text with the encoder, at three sizes, with and without splitting."""
    lines = [line for _, line in comparison.samples.samples]
    last = len(comparison.search.steps) - 1
    browsed.find("#own").fill(own)
    for splits in (True, False):
        browsed.find("#splits").set_checked(splits)
        for index in {0, last // 3, last}:
            browsed.move(index)
            encoder = encoder_at(comparison, index, splits=splits)
            expected = list(chain.from_iterable(encoder.encode_lines(lines)))
            assert browsed.pieces("#samples") == expected
            assert browsed.pieces("#own-line") == encoder.encode(own)
            assert browsed.text("#sample-total") == f"{len(expected):,}"


def test_the_slider_splits_as_the_encoder(topics):
    """At each size of the slider, samples and typed text have the pieces of the encoder of that
    size."""
    own = "Unforgettable  __getattr__\tnaïve ĸ日本\u2003x  \U0001f600 " + "ab" * 60
    assert_cuts_as_encoder(topics, topics_comparison(), own)


def test_the_slider_splits_as_in_the_json(topics):
    """At each size of the slider, the pieces and their counts are the sample cuts of the JSON."""
    data = topics_comparison().as_data()
    samples, tokens = data["samples"], data["tokens"]["token"]
    for index, size in enumerate(samples["sizes"]):
        topics.move(index)
        flat = list(chain.from_iterable(chain.from_iterable(samples["cuts"][index])))
        pieces = [piece if isinstance(piece, str) else tokens[piece] for piece in flat]
        assert topics.pieces("#samples") == pieces
        script = "[...document.querySelectorAll('#samples .piece')].map((piece) => piece.title)"
        for title, piece in zip(topics.page.evaluate(script), flat, strict=True):
            assert f"count {samples['counts'][index][str(piece)]:,}, rank " in title
        assert topics.text("#size-shown") == f"{size:,}"


def test_the_slider_moves_by_keyboard(topics):
    """Arrow keys, Home, End and the buttons of the picks move the slider, which states its size."""
    steps, slider = topics_comparison().search.steps, topics.find("#size")
    slider.focus()
    for key, index in (
        ("Home", 0),
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("End", len(steps) - 1),
    ):
        topics.page.keyboard.press(key)
        assert slider.get_attribute("aria-valuetext") == f"{steps[index].size:,} tokens"
    pick = topics_comparison().search.pick
    topics.find(f"[data-jump='{pick.index}']").press("Enter")
    assert topics.text("#size-shown") == f"{pick.size:,}"


def test_pieces_are_reached_by_arrow_keys(topics):
    """A sample line is one stop of the Tab key; arrow keys move between its pieces, which are
    described."""
    first, second = (topics.find("#samples .piece").nth(n) for n in range(2))
    first.focus()
    topics.page.keyboard.press("ArrowRight")
    assert topics.text("#detail") == second.get_attribute("title")
    assert "rank" in topics.text("#detail")
    assert topics.find("#samples .line:first-child .piece[tabindex='0']").count() == 1


def test_the_slider_is_fast(topics, record_property):
    """The slider shows every size within two seconds."""
    times = topics.page.evaluate("""() => [...Array(Number(size.max) + 1).keys()].map((index) => {
        const start = performance.now();
        size.value = index;
        size.dispatchEvent(new Event("input"));
        document.body.offsetHeight;
        return performance.now() - start;
    })""")
    record_property("slider_ms", [round(time, 1) for time in times])
    assert max(times) < 2_000


def test_the_token_table_sorts(topics):
    """The token table sorts numbers in both directions over all pages, with missing values last."""
    columns = topics_comparison().as_data()["tokens"]
    for number, key in enumerate(KEYS[1:], start=2):
        if key == "rank":
            continue  # sorted by rank at first, and below
        present = sorted(value for value in columns[key] if value is not None)
        topics.sort(number)
        missing = [None] * len(columns[key])
        shown = topics.column(number)
        assert shown == (present[::-1] + missing)[: len(shown)]
        topics.sort(number)
        assert topics.column(number) == (present + missing)[: len(shown)]
        head = topics.find(f"#token-table th:nth-child({number})")
        assert head.get_attribute("aria-sort") == "ascending"


def test_the_token_table_shows_the_json(topics):
    """Each row of the token table has the JSON's values of the token."""
    columns = topics_comparison().as_data()["tokens"]
    shown = list(zip(*(topics.column(number) for number in range(1, 9)), strict=True))
    rows = {row[0]: row for row in zip(*(columns[key] for key in KEYS), strict=True)}
    assert shown == [rows[row[0]] for row in shown]
    assert [row[2] for row in shown] == list(range(1, len(shown) + 1))
    texts = topics.find("#token-table tbody tr:first-child td").all_inner_texts()
    assert texts == ["–" if value is None else f"{value:,}" for value in shown[0][1:]]


def test_the_token_table_is_searched_and_paged(topics):
    """Typing in the token table's box selects the tokens with that text, in any case; its pages
    turn, and end."""
    tokens = topics_comparison().as_data()["tokens"]["token"]
    topics.find("#query").press_sequentially("ING")
    matches = [token for token in tokens if "ing" in token.lower()]
    assert topics.text("#tokens [role=status]").endswith(f" {len(matches)} tokens")
    assert set(topics.column(1)) <= set(matches)
    topics.find("#query").fill("no such token")
    assert topics.column(1) == []
    topics.find("#query").fill("")
    seen = set(topics.column(1))
    topics.page.get_by_role("button", name="Next", exact=True).click()
    assert not seen & set(topics.column(1))
    topics.page.get_by_role("button", name="Last").click()
    assert topics.text("#tokens [role=status]").split()[0].endswith(f"–{len(tokens):,}")
    assert topics.page.get_by_role("button", name="Next", exact=True).is_disabled()


def test_a_table_of_systems_sorts(topics):
    """A table of systems sorts by number and by name, and loses no row."""
    before = topics.column(1, table="#systems-training")
    topics.sort(2, table="#systems-training")
    sizes = topics.column(2, table="#systems-training")
    assert sizes == sorted(sizes, reverse=True)
    topics.sort(1, table="#systems-training")
    assert topics.column(1, table="#systems-training") == sorted(before)


def test_the_theme_switches(topics):
    """The theme button switches between the system's, the light and the dark theme; print is light."""
    script = """() => [document.body, document.querySelector(".chart svg .role-axis-label text")].map(
        (one) => getComputedStyle(one)[one === document.body ? "backgroundColor" : "fill"])"""
    themes = {}
    for name in ("light", "dark"):
        topics.find("#theme").click()
        assert topics.text("#theme") == f"Theme: {name}"
        themes[name] = topics.page.evaluate(script)
    assert all(light != dark for light, dark in zip(themes["light"], themes["dark"], strict=True))
    topics.find("#theme").click()
    assert topics.page.evaluate(script) == themes["light"]
    topics.page.emulate_media(color_scheme="dark")
    assert topics.page.evaluate(script) == themes["dark"]
    topics.page.emulate_media(media="print")
    assert topics.page.evaluate(script)[1] == themes["light"][1]


def test_the_page_fits_its_window(topics):
    """The page never scrolls sideways, and its charts are within the window."""
    for width in WIDTHS:
        topics.page.set_viewport_size({"width": width, "height": 844})
        for index in (0, len(topics_comparison().search.steps) - 1):
            topics.move(index)
            assert not topics.overflows()
        for n in range(5):
            box = topics.find(".chart svg").nth(n).bounding_box()
            assert box["width"] > 200
            assert 0 <= box["x"] <= width - box["width"]


def test_controls_have_names_and_are_reached_by_tab(topics):
    """Every control of the page has a name, and the Tab key reaches it."""
    unnamed = topics.page.evaluate("""() => [...document.querySelectorAll("button, input, textarea")].filter(
        (one) => !one.textContent.trim() && !one.labels?.length && !one.ariaLabel).map((one) => one.outerHTML)""")
    assert unnamed == []
    wanted = {"theme", "size", "splits", "own", "query"}
    topics.page.evaluate("document.activeElement.blur()")
    seen = set()
    for _ in range(200):
        topics.page.keyboard.press("Tab")
        seen.add(topics.page.evaluate("document.activeElement.id"))
        if wanted <= seen:
            break
    assert wanted <= seen


@pytest.mark.parametrize("width", WIDTHS if DRAWS_ALL else WIDTHS[-1:])
def test_hostile_tokens_are_shown_as_text(browser, tmp_path, width):
    """Markup, quotes and direction characters in tokens are shown as text, and neither run nor load
    anything."""
    comparison = hostile_comparison()
    write_page(comparison, tmp_path / "hostile.html")
    with opened(browser, tmp_path / "hostile.html", width=width) as browsed:
        page = browsed.page
        assert_cuts_as_encoder(browsed, comparison, " ".join(HOSTILE))
        for text in HOSTILE:
            page.locator("#query").fill(text.split()[0])
        page.locator("#query").fill("")
        page.locator("#samples .piece").first.hover()
        page.locator("#chart-fertility .mark-symbol path").first.hover()
        assert page.evaluate("'broken' in window") is False
        markup = "main script, main img, .piece *, #tokens bdi > :not(.marker), .source bdi *"
        markup += ", #sources bdi *, #systems bdi *, #tooltip b *, header bdi *"
        assert page.locator(markup).count() == 0
        assert "⟨U+202E⟩" in browsed.text("#samples")
        assert not set(browsed.text("body")) & set("\u202e\u202d\u2066\u200f\u200b")
        assert page.evaluate("""[...document.querySelectorAll('.piece')].every(
            (piece) => getComputedStyle(piece).unicodeBidi === 'isolate')""")
        assert not browsed.overflows()


def test_typed_text_is_normalized_as_in_python(browser, tmp_path):
    """The page normalises typed text, and splits it at spaces, as Python does."""
    comparison = spaced_comparison("metaspace", "nfkc+lowercase")
    write_page(comparison, tmp_path / "spaced.html")
    with opened(browser, tmp_path / "spaced.html") as browsed:
        assert_cuts_as_encoder(
            browsed, comparison, " ＶＯＬＴ ﬁnds  ▁tokens İ ΟΔΥΣΣΕΥΣ e\u0301 ½ \u00a0x "
        )


def test_other_pretokenizers_have_no_text_box(browser, tmp_path):
    """With a pre-tokenizer that the script lacks, the page has samples, but no box for text."""
    comparison = spaced_comparison("gpt2", "none")
    write_page(comparison, tmp_path / "gpt2.html")
    with opened(browser, tmp_path / "gpt2.html") as browsed:
        assert browsed.find("#own").count() == 0
        encoder = encoder_at(comparison, comparison.search.pick.index, splits=True)
        lines = [line for _, line in comparison.samples.samples]
        assert browsed.pieces("#samples") == list(chain.from_iterable(encoder.encode_lines(lines)))


@pytest.mark.parametrize("sizes", [[100], None])
def test_smallest_comparisons_have_a_page(browser, tmp_path, sizes):
    """A comparison of one size, or of three lines, gives a page without errors or empty charts."""
    comparison = small_comparison(sizes)
    write_page(comparison, tmp_path / "small.html")
    with opened(browser, tmp_path / "small.html") as browsed:
        has_muv = any(step.muv is not None for step in comparison.search.steps)
        assert browsed.find("#chart-muv").count() == has_muv
        n_charts = browsed.find(".chart").count()
        assert browsed.find(".chart svg").count() == n_charts >= 4


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.parametrize("n_lines", [6_000, 29_000])
def test_a_page_of_30000_candidates_is_small(browser, lines, tmp_path, n_lines):
    """On real text with 30,000 candidates, the page is below 5 MB, and splits as the encoder."""
    for name in ("en", "de", "fr", "cs"):
        text = "".join(f"{line}\n" for line in lines(f"multi30k/train.{name}.gz", n_lines))
        (tmp_path / f"train.{name}").write_text(text, encoding="utf-8")
    comparison = compare(
        [str(path) for path in sorted(tmp_path.glob("train.*"))], systems=["bpe:8000"]
    )
    write_page(comparison, tmp_path / "multi30k.html")
    assert os.path.getsize(tmp_path / "multi30k.html") < 5_000_000
    for width in WIDTHS:
        with opened(browser, tmp_path / "multi30k.html", width=width) as browsed:
            assert_cuts_as_encoder(
                browsed, comparison, "Zwei Männer  gehen über die straße žena l'été"
            )
            assert not browsed.overflows()
