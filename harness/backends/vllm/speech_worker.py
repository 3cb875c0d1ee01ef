"""A process that computes features of sounds: ``python -P -m harness.backends.vllm.speech_worker DESCRIPTOR``.

It runs vLLM's own renderer, created from the same arguments, in one thread.
"""

from __future__ import annotations

import itertools
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.renderers import renderer_from_config

from harness.backends.vllm.arguments import describe_sound
from harness.backends.vllm.tensors import pack
from harness.child.piped_process import serve_pipe
from harness.run.tokens import SOUND_RATE


def serve(pipe: Connection) -> None:
    """Serve. The first message has the renderer's arguments, and each later one is a waveform. Each message is answered
    with an error message (or "") and the result."""
    render: Callable[[np.ndarray], Any]

    def load() -> None:
        nonlocal render
        render = _make_renderer(*pipe.recv())
        render(np.zeros(SOUND_RATE, np.float32))  # covers one-time work of the first sound

    _answer(pipe, load)
    while True:
        sound = np.frombuffer(bytearray(pipe.recv_bytes()), np.float32)
        _answer(pipe, lambda sound=sound: render(sound))  # type: ignore[misc]


def _make_renderer(name: str, arguments: dict[str, Any], prompt: tuple[int, ...]) -> Callable[[np.ndarray], Any]:
    renderer = renderer_from_config(AsyncEngineArgs(**arguments).create_engine_config())
    numbers = itertools.count()

    def render(sound: np.ndarray) -> Any:
        began = time.process_time()
        asked = {"encoder_prompt": describe_sound(prompt, sound), "decoder_prompt": None}
        (rendered,) = renderer.render_cmpl([asked])
        # The engine identifies features by this name, and each renderer counts separately.
        number = next(numbers)
        hashes = rendered["decoder_prompt"]["mm_hashes"]
        for kind, each in hashes.items():
            hashes[kind] = [f"{name}-{number}-{place}" for place, _ in enumerate(each)]
        return rendered, time.process_time() - began

    return render


def _answer(pipe: Connection, work: Callable[[], Any]) -> None:
    try:
        found = pack(("", work()))
    except (EOFError, BrokenPipeError):
        raise
    except Exception as error:
        traceback.print_exc()
        found = pack((f"{type(error).__name__}: {error}", None))
    pipe.send_bytes(found)


if __name__ == "__main__":
    serve_pipe(sys.argv[1:], serve)
