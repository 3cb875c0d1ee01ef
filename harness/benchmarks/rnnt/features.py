"""Features of a waveform: log-mel energies of three neighbouring frames of 10 ms, normalised over the utterance, as
FilterbankFeatures of speech_recognition/rnnt in mlcommons/inference computes them.
"""

from __future__ import annotations

from functools import cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.speech import weigh_mels

MELS, SPLICED = 80, 3
FEATURES = MELS * SPLICED
_WINDOW, _HOP, _FFT = 320, 160, 512
_PREEMPHASIS = np.float32(0.97)
_DITHER = np.float32(1e-5**2)  # the reference adds what its dither amounts to in power
_SMALLEST, _LEAST_DEVIATION = np.float32(1e-20), np.float32(1e-5)


def count_frames(samples: int) -> int:
    """Count the frames of the network's input."""
    return ceil(ceil(samples / _HOP) / SPLICED)


def compute_features(waveform: NDArray[np.float32]) -> NDArray[np.float32]:
    """[samples] in -1..1 -> [frames, 240]."""
    mels = np.log(_measure_power(waveform) @ weigh_mels(_FFT, MELS) + _SMALLEST)
    # A frame joined with those that come after it; nothing comes after the last.
    later = [np.concatenate([mels[n:], np.zeros((n, MELS), np.float32)]) for n in range(1, SPLICED)]
    spliced = np.concatenate([mels, *later], axis=1)[::SPLICED][: count_frames(len(waveform))]
    deviation = spliced.std(axis=0, ddof=1) + _LEAST_DEVIATION
    normalised: NDArray[np.float32] = (spliced - spliced.mean(axis=0)) / deviation
    return normalised


def _measure_power(waveform: NDArray[np.float32]) -> NDArray[np.float32]:
    """[frames, 257]: frames are centred, the ends of the waveform mirrored."""
    sharpened = np.append(waveform[:1], waveform[1:] - _PREEMPHASIS * waveform[:-1])
    padded = np.pad(sharpened, _FFT // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FFT)[::_HOP]
    spectrum = np.fft.rfft(frames * _shape_window(), axis=1).astype(np.complex64, copy=False)
    power: NDArray[np.float32] = spectrum.real**2 + spectrum.imag**2 + _DITHER
    return power


@cache
def _shape_window() -> NDArray[np.float32]:
    """Hann's of 20 ms, in the middle of a transform's length."""
    window = np.zeros(_FFT, np.float32)
    start = (_FFT - _WINDOW) // 2
    window[start : start + _WINDOW] = np.hanning(_WINDOW)
    return window
