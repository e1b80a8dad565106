"""What the README and the example files say is so."""

import re
from collections import ChainMap
from pathlib import Path

import pytest

from rbd_control.control import ControllerParameters
from rbd_control.estimation import DetectorParameters
from rbd_control.node_parameters import NODE_PARAMETERS, PayloadParameters
from rbd_control.parameters import read_parameter_file
from rbd_control.simulation import SimulationParameters

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_of_the_first_screen_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out.strip()
    assert printed == code.rsplit("# ", 1)[1].strip()


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize(
    ("node", "parameters", "of_the_node"),
    [
        ("contact_detector", (DetectorParameters, PayloadParameters), ()),
        ("passivity_controller", (ControllerParameters,), ()),
        (
            "simulated_arm",
            (SimulationParameters,),
            ("lockstep", "lockstep_timeout", "push_timeout"),
        ),
    ],
)
def test_examples_hold_the_defaults_they_claim(node, parameters, of_the_node):
    values = read_parameter_file(ROOT / "config" / f"{node}.yaml", node)
    default = ChainMap(*(vars(law()) for law in parameters))
    for name, value in values.items():
        if name in NODE_PARAMETERS or name in of_the_node:
            continue
        expected = default[name]
        assert (list(expected) if isinstance(expected, tuple) else expected) == value, name
