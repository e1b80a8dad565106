"""Published algorithms for use from Python; no node uses them.

They are public under :mod:`rbd_control.dynamics` and tested like all others. ``make tables``
compares them with the published figures. The function ``uncompiled`` of ``symbolic.py`` is an
exception: :func:`~rbd_control.dynamics.freeze` and the command ``rbd-control export`` use it.
"""
