"""``python -m bench.replay.once RECORDING``: print time and memory of several replays as JSON.

The keys are ``samples``, ``duration`` of the recording [s], ``seconds`` and ``cpu`` (elapsed and
processor time of each replay, sorted [s]), and ``memory`` (peak of the process [MiB]).
"""

from __future__ import annotations

import json
import resource
import sys
import time

from rbd_control.dynamics import Model
from rbd_control.estimation import DetectorParameters
from rbd_control.playback import read_recording, replay
from rbd_control.simulation import arm7_urdf

RUNS = 5
"""Number of timed replays; an untimed replay before them loads the compiled code."""


def main(path: str) -> None:
    """Replay the recording at ``path`` several times and print the measurements."""
    model, parameters = Model.from_urdf(arm7_urdf()), DetectorParameters()
    seconds, cpu = [], []
    replay(read_recording(path), model, parameters)
    for _ in range(RUNS):
        began, used = time.perf_counter(), time.process_time()
        result = replay(read_recording(path), model, parameters)
        seconds.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    outcome = {
        "samples": result.samples,
        "duration": result.duration,
        "seconds": sorted(seconds),
        "cpu": sorted(cpu),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
    }
    print(json.dumps(outcome))


if __name__ == "__main__":
    main(sys.argv[1])
