"""Speech through vLLM: what a model of the Whisper family is asked with each waveform."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.tokens import SOUND_RATE

_GENERATION = "generation_config.json"
_ENGLISH, _TASK = "<|en|>", "transcribe"


def read_speech_prompt(folder: Path) -> tuple[int, ...]:
    """The tokens that MLPerf's reference begins a transcript with: English, transcribed, without times. A checkpoint of
    English alone has neither languages nor tasks. Raises HarnessError where generation_config.json does not say them.
    """
    try:
        said = json.loads((folder / _GENERATION).read_text(encoding="utf-8"))
        several = bool(said.get("lang_to_id"))
        chosen = (said["lang_to_id"][_ENGLISH], said["task_to_id"][_TASK]) if several else ()
        tokens = (said["decoder_start_token_id"], *chosen, said["no_timestamps_token_id"])
        return tuple(int(token) for token in tokens)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise HarnessError(
            f"{folder / _GENERATION} does not say how a transcript begins: {type(error).__name__}: {error}",
            "input",
            "name a checkpoint of Whisper in Hugging Face's layout, with its generation_config.json, as model.path",
        ) from error


def describe_sounds(prompt: Sequence[int], sounds: Sequence[np.ndarray]) -> list[dict[str, Any]]:
    """``sounds``: waveforms in -1..1, float32."""
    return [
        {"prompt_token_ids": list(prompt), "multi_modal_data": {"audio": (np.asarray(sound, np.float32), SOUND_RATE)}}
        for sound in sounds
    ]


async def hear(engine: Any, prompt: Mapping[str, Any]) -> Any:
    """``prompt`` with what is heard of its sound, by the threads of the engine's renderer. An engine that is given the
    sound itself hears it on its event loop: one at a time, and meanwhile no answer is read.
    """
    (heard,) = await engine.renderer.render_cmpl_async([{"encoder_prompt": prompt, "decoder_prompt": None}])
    return heard
