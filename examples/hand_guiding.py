"""Hand guiding without ROS: the law of the node `hand_guide` leads an arm that takes positions.

The hand pushes with 12 N for two seconds and lets go; the arm follows its commands at once. On a
robot the wrench comes from the detector (`tool_frame`). Prints how far the hand has led the tool.
"""

import numpy as np

from rbd_control.control.hand_guide import HandGuide, HandGuideParameters
from rbd_control.dynamics import Model, frame_placement
from rbd_control.simulation import arm7_urdf

PERIOD = 0.008
model = Model.from_urdf(arm7_urdf())
guide = HandGuide(model, HandGuideParameters(tool_frame="tool"))
q, v = np.array([0.0, 0.5, 0.0, 1.1, 0.0, 0.8, 0.0]), np.zeros(7)
start = frame_placement(model, q, "tool")[:3, 3]
guide.start()
state = guide.state
for k in range(round(4.0 / PERIOD)):
    t = k * PERIOD
    touched = 1.0 <= t < 3.0
    force = np.array([0.0, 12.0 if touched else 0.0, 0.0])
    R = frame_placement(model, q, "tool")[:3, :3]
    wrench = np.concatenate([np.zeros(3), R.T @ force])  # [moment; force] in axes of the tool
    guide.update_verdict(touched, t)
    guide.update_level("contact" if touched else "none", "tool" if touched else "", t)
    guide.update_joints(t, q, v, t)
    guide.update_wrench(t, "tool", wrench, 0.01 * np.eye(6), t)
    command = guide.step(t)
    before = q
    if command is not None:
        q = command.q
    v = (q - before) / PERIOD
    if guide.state != state:
        state = guide.state
        print(f"{t:.2f} s: {state} {guide.reason}".rstrip())
way = np.linalg.norm(frame_placement(model, q, "tool")[:3, 3] - start)
print(f"led {1e3 * way:.0f} mm")
