"""Arguments of ``rbd-control payload``."""

from __future__ import annotations

import argparse

from rbd_control.cli.arguments.kinds import finite, namespace, numbers
from rbd_control.cli.arguments.shared import Commands
from rbd_control.startup.standard_streams import ros_needed


def add_command(commands: Commands) -> None:
    """Add the sub-command ``payload`` with its arguments to the parser of ``rbd-control``."""
    payload = commands.add_parser(
        "payload",
        help="set the payload of the running nodes",
        description="Set the payload of detector and controller, in addition to the description of "
        "the arm. Without options the payload is removed. Set the payload of an arm that "
        "compensates gravity by itself (gravity_compensated) in its own interface as well.",
        epilog="exit code 1 if no node listens, or a node refuses the payload",
    )
    payload.add_argument("--mass", type=finite, default=0.0, metavar="KG", help="mass [kg]")
    payload.add_argument(
        "--com",
        type=numbers,
        default=(0.0, 0.0, 0.0),
        metavar="X,Y,Z",
        help="centre of mass in the frame of the link [m]",
    )
    payload.add_argument(
        "--inertia",
        type=numbers,
        default=(0.0,) * 6,
        metavar="XX,YY,ZZ,XY,XZ,YZ",
        help="rotational inertia about the centre of mass [kg·m²] (default: a point mass)",
    )
    payload.add_argument(
        "--link", default="", metavar="NAME", help="link of the payload (default: the last)"
    )
    payload.add_argument(
        "--namespace", type=namespace, default="", metavar="NS", help="namespace of the nodes"
    )
    payload.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from rbd_control.robot.payload import PayloadParameters

    payload = PayloadParameters(
        payload_mass=arguments.mass,
        payload_link=arguments.link,
        payload_com=arguments.com,
        payload_inertia=arguments.inertia,
    )
    with ros_needed("the command"):
        from rbd_control.live.requests import run_payload
    code: int = run_payload(payload, arguments.namespace)
    return code
