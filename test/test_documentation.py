"""The documentation site reaches every page and every public name; ``make docs`` builds it."""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def fenced(text: str, info: str) -> list[str]:
    """Return the contents of all fenced blocks whose first line ends with ``info``."""
    return re.findall(rf"^```{re.escape(info)}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def entries(page: Path) -> list[Path]:
    """Return the pages that the toctrees of ``page`` name."""
    lines = "".join(fenced(page.read_text(encoding="utf-8"), "{toctree}")).splitlines()
    names = [line.strip() for line in lines if line.strip() and not line.startswith(":")]
    return [(page.parent / f"{name}.md").resolve() for name in names]


def test_every_page_is_in_one_toctree() -> None:
    found = Counter(entry for page in PAGES for entry in entries(page))
    assert found == Counter(page for page in PAGES if page != DOCS / "index.md")


@pytest.mark.parametrize(
    "package",
    ["dynamics", "robot", "estimation", "control", "contact_stop", "simulation", "playback"],
)
def test_the_reference_has_every_public_name(package: str) -> None:
    """Sphinx takes classes and functions from the package, but data only from the page."""
    page = (DOCS / "api" / f"{package}.md").read_text(encoding="utf-8")
    assert f".. automodule:: rbd_control.{package}\n   :imported-members:\n" in page
    module = importlib.import_module(f"rbd_control.{package}")
    for name in module.__all__:
        item = getattr(module, name)
        is_found = inspect.isclass(item) or inspect.isfunction(item) or inspect.ismodule(item)
        assert is_found or re.search(rf"^\.\. \w+:\w+:: {name}$|autodata:: .*\.{name}$", page, re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
