"""What of a server that is there already is identity: the model that it is asked for, and not where it is."""

from __future__ import annotations

import pytest

from reconciler.desired.compile import compile_desired
from reconciler.desired.state import Pins
from reconciler.errors import SpecError
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.declared import Declared
from tests.unit.spec import writing

SPEC = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {name: acme}
spec:
  round: v6.1
  submitter: ACME
  systems: {box: {category: datacenter, status: available}}
  benchmarks:
    digits:
      as: llama3.1-8b
      engine: {backend: openai}
      run: {options: {url: "http://here:8000", model: llama, api_key_env: KEY, timeout_s: 60, concurrency: 8}}
  divisions: {open: {box: {digits: {Offline: {target_qps: 1}}}}}
"""


def declare(text: str) -> Declared:
    return writing.declare(text)


def list_keys(old: str = "", new: str = "") -> dict[str, str]:
    desired, _ = compile_desired(declare(SPEC.replace(old, new)), load_ruleset("v6.1"), Pins())
    return {str(resource.address): resource.key for resource in desired.resources}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("http://here:8000", "http://there:8000,http://beside:8000"),
        ("api_key_env: KEY", "api_key_env: OTHER"),
        ("timeout_s: 60", "timeout_s: 90, idle_timeout_s: 5"),
    ],
)
def test_where_a_server_is_and_how_long_to_wait_makes_nothing_stale(old: str, new: str) -> None:
    assert list_keys(old, new) == list_keys()


@pytest.mark.parametrize(("old", "new"), [("model: llama", "model: mistral"), ("concurrency: 8", "concurrency: 9")])
def test_what_it_is_asked_for_makes_runs_stale(old: str, new: str) -> None:
    before, after = list_keys(), list_keys(old, new)
    changed = {address.partition(":")[0] for address in before if before[address] != after[address]}
    assert changed == {"Run", "Score", "Result", "Submission"}


def test_address_without_a_model_is_refused() -> None:
    with pytest.raises(SpecError, match="a server's address does not say which model it serves"):
        declare(SPEC.replace(", model: llama", ""))
