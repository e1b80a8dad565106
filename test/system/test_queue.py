"""Joint states that arrive faster than they can be processed.

The numbers in brackets are those of the fault list.
"""

from __future__ import annotations

import numpy as np
from std_msgs.msg import Float64MultiArray

from .bringup import BringUp
from .controller_scenarios import COMMANDS, NODE, PARAMETERS, WEIGHT, holds, resting
from .probe import Probe

COUNT = 20_000

ACCOUNTS = (
    "answered",
    "skipped for a newer one",
    "overwritten in the queue (estimated)",
    "lost on the way",
)


def test_every_joint_state_is_accounted_for(bring_up: BringUp, probe: Probe) -> None:
    """[18, 35, 48] Answered, skipped, overwritten or lost: together as many as were published."""
    # A process of its own: the reports of a second give it time to work off its queue.
    process = bring_up.start(NODE, PARAMETERS, is_forked=False)
    source = probe.stream(resting())
    holds(probe, source)
    commands = probe.listen(Float64MultiArray, COMMANDS)

    def counts() -> np.ndarray:
        values = probe.report(NODE).values
        return np.array([int(values[key]) for key in ACCOUNTS])

    source.on = False
    probe.report(NODE)
    before, first = counts(), len(commands)
    clock = probe.node.get_clock()
    for _ in range(COUNT):
        source.publishers[0].publish(source.message(clock.now().to_msg()))
    source.on = True
    probe.report(NODE)
    source.on = False
    probe.report(NODE)
    counted = counts() - before
    # The joint states between the flood and its end are few beside it.
    assert counted.sum() > 0.98 * COUNT
    assert counted.sum() < 1.05 * COUNT
    assert counted[0] > 0
    sent = np.array([message.data for message in commands[first:]])
    # The last ones are answered, and what is silent then is a fault of its own.
    assert all(np.allclose(x, WEIGHT, atol=1e-6) or not x.any() for x in sent)
    assert "Traceback" not in process.output
