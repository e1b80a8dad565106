"""What the repository says of itself agrees from file to file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

import rbd_control

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def load(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_citation_names_this_version() -> None:
    citation = load("CITATION.cff")
    assert citation["version"] == rbd_control.__version__
    changelog = (ROOT / "CHANGELOG.rst").read_text(encoding="utf-8")
    assert f"{rbd_control.__version__} ({citation['date-released']})" in changelog


def test_hooks_run_the_linter_that_the_tests_install() -> None:
    pins = set(re.findall(r"ruff==[\w.*]+", (ROOT / "setup.py").read_text(encoding="utf-8")))
    hooks = [hook for repo in load(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    linters = [hook for hook in hooks if hook["id"].startswith("ruff")]
    assert len(linters) == 2
    assert {pin for hook in linters for pin in hook["additional_dependencies"]} == pins


def test_python_versions_are_the_tested_ones() -> None:
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    declared = re.findall(r"Programming Language :: Python :: (3\.\d+)", setup)
    matrix = load(".github/workflows/python.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == declared
    assert f'python_requires=">={declared[0]}"' in setup


def test_workflows_pin_actions_and_write_nothing() -> None:
    """A tag may be moved to other code; a commit may not."""
    assert WORKFLOWS
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert workflow["permissions"] == {"contents": "read"}, path.name
        for job in workflow["jobs"].values():
            used = [step["uses"] for step in job["steps"] if "uses" in step]
            assert used, path.name
            for action in used:
                assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
