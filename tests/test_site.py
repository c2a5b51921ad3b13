"""The site: it builds without a warning, and opens as files, with nothing fetched from elsewhere or cut off."""

import doctest
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from itertools import product

import pytest
from support.places import ROOT

pytest.importorskip("mkdocs", reason="mkdocs is missing: pip install 'volt-vocab[docs]'")
pytest.importorskip(
    "mkdocstrings", reason="mkdocstrings is missing: pip install 'volt-vocab[docs]'"
)
pytestmark = pytest.mark.slow
CHROMIUM = shutil.which("chromium")
WAIT = 20_000  # milliseconds; generous, so that only what hangs fails


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-q",
        "-f",
        "docs/mkdocs.yml",
        "-d",
        str(folder),
    ]
    environment = os.environ | {
        "NO_MKDOCS_2_WARNING": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "cli")]),
    }
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return folder


@pytest.mark.parametrize("name", ["docstrings", "hooks", "notebook_pages"])
def test_what_makes_pages_does_as_its_examples_say(name, monkeypatch):
    """The examples of docs/*.py give their results."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    results = doctest.testmod(module)
    assert results.attempted
    assert not results.failed


def test_every_command_key_and_public_name_has_its_place(site):
    """The reference has every command, transform and public name."""
    import volt
    from volt import batches, stream
    from volt.stream.transforms.registry import TRANSFORMS
    from volt_cli.command_help import EXAMPLES

    commands = (site / "reference" / "commands.html").read_text() + (
        site / "reference" / "stream-commands.html"
    ).read_text()
    for command in EXAMPLES:
        assert command in ("volt", "stream") or f'id="volt-{command.replace(" ", "-")}"' in commands
    configuration = (site / "reference" / "configuration.html").read_text()
    for name in TRANSFORMS:
        assert f'id="{name.replace("_", "-")}"' in configuration
    python = "".join(path.read_text() for path in (site / "reference").glob("python*.html"))
    functions = {
        name
        for module in (volt, stream, batches)
        for name in module.__all__
        if not hasattr(module, f"{name}.__path__")
    }
    wings = {
        "batches",
        "choose",
        "comparison",
        "count",
        "encode",
        "errors",
        "files",
        "formats",
        "learn",
        "stream",
        "text",
        "vocabulary",
    }
    shown = set(re.findall(r'<h[23] id="volt[\w.]*\.(\w+)"', python))
    assert functions - wings <= shown


def test_no_page_loads_from_elsewhere(site):
    """Scripts, styles, pictures, frames and fonts are files of the site."""
    for path in site.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|img|iframe|link)[^>]*?(?:src|href)="?(https?:[^" >]+)', path.read_text()
        )
        assert loaded == [], path


@pytest.fixture(scope="module")
def browser():
    """Start Chromium without a window."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is missing: pip install 'volt-vocab[dev]'"
    )
    if CHROMIUM is None:
        pytest.skip("the browser chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], timeout=2 * WAIT
        )
        yield launched
        launched.close()


@pytest.mark.campaign
@pytest.mark.parametrize(("scheme", "palette"), [("light", "default"), ("dark", "slate")])
def test_pages_in_a_browser(site, browser, scheme, palette):
    """At 1280 and 390 pixels, light and dark, pages fit and give no error."""
    page, complaints, requests = browser.new_page(color_scheme=scheme), [], set()
    page.set_default_timeout(WAIT)
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.add(request.url.partition(":")[0]))
    pages = sorted(
        {*site.rglob("*.html")} - {site / "404.html"}
    )  # which a server shows, at any address
    for width, path in product((1280, 390), pages):
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(path.as_uri())
        assert page.evaluate("document.body.getAttribute('data-md-color-scheme')") == palette
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, (path.name, width, wide)
    assert complaints == []
    assert requests <= {"file", "data", "blob", "about"}


@pytest.mark.parametrize(
    ("word", "found"),
    [("sinkhorn", "Transport"), pytest.param("max_tokens", "Batches", marks=pytest.mark.campaign)],
)
def test_search_works_without_a_server(site, browser, word, found):
    """A word typed into the search leads to a page."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(WAIT)
    page.goto((site / "index.html").as_uri())
    page.locator("input.md-search__input").press_sequentially(word)
    results = page.locator(".md-search-result__article")
    results.first.wait_for()
    assert any(found in text for text in results.all_inner_texts())
