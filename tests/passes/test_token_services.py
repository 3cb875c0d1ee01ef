"""Language models behind a server that the pass starts: its runs, and what is left when it misbehaves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reconciler.execute.outcome import Outcome, Status
from reconciler.resource.records import SERVICE_LOG, Ended
from tests.passes.repository import Repository, make_repository
from tests.passes.tiny_llama import describe_served
from tests.shared import make_once, need
from tests.unit.harness import openai_server

need("mlperf_loadgen", "aiohttp")
CELL = "open/box/prompts"
RUN = f"Run:{CELL}/SingleStream/performance"
STREAMED = (RUN, f"Run:{CELL}/SingleStream/accuracy")
# The made-up server knows the key, of course, and its code is published.
PUBLISHED = [".reconcile/tree/open/ACME/src/prompts/service/openai_server.py", "server/openai_server.py"]

BENCHMARK = '''\
"""Forty prompts; the right answer to one that begins with token t is t, t + 1, …"""
import numpy as np

from harness.run.qsl import Ragged

TOKENS = True
GENERATION = {"min_new_tokens": 2}


def build_dataset(source, settings, output, counter):
    prompts = np.stack([np.arange(40), np.arange(40) % 7], axis=1).astype(np.int32)
    np.save(output / "prompts.npy", prompts)


def load_samples(dataset):
    return {"input_ids": Ragged(list(np.load(dataset / "prompts.npy")))}


def score(log, dataset, output):
    right = sum(
        np.frombuffer(data, np.int32).tolist() == [index + place for place in range(len(data) // 4)]
        for index, data in zip(log.indices.tolist(), log.data)
    )
    lines = {f"rouge{kind}": 100.0 * right / len(log.data) for kind in ("1", "2", "L", "Lsum")}
    (output / "accuracy.txt").write_text(repr({**lines, "gen_len": 7 * right, "gen_num": len(log.data)}) + "\\n")
    return {"right": right}
'''

SPEC = f"""{describe_served("prompts", "openai", 40, code="prompts", precision="bf16")}\
      run:
        options:
          {{min_new_tokens: 2, max_new_tokens: 4, model: tiny-model, api_key_env: SERVER_KEY, idle_timeout_s: 60}}
      harness:
        service:
          command: ["{sys.executable}", openai_server.py, "{{port}}", ".", "{{model}}"]
          code: server/openai_server.py
          ready: {{url: "{{service_url}}/health", timeout: 60 s}}
"""
OFFLINE = """\
          Offline: {target_qps: 100, min_query_count: 40}
"""
CELLS = f"""\
        prompts:
          SingleStream: {{target_latency: 20 ms, min_query_count: 80}}
{OFFLINE}"""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_KEY", openai_server.KEY)


def make(root: Path) -> Repository:
    repository = make_repository(root)
    code = Path(openai_server.__file__).read_text(encoding="utf-8")
    repository.write("server/openai_server.py", code)
    repository.write("benchmarks/prompts.py", BENCHMARK)
    repository.write("checkpoint/config.json", "{}")
    repository.write("checkpoint/model.safetensors", "weights")
    spec = (repository.root / "specs/spec.yaml").read_text(encoding="utf-8")
    head, _, rest = spec.partition("  benchmarks:\n")
    assert rest
    repository.write("specs/spec.yaml", f"{head}  benchmarks:\n{SPEC}  divisions:\n    open:\n      box:\n{CELLS}")
    return repository


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return make_once(tmp_path_factory, "prompts", lambda folder: _reconciled(make(folder / "repository")))


def _reconciled(repository: Repository) -> Repository:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SERVER_KEY", openai_server.KEY)
        repository.reconcile()
    return repository


def unhappy(repository: Repository) -> dict[str, Outcome]:
    outcomes = repository.reconcile().outcomes
    return {str(outcome.step.change.address): outcome for outcome in outcomes if outcome.status is not Status.DONE}


def test_runs_are_valid_and_right(made: Repository) -> None:
    records = made.records().values()
    assert [f"{r.address}: {r.problem}" for r in records if r.ended is not Ended.DONE] == []
    by_address = {str(record.address): record for record in records}
    run = by_address[RUN]
    assert run.values["validity"] == "VALID"
    assert run.values["tokens"]["longest"] == run.values["tokens"]["shortest"] == 4
    assert by_address[f"Score:{CELL}/SingleStream"].values["metrics"]["right"] == 40
    assert by_address[f"Run:{CELL}/Offline/performance"].values["validity"] == "VALID"
    assert not made.look().plan.steps


def test_round_rules_how_long_answers_are_and_that_is_identity(made: Repository) -> None:
    (record,) = made.records_of(RUN).values()
    inputs = {name: entry.value for name, entry in record.inputs.items()}
    assert (inputs["generation.min_new_tokens"], inputs["generation.max_new_tokens"]) == (1, 128)
    assert inputs["run.options.max_new_tokens"] == 4


def test_what_the_server_printed_is_kept_with_the_run(made: Repository) -> None:
    (kept,) = made.objects_of(RUN, SERVICE_LOG)
    assert kept.read_text(encoding="utf-8") == (
        "loading config.json, model.safetensors\nusing key [secret]\nready to serve\n"
    )
    (record,) = made.records_of(RUN).values()
    assert record.facts["server.version"].value == "1.2"


def find_secret(repository: Repository) -> list[str]:
    """The files that hold the key, whatever they are."""
    secret, files = openai_server.KEY.encode(), (p for p in repository.root.rglob("*") if p.is_file())
    return sorted(str(p.relative_to(repository.root)) for p in files if secret in p.read_bytes())


def test_key_is_written_nowhere(made: Repository) -> None:
    assert find_secret(made) == PUBLISHED


@pytest.mark.parametrize(
    ("mischief", "said"),
    [
        ("expired", "the server rejected the API key (HTTP 401)"),
        ("dies", "out of imagined memory"),
        ("few", "an answer has 1 tokens, and must have at least 2"),
        ("twice", "the server sent two answers"),
        ("endless", "the stream exceeds 3 tokens"),
        ("stalls", "no new token for 1 s"),
        ("wrong model", "the server serves another-model, not tiny-model"),
    ],
)
def test_misbehaving_server_fails_each_run(mischief: str, said: str, made: Repository, tmp_path: Path) -> None:
    repository = made.copy(tmp_path / "copy")
    repository.edit("specs/spec.yaml", "max_new_tokens: 4", "max_new_tokens: 3")
    if mischief == "stalls":
        repository.edit("specs/spec.yaml", "idle_timeout_s: 60", "idle_timeout_s: 1")
    repository.edit("specs/spec.yaml", OFFLINE, "")  # nothing is streamed there
    repository.write("server/mischief", mischief)
    found = unhappy(repository)
    for run in STREAMED:
        failed = found[run]
        assert failed.status in (Status.FAILED, Status.RETRY)
        assert said in f"{failed.message} {failed.log}"
        assert openai_server.KEY not in f"{failed.message} {failed.fix} {failed.log}"
    assert set(find_secret(repository)) <= set(PUBLISHED)
    if mischief == "dies":  # the next pass recovers
        (repository.root / "server/mischief").unlink()
        assert [outcome.message for outcome in unhappy(repository).values()] == []
        assert not repository.look().plan.steps
