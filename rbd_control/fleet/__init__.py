"""Hundreds of recordings: the same work on each, in parallel, and a study over the results.

:mod:`~rbd_control.fleet.run` has the order of the work, :mod:`~rbd_control.fleet.jobs` what is done
with one recording, :mod:`~rbd_control.fleet.store` the folder of the results. Processes of this
machine (:mod:`~rbd_control.fleet.local_workers`) or a Dask cluster
(:mod:`~rbd_control.fleet.dask_workers`) do it. :mod:`~rbd_control.fleet.study` reads the folder.
"""
