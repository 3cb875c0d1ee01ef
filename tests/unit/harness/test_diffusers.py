"""The backend of diffusion pipelines: its threads, with a worker that costs nothing; and where the library is
installed, its images against those that the library makes of itself."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.backends import Outputs, load_backend
from harness.backends.image_workers import ImageSession
from harness.benchmarks import load_benchmark
from harness.contract import Benchmark, Counter
from tests.unit.harness.generated import generate
from tests.unit.harness.plans import make_load_plan

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
COUNT = 3


class Doubler:
    """Paints twice what it is asked, and notes batches, steps and threads."""

    def __init__(self) -> None:
        self.thread = threading.current_thread().name
        self.batches: list[int] = []
        self.steps: list[int | None] = []
        self.released = threading.Event()
        self.released.set()

    def paint(self, samples: Mapping[str, np.ndarray], steps: int | None = None) -> Outputs:
        self.steps.append(steps)
        self.released.wait(60)
        assert threading.current_thread().name == self.thread
        rows = samples["rows"]
        self.batches.append(len(rows))
        if (rows < 0).any():
            raise ValueError("no such colour")
        return [rows * 2]


class Watched:
    """A session over doublers, and what it reported."""

    def __init__(self, scenario: Any = "Offline", *, workers: int = 1, batch: int = 4, padded: bool = False) -> None:
        self.completed: dict[int, list[int]] = {}
        self.failed: dict[int, BaseException] = {}
        self.workers: list[Doubler] = []
        plan = make_plan(
            scenario=scenario,
            batch_size=batch,
            completed=lambda token, outputs: self.completed.update({token[0]: outputs[0].tolist()}),
            failed=lambda token, error: self.failed.update({token[0]: error}),
        )
        self.session = ImageSession(plan, [self._open] * workers, {}, padded=padded)

    def _open(self) -> Doubler:
        self.workers.append(Doubler())
        return self.workers[-1]


make_plan = partial(make_load_plan, threads=1, options={"device": "cpu"})


def test_every_batch_is_answered_once_by_some_worker() -> None:
    watched = Watched(workers=2)
    watched.session.place({"rows": np.arange(20)})
    assert watched.session.compute(slice(0, 1))[0].tolist() == [0]
    for number in range(5):
        watched.session.submit(slice(4 * number, 4 * number + 4), [number])
    watched.session.drain()
    watched.session.close()
    assert watched.completed == {n: [2 * row for row in range(4 * n, 4 * n + 4)] for n in range(5)}
    assert not watched.failed
    assert {worker.thread for worker in watched.workers} == {"image-worker-0", "image-worker-1"}


def test_a_batch_that_fails_takes_no_other_with_it() -> None:
    watched = Watched()
    watched.session.place({"rows": np.array([1, -1, 2])})
    for number in range(3):
        watched.session.submit(slice(number, number + 1), [number])
    watched.session.drain()
    assert watched.completed == {0: [2], 2: [4]}
    assert str(watched.failed[1]) == "no such colour"
    with pytest.raises(ValueError, match="no such colour"):
        watched.session.compute(slice(1, 2))
    watched.session.close()


def test_a_compiled_worker_gets_whole_batches() -> None:
    watched = Watched(padded=True)
    assert watched.session.sizes == (4,)
    watched.session.place({"rows": np.arange(6)})
    assert watched.session.compute(np.array([5, 3, 4]))[0].tolist() == [10, 6, 8]
    assert watched.session.compute(slice(0, 4))[0].tolist() == [0, 2, 4, 6]
    watched.session.close()
    assert watched.workers[0].batches == [4, 4]


def test_only_a_warm_up_takes_fewer_steps() -> None:
    watched = Watched()
    watched.session.place({"rows": np.arange(2)})
    assert watched.session.warm_up(slice(0, 2))[0].tolist() == [0, 2]
    watched.session.compute(slice(0, 2))
    watched.session.submit(slice(0, 2), [7])
    watched.session.drain()
    watched.session.close()
    fewer, *whole = watched.workers[0].steps
    assert fewer is not None
    assert whole == [None, None]


@pytest.mark.parametrize(("scenario", "ahead"), [("Offline", 2), ("Server", 1)])
def test_batches_wait_where_no_one_waits_for_an_answer(scenario: str, ahead: int) -> None:
    watched = Watched(scenario)
    watched.session.place({"rows": np.arange(4)})
    (worker,) = watched.workers
    worker.released.clear()
    for number in range(ahead):
        watched.session.submit(slice(number, number + 1), [number])
    further = threading.Thread(target=watched.session.submit, args=(slice(3, 4), [3]))
    further.start()
    assert not watched.completed
    worker.released.set()
    further.join()
    watched.session.drain()
    watched.session.close()
    assert set(watched.completed) == {*range(ahead), 3}


# With the library itself


def make(factory: pytest.TempPathFactory, name: str) -> Path:
    """A rehearsal of the benchmark, with its dataset prepared."""
    folder = generate(factory, name, COUNT)
    (folder / "dataset").mkdir()
    benchmark = load_benchmark(Benchmark(name=name))
    benchmark.build_dataset(folder / "data", {}, folder / "dataset", Counter(folder / "built"))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("diffusers", reason="diffusers is not installed: pip install -e '.[diffusers]'")
    return make(tmp_path_factory, "stable_diffusion_xl")


@pytest.fixture(scope="module")
def filmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("diffusers", reason="diffusers is not installed: pip install -e '.[wan-2-2]'")
    pytest.importorskip("imageio_ffmpeg", reason="ffmpeg is not installed: pip install -e '.[wan-2-2]'")
    return make(tmp_path_factory, "wan_2_2")


def open_session(made: Path, model: Path | None = None, name: str = "stable_diffusion_xl", **reported: Any) -> Any:
    rehearsal = importlib.import_module(f"harness.benchmarks.{name}.rehearsal")
    benchmark = load_benchmark(Benchmark(name=name))
    given = {
        "source": model or made / "models" / rehearsal.MODEL,
        "pipeline": {**benchmark.pipeline, "steps": rehearsal.STEPS["small"]},
        "shared": benchmark.load_shared(made / "dataset"),
        **reported,
    }
    session = load_backend("diffusers").load(make_plan(**given))
    session.place(benchmark.load_samples(made / "dataset"))
    return session


def test_images_are_those_that_the_library_makes_of_the_captions(made: Path) -> None:
    wanted = np.load(made / "dataset/references.npz")["images"]
    session = open_session(made)
    found = np.concatenate([session.compute(slice(row, row + 1))[0] for row in range(COUNT)])
    session.close()
    assert found.shape == wanted.shape
    assert np.abs(found.astype(np.int16) - wanted).max() <= 1
    assert (found != wanted).mean() < 1e-3
    assert np.abs(found[0].astype(np.int16) - found[1]).mean() > 1  # captions are looked at


def test_images_in_fp8_are_near_those_of_the_library(made: Path) -> None:
    wanted = np.load(made / "dataset/references.npz")["images"]
    session = open_session(made, precision="fp8")
    found = session.compute(slice(0, COUNT))[0]
    session.close()
    apart = np.abs(found.astype(np.int16) - wanted).mean()
    assert 0 < apart < np.abs(wanted[0].astype(np.int16) - wanted[1]).mean() / 2  # each is nearest to its own


def test_linear_layers_in_fp8_compute_what_they_replace() -> None:
    torch = pytest.importorskip("torch")
    lowering = importlib.import_module("harness.backends.diffusers.stable_diffusion_xl")
    torch.manual_seed(1)
    first, last = torch.nn.Linear(48, 128), torch.nn.Linear(64, 32)
    value = torch.randn(2, 5, 48) * torch.logspace(-2, 3, 5)[None, :, None]  # tokens of all sizes
    with torch.no_grad():
        both = first(value)
        wanted = both, last(both[..., :64] * torch.nn.functional.gelu(both[..., 64:]))
        found = lowering.LinearFp8(first)(value), lowering.GatedFp8(first, last)(value)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        assert ((one - other).norm(dim=-1) / other.norm(dim=-1)).max() < 0.15


def film(filmed: Path, **reported: Any) -> np.ndarray:
    """[prompts, frames, height, width, 3]."""
    session = open_session(filmed, name="wan_2_2", **reported)
    batch = reported.get("batch_size", 1)
    found = [session.compute(slice(row, min(row + batch, COUNT)))[0] for row in range(0, COUNT, batch)]
    session.close()
    return np.concatenate(found)


def test_videos_are_those_that_the_library_makes_of_the_prompts(filmed: Path) -> None:
    from harness.benchmarks.wan_2_2 import encode_video

    found = film(filmed)
    assert found.shape == (COUNT, 5, 32, 48, 3)
    wanted = [(filmed / f"dataset/references/{number}.mp4").read_bytes() for number in range(COUNT)]
    assert [encode_video(video) for video in found] == wanted
    assert np.abs(found[0].astype(np.int16) - found[1]).mean() > 1  # prompts are looked at
    assert np.abs(found[0][0].astype(np.int16) - found[0][4]).mean() > 1  # frames differ
    together = film(filmed, batch_size=COUNT)
    assert np.abs(together.astype(np.int16) - found).max() <= 1


def test_each_stream_remembers_frames_of_its_own(filmed: Path) -> None:
    found: dict[int, np.ndarray] = {}

    def keep(token: Any, outputs: Outputs) -> None:
        found[token[0]] = outputs[0][0]

    session = open_session(filmed, name="wan_2_2", streams=2, completed=keep)
    for number in range(4 * COUNT):
        session.submit(slice(number % COUNT, number % COUNT + 1), [number])
    session.drain()
    session.close()
    assert len(found) == 4 * COUNT
    for number, video in found.items():
        assert (video == found[number % COUNT]).all()


def test_each_network_of_a_pipeline_has_its_turn(filmed: Path) -> None:
    both, first, second = (
        film(filmed, pipeline={"steps": 2, "guidance": 4.0, "guidance_2": 3.0, "boundary": boundary})
        for boundary in (0.875, 0.0, 1.1)
    )
    stronger = film(filmed, pipeline={"steps": 2, "guidance": 4.0, "guidance_2": 6.0, "boundary": 0.875})
    assert not any((both == other).all() for other in (first, second, stronger))
