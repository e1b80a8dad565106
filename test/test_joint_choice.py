"""Which joints of a description move, and where the others are held."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from robots import urdf_path

from rbd_control import Robot
from rbd_control.cli.main import main
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import InputError, ModelWarning, RecordingError
from rbd_control.playback.configuration import EffortOptions, arm_to_calibrate, configured_robot
from rbd_control.playback.recorded_joints import joints_to_play
from rbd_control.playback.recording import Recording, read_recording
from rbd_control.robot.joint_choice import (
    ReportedJoints,
)
from rbd_control.robot.robot_parameters import RobotParameters

ARM = tuple(f"panda_joint{i}" for i in range(1, 8))
FINGER = "panda_finger_joint1"


@pytest.fixture(scope="module")
def panda() -> str:
    return urdf_path("panda").read_text(encoding="utf-8")


def test_the_largest_message_with_effort_is_the_arm(panda: str) -> None:
    reported = ReportedJoints()
    model = Model.from_urdf(panda)
    assert reported.chosen(model) == ()
    reported.add((FINGER,), (0.02,), ())
    assert reported.chosen(model) == ()
    reported.add(("lift",), (0.3,), (5.0,))
    reported.add(ARM[::-1], range(7), (1.0,) * 7)
    reported.add((FINGER,), (0.025,), (3.0,))
    assert reported.chosen(model) == ARM
    assert reported.positions[FINGER] == 0.025
    assert reported.positions[ARM[0]] == 6


def carried_urdf(joints: int, fingers: int) -> str:
    """Return the description of a torso with an arm, its fingers, and a second arm, ``left``."""
    text = "".join(
        f"""<link name="{child}"><inertial><mass value="1"/>
        <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
        <joint name="{child}" type="revolute"><parent link="{parent}"/><child link="{child}"/>
        <origin xyz="0.1 0 0.1"/><axis xyz="0 1 0"/>
        <limit lower="-3" upper="3" effort="10" velocity="1"/></joint>"""
        for child, parent in [
            ("torso", "world"),
            *((f"arm{i}", f"arm{i - 1}" if i else "torso") for i in range(joints)),
            *((f"finger{i}", f"arm{joints - 1}") for i in range(fingers)),
            *((f"left{i}", f"left{i - 1}" if i else "torso") for i in range(joints)),
        ]
    )
    return f'<robot name="carried"><link name="world"/>{text}</robot>'


def carried(joints: int, fingers: int) -> Model:
    return Model.from_urdf(carried_urdf(joints, fingers))


def sets_of(joints: int, **others: int) -> dict[str, list[str]]:
    """Return the names of the joints of the arm and of other sets."""
    return {k: [f"{k}{i}" for i in range(n)] for k, n in {"arm": joints, **others}.items()}


def heard(*messages: Sequence[str], effort: float = 1.0) -> ReportedJoints:
    """Return what is known after messages of different drivers, in turn."""
    reported = ReportedJoints()
    for names in 2 * messages:
        reported.add(names, (0.1,) * len(names), (effort,) * len(names))
    return reported


@pytest.mark.parametrize("fingers", [1, 3, 5])
@pytest.mark.parametrize("first", ["arm", "finger"])
def test_a_smaller_hand_at_the_end_of_the_arm_is_left_out(fingers: int, first: str) -> None:
    """Its driver publishes efforts of its own, as that of a Franka hand does."""
    of = sets_of(6, finger=fingers)
    messages = [of["arm"], of["finger"]] if first == "arm" else [of["finger"], of["arm"]]
    assert list(heard(*messages).chosen(carried(6, fingers))) == of["arm"]


@pytest.mark.parametrize("first", [2, 3, 4])
def test_the_halves_of_a_chain_are_one_arm(first: int) -> None:
    arm = sets_of(6)["arm"]
    assert list(heard(arm[:first], arm[first:]).chosen(carried(6, 0))) == arm


@pytest.mark.parametrize(
    ("others", "named"),
    [
        ([[f"finger{i}" for i in range(8)]], ("finger0, ", "arm0, ")),
        ([[f"finger{i}" for i in range(6)]], ("arm0, ", "finger0, ")),
        ([[f"left{i}" for i in range(6)]], ("arm0, ", "left0, ")),
        ([["left0", "left1"]], ("arm0, ", "left0, left1;")),
        ([["torso"]], ("arm0, ", "torso;")),
        ([["finger0"], ["torso", "left0"]], ("arm0, ", "torso, left0;")),
    ],
    ids=["larger hand", "equal hand", "second arm", "part of it", "torso", "hand and torso"],
)
@pytest.mark.parametrize("last", [False, True])
def test_two_sets_of_which_either_may_be_the_arm_are_not_chosen_from(
    others: list[list[str]], named: tuple[str, str], last: bool
) -> None:
    arm = sets_of(6)["arm"]
    reported = heard(*others, arm) if last else heard(arm, *others)
    with pytest.raises(InputError) as caught:
        reported.chosen(carried(6, 8))
    assert all(name in str(caught.value) for name in named), caught.value
    assert str(caught.value).endswith("name the joints of the arm in the parameter joints")
    assert len(str(caught.value)) < 200  # `rbd-control` leaves out the middle of longer messages


# Recordings --------------------------------------------------------------------------------------


def torso(panda: str, folder: Path) -> Path:
    """Write the description of the Panda on a torso that tilts."""
    joint = f"""<link name="pelvis"/><joint name="{TILT}" type="revolute"><parent link="pelvis"/>
      <child link="panda_link0"/><axis xyz="0 1 0"/>
      <limit lower="-1" upper="1" effort="500" velocity="1"/></joint></robot>"""
    path = folder / "torso.urdf"
    path.write_text(panda.replace("</robot>", joint))
    return path


def tilted(
    path: Path, positions: np.ndarray, prefix: str = "panda", joint: str = "panda_torso_tilt"
) -> Recording:
    """Write a recording of the arm, whose torso reports positions [rad] and no effort."""
    names = [name.replace("panda", prefix) for name in (*ARM, joint)]
    columns = [f"{what}/{name}" for what in ("position", "velocity", "effort") for name in names]
    others = 7 * ",0.0" + "," + 7 * ",1.0" + ","
    lines = [f"{0.01 * k}{7 * ',0.1'},{at}{others}" for k, at in enumerate(positions)]
    path.write_text("\n".join([",".join(["time", *columns]), *lines, ""]))
    return read_recording(path)


TILT = "panda_torso_tilt"
MAKERS = {
    "replay": lambda urdf, recordings: configured_robot(urdf, None, {}, recordings)[0],
    "calibrate": lambda urdf, recordings: arm_to_calibrate(urdf, {}, recordings, EffortOptions()),
}


@pytest.mark.parametrize("command", MAKERS)
def test_a_recorded_joint_is_held_where_the_node_holds_it(
    panda: str, tmp_path: Path, command: str
) -> None:
    urdf = str(torso(panda, tmp_path))
    recording = tilted(tmp_path / "log.csv", np.full(60, 0.5), "fer")
    with pytest.warns(ModelWarning) as caught:
        robot = MAKERS[command](urdf, [recording])
    assert [str(each.message) for each in caught if "held" in str(each.message)] == [
        f"held joints: {TILT} at 0.5 as joint states report; {FINGER} at 0, which no joint state "
        "has reported"
    ]
    # As the launch file that plays a recording tells the detector.
    whole = RobotParameters(urdf=urdf)
    assert joints_to_play(str(tmp_path / "log.csv"), "/joint_states", whole) == ARM
    node = Robot.of(whole, reported={TILT: 0.5}, measured=ARM)
    q = np.linspace(0.1, 0.7, 7)
    assert np.array_equal(gravity_torque(robot.model, q), gravity_torque(node.model, q))
    assert robot.joints == node.joints
    assert robot.held == node.held


def test_a_held_joint_that_moves_in_the_recordings_is_named(panda: str, tmp_path: Path) -> None:
    """Also if it moves between recordings; it is held where it is at the beginning."""
    urdf = str(torso(panda, tmp_path))
    still, moves = np.full(60, 0.3), np.linspace(0.3, 0.35, 60)
    for positions, last in (((still, still), 0.3), ((moves,), 0.35), ((still, still + 0.1), 0.4)):
        recordings = [tilted(tmp_path / f"{k}.csv", each) for k, each in enumerate(positions)]
        with pytest.warns(ModelWarning) as caught:
            robot = configured_robot(urdf, None, {}, recordings)[0]
        assert robot.held[TILT] == 0.3
        said = [str(each.message) for each in caught if "held joints move" in str(each.message)]
        assert len(said) == (last != 0.3)
        if said:
            assert said[0].endswith(f": {TILT} between 0.3 and {last}")


LOCKED = {
    # locked joint, positions, is it named, does calibrate refuse
    "stands": (TILT, [0.3, 0.3], False, False),
    "stands elsewhere": (TILT, [0.5, 0.5], True, False),
    "gives way": (TILT, [0.28, 0.31], True, False),
    "moves": (TILT, [0.3, 0.5], True, True),
    "finger elsewhere": (FINGER, [0.02, 0.02], False, False),
    "finger moves": (FINGER, [0.0, 0.04], True, False),
}


@pytest.mark.parametrize("prefix", ["panda"])
@pytest.mark.parametrize("case", LOCKED)
def test_a_locked_joint_that_is_elsewhere_in_the_recordings_is_named(
    panda: str, tmp_path: Path, case: str, prefix: str
) -> None:
    """A locked joint that carries the arm must not move while the arm is calibrated."""
    joint, (first, last), named, refused = LOCKED[case]
    urdf, locked = str(torso(panda, tmp_path)), {TILT: 0.3, FINGER: 0.0}
    recording = tilted(tmp_path / "log.csv", np.linspace(first, last, 60), prefix, joint)
    places = f"{joint} between {min(first, last):.4g} and {max(first, last):.4g}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ModelWarning)
        configured_robot(urdf, None, locked, [recording])
        said = [str(each.message) for each in caught if "locked" in str(each.message)]
        assert [text.endswith(f"(--lock): {places}") for text in said] == [True] * named
        if refused:
            with pytest.raises(RecordingError, match=f"carries the arm moves: {places}"):
                arm_to_calibrate(urdf, locked, [recording], EffortOptions())
        else:
            arm_to_calibrate(urdf, locked, [recording], EffortOptions())
            again = [str(each.message) for each in caught if "locked" in str(each.message)]
            assert again == said * 2


def test_commands_on_a_locked_joint_that_moves(
    panda: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``calibrate`` writes no file; ``replay`` and ``check`` warn."""
    urdf, log, out = torso(panda, tmp_path), tmp_path / "log.csv", tmp_path / "arm.yaml"
    tilted(log, np.linspace(0.3, 0.6, 60))
    arm = [str(log), "--urdf", str(urdf), "--lock", f"{TILT}=0.3"]
    for command in (["replay", "--trust-effort-kind"], ["check"]):
        assert main([*command, *arm]) in (0, 1), command
        assert f"{TILT} between 0.3 and 0.6" in capsys.readouterr().err
    assert main(["calibrate", *arm, "--out", str(out)]) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert f"a locked joint that carries the arm moves: {TILT} between 0.3 and 0.6" in err
    assert not out.exists()


def in_turn(path: Path, *sets: Sequence[str]) -> Path:
    """Write a recording of efforts of one set of joints after the other, as drivers send them."""
    names = [name for each in sets for name in each]
    columns = [f"{what}/{name}" for what in ("position", "velocity", "effort") for name in names]
    lines = [",".join(["time", *columns])]
    for k in range(60):
        efforts = ["1.0" if name in sets[k % len(sets)] else "nan" for name in names]
        lines.append(
            ",".join([f"{0.01 * k}", *["0.1"] * len(names), *["0"] * len(names), *efforts])
        )
    path.write_text("\n".join([*lines, ""]))
    return path


@pytest.mark.parametrize("command", ["replay", "check", "calibrate"])
def test_commands_ask_for_the_joints_if_either_of_two_sets_may_be_the_arm(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of, urdf = sets_of(6, finger=8), tmp_path / "arm.urdf"
    urdf.write_text(carried_urdf(6, 8))
    log = in_turn(tmp_path / "log.csv", of["finger"], of["arm"])
    out = ["--out", str(tmp_path / "out.yaml")] if command == "calibrate" else []
    assert main([command, str(log), "--urdf", str(urdf), *out]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.rstrip().endswith("name the joints of the arm in the parameter joints")
    assert all(name in said for name in ("arm0, ", "finger0, "))
