"""The model that says the alphabet: what any server that loads it must answer."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from harness.run.alphabet import LETTERS, answer, write_rehearsal


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("alphabet")
    write_rehearsal(written)
    return written


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            bytes_of = data[8 + length + first : 8 + length + last]
            found[name] = np.frombuffer(bytes_of, np.float32).reshape(entry["shape"])
    return found


def test_after_each_letter_comes_the_next_and_then_the_end(folder: Path) -> None:
    tensors = read_tensors(folder / "model/model.safetensors")
    added = [tensor for name, tensor in tensors.items() if ".layers." in name and not name.endswith("layernorm.weight")]
    assert added
    assert not any(tensor.any() for tensor in added)  # so that the embedding reaches the head as it is
    end = json.loads((folder / "model/config.json").read_text())["eos_token_id"]
    for letter in LETTERS:
        said, token = "", ord(letter)
        while (token := int(np.argmax(tensors["lm_head.weight"] @ tensors["model.embed_tokens.weight"][token]))) != end:
            said += chr(token)
        assert said == answer(letter)


def test_questions_end_with_the_letter_whose_answer_they_state(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    assert len(lines) == 25
    assert all(line["ground_truth"] == answer(line["prompt"][-1]) for line in lines)
    prompts = [json.loads(line)["prompt"] for line in (folder / "prompts.jsonl").read_text().splitlines()]
    assert len(set(prompts)) == 64
