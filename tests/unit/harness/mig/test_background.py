"""What computes next to a run: from before it until after it, and a run whose background stopped does not count."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.contract import BackgroundLoad, Benchmark, read_progress
from harness.errors import HarnessError
from harness.mig.slices import Background, split_taken
from tests.processes import wait_for
from tests.unit.harness.children import CONF, TINY, Children
from tests.unit.harness.conftest import Artifacts

LOAD = BackgroundLoad(benchmark=Benchmark(name="tiny", path=str(TINY)), backend="null", slice="")


def load_of(artifacts: Artifacts, **more: object) -> BackgroundLoad:
    values = {"inputs": {"dataset": str(artifacts.dataset())}, "settings": {"batch_size": 4}, **more}
    return BackgroundLoad(benchmark=LOAD.benchmark, backend="null", slice=LOAD.slice, **values)  # type: ignore[arg-type]


def test_a_run_has_its_background_and_reports_how_fast_it_was(children: Children, artifacts: Artifacts) -> None:
    inputs = artifacts.inputs("null")
    neighbours = (load_of(artifacts), load_of(artifacts, performance_sample_count=3))
    conf = CONF + "*.SingleStream.min_duration = 500\n"
    ended = children.run("SingleStream", backend="null", inputs=inputs, background=neighbours, conf=conf)
    assert ended.result.done, ended.output
    rates = ended.result.facts["background.samples_per_second"].value
    assert len(rates) == 2
    assert all(rate > 0 for rate in rates)


def test_a_background_that_does_not_begin_says_why(children: Children, artifacts: Artifacts) -> None:
    inputs = artifacts.inputs("null")
    neighbours = load_of(artifacts, inputs={"dataset": "/no/where"})
    ended = children.run("Offline", backend="null", inputs=inputs, background=(neighbours,))
    assert not ended.result.done
    assert ended.result.problem == "tiny in the background: the dataset does not exist: /no/where"


def test_each_goes_on_until_it_is_left_and_no_longer(artifacts: Artifacts, tmp_path: Path) -> None:
    with Background([load_of(artifacts)], ["MIG-b"], tmp_path) as neighbours:
        counter = tmp_path / "background-0/counter"
        first = read_progress(counter)
        assert first is not None
        wait_for(lambda: (now := read_progress(counter)) is not None and now.done > first.done)
        neighbours.check()
        (fact,) = neighbours.facts().values()
        assert fact.value[0] > 0
    assert neighbours.children[0].poll() is not None


def test_one_that_is_killed_in_the_meantime_spoils_the_run(artifacts: Artifacts, tmp_path: Path) -> None:
    with Background([load_of(artifacts)], [], tmp_path) as neighbours:
        neighbours.children[0].kill()
        with pytest.raises(HarnessError, match="tiny in the background ended"):
            neighbours.check()


def test_slices_of_the_background_are_not_those_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b,MIG-c")
    assert split_taken(1) == ["MIG-b", "MIG-c"]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "MIG-a"
