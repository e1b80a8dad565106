"""The live view in the browser: the arm in 3D, residuals, contacts and events.

The modules ``scene``, ``state``, ``track`` and ``playhead`` compute what is shown and need neither
ROS nor a browser. ``page`` shows it with viser, which the extra ``view`` of the package installs.
"""
