"""Features of Whisper large v3: logarithms of 128 mel energies of 3,000 frames of 10 ms, as OpenAI's own code computes
them. Backends that transcribe compute them themselves; a rehearsal's references come from these.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.speech import RATE, weigh_mels

MELS, FRAMES = 128, 3000
_SECONDS, _HOP, _FFT = 30, 160, 400
_RANGE = 8  # powers of ten between the loudest and what counts as silence


def compute_features(waveform: NDArray[np.float32]) -> NDArray[np.float32]:
    """[samples] in -1..1 -> [128, 3000]; what is longer than 30 s is cut, what is shorter is silent."""
    sound = np.zeros(_SECONDS * RATE, np.float32)
    length = min(len(sound), len(waveform))
    sound[:length] = waveform[:length]
    padded = np.pad(sound, _FFT // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FFT)[::_HOP][:FRAMES]
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_FFT) / _FFT)).astype(np.float32)
    power = np.abs(np.fft.rfft(frames * window, axis=1)) ** 2
    energies = np.log10(np.maximum(weigh_mels(_FFT, MELS).T @ power.T, 1e-10))
    found: NDArray[np.float32] = ((np.maximum(energies, energies.max() - _RANGE) + 4) / 4).astype(np.float32)
    return found
