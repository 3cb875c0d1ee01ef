"""Speech through vLLM: what a model of the Whisper family is asked with each waveform."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.run.tokens import SOUND_RATE

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


def describe_sound(prompt: Sequence[int], sound: np.ndarray) -> dict[str, Any]:
    """``sound``: a waveform in -1..1, float32."""
    return {"prompt_token_ids": list(prompt), "multi_modal_data": {"audio": (sound, SOUND_RATE)}}
