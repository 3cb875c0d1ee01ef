"""Errors of a child for its parent: a problem, its class, and what to do next."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Literal

from harness.catalog import show_install

ProblemClass = Literal["input", "missing", "resources", "backend", "crash"]

EXTRAS = {
    "aiohttp": "openai",
    "cv2": "resnet50",
    "diffusers": "diffusers",
    "imageio_ffmpeg": "wan-2-2",
    "mlperf_loadgen": "cpu",
    "numpy": "cpu",
    "onnx": "cpu",
    "onnxruntime": "cpu",
    "openvino": "cpu",
    "openvino_genai": "openvino-genai",
    "openvino_tokenizers": "openvino-genai",
    "more_itertools": "whisper",
    "regex": "whisper",
    "vllm": "vllm",
    "PIL": "qwen3-vl",
    "pyarrow": "qwen3-vl",
    "rouge_score": "language",
    "sklearn": "cpu",
    "tokenizers": "bert",
    "nibabel": "unet3d",
    "pycocotools": "retinanet",
    "scipy": "unet3d",
    "soundfile": "rnnt",
    "torch": "pytorch",
    "transformers": "diffusers",
}


class HarnessError(Exception):
    """A problem that a user can solve; ``fix`` explains how."""

    def __init__(self, problem: str, problem_class: ProblemClass, fix: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.problem_class: ProblemClass = problem_class
        self.fix = fix


def explain(error: BaseException) -> HarnessError:
    """Turn any exception into a HarnessError; an unexpected exception becomes a crash."""
    match error:
        case HarnessError():
            return error
        case ImportError():
            return _explain_import(error)
        case MemoryError():
            return HarnessError(
                f"out of memory: {error}" if str(error) else "out of memory",
                "resources",
                "lower batch_size, streams or performance_sample_count, or use a machine with more memory",
            )
        case OSError():
            return _explain_system(error)
        case _:
            return _explain_crash(error)


def _explain_import(error: ImportError) -> HarnessError:
    name = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(name)
    fix = show_install(extra) if extra else f"install {name or 'the missing module'}"
    return HarnessError(f"cannot import {name or 'a module'}: {error}", "missing", fix)


def _explain_system(error: OSError) -> HarnessError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return HarnessError(f"no space left on disk: {error}", "resources", "free disk space, then run again")
    if error.errno == errno.ENOMEM:
        return HarnessError(f"out of memory: {error}", "resources", "free memory, then run again")
    if isinstance(error, FileNotFoundError):
        return HarnessError(f"no such file: {error.filename or error}", "missing", "check the path in the spec")
    if isinstance(error, PermissionError):
        return HarnessError(f"cannot access {error.filename or error}", "input", "check the permissions of the file")
    return _explain_crash(error)


def _explain_crash(error: BaseException) -> HarnessError:
    problem = f"{type(error).__name__}: {error}"
    return HarnessError(problem, "crash", "see the traceback in the log of this child process")


def require(path: Path, what: str) -> Path:
    """Return the path, or raise a HarnessError saying that ``what`` does not exist."""
    if not path.exists():
        raise HarnessError(f"{what} does not exist: {path}", "missing", f"build {what} first")
    return path
