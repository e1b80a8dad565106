"""The configurations that ship, on the recordings they were made for."""

import importlib
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robots import REAL_PANDA, RECORDINGS, panda_arm_urdf

from rbd_control.cli.main import main
from rbd_control.control import ControllerParameters, PassivityController, TrajectoryPoint
from rbd_control.dynamics import Model
from rbd_control.errors import ParameterError
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.node_parameters import law_parameters
from rbd_control.parameters import read_parameter_file
from rbd_control.playback.configuration import configured
from rbd_control.playback.recording import read_recording
from rbd_control.playback.replay import replay
from rbd_control.playback.result import ReplayResult
from rbd_control.robot.robot import robot_parameters
from rbd_control.simulation import SimulatedArm, SimulationParameters

CONFIG = Path(__file__).resolve().parent.parent / "config"


def run(recording: Path, config: Path | str) -> ReplayResult:
    model, parameters = configured(panda_arm_urdf(), config, {})
    # Three seconds are too short to learn the friction of the day, which is that of the file here.
    parameters = replace(parameters, follow_friction=False)
    return replay(read_recording(recording), model, parameters)


@pytest.fixture(scope="module")
def urdf(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("urdf") / "panda_arm.urdf"
    path.write_text(panda_arm_urdf())
    return str(path)


@pytest.fixture(scope="module")
def calibrated(urdf: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the calibration from the recording without contact."""
    out = tmp_path_factory.mktemp("calibrated") / "detector.yaml"
    free = str(RECORDINGS / "free")
    assert main(["calibrate", free, "--urdf", urdf, "--out", str(out)]) == 0
    return out


@pytest.mark.parametrize(
    ("recording", "onset", "link", "is_sure"),
    [
        ("push20_link7", 1.5, "panda_link7", True),
        # 8 N load two joints by little more than their thresholds for fast motion.
        ("push8_link4", 1.5, "panda_link4", False),
        ("collision_link4", 1.502, "panda_link4", True),
    ],
)
@pytest.mark.parametrize("config", [CONFIG / "panda_mujoco.yaml", "calibrated"])
def test_simulated_panda(
    recording: str,
    onset: float,
    link: str,
    is_sure: bool,
    config: Path | str,
    request: pytest.FixtureRequest,
) -> None:
    """The contact is detected within 20 ms with its link named first, and there is no other event.

    This holds for the configuration that ships and for a calibration from free motion alone.
    """
    if config == "calibrated":
        config = request.getfixturevalue(config)
    result = run(RECORDINGS / recording, config)
    assert result.warnings == ()
    (event,) = result.events
    assert 0.0 < event.detected - onset < 0.020
    # A weak push that is detected within milliseconds has an uncertain onset.
    assert abs(event.onset - onset) < max(0.010, 4.0 * event.onset_uncertainty)
    assert link in (event.candidates if not is_sure else event.candidates[:1])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("franka", "torque"),
        ("universal_robots_current", "current"),
        ("universal_robots_torque", "torque_without_gravity"),
        ("lbr", "torque"),
        ("kinova_gen3", "torque"),
        ("xarm", "torque"),
        ("gazebo", "torque"),
        ("isaac_sim", "torque"),
        ("mujoco", "torque"),
    ],
)
def test_effort_of_drivers(name: str, kind: str) -> None:
    """Detector and controller read the same kind; the page names every file."""
    path = CONFIG / f"effort_{name}.yaml"
    for node in ("contact_detector", "passivity_controller"):
        assert robot_parameters(read_parameter_file(path, node)).effort_kind == kind
    page = (CONFIG.parent / "docs" / "how_to" / "effort.md").read_text(encoding="utf-8")
    files = {each.name for each in CONFIG.glob("effort_*.yaml")}
    assert path.name in files
    assert set(re.findall(r"`(effort_\w+\.yaml)`", page)) == files


@pytest.mark.parametrize(
    ("recording", "contacts"),
    [("free", 0), ("push20_link7", 1), ("push8_link4", 0), ("collision_link4", 1)],
)
def test_without_configuration(recording: str, contacts: int) -> None:
    """Thresholds from effort limits and reach detect 20 N and raise no alarm in free motion."""
    result = replay(
        read_recording(RECORDINGS / recording),
        Model.from_urdf(panda_arm_urdf()),
        DetectorParameters(),
    )
    assert len(result.events) == contacts
    assert result.score is not None
    assert result.score.false_events == 0


@pytest.mark.parametrize("speed", ["SLOW", "FAST"])
def test_motions_as_fast_as_promised(speed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No contact where there is none, up to the speeds that the file names, and 20 N are found.

    The motions are others than those of the calibration.
    """
    monkeypatch.syspath_prepend(str(RECORDINGS))
    made = importlib.import_module("make_recordings")
    forces = (
        ("panda_link7", (0.0, 12.0, 16.0)),
        ("panda_link7", (20.0, 0.0, 0.0)),
        ("panda_link5", (0.0, 20.0, 0.0)),
        ("panda_link4", (-14.0, 14.0, 0.0)),
        ("panda_link6", (0.0, -20.0, 0.0)),
    )
    touches = tuple(
        made.StagedPush(16.0 + 1.5 * k, link, force) for k, (link, force) in enumerate(forces)
    )
    frequencies = getattr(made, speed)
    plan = made.Plan("other", 108, 24.0, 1000.0, touches, frequencies)
    episode = made.record(plan)
    assert np.abs(episode.v).max() > (1.2 if speed == "FAST" else 0.6)
    model, parameters = configured(panda_arm_urdf(), CONFIG / "panda_mujoco.yaml", {})
    found = ContactDetector(model, parameters).update_block(
        episode.t, episode.q, episode.v, episode.tau
    )
    onsets = [event for _, event in found.events if event.phase == "onset"]
    assert len(onsets) == len(episode.contacts) == len(forces)
    for event, contact in zip(onsets, episode.contacts, strict=True):
        assert 0.0 < event.detected - contact.start < 0.020


WITHOUT_GRAVITY = (0.0, 0.0, 0.0)
"""The robot compensates its own weight."""


def test_a_tilted_franka_needs_a_safe_torque_that_holds_it() -> None:
    """The robot assumes an upright base; on an upright base nothing is left over."""
    file = read_parameter_file(CONFIG / "franka.yaml", "passivity_controller")
    parameters = law_parameters(ControllerParameters, {**file, "joints": []})
    # The values of gravity that are in use for an upright base.
    for g in (9.78, 9.81, 9.83):
        upright = Model.from_urdf(panda_arm_urdf(), gravity=(0.0, 0.0, -g))
        PassivityController(upright, parameters)
    tilted = Model.from_urdf(panda_arm_urdf(), gravity=(3.4, 0.0, -9.2))
    with pytest.raises(ParameterError, match="set safe_torque to damping"):
        PassivityController(tilted, parameters)
    PassivityController(tilted, replace(parameters, safe_torque="damping"))


def franka() -> tuple[SimulatedArm, PassivityController]:
    """Return a Panda with velocities 5 ms late, held by the controller of ``franka.yaml``."""
    model, described = (
        Model.from_urdf(panda_arm_urdf(), gravity=gravity)
        for gravity in (WITHOUT_GRAVITY, (0.0, 0.0, -9.81))
    )
    file = read_parameter_file(CONFIG / "franka.yaml", "passivity_controller")
    parameters = law_parameters(ControllerParameters, {**file, "joints": []})
    centre = 0.5 * (model.lower_limit + model.upper_limit)
    friction = tuple(0.02 * model.effort_limit)
    arm = SimulatedArm(
        model,
        SimulationParameters(
            initial_position=tuple(centre),
            coulomb=friction,
            viscous=(0.3,),
            velocity_cutoff=1.0 / (2.0 * np.pi * 0.005),
            command_timeout=10.0,
        ),
    )
    controller = PassivityController(described, parameters)
    sample = arm.reading()
    assert sample is not None
    controller.start(sample.stamp, sample.q, sample.v)
    return arm, controller


def moved(arm: SimulatedArm, controller: PassivityController, time: float) -> float:
    """Run, and return the largest speed as a multiple of the speed limits."""
    fastest = 0.0
    for _ in range(round(1000 * time)):
        sample = arm.reading()
        assert sample is not None
        arm.step(controller.update(sample.stamp, sample.q, sample.v, effort=sample.tau).torque)
        fastest = max(fastest, float((np.abs(arm.v) / arm.model.velocity_limit).max()))
    return fastest


def test_a_franka_stops_from_full_speed() -> None:
    """Its torque may rise by 900 N·m/s: with stiffer gains it swung itself to twice its limits."""
    arm, controller = franka()
    way = 0.8 * np.where(np.arange(7) % 2, -1.0, 1.0)
    time = 1.5 * float((0.8 / (0.9 * arm.model.velocity_limit)).max())
    goal = TrajectoryPoint(arm.q + way, time_from_start=time)
    controller.set_trajectory(arm.model.joint_names, [goal])
    assert 0.8 < moved(arm, controller, 0.5 * time) < 1.0
    controller.modes.order("hold")
    assert moved(arm, controller, 0.6) < 1.1
    assert moved(arm, controller, 0.4) < 0.05
    assert controller.mode == "hold"


@pytest.mark.parametrize("direction", [(0.0, 1.0, 0.0), (0.0, 0.0, -1.0)], ids=str)
@pytest.mark.parametrize(("force", "duration"), [(150.0, 0.05), (60.0, 2.0)])
def test_a_franka_can_be_pushed_and_leaned_on(
    direction: tuple[float, float, float], force: float, duration: float
) -> None:
    arm, controller = franka()
    moved(arm, controller, 0.1)
    arm.push("panda_link7", force * np.array(direction), duration=duration)
    moved(arm, controller, duration + 2.0)  # the bias that it has learned fades in 2 s
    assert controller.mode == "hold"
    assert moved(arm, controller, 0.3) < 0.05


def test_real_panda() -> None:
    """24 s at 30 Hz without contact."""
    result = run(REAL_PANDA, CONFIG / "panda_franka.yaml")
    assert result.events == ()
    # At that rate no observer is fast, and replay says so.
    assert all("noticed late" in warning for warning in result.warnings)
    assert max(joint.rms for joint in result.residuals) < 0.25
