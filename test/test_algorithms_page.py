"""docs/algorithms.md lists every public function of the dynamics, and none that is not there."""

import inspect
import re
from pathlib import Path

from rbd_control import dynamics

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
