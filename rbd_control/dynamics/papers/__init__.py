"""Algorithms of the papers that no node or command uses.

They are public under :mod:`rbd_control.dynamics` and tested like all others. ``make tables``
compares them with the published figures.
"""
