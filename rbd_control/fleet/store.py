"""The folder with the results of a fleet: per command one JSON file per recording and one table.

::

    FOLDER/replay/NAME-DIGEST.json     one recording; DIGEST is computed from its absolute path
    FOLDER/replay.csv (or .parquet)    one row per recording
    FOLDER/calibrate/…, calibrate.csv  results of calibrate in the same form
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from rbd_control.errors import RecordingError
from rbd_control.files.input_files import reading
from rbd_control.files.output_files import prepare_output, write_whole
from rbd_control.fleet.outcome import Record

_NAME_LENGTH = 60


class Store:
    """Stored records of one command over a fleet.

    Args:
        folder: the folder with the results of the fleet.
        command: ``replay`` or ``calibrate``.

    Attributes:
        folder, command: as given.
    """

    def __init__(self, folder: Path, command: str) -> None:
        self.command = command
        self.folder = folder
        self._records = folder / command

    def prepare(self) -> None:
        """Create the folders, and check that this process may write to them.

        Raises:
            OSError: naming the path that cannot be created or written.
        """
        for folder in (self.folder, self._records):
            prepare_output(folder / "x.json")

    def path(self, recording: str) -> Path:
        """Return the path of the JSON file for a recording.

        Args:
            recording: absolute path of the recording.
        """
        digest = hashlib.sha256(recording.encode("utf-8", "surrogateescape")).hexdigest()[:10]
        stem = Path(recording).stem.encode("utf-8", "replace").decode()[:_NAME_LENGTH]
        return self._records / f"{stem}-{digest}.json"

    def load(self, recording: str) -> Record | None:
        """Return the stored record of a recording; None if it is missing, unreadable or damaged.

        Args:
            recording: absolute path of the recording.
        """
        try:
            return _read(self.path(recording))
        except RecordingError:
            return None

    def write(self, record: Record) -> None:
        """Write a record to the file of its recording, completely or not at all.

        Raises:
            OSError: naming the file that cannot be written.
            ValueError: if the result contains NaN or infinity.
        """
        text = json.dumps(record.to_json(), indent=1, allow_nan=False, ensure_ascii=False)
        write_whole(
            self.path(record.recording), (text + "\n").encode("utf-8", errors="backslashreplace")
        )

    def records(self) -> list[Record]:
        """Return all records of the command in the folder, sorted by the paths of the recordings.

        Records of earlier runs are included.

        Raises:
            RecordingError: naming a ``.json`` file of the folder that is not a record, or the
                folder if it exists and cannot be read.
        """
        with reading(self._records, RecordingError, "cannot be read"):
            try:
                names = os.listdir(self._records)
            except (FileNotFoundError, NotADirectoryError):
                return []
            found = [_read(self._records / name) for name in names if name.endswith(".json")]
        return sorted(found, key=lambda record: record.recording)


def _read(path: Path) -> Record:
    with reading(path, RecordingError, "is not the result of a fleet", "remove it"):
        return Record.from_json(json.loads(path.read_text(encoding="utf-8")))
