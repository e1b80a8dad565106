"""``rbd-control replay``: recordings through the detector, from the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from rbd_control.dynamics import Model
from rbd_control.errors import InputError, RecordingError
from rbd_control.estimation import DetectorParameters
from rbd_control.node_parameters import NODE_PARAMETERS, PayloadParameters
from rbd_control.parameters import read_parameter_file
from rbd_control.playback.curve import FACTORS
from rbd_control.playback.labels import read_labels
from rbd_control.playback.recording import read_recording
from rbd_control.playback.replay import replay
from rbd_control.playback.report import (
    print_curve,
    print_overview,
    print_result,
    write_json,
    write_report,
)
from rbd_control.playback.result import Overview
from rbd_control.robot_model import RobotModel, urdf_source, with_payload

_NODE = "contact_detector"
_NOT_THE_LAW = (*NODE_PARAMETERS, "use_sim_time")
_PAYLOAD = tuple(item.name for item in fields(PayloadParameters))
_WIDTH = 120


def run_replay(arguments: argparse.Namespace) -> int:
    """Read, replay, print and write; 0.

    Raises:
        RbdControlError: for bad input, in one sentence.
        OSError: when the outcome cannot be written.
    """
    recordings = [read_recording(path, arguments.topic) for path in arguments.recordings]
    labels = arguments.labels and read_labels(arguments.labels, arguments.recordings)
    if arguments.curve and not labels and all(r.true_contacts is None for r in recordings):
        raise RecordingError(
            "a curve of delay against false alarms needs the truth, which no recording tells; "
            "give --labels"
        )
    model, parameters = _configured(arguments.urdf, arguments.config, dict(arguments.lock))
    console = console_for_output()
    results = []
    for k, recording in enumerate(recordings):
        with _progress(recording.count) as progress:
            result = replay(
                recording,
                model,
                parameters,
                joints=arguments.joints,
                labels=labels[k] if labels else None,
                factors=FACTORS if arguments.curve else (),
                progress=progress,
            )
        print_result(result, console)
        if len(recordings) > 1:
            console.print()
        results.append(result)
    overview = Overview(tuple(results))
    if len(results) > 1:
        print_overview(overview, console)
    print_curve(overview, console)
    outcome = overview if len(results) > 1 else results[0]
    if arguments.json:
        write_json(outcome, arguments.json)
    if arguments.report:
        write_report(outcome, arguments.report)
        console.print(f"report in {arguments.report}", markup=False)
    return 0


def console_for_output() -> Console:
    """A console on stdout, wide enough for tables when it is no terminal."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def _configured(
    urdf: str, config: Path | None, locked: dict[str, float]
) -> tuple[Model, DetectorParameters]:
    """The model and the detector's parameters, as the node would make them of the same file."""
    source = urdf_source(urdf)
    if config is None:
        return Model.from_urdf(source, locked=locked), DetectorParameters()
    values = read_parameter_file(config, _NODE)
    payload = {name: values.pop(name) for name in _PAYLOAD if name in values}
    parameters = DetectorParameters.from_mapping(
        {name: value for name, value in values.items() if name not in _NOT_THE_LAW}
    )
    joints = values.get("joints", ())
    if isinstance(joints, str):
        raise InputError(f"joints in {config} is {joints!r}; give a list")
    robot = RobotModel.load(source, joints, locked)
    model = with_payload(robot.model, PayloadParameters.from_mapping(payload))
    return model, robot.in_model_order(parameters)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None] | None]:
    """A progress bar on stderr, if somebody is there to see it."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("replay", total=total)
        yield lambda done: bar.update(task, completed=done)
