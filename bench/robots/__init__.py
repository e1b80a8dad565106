"""The controller on arms in MuJoCo with the drives, sensors and failures of real robots.

See :mod:`bench.robots.__main__`.
"""
