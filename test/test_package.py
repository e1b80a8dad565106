"""The shipped files are consistent, and only the nodes need ROS; wheel and repository."""

from __future__ import annotations

import ast
import inspect
import os
import re
import runpy
import shutil
import subprocess
import sys
import types
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from start_order import ONE_AT_A_TIME, SECONDS, start_order

import rbd_control
from bench.mutations.defects import DEFECTS
from bench.mutations.mutants import Mutant
from bench.mutations.text_defects import MUTANTS
from rbd_control import share
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.startup import executables

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "rbd_control"

IMPORT_WITHOUT_ROS = """
import importlib, sys

class NoRos:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        ends = ("_msgs", "_srvs", "_interfaces")
        if root.startswith(("rcl", "launch", "ament")) or root.endswith(ends):
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, NoRos())
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


ROOMS = ("live", "nodes", "ros")
"""Packages that import rclpy."""


def modules(*, of_nodes: bool) -> list[str]:
    """Return the dotted names of the package's modules, those of the nodes or all others."""
    names = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if bool({*ROOMS} & {*parts}) == of_nodes:
            names.append(".".join(parts).removesuffix(".__init__"))
    return names


def import_without_ros(*names: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", IMPORT_WITHOUT_ROS, *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def imported_roots(path: Path) -> set[str]:
    """First parts of the names that a file imports, at its top or anywhere below."""
    roots = set()
    for item in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(item, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in item.names}
        elif isinstance(item, ast.ImportFrom) and item.module and not item.level:
            roots.add(item.module.partition(".")[0])
    return roots


@pytest.fixture(scope="module")
def setup_arguments() -> dict[str, Any]:
    """Return the arguments of ``setup()`` in setup.py, without the need for setuptools."""
    arguments: dict[str, Any] = {}
    stand_in = types.ModuleType("setuptools")
    stand_in.setup = arguments.update  # type: ignore[attr-defined]
    stand_in.find_packages = lambda **_: []  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "setuptools", stand_in)
        patch.chdir(ROOT)
        runpy.run_path("setup.py")
    return arguments


@pytest.fixture(scope="module")
def manifest() -> ElementTree.Element:
    return ElementTree.parse(ROOT / "package.xml").getroot()


def test_all_but_the_nodes_import_without_ros() -> None:
    result = import_without_ros(*modules(of_nodes=False))
    assert result.returncode == 0, result.stderr


def test_no_import_of_ros_hides_in_a_function_outside_the_nodes() -> None:
    for path in SOURCE.rglob("*.py"):
        if not {*ROOMS} & {*path.parts}:
            ros = {r for r in imported_roots(path) if r.startswith(("rcl", "launch", "ament"))}
            assert not ros, f"{path.relative_to(ROOT)} imports {ros}"


def test_one_version_everywhere(
    setup_arguments: dict[str, Any], manifest: ElementTree.Element
) -> None:
    version = rbd_control.__version__
    assert setup_arguments["version"] == version
    assert manifest.findtext("version") == version
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == version
    changelog = (ROOT / "CHANGELOG.rst").read_text(encoding="utf-8").splitlines()
    assert any(line.startswith(f"{version} (") for line in changelog)


def test_what_is_to_be_installed_exists(setup_arguments: dict[str, Any]) -> None:
    for folder, files in setup_arguments["data_files"]:
        assert files, f"nothing is installed to {folder}"
        for file in files:
            assert (ROOT / file).is_file(), file
    for package, files in setup_arguments["package_data"].items():
        for file in files:
            assert (ROOT / package.replace(".", "/") / file).is_file(), file


def test_entry_points_lead_to_a_main(setup_arguments: dict[str, Any]) -> None:
    scripts = setup_arguments["entry_points"]["console_scripts"]
    functions = inspect.getmembers(executables, inspect.isfunction)
    own = {name for name, part in functions if part.__module__ == executables.__name__}
    nodes = {name for name in own - {"prepare"} if not name.startswith("_")}
    assert len(nodes) == 8
    assert {s.partition(" ")[0] for s in scripts} == nodes | {"rbd-control"}
    for script in scripts:
        module, _, function = script.partition(" = ")[2].partition(":")
        tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
        assert function in {i.name for i in tree.body if isinstance(i, ast.FunctionDef)}, script


def test_dependencies_on_ros_are_declared_for_both_places(
    setup_arguments: dict[str, Any], manifest: ElementTree.Element
) -> None:
    imported = set()
    for path in [each for room in ROOMS for each in (SOURCE / room).glob("*.py")]:
        imported |= {
            root
            for root in imported_roots(path)
            if root == "rclpy" or root.endswith(("_msgs", "_srvs", "_interfaces"))
        }
    wheels = {
        wheel.partition("[")[0].removeprefix("ros-").replace("-", "_")
        for wheel in setup_arguments["extras_require"]["ros"]
    }
    without_wheel = {"control_msgs"}
    """What only ROS installations have; the node works without it."""
    assert imported - without_wheel <= wheels
    assert wheels | without_wheel <= {item.text for item in manifest.findall("exec_depend")}


@pytest.fixture(scope="module")
def parameter_types() -> dict[str, Any]:
    """Return the parameter object of each node that has a file in config/."""
    pytest.importorskip("rclpy", reason="ROS 2 is not installed")
    from rbd_control.nodes.contact_detector import ContactDetectorNode
    from rbd_control.nodes.contact_guard import ContactGuard
    from rbd_control.nodes.demo_scenario import DemoScenario
    from rbd_control.nodes.hand_guide import HandGuideNode
    from rbd_control.nodes.joint_state_player import JointStatePlayer
    from rbd_control.nodes.passivity_controller import PassivityControllerNode
    from rbd_control.nodes.simulated_arm import SimulatedArmNode

    return {
        "contact_detector": ContactDetectorNode.parameters_type,
        "contact_guard": ContactGuard.parameters_type,
        "demo_scenario": DemoScenario.parameters_type,
        "hand_guide": HandGuideNode.parameters_type,
        "joint_state_player": JointStatePlayer.parameters_type,
        "passivity_controller": PassivityControllerNode.parameters_type,
        "simulated_arm": SimulatedArmNode.parameters_type,
    }


MOVEIT = ROOT / "config" / "moveit_controllers.yaml"
"""Configuration of MoveIt, which is no parameter file of our nodes."""


@pytest.mark.parametrize(
    "path", sorted({*(ROOT / "config").glob("*.yaml")} - {MOVEIT}), ids=lambda p: p.stem
)
def test_configuration_is_what_the_nodes_take(path: Path, parameter_types: dict[str, Any]) -> None:
    for node in yaml.safe_load(path.read_text(encoding="utf-8")):
        # Every node that works with an arm takes all of the section for every node.
        kind = RobotParameters if node == "/**" else parameter_types[node]
        kind.from_yaml(path, node)


@pytest.mark.parametrize("where", ["workspace", "environment"])
def test_where_it_was_installed(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / where / "share" / "rbd_control"
    (installed / "config").mkdir(parents=True)
    monkeypatch.setattr(share, "__file__", str(tmp_path / "site-packages" / "x" / "share.py"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "workspace"))
    assert share.share_directory() == installed


CONDA_NAMES = {"python3-matplotlib": "matplotlib-base", "python3-yaml": "pyyaml"}


def test_the_conda_environment_has_every_dependency() -> None:
    text = (ROOT / "pixi.toml").read_text(encoding="utf-8")
    section = text.partition("[dependencies]")[2].partition("\n[")[0]
    names = set(re.findall(r"^([\w.-]+) = ", section, re.MULTILINE))
    keys = [item.text or "" for item in ElementTree.parse(ROOT / "package.xml").iter("exec_depend")]
    for key in keys:
        plain = CONDA_NAMES.get(key, key.removeprefix("python3-"))
        assert names & {plain, f"ros-jazzy-{key.replace('_', '-')}"}, key


LEFT_OUT = ("__pycache__", "*.egg-info", ".*", "bench", "build", "docs", "report", "test")


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the prefix of an installed wheel of the sources, without its dependencies."""
    pytest.importorskip("rclpy", reason="ROS 2 is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    sources, prefix = folder / "sources", folder / "prefix"
    shutil.copytree(ROOT, sources, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    built = run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, sources)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    options = ("--no-deps", "--no-index", "--ignore-installed", "--prefix", prefix)
    installed = run(*pip, "install", *options, wheel)
    assert installed.returncode == 0, installed.stderr
    return prefix


def test_executables_are_where_ros2_launch_looks(prefix: Path) -> None:
    folder = next(prefix.rglob("lib/rbd_control/contact_detector")).parent
    packages = next(prefix.rglob("rbd_control/__init__.py")).parent.parent
    found = {path.name for path in folder.iterdir()}
    assert found == {path.name for path in (ROOT / "scripts").iterdir()}
    assert found == {path.name for path in (folder.parent.parent / "bin").iterdir()}
    assert all(os.access(path, os.X_OK) for path in folder.iterdir())
    # The node itself runs, and gets the arguments: it says what it lacks.
    arguments = ("--ros-args", "-p", "urdf:=/no/such.urdf")
    ended = run(
        folder / "contact_detector",
        *arguments,
        PYTHONPATH=str(packages),
        ROS_LOG_DIR=str(prefix),
    )
    assert ended.returncode == 1
    assert "/no/such.urdf" in ended.stdout + ended.stderr


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


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


def imports(modules: dict[str, str]) -> dict[str, set[str]]:
    """Return the modules that each of ``modules`` (name, source) imports, at whatever place.

    Imports within functions count, those for type checkers do not. The import of a submodule does
    not count as one of the packages it is in, though Python runs their ``__init__`` first.
    """
    graph: dict[str, set[str]] = {}
    for name, source in modules.items():
        used: set[str] = set()
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                node.body = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                used |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name} has a relative import"
                assert node.module is not None
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    used.add(whole if whole in modules else node.module)
        graph[name] = (used & modules.keys()) - {name}
    return graph


def test_no_import_circle() -> None:
    modules = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = path.read_text(encoding="utf-8")
    graph = imports(modules)
    # Not empty by mistake: the model is built on its arrays, and nodes on everything.
    assert "rbd_control.dynamics.model_arrays" in graph["rbd_control.dynamics.model"]
    assert len(graph) == len(modules) > 100
    TopologicalSorter(graph).prepare()


def test_long_test_files_start_first() -> None:
    """The table names files that exist; of each kind, the longest start first, beside the other."""
    files = [path.relative_to(ROOT / "test").as_posix() for path in ROOT.glob("test/**/test_*.py")]
    assert set(files) >= ONE_AT_A_TIME | set(SECONDS)
    order = start_order(files)
    assert sorted(order) == sorted(files)
    for waits in (True, False):
        kind = [file for file in order if file.startswith("system/") == waits]
        long = [SECONDS[file] for file in kind if file in SECONDS]
        assert [file in SECONDS for file in kind] == sorted([f in SECONDS for f in kind])[::-1]
        assert long == sorted(long)[::-1]
        assert any(file in order[:4] for file in kind)
        assert any(file in order[-10:] for file in kind)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.number))
def test_a_mutant_can_still_be_put_in(mutant: Mutant) -> None:
    """Its text occurs once, the result is Python code, and the tests that judge it exist."""
    mutant.check(ROOT)
    assert mutant.tests


def test_numbers_are_unique() -> None:
    numbers = [each.number for each in (*DEFECTS, *MUTANTS)]
    assert len(set(numbers)) == len(numbers)
