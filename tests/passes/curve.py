"""Stand-ins for the official Endpoints client and for the server that it loads: both real processes, small ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.passes.repository import SPEC, Repository

SAMPLES = 80  # more than the maximum, so that a dedicated Offline run is possible
CLIENT = '''\
"""Asks the server one question for each sample and writes what the client writes. ../lie says where it does not."""
import json, sys, time, urllib.request
from pathlib import Path

words = sys.argv[1:]
config = json.loads(Path(words[words.index("--config") + 1]).read_text())
mode = words[words.index("--mode") + 1]
scored = mode == "both"
lie = Path("../lie").read_text().strip() if Path("../lie").is_file() else ""
dataset = config["datasets"][-1]
played = config["datasets"][0].get("agentic_inference")
if mode == "acc":  # of an agentic benchmark: a service plays the agents
    report = Path(config["report_dir"])
    (report / "accuracy").mkdir(parents=True)
    (report / "config.yaml").write_text(json.dumps(config))
    entry = {"dataset_name": "swe_bench", "score": 0.94, "total_samples": 4, "dataset_type": "accuracy"}
    (report / "accuracy/accuracy_results.json").write_text(json.dumps({"accuracy_scores": [entry]}))
    sys.exit()
lines = Path(dataset["path"]).read_text().splitlines()
users = config["settings"]["load_pattern"].get("target_concurrency", len(lines))
events, spent = [], {"ttft": [], "tpot": [], "latency": []}


def log(kind, sample="", data=None):
    events.append({"event_type": kind, "timestamp_ns": time.monotonic_ns(), "sample_uuid": sample, "data": data})
    return events[-1]["timestamp_ns"]


began = log("session.start_performance_tracking")
for start in range(0, len(lines), users):
    batch = {str(start + place): line for place, line in enumerate(lines[start : start + users])}
    issued = {name: log("sample.issued", name) for name in batch}
    for name, line in batch.items():
        url = config["endpoint_config"]["endpoints"][0] + "/v1/chat/completions"
        with urllib.request.urlopen(urllib.request.Request(url, line.encode())) as answer:
            first = log("sample.recv_first", name)
            assert json.loads(answer.read())["tokens"] == 5
        log("sample.recv_non_first", name)
        done = log("sample.complete", name, ["TextModelOutput", ["a", "bcde"]])
        for kind, took in (("ttft", first - issued[name]), ("tpot", done - first), ("latency", done - issued[name])):
            spent[kind].append(took)
log("session.stop_performance_tracking")
took = done - began
report = Path(config.pop("report_dir"))
told = {**config, "report_dir": str(report)}
if lie == "other concurrency":
    config["settings"]["load_pattern"]["target_concurrency"] += 1
if lie == "other run":
    told["report_dir"] = "elsewhere"
for part in ("performance", "accuracy", "metrics"):
    (report / part).mkdir(parents=True)
(report / "config.yaml").write_text(json.dumps(told))
(report / "events.jsonl").write_text("".join(json.dumps(event) + "\\n" for event in events))
if scored:
    entry = {"dataset_name": dataset["name"], "score": 1.0, "total_samples": len(lines), "dataset_type": "accuracy"}
    (report / "accuracy/accuracy_results.json").write_text(json.dumps({"accuracy_scores": [entry]}))
else:
    failed = 1 if lie == "failed sample" else 0
    done, tokens = len(lines) - failed, 5 * len(lines) * (9 if lie == "more tokens" else 1)
    percentiles = {"50.0": 10**6 * users, "90.0": 2 * 10**6 * users}
    series = {kind: {"total": sum(found), "avg": sum(found) / done, "percentiles": percentiles}
              for kind, found in spent.items()}
    summary = {
        "version": "0.1.0", "git_sha": "abc1234", "test_started_at": 0, "state": "complete", "complete": True,
        "n_samples_issued": len(lines), "n_samples_completed": done, "n_samples_failed": failed, "duration_ns": took,
        **series, "output_sequence_lengths": {"total": tokens},
        "qps": done * 1e9 / took, "tps": tokens * 1e9 / took,
    }
    (report / "performance/result_summary.json").write_text(json.dumps(summary))
if played and lie != "no inline score":
    entry = {"dataset_name": "performance", "score": 0.6, "total_samples": 9, "dataset_type": "performance"}
    (report / "accuracy/accuracy_results.json").write_text(json.dumps({"accuracy_scores": [entry]}))
'''
SERVER = """\
import http.server, json, sys
from pathlib import Path


class Model(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        lie = Path("../lie").read_text().strip() if Path("../lie").is_file() else ""
        served = "other" if lie == "other model" else "oss"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"data": [{"id": served}]}).encode())

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        answer = b'{"tokens": 5}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Model).serve_forever()
"""
DOCUMENT = f"""\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {{name: curve}}
spec:
  program: endpoints
  round: v1.0
  submitter: ACME
  rehearsal: true
  systems:
    box: {{category: datacenter, status: available, description: {{serving_framework: none}}}}
  benchmarks:
    oss:
      as: gpt-oss-120b
      model: {{path: model.bin}}
      dataset: {{path: prompts.jsonl}}
      performance_sample_count: {SAMPLES}
      min_duration: 0
      client:
        code: client
        python: {sys.executable}
        model_name: oss
        accuracy: {{dataset: questions.jsonl, method: string_match, ground_truth: answer}}
      harness:
        service:
          command: ["{sys.executable}", serve.py, "{{port}}", --flag=one]
          code: server
      disclosure: {{link_to_model: "https://models/oss"}}
  divisions:
    standardized:
      box:
        oss: {{max_supported_concurrency: 64, points: [1, 2, 3, 5, 10, 25, 40, 64]}}
"""


AGENTIC = (
    ("as: gpt-oss-120b", "as: kimi-k3"),
    ("{dataset: questions.jsonl, method: string_match, ground_truth: answer}", "{service: 'http://127.0.0.1:9'}"),
    ("      performance_sample_count", "      accuracy_sample_count: 4\n      performance_sample_count"),
)


def make_curve(folder: Path, *changes: tuple[str, str]) -> Repository:
    """``changes`` of its spec."""
    repository = Repository(folder)
    document = DOCUMENT
    for old, new in changes:
        assert old in document
        document = document.replace(old, new)
    repository.write(SPEC, document)
    repository.write("client/src/inference_endpoint/__init__.py", "")
    repository.write("client/src/inference_endpoint/main.py", CLIENT)
    repository.write("server/serve.py", SERVER)
    repository.write("model.bin", "weights")
    lines = {"prompts": SAMPLES, "questions": 2}
    for name, count in lines.items():
        text = "".join(json.dumps({"prompt": str(number), "answer": "a"}) + "\n" for number in range(count))
        repository.write(f"{name}.jsonl", text)
    return repository
