"""System tests: nodes as processes, joint states in, torque and flags out, over real DDS.

``scenarios.py`` says what must happen, for any way of bringing the nodes up; ``probe.py`` is the
other end of their topics; ``bringup.py`` starts the executables for pytest.
"""
