"""Waymo's validation frames in KITTI's format, as MLCommons gives them to its members.

Pictures remain JPEG files until a run makes them resident, which LoadGen does not time, since a decoded frame takes 32
MB. The preparation removes points outside the benchmark's range, which is allowed as a single, consistent crop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.images import make_jpeg_rule, map_ahead, read_picture_size
from harness.benchmarks.pointpainting.infos import CAMERAS, FIX, FRONT, LOOKING, SIDE, Frame, read_frames
from harness.benchmarks.pointpainting.points import FEATURES, MOST_PILLARS, crop_points, group_points
from harness.benchmarks.sources import (
    FileRule,
    check_files,
    choose_count,
    count_threads,
    describe_problems,
    is_rehearsal,
    require_source,
)
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.qsl import Consecutive, Ragged

INFOS, LISTED = "waymo_infos_val.pkl", "ImageSets/val.txt"
FRAMES = 39_987
STORED = 6  # values of a point on disk: position, intensity, elongation, time
PICTURES, POINTS, INDEX = "pictures.bin", "points.bin", "index.npz"
_POINT = STORED * np.dtype(np.float32).itemsize
_SHOWN = 5


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write pictures.bin, all JPEG files; points.bin, float32 with five values each; index.npz, their offsets and the
    rest."""
    source = require_source(source, "Waymo in KITTI's format (kitti_format)")
    folder = source if (source / INFOS).is_file() else source / "kitti_format"
    frames = read_frames(folder / INFOS)
    if len(frames) != FRAMES and not is_rehearsal(source):
        raise HarnessError(f"{folder / INFOS} names {len(frames):,} frames, the benchmark has {FRAMES:,}", "input", FIX)
    _check_listed(folder, frames)
    frames = frames[: choose_count(settings, len(frames))]
    rules = [FileRule(frame.cloud) for frame in frames]
    rules += [make_jpeg_rule(name) for frame in frames for name in frame.pictures]
    check_files(folder, rules, fix=FIX)
    _check_sizes(folder, frames)
    counter.stage("building", len(frames))
    pictures, points, room = [0], [0], 0
    with (output / PICTURES).open("wb") as shown, (output / POINTS).open("wb") as measured:
        for seen, cloud in map_ahead(partial(_read_files, folder), frames, count_threads(settings)):
            for picture in seen:
                shown.write(picture)
                pictures.append(pictures[-1] + len(picture))
            measured.write(cloud.tobytes())
            points.append(points[-1] + len(cloud))
            room = max(room, len(group_points(cloud).counts)) if is_rehearsal(source) else MOST_PILLARS
            counter.bump(1)
    _write_index(output / INDEX, frames, pictures, points, room)


def _write_index(
    path: Path, frames: Sequence[Frame], pictures: Sequence[int], points: Sequence[int], room: int
) -> None:
    known = [[frame.number, room, *frame.shapes.ravel().tolist()] for frame in frames]
    np.savez(
        path,
        frames=np.array(known, np.int64),
        matrices=np.stack([frame.matrices for frame in frames]),
        pictures=np.array(pictures, np.int64),
        points=np.array(points, np.int64),
        objects=np.concatenate([frame.objects for frame in frames]),
        classes=np.concatenate([frame.classes for frame in frames]),
        difficulties=np.concatenate([frame.difficulties for frame in frames]),
        labelled=np.cumsum([0, *(len(frame.classes) for frame in frames)], dtype=np.int64),
    )


def load_samples(dataset: Path) -> dict[str, Any]:
    index = np.load(dataset / INDEX)
    pictures = Consecutive(np.memmap(dataset / PICTURES, np.uint8, "r"), index["pictures"])
    points = np.memmap(dataset / POINTS, np.float32, "r").reshape(-1, FEATURES)
    return {
        **{part: Ragged(_Decoded(pictures, LOOKING[part])) for part in (FRONT, SIDE)},
        "points": Ragged(Consecutive(points, index["points"])),
        "matrices": index["matrices"],
        "frame": index["frames"],
    }


class _Decoded(Sequence[np.ndarray]):
    """Pictures of some cameras of each frame, uint8 [cameras, height, width, 3], red first; decoded on request."""

    def __init__(self, pictures: Consecutive, cameras: Sequence[int]) -> None:
        self._pictures, self._cameras = pictures, cameras

    def __len__(self) -> int:
        return len(self._pictures) // CAMERAS

    def __getitem__(self, number: Any) -> Any:
        first = range(len(self))[number] * CAMERAS
        return np.stack([decode_picture(self._pictures[first + camera]) for camera in self._cameras])


def decode_picture(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Decode to [height, width, 3], red first. Raises HarnessError."""
    try:
        image: NDArray[np.uint8] | None = cv2.imdecode(data, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error:
        image = None
    if image is None:
        raise HarnessError("a picture of the prepared dataset cannot be decoded", "input", FIX)
    return np.ascontiguousarray(image[..., ::-1])


def _check_listed(folder: Path, frames: Sequence[Frame]) -> None:
    """Check that the split's list contains the same frames."""
    try:
        listed = {int(word) for word in (folder / LISTED).read_text(encoding="ascii").split()}
    except OSError as error:
        raise HarnessError(f"{folder / LISTED}: {error.strerror}", "missing", FIX) from error
    except ValueError as error:
        raise HarnessError(f"{folder / LISTED} is not a list of numbers: {error}", "input", FIX) from error
    named = {frame.number for frame in frames}
    for problem, numbers in (("has no", listed - named), (f"in addition to those of {LISTED} has", named - listed)):
        if numbers:
            shown = ", ".join(map(str, sorted(numbers)[:_SHOWN]))
            raise HarnessError(f"{folder / INFOS} {problem} frame {shown}: {len(numbers)} in all", "input", FIX)


def _check_sizes(folder: Path, frames: Sequence[Frame]) -> None:
    """Check the sizes: a cloud consists of complete points, and all pictures for an engine have the size stated in the
    list."""
    cut = [frame.cloud for frame in frames if (folder / frame.cloud).stat().st_size % _POINT]
    if cut:
        problem = f"{folder}: {describe_problems('cut off', cut, len(frames))}"
        raise HarnessError(problem, "input", FIX)
    wanted = frames[0].shapes
    for cameras in LOOKING.values():
        for frame in frames:
            for camera in cameras:
                stated, first = frame.shapes[camera].tolist(), wanted[cameras[0]].tolist()
                found = read_picture_size(folder / frame.pictures[camera])
                if not found == stated == first:
                    sizes = f"is {found}, but {stated} in the list of frames, and {first} for other cameras"
                    raise HarnessError(f"{folder / frame.pictures[camera]} {sizes}", "input", FIX)


def _read_files(folder: Path, frame: Frame) -> tuple[list[bytes], NDArray[np.float32]]:
    """Read pictures and points."""
    cloud = np.fromfile(folder / frame.cloud, np.float32).reshape(-1, STORED)[:, :FEATURES]
    return [(folder / name).read_bytes() for name in frame.pictures], crop_points(cloud)
