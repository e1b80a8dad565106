"""Algorithms of the papers that no node or command uses.

They are public under :mod:`rbd_control.dynamics`, are compared with the published figures by
``make tables``, and are tested like all others.
"""
