"""The PyTorch backend on the CPU: programs compiled for one size or for any, run by real children."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[pytorch]'")

from harness.backends import BackendEngine, Collate, load_backend  # noqa: E402
from harness.backends.pytorch.building import build_engine  # noqa: E402
from harness.errors import HarnessError  # noqa: E402
from tests.unit.harness import tiny  # noqa: E402
from tests.unit.harness.children import Children  # noqa: E402
from tests.unit.harness.conftest import Artifacts  # noqa: E402
from tests.unit.harness.plans import make_build_plan, make_load_plan  # noqa: E402

# A compiler takes half a minute for the smallest program, and PyTorch warns of its own use of what it deprecates.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.filterwarnings("ignore")]


class Points(torch.nn.Module):  # type: ignore[misc]
    """Two inputs and two outputs, one of them whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.from_numpy(tiny.matrix()))

    def forward(self, point: Any, shift: Any) -> dict[str, Any]:
        scores = point @ self.matrix + shift
        return {"scores": scores.softmax(-1), "best": scores.argmax(-1).to(torch.int32)}


def save(path: Path, module: Any, *samples: Any, batch: int = 0) -> Path:
    free = None if batch else tuple({0: torch.export.Dim("batch", min=1, max=64)} for _ in samples)
    given = tuple(torch.ones(batch or 2, *sample.shape[1:], dtype=sample.dtype) for sample in samples)
    torch.export.save(torch.export.export(module, given, dynamic_shapes=free), path)
    return path


def samples(count: int = 40) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    shapes = {"point": tiny.WIDTH, "shift": tiny.CLASSES}
    return {name: rng.standard_normal((count, width), dtype=np.float32) for name, width in shapes.items()}


def build(model: Path, output: Path, precision: str = "fp32", **options: Any) -> BackendEngine:
    made = load_backend("pytorch").build(make_build_plan(model, output, batch_size=8, precision=precision, **options))
    made.write(output)
    return made


def load(
    folder: Path, answers: dict[int, list[np.ndarray]], errors: list[BaseException], collate: Collate | None = None
) -> Any:
    def completed(token: list[int], outputs: Any) -> None:
        answers.update((one, [output[row].copy() for output in outputs]) for row, one in enumerate(token))

    return load_backend("pytorch").load(
        make_load_plan(
            engine=folder,
            scenario="Server",
            batch_size=8,
            streams=2,
            threads=1,
            completed=completed,
            failed=lambda _token, error: errors.append(error),
            collate=collate,
        )
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = [torch.from_numpy(array) for array in samples(2).values()]
    return save(tmp_path_factory.mktemp("program") / "model.pt2", Points(), *given)


@pytest.fixture(scope="module", params=[("fp32", "", 1e-5), ("bf16", "8", 2e-2)], ids=["any-size", "one-size-bf16"])
def engine(request: pytest.FixtureRequest, program: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    precision, sizes, error = request.param
    folder = tmp_path_factory.mktemp("engine") / "made"
    return folder, build(program, folder, precision, batch_sizes=sizes), error


def test_an_engine_is_described_by_what_the_program_takes_and_gives(engine: Any) -> None:
    folder, made, _ = engine
    assert [(t.name, t.shape, t.dtype) for t in made.inputs] == [("point", (4,), "float32"), ("shift", (5,), "float32")]
    assert {(t.shape, t.dtype) for t in made.outputs} == {((5,), "float32"), ((), "int32")}
    assert sorted(path.name for path in folder.glob("*.pt2")) in (["model.pt2"], ["model-8.pt2"])
    assert BackendEngine.read(folder, "pytorch") == made


def test_every_batch_gets_the_answers_of_the_program(engine: Any) -> None:
    folder, made, error = engine
    answers: dict[int, list[np.ndarray]] = {}
    errors: list[BaseException] = []
    session = load(folder, answers, errors)
    given = samples()
    wanted = Points()(*(torch.from_numpy(array) for array in given.values()))
    order = [0 if tensor.dtype == "float32" else 1 for tensor in made.outputs]
    session.place(given)
    for rows in (slice(0, 8), slice(3, 4), np.array([9, 1, 30])):
        scores = session.compute(rows)[order.index(0)]
        np.testing.assert_allclose(scores, wanted["scores"].detach().numpy()[rows], atol=error)
    for start in range(0, 40, 5):
        session.submit(np.arange(start, start + 5), list(range(start, start + 5)))
    session.drain()
    session.close()
    assert not errors
    assert sorted(answers) == list(range(40))
    found = np.stack([answers[row][order.index(0)] for row in range(40)])
    np.testing.assert_allclose(found, wanted["scores"].detach().numpy(), atol=error)
    best = np.array([answers[row][order.index(1)] for row in range(40)])
    assert (best == found.argmax(axis=1)).all()


class Neighbours(torch.nn.Module):  # type: ignore[misc]
    """Inputs of different lengths: of each place the sum of the values that it names."""

    def forward(self, values: Any, places: Any) -> Any:
        return (values[places.clamp(min=0)] * (places >= 0)[..., None]).sum(1)


def test_inputs_have_lengths_of_their_own_where_a_batch_makes_them(tmp_path: Path) -> None:
    free = torch.export.Dim.AUTO
    given = (torch.ones(7, 4), torch.zeros(5, 3, dtype=torch.int64))
    shapes = ({0: free}, {0: free, 1: free})
    torch.export.save(torch.export.export(Neighbours(), given, dynamic_shapes=shapes), tmp_path / "model.pt2")
    made = build(tmp_path / "model.pt2", tmp_path / "engine" / "made")
    assert [(tensor.name, tensor.shape) for tensor in made.inputs] == [("values", (4,)), ("places", (-1,))]
    assert "do not support engine.options.batch_sizes" in refused(
        tmp_path / "model.pt2", tmp_path / "b", batch_sizes="1,8"
    )

    def collate(given: Any) -> dict[str, np.ndarray]:
        """Each sample names that many of the values, of which there are as many as the largest asks for."""
        counts = given["counts"]
        columns = np.arange(max(counts.max(), 2))
        values = np.repeat(columns[:, None] + 1.0, 4, axis=1)
        return {"values": values, "places": np.where(columns < counts[:, None], columns, -1)}

    answers: dict[int, list[np.ndarray]] = {}
    errors: list[BaseException] = []
    session = load(tmp_path / "engine" / "made", answers, errors, collate)
    counts = np.arange(1, 25)
    session.place({"counts": counts})
    assert len(session.compute(slice(3, 5))[0]) == 2
    for start in range(0, 24, 4):
        session.submit(slice(start, start + 4), list(range(start, start + 4)))
    session.drain()
    session.close()
    assert not errors
    assert [answers[n][0].tolist() for n in range(24)] == [[n * (n + 1) / 2] * 4 for n in counts.tolist()]


def test_an_engine_of_another_version_or_a_damaged_one_is_refused(engine: Any, tmp_path: Path) -> None:
    folder, made, _ = engine
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / made.file).write_bytes((folder / made.file).read_bytes()[:2000])
    with pytest.raises(HarnessError, match="cannot load"):
        load(tmp_path, {}, [])
    text = (folder / "engine.json").read_text().replace(made.version, "1.2.3")
    (tmp_path / "engine.json").write_text(text)
    with pytest.raises(HarnessError, match=r"built by PyTorch 1\.2\.3"):
        load(tmp_path, {}, [])


@pytest.mark.parametrize("scenario", ["SingleStream", "MultiStream", "Server", "Offline"])
def test_children_run_every_scenario(scenario: str, children: Children, artifacts: Artifacts) -> None:
    engine = artifacts.engine("pytorch", batch_size=8)
    inputs = {"dataset": str(artifacts.dataset()), "engine": str(engine)}
    settings = {"batch_size": 8, "streams": 2, "threads": 1}
    ended = children.run(scenario, "accuracy", backend="pytorch", inputs=inputs, settings=settings)
    assert ended.result.done, ended.output
    assert ended.detail["errors"] == []
    assert dict(ended.answers) == {i: np.int32(label).tobytes() for i, label in enumerate(tiny.labels())}
    assert ended.result.facts["backend.version"].value == version("torch")


def refused(model: Path, folder: Path, **options: Any) -> str:
    with pytest.raises(HarnessError) as caught:
        build_engine("pytorch", "cpu", make_build_plan(model, folder, batch_size=8, **options))
    return caught.value.problem
