"""The statements and examples of the README and of the example files hold."""

import re
from pathlib import Path

import pytest

from bench.parameter_pages import generated
from rbd_control.cli import guard
from rbd_control.dynamics import urdf
from rbd_control.dynamics.urdf import MAX_ELEMENTS
from rbd_control.files import yaml_input
from rbd_control.playback.bag import MAX_MESSAGE
from rbd_control.playback.table import MAX_LINE
from rbd_control.playback.truth import MAX_LABELS

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


def test_limits_and_exit_codes_on_the_page_of_replay() -> None:
    page = (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")
    for limit in (MAX_MESSAGE, MAX_LINE, MAX_LABELS, MAX_ELEMENTS):
        assert f"{limit:,}" in page, limit
    assert f"{yaml_input.MAX_BYTES / 1e6:g} MB, {yaml_input.MAX_DEPTH} levels" in page
    assert f"{urdf.MAX_DEPTH} levels, {urdf.MAX_JOINTS} joints" in page
    codes = re.findall(r"^\| (\d+) \|", page, re.MULTILINE)
    stated = (0, guard.NO_RESULT, guard.BAD_INPUT, guard.INTERNAL_ERROR, guard.INTERRUPTED)
    assert [int(code) for code in codes] == [*stated, guard.BROKEN_PIPE]
    assert f"at most {guard.MESSAGE_LENGTH} characters beyond the path" in " ".join(page.split())
