"""The benchmark interface: built-in by name, a user's file by path, and its defaults."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.backends import Tensor
from harness.benchmarks import LoopBenchmark, TensorBenchmark, TokenBenchmark, load_benchmark
from harness.benchmarks.accuracy import AnswerLog
from harness.contract import BENCHMARKS, Benchmark, Counter
from harness.errors import HarnessError

MINIMAL = "def build_dataset(source, settings, output, counter): pass\n"


def user_file(folder: Path, text: str) -> Benchmark:
    (folder / "mine.py").write_text(text, encoding="utf-8")
    return Benchmark(name="mine", path=str(folder / "mine.py"))


@pytest.mark.parametrize("name", [name for name, facts in BENCHMARKS.items() if not facts.elsewhere])
def test_built_in_benchmarks_load_and_agree_with_what_planning_knows(name: str) -> None:
    code = load_benchmark(Benchmark(name=name))
    assert code.digest == ""
    assert not code.synthetic


def test_minimal_file_gets_defaults(tmp_path: Path) -> None:
    code = load_benchmark(user_file(tmp_path, MINIMAL))
    assert (code.response_dtype, code.synthetic, code.list_outputs()) == (
        "int32",
        False,
        (Tensor("output", (1,), "float32"),),
    )
    assert len(code.digest) == 64
    assert np.asarray(code.respond([np.array([[1.0, 3.0], [5.0, 2.0]])], [0, 1])).tolist() == [1, 0]
    np.save(tmp_path / "samples.npy", np.zeros((3, 2)))
    assert code.load_samples(tmp_path)["samples"].shape == (3, 2)
    np.save(tmp_path / "labels.npy", np.array([0, 1, 1]))
    log = AnswerLog(np.array([0, 2]), (np.int32(0).tobytes(), np.int32(0).tobytes()), 0, 0)
    assert code.score(log, tmp_path, tmp_path) == {"accuracy": 50.0, "good": 1, "total": 2}
    assert not (tmp_path / "__pycache__").exists()


def test_default_model_is_the_file_of_the_spec(tmp_path: Path) -> None:
    code = load_benchmark(user_file(tmp_path, MINIMAL))
    (tmp_path / "given.onnx").write_bytes(b"content")
    counter = Counter(tmp_path / "counter")
    code.build_model(tmp_path / "given.onnx", {}, {}, tmp_path, counter)
    assert (tmp_path / "model.onnx").read_bytes() == b"content"
    (tmp_path / "given.pt2").write_bytes(b"program")
    code.build_model(tmp_path / "given.pt2", {}, {}, tmp_path, counter)
    assert (tmp_path / "model.pt2").read_bytes() == b"program"
    with pytest.raises(HarnessError, match=r"an ONNX file or a \.pt2 program, not"):
        code.build_model(tmp_path / "given.pt", {}, {}, tmp_path, counter)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no function build_dataset"),
        (MINIMAL + "score = 3\n", "no function score"),
        ("def broken(:\n", "SyntaxError"),
        ("1 / 0\n", "ZeroDivisionError"),
    ],
)
def test_unfit_file_is_a_clear_problem(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=problem) as caught:
        load_benchmark(user_file(tmp_path, text))
    assert caught.value.problem_class == "input"


def test_benchmarks_that_are_not_there(tmp_path: Path) -> None:
    for name in ("nothing", *(name for name, facts in BENCHMARKS.items() if facts.elsewhere)):
        with pytest.raises(HarnessError, match=f"no built-in benchmark '{name}'") as caught:
            load_benchmark(Benchmark(name=name))
        assert "digits" in caught.value.fix
    with pytest.raises(HarnessError, match="benchmark file not found"):
        load_benchmark(Benchmark(name="mine", path=str(tmp_path / "absent.py")))


def test_the_way_of_computing_is_the_type(tmp_path: Path) -> None:
    own = {"postprocess": TensorBenchmark, "loop": LoopBenchmark, "open_loop": LoopBenchmark, "TOKENS": TokenBenchmark}
    for given, base in own.items():
        more = "TOKENS = True\n" if given == "TOKENS" else f"def {given}(argument): return argument\n"
        code = load_benchmark(user_file(tmp_path, MINIMAL + more))
        assert isinstance(code, base)
        assert isinstance(code, LoopBenchmark) is (base is LoopBenchmark)
        assert code.counts_tokens is (given == "TOKENS")


def test_a_file_may_have_a_class_of_its_own(tmp_path: Path) -> None:
    text = f"""
from harness.benchmarks import TensorBenchmark

class Mine(TensorBenchmark):
    response_dtype = "uint8"
    {MINIMAL}
BENCHMARK = Mine()
"""
    code = load_benchmark(user_file(tmp_path, text))
    assert (code.name, code.response_dtype, len(code.digest)) == ("mine", "uint8", 64)
    with pytest.raises(HarnessError, match=r"BENCHMARK of .*mine\.py"):
        load_benchmark(user_file(tmp_path, "BENCHMARK = 3\n"))


def test_a_response_names_its_sample_where_postprocess_takes_it(tmp_path: Path) -> None:
    text = MINIMAL + "def postprocess(outputs, indices): return [outputs[0] * indices[0]]\n"
    code = load_benchmark(user_file(tmp_path, text))
    assert isinstance(code, TensorBenchmark)
    assert code.names_samples
    assert [answer.tolist() for answer in code.respond([np.array([2])], [3])] == [[6]]
