"""Published algorithms for use from Python; no node uses them.

They are public under :mod:`rbd_control.dynamics` and tested like all others. ``make tables``
compares them with the published figures. The module ``uncompiled`` is an exception: the command
``rbd-control export`` uses it.
"""
