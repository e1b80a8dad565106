"""Pages reach every page and public name; statements and examples of README and pages hold."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

from bench.parameter_pages import generated
from rbd_control import dynamics
from rbd_control.cli import exit_codes
from rbd_control.dynamics import urdf
from rbd_control.dynamics.urdf import MAX_ELEMENTS
from rbd_control.files import yaml_input
from rbd_control.playback.bag import MAX_MESSAGE
from rbd_control.playback.table import MAX_LINE
from rbd_control.playback.truth import MAX_LABELS

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


ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_of_the_first_screen_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out.strip()
    assert printed == code.rsplit("# ", 1)[1].strip()


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_parameter_files_and_page_are_made_from_the_fields() -> None:
    """``python -m bench.parameter_pages`` makes them."""
    for path, text in generated().items():
        assert path.read_text(encoding="utf-8") == text, path.name


def test_symptoms_are_texts_that_the_package_prints() -> None:
    """Headings of the page of troubleshooting; ``…`` stands for what a text inserts."""
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    headings = re.findall(r"^###? (.*)|^\| (`.*?`) \|", page, re.MULTILINE)
    symptoms = re.findall(r"`([^`]+)`", " ".join(map("".join, headings)))
    assert len(symptoms) > 40
    printed = "\0".join(texts())
    parts = [part.strip() for symptom in symptoms for part in symptom.split("…")]
    assert not [part for part in parts if part not in printed]


def texts() -> set[str]:
    """Return the texts in the code of the package, without docstrings."""
    found: set[str] = set()
    for path in (ROOT / "rbd_control").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        alone = {node.value for node in nodes if isinstance(node, ast.Expr)}
        found |= {
            node.value
            for node in nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in alone
        }
    return found


def test_limits_and_exit_codes_on_the_page_of_replay() -> None:
    page = (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")
    for limit in (MAX_MESSAGE, MAX_LINE, MAX_LABELS, MAX_ELEMENTS):
        assert f"{limit:,}" in page, limit
    assert f"{yaml_input.MAX_BYTES / 1e6:g} MB, {yaml_input.MAX_DEPTH} levels" in page
    assert f"{urdf.MAX_DEPTH} levels, {urdf.MAX_JOINTS} joints" in page
    codes = re.findall(r"^\| (\d+) \|", page, re.MULTILINE)
    stated = (
        0,
        exit_codes.NO_RESULT,
        exit_codes.BAD_INPUT,
        exit_codes.INTERNAL_ERROR,
        exit_codes.INTERRUPTED,
    )
    assert [int(code) for code in codes] == [*stated, exit_codes.BROKEN_PIPE]
    assert f"at most {exit_codes.MESSAGE_LENGTH} characters beyond the path" in " ".join(
        page.split()
    )


PAGE = Path(__file__).resolve().parents[1] / "docs" / "algorithms.md"


def test_the_page_lists_the_public_functions() -> None:
    # Names stand in backquotes in the first column of a table; those of sources do not.
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if "`" in line]
    first = [line.split("|")[1] for line in rows if line.startswith("|")]
    listed = {name for column in first for name in re.findall(r"`([a-z_.]+)`", column)}
    public = {name for name in dynamics.__all__ if inspect.isfunction(getattr(dynamics, name))}
    assert {name for name in listed if "." not in name} == public
    for name in listed - public:
        module, function = name.split(".")
        assert inspect.isfunction(getattr(getattr(dynamics, module), function))
