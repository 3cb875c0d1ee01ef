"""Answers as videos: MP4 files, encoded as diffusers' ``export_to_video`` encodes them for the reference."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.errors import HarnessError

FPS = 16  # inference_config.yaml of the reference
SUFFIX = ".mp4"
# The defaults of export_to_video: x264, at a quality of 5 of 10.
_QUALITY, _BLOCK = 5.0, 16
_AS_PICTURES = ("-f", "image2pipe", "-c:v", "ppm", "-")


def encode_video(frames: NDArray[np.uint8]) -> bytes:
    """[frames, height, width, 3], red first; sides in multiples of 16 pixels."""
    import imageio_ffmpeg

    _, height, width, _ = frames.shape
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"video{SUFFIX}"
        writer = imageio_ffmpeg.write_frames(
            str(path), (width, height), fps=FPS, quality=_QUALITY, macro_block_size=_BLOCK, ffmpeg_log_level="warning"
        )
        writer.send(None)
        try:
            for frame in frames:
                writer.send(np.ascontiguousarray(frame))
        finally:
            writer.close()
        return path.read_bytes()


def decode_video(data: bytes) -> NDArray[np.uint8]:
    """[frames, height, width, 3]. Raises HarnessError where the bytes are no video."""
    import imageio_ffmpeg

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"video{SUFFIX}"
        path.write_bytes(data)
        program = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(path), *_AS_PICTURES]
        done = subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        problem = f"an answer of {len(data)} bytes is not a video{f': {said[-1]}' if said else ''}"
        raise HarnessError(problem, "input", "run accuracy again")
    return _read_pictures(done.stdout)


def _read_pictures(stream: bytes) -> NDArray[np.uint8]:
    """PPM files of one size, one behind the other: "P6", width and height, the largest value, and then the bytes."""
    header = b"\n".join(stream.split(b"\n", 3)[:3]) + b"\n"
    width, height = (int(word) for word in header.split()[1:3])
    size = len(header) + width * height * 3
    rows = np.frombuffer(stream, np.uint8).reshape(-1, size)
    return rows[:, len(header) :].reshape(-1, height, width, 3)
