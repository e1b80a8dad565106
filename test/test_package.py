"""The shipped files are consistent, and only the nodes need ROS."""

from __future__ import annotations

import ast
import inspect
import runpy
import subprocess
import sys
import types
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

import rbd_control
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
    assert len(nodes) == 7
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
    from rbd_control.nodes.joint_state_player import JointStatePlayer
    from rbd_control.nodes.passivity_controller import PassivityControllerNode
    from rbd_control.nodes.simulated_arm import SimulatedArmNode

    return {
        "contact_detector": ContactDetectorNode.parameters_type,
        "contact_guard": ContactGuard.parameters_type,
        "demo_scenario": DemoScenario.parameters_type,
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
