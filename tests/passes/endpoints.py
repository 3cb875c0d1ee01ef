"""A stand-in for the endpoints harness: it serves a model over HTTP, asks it as instructed, and writes its files."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.passes.repository import Repository, make_repository

# The one that version 0.1 was tried with. LIE says in which way it does not do what it was asked.
SCRIPT = (Path(__file__).parent / "made_by_0_1/repository/endpoints/ask.py").read_text(encoding="utf-8")
DOCUMENT = f"""\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {{name: tiny}}
spec:
  round: v6.1
  submitter: ACME
  rehearsal: true
  systems:
    box: {{category: datacenter, status: available, description: {{cooling: air}}}}
  benchmarks:
    llama3.1-8b:
      harness:
        command:
          ["{sys.executable}", serve.py, --type, "{{endpoints_type}}", --mode, "{{endpoints_mode}}",
           --model, "{{model_name}}", --target-qps, "{{target_qps}}", --duration, "{{min_duration}}",
           --samples, "{{min_query_count}}", --sample-seed, "{{sample_index_seed}}",
           --schedule-seed, "{{schedule_seed}}", --report-dir, "{{run_dir}}"]
        code: ours
        results: endpoints
        model_name: tiny-llm
      model: {{retraining: "No", starting_weights_filename: none, weight_transformations: none}}
      measurements: {{input_data_types: fp32, weight_data_types: fp32}}
      min_duration: 0
      min_query_count: 40
  divisions:
    open:
      box:
        llama3.1-8b:
          Offline: {{target_qps: 100}}
"""


def with_endpoints(root: Path, document: str = DOCUMENT) -> Repository:
    """One benchmark of a datacenter system, measured by the stand-in, whose code lies in ``ours``."""
    repository = make_repository(root, document)
    repository.write("ours/serve.py", SCRIPT)
    return repository
