"""A stand-in for the endpoints harness: it serves a model over HTTP, asks it as instructed, and writes its files."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.passes.repository import Repository, make_repository

SCRIPT = '''\
"""Loads a server on the loopback with requests. LIE says in which way it does not do what it was asked."""
import argparse, http.client, json, os, shutil, statistics, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

options = argparse.ArgumentParser()
for name in "type mode model target-qps duration samples sample-seed schedule-seed report-dir".split():
    options.add_argument("--" + name, default="")
given = options.parse_args()
LIE = os.environ.get("LIE", "")
TOKENS = 7


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        answer = json.dumps({"tokens": list(range(TOKENS))}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()


def ask(count, pause=0.0):
    """Latencies in ns, number of output tokens, and how long it took in ns."""
    latencies, tokens = [], 0
    to = http.client.HTTPConnection("127.0.0.1", server.server_port)
    began = time.monotonic_ns()
    for number in range(count):
        time.sleep(pause)
        start = time.monotonic_ns()
        to.request("POST", "/v1/completions", json.dumps({"prompt": number}))
        tokens += len(json.loads(to.getresponse().read())["tokens"])
        latencies.append(time.monotonic_ns() - start)
    return latencies, tokens, time.monotonic_ns() - began


def series(values):
    top = sorted(values)
    return {
        "total": sum(values), "min": top[0], "max": top[-1], "avg": statistics.fmean(values),
        "percentiles": {"50": top[len(top) // 2], "99": top[-1]},
        "early_stopping_percentiles": {"50": top[len(top) // 2], "99.0": top[-1]},
    }


def summary(count, pause=0.0):
    latencies, tokens, took = ask(count, pause)
    return {
        "version": "0.9", "git_sha": "abc1234", "test_started_at": 0, "state": "complete", "complete": True,
        "n_samples_issued": count, "n_samples_completed": count, "n_samples_failed": 0, "duration_ns": took,
        "latency": series(latencies), "ttft": series(latencies), "tpot": series([l // TOKENS for l in latencies]),
        "output_sequence_lengths": {"total": tokens, "avg": tokens / count, "min": TOKENS, "max": TOKENS},
        "legacy_loadgen_window_duration_ns": None, "qps": count * 1e9 / took, "tps": tokens * 1e9 / took,
    }


def write(folder, kind=given.type, mode=given.mode, model=given.model, seed=given.sample_seed, qps=given.target_qps):
    folder.mkdir(parents=True, exist_ok=True)
    pattern = "max_throughput" if kind == "offline" else "poisson"
    if os.environ.get("ALONE"):
        pattern = "concurrency, target_concurrency: 1" if kind == "online" else pattern
    (folder / "config.yaml").write_text(f"""\\
name: a run
version: "1.0"
type: {kind}
model_params: {{name: {model}, streaming: "on"}}
settings:
  load_pattern: {{type: {pattern}, target_qps: {float(qps or 1)}}}
  runtime:
    min_duration_ms: {given.duration or 0}
    max_duration_ms: 0
    n_samples_to_issue: {given.samples or "null"}
    dataloader_random_seed: {seed}
    scheduler_random_seed: {given.schedule_seed}
endpoint_config: {{endpoints: ["http://127.0.0.1:8000"], api_key: <redacted>}}
""")
    count = int(given.samples or 20)
    measured = summary(count if mode == "perf" else 1)
    if mode == "perf":
        (folder / "performance").mkdir(exist_ok=True)
        (folder / "performance/result_summary.json").write_text(json.dumps(measured, indent=2))
        return folder / "performance/result_summary.json"
    parts = {"rouge1": "39.1", "rouge2": "16.2", "rougeL": "24.9", "rougeLsum": "36.2", "gen_len": "8167644"}
    entry = {"dataset_name": "cnn", "score": parts, "total_samples": 13368, "dataset_type": "accuracy"}
    if model == "wan22":
        entry = {"dataset_name": "prompts", "score": 0.71, "total_samples": 248, "dataset_type": "accuracy"}
    (folder / "accuracy").mkdir(exist_ok=True)
    (folder / "accuracy/accuracy_results.json").write_text(json.dumps({"accuracy_scores": [entry]}, indent=2))
    return folder / "accuracy/accuracy_results.json"


def change(path, **fields):
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}, indent=2))


def audit(folder, how):
    """The test that the harness runs behind a performance run: distinct samples, then one sample again and again."""
    pauses = {"reference": 0.02 if how == "cached" else 0.0, "output_caching": 0.0 if how == "cached" else 0.02}
    phases = {name: summary(20, pause) for name, pause in pauses.items()}
    for name, phase in phases.items():
        (folder / "audit" / name / "performance").mkdir(parents=True)
        shutil.copyfile(folder / "config.yaml", folder / "audit" / name / "config.yaml")
        (folder / "audit" / name / "performance/result_summary.json").write_text(json.dumps(phase, indent=2))
    slow, fast = phases["reference"]["qps"], phases["output_caching"]["qps"]
    said = {"test": "output_caching_test", "passed": fast < slow * 1.1 or LIE == "said to pass", "ref_qps": slow,
            "audit_qps": fast, "threshold": 0.1, "ref_requested": 20, "audit_requested": 20,
            "reason": f"audit_qps={fast:.4f}"}
    (folder / "audit/audit_output_caching_test.json").write_text(json.dumps(said, indent=2))


folder = Path(given.report_dir)
print("asking", given.type, given.mode, flush=True)
if LIE == "old results":
    shutil.copytree(os.environ["OLD"], folder / "old", copy_function=shutil.copy2)
elif LIE == "old results, new times":
    shutil.copytree(os.environ["OLD"], folder / "old", copy_function=shutil.copyfile)
elif LIE == "other scenario":
    write(folder, kind="online")
elif LIE == "other mode":
    write(folder, mode="acc")
elif LIE == "other model":
    write(folder, model="tiny-llm-2")
elif LIE == "other target":
    write(folder, qps="7")
elif LIE == "wrong seeds":
    write(folder, seed="42")
elif LIE == "two sets":
    write(folder / "one")
    write(folder / "two")
elif LIE == "no results":
    print("all is well")
elif LIE == "faster than it was":
    change(write(folder), qps=1e6)
elif LIE == "interrupted":
    change(write(folder), state="interrupted", complete=False)
elif LIE == "stated start":
    change(write(folder), test_started_at=1)
elif LIE == "samples lost":
    change(write(folder), n_samples_completed=3)
elif LIE == "broken":
    write(folder).write_text("{")
else:
    write(folder)
if os.environ.get("AUDIT") and given.mode == "perf":
    audit(folder, os.environ["AUDIT"])
raise SystemExit(0 if LIE else 3)  # the status says nothing
'''
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
