"""The live view in the browser: the arm in 3D, residuals, contacts and events.

The modules ``scene``, ``state``, ``track`` and ``playhead`` compute the geometry, the state of the
arm and the playback position; they need neither ROS nor a browser. ``page`` shows the results with
viser, which the extra ``view`` of the package installs. docs/view.md describes the page.
"""
