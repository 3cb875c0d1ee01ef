"""Find the nearest valid name for a wrong one, and suggest it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LISTED = 12
# Names that other tools use for values.
_ELSEWHERE = {
    "trt": "tensorrt",
    "onnx": "onnxruntime",
    "ort": "onnxruntime",
    "torch": "pytorch",
    **dict.fromkeys(("half", "float16"), "fp16"),
    **dict.fromkeys(("float", "float32", "single"), "fp32"),
    "bfloat16": "bf16",
    **dict.fromkeys(("trtllm", "trt-llm", "tensorrt-llm", "tensorrt_llm", "sglang", "llama.cpp", "llamacpp"), "openai"),
}

_HINTS = {"openai": "it measures servers that use OpenAI's protocol: reconcile help language-models"}


def find_nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the most similar valid name, ignoring case; None if none is similar."""
    folded = {candidate.casefold(): candidate for candidate in valid}
    if (meant := _ELSEWHERE.get(name.casefold())) in folded:
        return meant
    found = difflib.get_close_matches(name.casefold()[:200], folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def give_advice(name: str, valid: Iterable[str], *, what: str = "name") -> str:
    """Suggest a fix for a wrong name: the nearest name first, then the others."""
    names = list(valid)
    close = find_nearest(name, names)
    listed = ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
    if close is not None and len(names) > 1:
        hint = f"{_HINTS[close]}; " if close in _HINTS and _ELSEWHERE.get(name.casefold()) == close else ""
        return f"write {close} ({hint}valid: {listed})"
    if close is not None:
        return f"write {close}"
    return f"write one of {listed}" if names else f"declare a {what} first"
