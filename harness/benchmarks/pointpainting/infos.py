"""The list of frames as written by the reference's preparation: a pickle of dicts and NumPy arrays.

Only plain values and arrays are read from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.plain_pickles import PlainUnpickler, refuse_repeated
from harness.benchmarks.sources import is_below
from harness.errors import HarnessError

CAMERAS = 5  # front, front left, front right, side left, side right
# Front pictures are higher than side pictures, so each size has its own engine of the same network.
FRONT, SIDE, DETECTION = "front", "side", "detection"
LOOKING = {FRONT: (0, 1, 2), SIDE: (3, 4)}  # cameras
MATRICES = (*(f"P{camera}" for camera in range(CAMERAS)), "R0_rect", *(f"Tr_velo_to_cam_{n}" for n in range(CAMERAS)))
CLASSES = ("Pedestrian", "Cyclist", "Car")  # in the order of the network's classes
# The official script accepts these classes as a pedestrian or a car, without counting them as errors.
TOLERATED = {"Person_sitting": 3, "Van": 4}
OTHER = 5
FIX = "download kitti_format again, as described by `reconcile fetch pointpainting`; nothing was prepared"


@dataclass(frozen=True, slots=True)
class Frame:
    """``number``: used in file names. ``cloud``: file, relative to the folder. ``shapes`` [5, 2]: height and width of
    the pictures. ``matrices`` [11, 4, 4]: see ``MATRICES``. ``objects`` [n, 7] in the first camera's coordinates:
    middle of the bottom, length, height, width, angle; ``classes`` and ``difficulties`` [n]."""

    number: int
    cloud: str
    shapes: NDArray[np.int64]
    matrices: NDArray[np.float32]
    objects: NDArray[np.float32]
    classes: NDArray[np.int64]
    difficulties: NDArray[np.int64]

    @property
    def pictures(self) -> list[str]:
        return [f"training/image_{camera}/{self.number}.jpg" for camera in range(CAMERAS)]


def read_frames(path: Path) -> list[Frame]:
    """Read the frames. Raises HarnessError, which says whether the file is missing, truncated, or something else."""
    try:
        with path.open("rb") as stream:
            found = PlainUnpickler(stream, "a list of frames").load()
            refuse_repeated([found], path.stat().st_size)
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}", "missing", FIX) from error
    except Exception as error:  # a damaged pickle may raise any error
        raise HarnessError(f"{path} is truncated, or not a list of frames: {error}", "input", FIX) from error
    if not isinstance(found, list) or not found:
        raise HarnessError(f"{path} does not contain a list of frames", "input", FIX)
    return [_read_frame(path, place, info) for place, info in enumerate(found)]


def _read_frame(path: Path, place: int, info: Any) -> Frame:
    try:
        return _make_frame(info)
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise HarnessError(f"{path}: entry {place} is not a frame of Waymo: {error!r}", "input", FIX) from error


@np.errstate(over="ignore")  # values too large for float32 become infinite and are rejected
def _make_frame(info: Any) -> Frame:
    """Make a frame. Raises KeyError, IndexError, TypeError, ValueError or OverflowError."""
    image, calibration, annotations = info["image"], info["calib"], info["annos"]
    cloud = PurePosixPath(str(info["point_cloud"]["velodyne_path"]))
    boxes = [np.asarray(annotations[name], np.float32) for name in ("location", "dimensions", "rotation_y")]
    frame = Frame(
        number=int(image["image_idx"]),
        cloud=str(cloud),
        shapes=np.array([image["camera"][camera]["image_shape"] for camera in range(CAMERAS)], np.int64),
        matrices=np.array([calibration[name] for name in MATRICES], np.float32),
        objects=np.concatenate([boxes[0].reshape(-1, 3), boxes[1].reshape(-1, 3), boxes[2].reshape(-1, 1)], axis=1),
        classes=np.array([_number_class(str(name)) for name in annotations["name"]], np.int64),
        difficulties=np.asarray(annotations["difficulty"], np.int64).reshape(-1),
    )
    sizes = {len(frame.objects), len(frame.classes), len(frame.difficulties)}
    if not is_below(str(cloud)):
        raise ValueError(f"velodyne_path {cloud} is outside the folder")
    if not (np.isfinite(frame.matrices).all() and np.isfinite(frame.objects).all()):
        raise ValueError("matrices or objects are not finite")
    if frame.matrices.shape != (len(MATRICES), 4, 4) or frame.shapes.shape != (CAMERAS, 2) or len(sizes) != 1:
        raise ValueError("matrices, shapes or objects have the wrong length")
    return frame


def _number_class(name: str) -> int:
    return CLASSES.index(name) if name in CLASSES else TOLERATED.get(name, OTHER)
