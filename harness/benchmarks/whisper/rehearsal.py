"""Utterances of generated sounds in the reference's layout, and a small Whisper that writes words for them.

The transcripts are the network's own in fp32, as the library computes them for one utterance at a time.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import openvino as ov
import openvino.opset13 as op
import openvino_genai as genai
import soundfile
from openvino_tokenizers import build_rwkv_tokenizer

from harness.benchmarks.language.decoder_graph import DecoderGraph, DecoderShape, Layers, make_float, make_ints
from harness.benchmarks.speech import RATE, draw_sound
from harness.benchmarks.whisper import FOLDER, MANIFEST
from harness.contract import Counter

# A small Whisper with seeded weights, in the files that OpenVINO GenAI reads: an encoder of 30 s of sound, a decoder
# that stores its keys and values, and a detokenizer.
#
# Its inputs are the published network's: 128 mel energies of 3,000 frames of 10 ms; it has fewer and narrower layers.

MELS, FRAMES = 128, 3000
ENCODER, DECODER = "openvino_encoder_model.xml", "openvino_decoder_model.xml"
POSITIONS = FRAMES // 2
MARKS = (
    "<|endoftext|>",
    "<|startoftranscript|>",
    "<|en|>",
    "<|translate|>",
    "<|transcribe|>",
    "<|startofprev|>",
    "<|notimestamps|>",
)
_END, _BEGIN, _ENGLISH, _TRANSLATE, _TRANSCRIBE, _BEFORE, _UNTIMED = range(len(MARKS))
END = _END
_NEVER = -1e4
_LONGEST = 448  # tokens of a transcript including its prompt
_KEEN = 4.0  # weight of the sound relative to the earlier text


class SpeechGraph(DecoderGraph):
    """A decoder with attention to sounds: ``sounds`` [batch, positions, width] is its encoder's output."""

    INPUTS: ClassVar[dict[str, tuple[list[int], Any]]] = {
        "input_ids": ([-1, -1], np.int64),
        "encoder_hidden_states": ([-1, -1, -1], np.float32),
        "beam_idx": ([-1], np.int32),
        "cache_position": ([-1], np.int64),
    }

    @property
    def positions(self) -> Any:
        return op.unsqueeze(self._inputs["cache_position"], make_ints(0))

    @property
    def sounds(self) -> Any:
        return self._inputs["encoder_hidden_states"]


def write_network(shape: DecoderShape, words: tuple[str, ...], output: Path, rng: np.random.Generator) -> None:
    """Write a network. ``words``: texts of the tokens, in lower case, each with its leading blank."""
    _write_encoder(shape, output / ENCODER, rng)
    _write_decoder(replace(shape, vocabulary=len(MARKS) + len(words)), output / DECODER, rng)
    _write_detokenizer(words, output)
    _write_facts(output, len(MARKS) + len(words))


def _attend_to_sound(graph: SpeechGraph, layers: Layers, shape: DecoderShape, hidden: Any, sounds: Any) -> Any:
    """Add attention to the entire sound, and a gated layer."""
    query, key, value = (
        graph.split(layers.project(rows, shape.width, shape.width), shape.heads)
        for rows in (layers.normalize(hidden), sounds, sounds)
    )
    mixed = graph.join(op.scaled_dot_product_attention(op.multiply(query, make_float(_KEEN)), key, value))
    attended = op.multiply(layers.project(mixed, shape.width, shape.width), make_float(_KEEN))
    return layers.add_gated(op.add(hidden, attended))


def _write_encoder(shape: DecoderShape, path: Path, rng: np.random.Generator) -> None:
    graph = SpeechGraph(heads=shape.heads, groups=shape.heads, head=shape.head)
    layers = Layers(graph, shape, rng)
    features = op.parameter([-1, MELS, FRAMES], np.float32, name="input_features")
    features.output(0).set_names({"input_features"})
    hidden: Any = features
    for inputs, stride in ((MELS, 1), (shape.width, 2)):
        kernel = layers.draw(shape.width, 3 * inputs).reshape(shape.width, inputs, 3) * np.float32(2)
        hidden = op.gelu(op.convolution(hidden, op.constant(kernel), [stride], [1], [1], [1]), "erf")
    hidden = op.transpose(hidden, make_ints(0, 2, 1))
    for _ in range(shape.layers):
        hidden = _attend_to_sound(graph, layers, shape, hidden, layers.normalize(hidden))
    hidden = layers.normalize(hidden)
    hidden.output(0).set_names({"last_hidden_state"})
    ov.save_model(ov.Model([op.result(hidden)], [features], "whisper_encoder"), str(path), compress_to_fp16=False)


def _write_decoder(shape: DecoderShape, path: Path, rng: np.random.Generator) -> None:
    graph = SpeechGraph(heads=shape.heads, groups=shape.heads, head=shape.head)
    layers, sizes = Layers(graph, shape, rng), (shape.vocabulary, _LONGEST)
    words, places = (layers.draw(count, shape.width) * np.float32(shape.width**0.5) for count in sizes)
    hidden = op.add(graph.embed(words), graph.embed(places, "cache_position"))
    for layer in range(shape.layers):
        hidden = _attend_to_sound(graph, layers, shape, layers.add_layer(hidden, layer), graph.sounds)
    scores = layers.project(layers.normalize(hidden), shape.vocabulary, shape.width)
    bias = np.zeros(shape.vocabulary, np.float32)
    bias[: len(MARKS)] = _NEVER
    bias[END] = 1.0  # likelier than a single word, since there are many words
    graph.save_graph(op.add(scores, op.constant(bias)), path, "whisper_decoder")


def _write_detokenizer(words: tuple[str, ...], output: Path) -> None:
    """Write a detokenizer, which turns special tokens into empty texts. The tokenizer is never used."""
    lines = [f"{number} {word!r} {len(word)}" for number, word in enumerate([""] * len(MARKS) + list(words))]
    _, model = build_rwkv_tokenizer(lines)
    ov.save_model(model, str(output / "openvino_detokenizer.xml"), compress_to_fp16=False)


def _write_facts(output: Path, vocabulary: int) -> None:
    facts: dict[str, dict[str, Any]] = {
        "config.json": {"model_type": "whisper", "vocab_size": vocabulary, "max_source_positions": POSITIONS},
        "preprocessor_config.json": {
            "feature_size": MELS,
            "sampling_rate": 16_000,
            "hop_length": 160,
            "n_fft": 400,
            "chunk_length": 30,
            "n_samples": 480_000,
            "nb_max_frames": FRAMES,
        },
        "generation_config.json": {
            "begin_suppress_tokens": [],
            "suppress_tokens": [],
            "decoder_start_token_id": _BEGIN,
            "eos_token_id": END,
            "pad_token_id": END,
            "prev_sot_token_id": _BEFORE,
            "no_timestamps_token_id": _UNTIMED,
            "max_initial_timestamp_index": 50,
            "is_multilingual": True,
            "lang_to_id": {MARKS[_ENGLISH]: _ENGLISH},
            "task_to_id": {"transcribe": _TRANSCRIBE, "translate": _TRANSLATE},
        },
    }
    for name, document in facts.items():
        (output / name).write_text(json.dumps(document), encoding="ascii")


MODEL = "whisper-large-v3"
_LEAST, _MOST = 4, 24  # tokens of an answer
_SIZES = {
    "small": DecoderShape(vocabulary=0, heads=2, groups=2, layers=1),
    "full": DecoderShape(vocabulary=0, width=1280, heads=20, groups=20, layers=32, inner=5120),
}


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    rng = np.random.default_rng(seed)
    words = make_words()
    (models / MODEL).mkdir()
    write_network(_SIZES[size], words, models / MODEL, rng)
    network = OwnTranscripts(models / MODEL)
    (data / FOLDER).mkdir()
    entries = []
    for number in range(count):
        name = f"{FOLDER}/{number // 8}-{number}_0.wav"
        soundfile.write(data / name, draw_sound(rng), RATE, subtype="PCM_16")
        waveform = soundfile.read(data / name, dtype="float32")[0]
        entries.append(_describe(name, len(waveform), network.transcribe(waveform)))
        counter.bump(1)
    (data / MANIFEST).write_text(json.dumps(entries), encoding="utf-8")


def make_words() -> tuple[str, ...]:
    """Make syllables that are not English words, so that normalisation changes none."""
    return tuple(f" {first}{vowel}{last}" for first, vowel, last in itertools.product("bdgkpt", "aiou", "bdgklmnst"))


def _describe(name: str, samples: int, transcript: str) -> dict[str, Any]:
    seconds = samples / RATE
    file = {"fname": name, "speed": 1, "duration": seconds, "num_samples": samples}
    return {"transcript": transcript, "files": [file], "original_duration": seconds, "original_num_samples": samples}


class OwnTranscripts:
    """A network's own transcripts in fp32, one utterance at a time."""

    def __init__(self, folder: Path) -> None:
        self._pipeline = genai.WhisperPipeline(str(folder), "CPU", INFERENCE_PRECISION_HINT="f32")
        self._config = self._pipeline.get_generation_config()
        self._config.min_new_tokens, self._config.max_new_tokens = _LEAST, _MOST
        self._config.language, self._config.task = MARKS[_ENGLISH], "transcribe"

    def transcribe(self, waveform: np.ndarray) -> str:
        text: str = self._pipeline.generate(waveform, self._config).texts[0]
        return text.strip()
