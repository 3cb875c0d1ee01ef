"""Qwen3-VL's products: damage is named, they are asked about as the reference asks, and answers are scored."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.benchmarks import load_benchmark, qwen3_vl
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Benchmark, Counter
from harness.errors import HarnessError
from harness.run.tokens import MESSAGES, Sampling
from tests.processes import find_free_ports, wait_for
from tests.unit.harness.generated import generate
from tests.unit.harness.recorder import Recorder

COUNT, LIMIT = 12, 120
FIRST = "train-00000-of-00002.parquet"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for name in ("PIL", "pyarrow"):
        pytest.importorskip(name)
    return generate(tmp_path_factory, "qwen3_vl", COUNT)


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "data", tmp_path / "made/data"))


def build(source: Path, **said: object) -> Path:
    output = source.with_name("dataset")
    output.mkdir(exist_ok=True)
    qwen3_vl.build_dataset(source, said, output, Counter(source.with_name("counter")))
    return output


# What is asked.


def make_picture(kind: str, **saved: Any) -> bytes:
    image = pytest.importorskip("PIL.Image")
    encoded = BytesIO()
    image.fromarray(np.arange(24 * 16 * 3, dtype=np.uint8).reshape(16, 24, 3)).save(encoded, kind, **saved)
    return encoded.getvalue()


def test_a_picture_is_encoded_again_in_its_own_format_and_upright() -> None:
    image = pytest.importorskip("PIL.Image")
    from harness.benchmarks.qwen3_vl.messages import encode_again

    fine = make_picture("JPEG", quality=99)
    kind, data = encode_again(fine)
    assert (kind, data[:3]) == ("JPEG", b"\xff\xd8\xff")
    assert len(data) < len(fine)  # the library's own quality
    png = make_picture("PNG")
    kind, data = encode_again(png)
    assert kind == "PNG"
    assert image.open(BytesIO(data)).tobytes() == image.open(BytesIO(png)).tobytes()
    turned = image.Exif()
    turned[0x0112] = 6
    kind, data = encode_again(make_picture("JPEG", exif=turned))
    assert (kind, image.open(BytesIO(data)).size) == ("JPEG", (16, 24))


def test_a_picture_that_is_a_program_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    from harness.benchmarks.qwen3_vl.messages import encode_again

    monkeypatch.setattr(pytest.importorskip("PIL.EpsImagePlugin"), "gs_binary", None)
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n", encoding="ascii")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program = make_picture("EPS")
    with suppress(OSError):
        image.open(BytesIO(program)).load()
    assert (tmp_path / "ran").exists()  # Pillow by itself
    (tmp_path / "ran").unlink()
    with pytest.raises(OSError, match="cannot identify"):
        encode_again(program)
    assert not (tmp_path / "ran").exists()


def test_samples_are_what_is_asked_of_each_product_in_the_order_of_the_splits(folder: Path) -> None:
    from pyarrow import parquet

    output = build(folder)
    samples = qwen3_vl.load_samples(output)[MESSAGES]
    asked = [json.loads(bytes(sample)) for sample in samples]
    names = (FIRST, "train-00001-of-00002.parquet", "test-00000-of-00001.parquet")
    rows = [row for name in names for row in parquet.read_table(folder / "data" / name).to_pylist()]
    assert len(asked) == len(rows) == COUNT
    for messages, row in zip(asked, rows, strict=True):
        assert row["product_title"] in messages[1]["content"][0]["text"]
    truths = json.loads((output / qwen3_vl.REFERENCES).read_text())
    assert truths["ground_truth_category"] == [row["ground_truth_category"] for row in rows]
    assert len(qwen3_vl.load_samples(build(folder, count=5))[MESSAGES]) == 5
    assert build(folder, wording="endpoints")
    assert bytes(qwen3_vl.load_samples(output)[MESSAGES][0]) != bytes(samples[0])


def rewrite(path: Path, change: Callable[[Any], Any]) -> None:
    from pyarrow import parquet

    parquet.write_table(change(parquet.read_table(path)), path)


def spoil_picture(table: Any) -> Any:
    import pyarrow

    rows = table.to_pylist()
    rows[2]["product_image"]["bytes"] = rows[2]["product_image"]["bytes"][:60]
    return pyarrow.Table.from_pylist(rows, schema=table.schema)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: (data / FIRST).unlink(), FIRST),
        (lambda data: (data / FIRST).write_bytes((data / FIRST).read_bytes()[:-9]), FIRST),
        (lambda data: (data / FIRST).write_bytes(b"<html>"), FIRST),
        (lambda data: (data / FIRST).write_bytes(b"PAR1" + bytes(90) + b"PAR1"), FIRST),
        (lambda data: (data / "train-00000-of-00003.parquet").write_bytes(b"PAR1"), "train-…-of-00003"),
        (lambda data: (data / "products.parquet").write_bytes(b"PAR1"), "products.parquet"),
        (lambda data: rewrite(data / FIRST, lambda table: table.drop_columns(["product_title"])), "product_title"),
        (lambda data: rewrite(data / FIRST, spoil_picture), f"{FIRST}: row 2 has a picture"),
        (lambda data: (data.parent / REHEARSAL).unlink(), "38,631 rows of train"),
    ],
)
def test_damage_is_named_with_its_file(folder: Path, damage: Callable[[Path], None], said: str) -> None:
    damage(folder / "data")
    with pytest.raises(HarnessError) as caught:
        build(folder)
    assert said in caught.value.problem
    assert "reconcile fetch qwen3-vl" in caught.value.fix


# What is answered.


def answer(category: str, brand: str = "", is_secondhand: object = False, **more: object) -> str:
    return json.dumps({"category": category, "brand": brand, "is_secondhand": is_secondhand, **more})


def score(tmp_path: Path, answers: list[str], truths: list[tuple[str, str, bool]]) -> tuple[dict[str, Any], str]:
    columns = dict(zip(qwen3_vl.COLUMNS, map(list, zip(*truths, strict=True)), strict=True))
    (tmp_path / qwen3_vl.REFERENCES).write_text(json.dumps(columns))
    data = tuple(load_benchmark(Benchmark(name="qwen3_vl")).write_text(text).tobytes() for text in answers)  # type: ignore[misc]
    log = AnswerLog(np.arange(len(data), dtype=np.intp), data, 0, 0)
    return dict(qwen3_vl.score(log, tmp_path, tmp_path)), (tmp_path / "accuracy.txt").read_text()


def test_levels_count_from_the_first_on(tmp_path: Path) -> None:
    """Of 10 levels said and 9 true, 5 are right."""
    truths = [("A > B > C", "", False), ("A > B > C", "", False), ("A > B", "", False), ("A", "", False)]
    said = ["A > B > C > D", "A > X > C", "X > B", " A "]
    found, reported = score(tmp_path, [answer(category) for category in said], truths)
    assert found["f1"] == 2 * (5 / 10 * 5 / 9) / (5 / 10 + 5 / 9)
    assert f'{{"f1": {found["f1"]}}}' in reported.splitlines()


def test_what_is_not_the_json_has_no_category_and_counts_as_long_as_the_true_one(tmp_path: Path) -> None:
    truths = [("A > B", "b", True)] * 4
    broken = ["", answer("A > B", colour="red"), f"```json\n{answer('A > B')}\n```"]
    found, reported = score(tmp_path, [*broken, answer("A > B", "b", "yes")], truths)
    assert found == {"f1": 2 / 8, "brand_f1": 1 / 4, "is_secondhand_f1": 2 / 5, "unparsable": 3}
    assert reported.endswith("3 answers are not JSON\n")


@settings(max_examples=60, deadline=None)
@given(st.text("abc", max_size=9), st.text("abc", max_size=9))
def test_shared_letters_are_those_of_the_usual_table(first: str, second: str) -> None:
    table = np.zeros((len(first) + 1, len(second) + 1), int)
    for row, one in enumerate(first, 1):
        for column, other in enumerate(second, 1):
            longest = max(table[row - 1, column], table[row, column - 1])
            table[row, column] = table[row - 1, column - 1] + 1 if one == other else longest
    assert qwen3_vl.count_shared(first, second) == table[-1, -1]


# The stand-in of a rehearsal.


def test_the_stand_in_answers_otherwise_for_another_picture_or_text(made: Path) -> None:
    from harness.benchmarks.qwen3_vl.rehearsal import MODEL
    from harness.benchmarks.qwen3_vl.stand_in import StandIn

    model = StandIn(made / "models" / MODEL)
    samples = qwen3_vl.load_samples(build_from(made))[MESSAGES]
    asked = [json.loads(bytes(sample)) for sample in samples]
    truths = json.loads((made / "dataset" / qwen3_vl.REFERENCES).read_text())["ground_truth_category"]
    assert [model.answer(messages)["category"] for messages in asked] == truths
    pictures = [messages[1]["content"][1] for messages in asked]
    swapped = [[m[0], {"content": [m[1]["content"][0], other]}] for m, other in zip(asked, pictures[1:], strict=False)]
    found = [model.answer(messages)["category"] for messages in swapped]
    assert sum(one != other for one, other in zip(found, truths, strict=False)) > COUNT // 4


def build_from(made: Path) -> Path:
    (made / "dataset").mkdir(exist_ok=True)
    qwen3_vl.build_dataset(made / "data", {}, made / "dataset", Counter(made / "counter"))
    return made / "dataset"


@pytest.mark.parametrize("streaming", [True, False])
def test_the_stand_in_answers_with_the_truth_over_the_chat_protocol(streaming: bool, made: Path, stand_in: str) -> None:
    from harness.backends import openai

    output = build_from(made)
    truths = json.loads((output / qwen3_vl.REFERENCES).read_text())
    recorder = Recorder(LIMIT)
    plan: dict[str, Any] = {"scenario": "Server", "sampling": Sampling(max_new_tokens=0), "samples": MESSAGES}
    client = openai.load(recorder.make_plan(**plan, streaming=streaming, options={"url": stand_in}))
    try:
        client.place(list(qwen3_vl.load_samples(output)[MESSAGES]))
        for row in range(COUNT):
            client.submit(row, row)
        answers = recorder.wait(COUNT)
    finally:
        client.close()
    found = [json.loads(answers[row].text) for row in range(COUNT)]
    for name, said in truths.items():
        assert [answer[name.removeprefix("ground_truth_")] for answer in found] == said
    assert all(answer.tokens > 1 for answer in answers.values())
    assert len(recorder.firsts) == (COUNT if streaming else 0)


@pytest.fixture(scope="module")
def stand_in(made: Path) -> Iterator[str]:
    """The address of one, started as a rehearsal starts it."""
    pytest.importorskip("aiohttp")
    from harness.benchmarks.qwen3_vl.rehearsal import MODEL

    (port,) = find_free_ports(1)
    command = [sys.executable, "-P", "-m", "harness.benchmarks.qwen3_vl.stand_in", str(made / "models" / MODEL)]
    with subprocess.Popen([*command, str(port)]) as server:
        try:
            wait_for(lambda: answers_at(port))
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def answers_at(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
