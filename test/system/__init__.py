"""System tests: nodes as processes, joint states in, torque and flags out, over real DDS.

``controller_setting.py`` and ``detector_setting.py`` have the arm, its joint states and the nodes'
parameters; ``probe.py`` is the other end of their topics; ``bringup.py`` starts the executables.
"""
