"""Exported C equals the library and compiles without warnings; unsupported kernels are refused."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynamics.helpers import relative
from dynamics.test_mimic_joints import MIMICS, with_mimics
from exported_code import TOLERANCE, Code, largest_difference, needs_compiler, pointer
from robots import LOCKED, random_tree_urdf, urdf_path

from bench.export.compilers import Compiler, compilers
from rbd_control import dynamics
from rbd_control.cli.main import main
from rbd_control.dynamics import Model, Rotor
from rbd_control.errors import InputError
from rbd_control.estimation import MomentumObserver
from rbd_control.export import c_files, export_c
from rbd_control.robot import Robot


def panda() -> Model:
    return Model.from_urdf(urdf_path("panda"), locked=LOCKED["panda"])


def tree(seed: int, n: int = 5, **options: Any) -> Model:
    return Model.from_urdf(random_tree_urdf(seed, n, prismatic=0.4, branching=0.5), **options)


def geared() -> Model:
    # High gear ratios cost the library itself digits of Gamma, by their third power.
    rotor = Rotor(5.0, np.diag([1e-3, 2e-3, 3e-3]), axis=(0.0, 0.6, 0.8), mass=0.3)
    return tree(3, 4, rotors={"joint0": Rotor(8.0, 1e-3), "joint2": rotor})


def hanging() -> Model:
    """Return an arm on a wall: its first axis is not along gravity."""
    return Model.from_urdf(urdf_path("ur5"), gravity=(3.0, -9.0, 2.0))


def mimicking(*, floating_base: bool = False) -> Model:
    """Return a random tree with chains of mimic joints, whose leaders may come later."""
    text = with_mimics(random_tree_urdf(7, 9), MIMICS)
    return Model.from_urdf(text, floating_base=floating_base, gravity=(1.0, -2.0, -9.0))


ROBOTS: dict[str, Callable[[], Model]] = {
    "panda": panda,
    "hanging": hanging,
    "tree": lambda: tree(0),
    "rotors": geared,
    "floating": lambda: tree(1, 3, floating_base=True),
    "mimics": mimicking,
    "floating_mimics": lambda: mimicking(floating_base=True),
    "hand": lambda: Model.from_urdf(urdf_path("panda")),
    "tiago_pro": lambda: Model.from_urdf(urdf_path("tiago_pro")),
}


@needs_compiler
@pytest.mark.parametrize("name", ROBOTS)
def test_exported_functions_equal_the_library(name: str, tmp_path: Path) -> None:
    model = ROBOTS[name]()
    # Optimization takes minutes for large robots, and their results are the same without.
    optimized = () if name in ("tree", "rotors") else ("-O0",)
    code = Code(export_c(model, prefix=name), name, tmp_path, *optimized)
    rng = np.random.default_rng(5)
    for _ in range(2):
        different = largest_difference(code, model, rng)
        assert {k: e for k, e in different.items() if not e < TOLERANCE} == {}


@needs_compiler
@pytest.mark.parametrize("compiler", compilers(), ids=lambda compiler: compiler.name)
def test_each_compiler_accepts_the_code_without_a_warning(
    compiler: Compiler, tmp_path: Path
) -> None:
    header = tmp_path / "arm.h"
    files = export_c(Robot.load("arm7"), prefix="arm", functions=("all",))
    # Without optimization compilers miss variables that are never set.
    assert compiler.complaint(files.write(header), "-O1", "-Wconversion") == ""


@needs_compiler
def test_parts_of_a_large_function_compute_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tree(2)
    monkeypatch.setattr(c_files, "LARGEST_PART", 60)
    files = export_c(model, prefix="cut")
    assert files.source.count("_part3(") >= 2
    different = largest_difference(Code(files, "cut", tmp_path), model, np.random.default_rng(0))
    assert max(different.values()) < TOLERANCE


@needs_compiler
def test_single_precision(tmp_path: Path) -> None:
    model = tree(0)
    functions = ("forward_dynamics", "momentum_observer")
    files = export_c(model, prefix="single", single=True, functions=functions)
    assert "double" not in files.source
    code = Code(files, "single", tmp_path, "-Wdouble-promotion")
    q, v, tau = np.random.default_rng(1).uniform(-1.0, 1.0, (3, model.nv))
    a = code("forward_dynamics", q, v, tau, shape=model.nv)
    # A float has seven digits; the inversion of M takes two or three.
    assert relative(a, dynamics.forward_dynamics(model, q, v, tau)) < 1e-3


@needs_compiler
@pytest.mark.parametrize(
    "options",
    [
        "-O3 -march=native -std=gnu99",  # gcc makes other fused multiply-adds here
        "-ffast-math",
    ],
)
def test_sines_over_many_turns(options: str, tmp_path: Path) -> None:
    """The placement of a link that turns about z holds the cosine and sine of the joint."""
    urdf = (
        '<robot name="r"><link name="a"/><link name="b"><inertial><mass value="1"/>'
        '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        '<joint name="j" type="continuous"><parent link="a"/><child link="b"/>'
        '<axis xyz="0 0 1"/></joint></robot>'
    )
    files = export_c(Model.from_urdf(urdf), prefix="plain", functions=("frame_placement",))
    code = Code(files, "plain", tmp_path, *options.split())
    quarters = np.arange(-8, 9) * math.pi / 2
    angles = [*np.linspace(-30.0, 30.0, 401), *quarters, 99999.0, -1e5, 1.5e5, 1e9]
    for angle in angles:
        T = code("frame_placement_b", np.array([angle]), shape=(4, 4))
        assert T[0, 0] == pytest.approx(math.cos(angle), abs=4e-16)
        assert T[1, 0] == pytest.approx(math.sin(angle), abs=4e-16)


def arm(tmp_path: Path) -> Robot:
    """Return a robot with friction and a payload, from a parameter file."""
    (tmp_path / "tree.urdf").write_text(random_tree_urdf(4, 3))
    (tmp_path / "arm.yaml").write_text(
        "/**:\n  ros__parameters:\n    urdf: tree.urdf\n    payload_mass: 1.5\n"
        "    friction_model: stribeck\n    friction_coulomb: [1.0, 2.0, 3.0]\n"
        "    friction_viscous: [0.5]\n    friction_stribeck: [0.4]\n"
    )
    return Robot.load(tmp_path / "arm.yaml")


@needs_compiler
def test_observer_of_an_arm_with_friction_and_payload(tmp_path: Path) -> None:
    robot = arm(tmp_path)
    files = export_c(robot, prefix="arm", functions=("momentum_observer", "friction_torque"))
    assert "Payload: 1.5 kg" in files.header
    code = Code(files, "arm", tmp_path)
    gain, n = np.array([20.0, 30.0, 40.0]), 3
    observer = MomentumObserver(robot.model, gain, robot.friction)
    state = np.zeros(3 * n + 1)  # p, rate, residual, and the flag in the last eight bytes
    step = code.library.arm_observer_step
    code.library.arm_observer_reset(pointer(state))
    rng = np.random.default_rng(2)
    for dt in (math.nan, 1e-3, 4e-3, 0.05):
        q, v, tau = rng.uniform(-1.0, 1.0, (3, n))
        given = (*map(pointer, (state, q, v, tau)), ctypes.c_double(dt), pointer(gain))
        assert step(*given) == 1
        r = observer.update(q, v, tau, dt)
        assert state[2 * n : 3 * n] == pytest.approx(r, rel=1e-9, abs=1e-12)
    assert np.abs(r).max() > 0.1
    torque = code("friction_torque", v, shape=n)
    assert torque == pytest.approx(robot.friction.torque(v), rel=1e-14)
    before = state.copy()
    for dt, broken in ((0.0, v), (-1.0, v), (math.inf, v), (1e-3, np.full(n, math.nan))):
        given = (*map(pointer, (state, q, broken, tau)), ctypes.c_double(dt), pointer(gain))
        assert step(*given) == 0
        assert (state == before).all()
    code.library.arm_observer_reset(pointer(state))
    assert not state[: 3 * n].any()


@needs_compiler
@pytest.mark.parametrize("option", ["-O2", "-ffast-math"])
@pytest.mark.parametrize("single", [False, True], ids=["double", "float"])
def test_the_observer_refuses_bad_samples(option: str, single: bool, tmp_path: Path) -> None:
    """With -ffast-math compilers assume that no number is NaN and delete comparisons with it."""
    functions = ("momentum_observer",)
    files = export_c(arm(tmp_path), prefix="arm", functions=functions, single=single)
    code = Code(files, "arm", tmp_path, "-O2", option)
    step, n = code.library.arm_observer_step, 3
    number = ctypes.c_float if single else ctypes.c_double
    state = np.zeros(3 * n + 1, code.kind)
    good = np.random.default_rng(7).uniform(0.1, 1.0, (4, n)).astype(code.kind)

    def taken(given: np.ndarray, dt: float) -> bool:
        q, v, tau, gain = map(pointer, given)
        return bool(step(pointer(state), q, v, tau, number(dt), gain))

    for sample in range(2):  # the first and a later one
        before = state.copy()
        for row in range(4):
            for value in (math.nan, math.inf, -math.inf):
                bad = good.copy()
                bad[row, 1] = value
                assert not taken(bad, 1e-3), f"sample {sample}, argument {row}, {value}"
                assert (state == before).all()
        for gain in (0.0, -30.0):
            bad = good.copy()
            bad[3, 2] = gain
            assert not taken(bad, 1e-3)
        assert taken(good, 1e-3)
        assert np.isfinite(state[: 3 * n]).all()
    for dt in (math.nan, math.inf, 0.0, -1e-3):
        before = state.copy()
        assert not taken(good, dt)
        assert (state == before).all()


@needs_compiler
def test_a_momentum_observer_in_place_computes_the_same(tmp_path: Path) -> None:
    """A result was written before all inputs were read."""
    model = panda()
    code = Code(export_c(model, prefix="p", functions=("momentum_observer",)), "p", tmp_path)
    random, n = np.random.default_rng(4), model.nv
    q, v, tau, gain, p, rate, r = random.uniform(0.2, 1.0, (7, n))
    apart = [np.empty(n) for _ in range(3)]
    call = code.library.p_momentum_observer
    dt = ctypes.c_double(0.001)
    inputs = [pointer(x) for x in (q, v, tau)] + [dt] + [pointer(x) for x in (gain, p, rate, r)]
    call(*inputs, *map(pointer, apart))
    call(*inputs, pointer(p), pointer(rate), pointer(r))
    for ours, expected in zip((p, rate, r), apart, strict=True):
        np.testing.assert_array_equal(ours, expected)


def test_unsupported_exports_are_refused_with_a_reason() -> None:
    model = tree(0)
    with pytest.raises(InputError, match="no function 'mass'; functions are dynamics_terms"):
        export_c(model, functions=("mass",))
    with pytest.raises(InputError, match="no link 'hand'; links are link0"):
        export_c(model, links=("hand",))
    with pytest.raises(InputError, match="prefix '7' is no C identifier"):
        export_c(model, prefix="7")
    with pytest.raises(InputError, match="no movable joint"):
        export_c(tree(0, 1, locked={"joint0": 0.0}, floating_base=True))
    assert "m/s^2 in the frame of the root link." in export_c(model).header
    assert "m/s^2 in world axes." in export_c(tree(0, 1, floating_base=True)).header
    large = Model.from_urdf(random_tree_urdf(1, 17))
    assert "christoffel" not in export_c(large, prefix="large").header


def test_the_command_writes_header_and_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out" / "two_joints.h"
    arm(tmp_path)
    command = ["export", str(tmp_path / "arm.yaml"), "--to", str(target)]
    command += ["--functions", "gravity_torque,frame_jacobian", "--joints", "joint0,joint1"]
    (tmp_path / "arm.yaml").write_text("/**:\n  ros__parameters:\n    urdf: tree.urdf\n")
    assert main(command) == 0
    header, source = target.read_text(), target.with_suffix(".c").read_text()
    assert '#include "two_joints.h"' in source
    assert "void two_joints_gravity_torque(const double q[2], double g[2]);" in header
    assert "two_joints_frame_jacobian_" in header
    assert "Made from: arm.yaml" in header
    assert "joint2 at 0" in header
    assert str(tmp_path) not in header + source
    assert "two_joints_gravity_torque" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "arm.hpp"], "--out is arm.hpp; give a file that ends with .h"),
        (["--to", "arm.h", "--prefix", "a-b"], "prefix 'a-b' is no C identifier"),
        (["--to", "arm.h", "--joints", "elbow"], "no joint 'elbow'; joints are joint_1"),
    ],
)
def test_the_command_refuses(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code = main(["export", "arm7", *arguments])
    assert code == 2
    assert not list(tmp_path.iterdir())
    assert message in capsys.readouterr().err
