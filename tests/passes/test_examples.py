"""The worked examples of harnesses, each run as written: only the folders they name are others.

The programs that they start are stand-ins around LoadGen, as strict about their options as the real ones are.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from reconciler.execute.outcome import Status
from reconciler.loadgen.user_conf import write_audit_config
from reconciler.resource.kinds import Kind
from reconciler.resource.records import Ended, Record
from reconciler.rules.rounds import load_ruleset
from tests.passes.endpoints import SCRIPT
from tests.passes.repository import Repository, make_repository
from tests.shared import need

need("mlperf_loadgen")
DOCUMENTS = [Path(__file__).parents[2] / f"reconciler/docs/{name}.md" for name in ("harnesses", "services")]
# What each stand-in needs of LoadGen; no answer says anything.
LOADGEN = """\
import array, os
from pathlib import Path

import mlperf_loadgen as lg

ANSWER = array.array("i", [0])


def measure(key, scenario, accuracy, conf, logs, audit=""):
    settings = lg.TestSettings()
    settings.FromConfig(str(conf), key, scenario)
    settings.scenario = getattr(lg.TestScenario, scenario)
    settings.mode = lg.TestMode.AccuracyOnly if accuracy else lg.TestMode.PerformanceOnly
    kinds, where = lg.LogSettings(), lg.LogOutputSettings()
    Path(logs).mkdir(parents=True, exist_ok=True)
    where.outdir, kinds.enable_trace = str(logs), False
    kinds.log_output = where

    def issue(samples):
        data = ANSWER.buffer_info()[0]
        lg.QuerySamplesComplete([lg.QuerySampleResponse(s.id, data, ANSWER.itemsize, 2) for s in samples])

    sut = lg.ConstructSUT(issue, lambda: None)
    qsl = lg.ConstructQSL(16, 16, lambda _: None, lambda _: None)
    lg.StartTestWithLogSettings(sut, qsl, settings, kinds, str(audit))
    lg.DestroyQSL(qsl)
    lg.DestroySUT(sut)
"""
# language/llama3.1-8b/main.py of mlcommons/inference: its options, and no others.
VLLM = """\
import argparse
from standin import measure

options = argparse.ArgumentParser()
options.add_argument("--scenario", choices=["Offline", "Server", "SingleStream"], default="Offline")
for name in "model-path dataset-path dtype audit-conf user-conf output-log-dir api-model-name api-server".split():
    options.add_argument("--" + name, default="")
for name in "total-sample-count batch-size num-workers tensor-parallel-size".split():
    options.add_argument("--" + name, type=int, default=1)
for name in "accuracy enable-log-trace vllm".split():
    options.add_argument("--" + name, action="store_true")
options.add_argument("--lg-model-name", default="llama3_1-8b")
given = options.parse_args()
if not given.vllm:
    raise NotImplementedError
measure(given.lg_model_name, given.scenario, given.accuracy, given.user_conf, given.output_log_dir, given.audit_conf)
open(given.output_log_dir + "/tokens.csv", "w").write("1,2\\n")
"""
LLAMA3 = "{'rouge1': 39.1, 'rouge2': 16.2, 'rougeL': 24.9, 'rougeLsum': 36.2, 'gen_len': 8167644, 'gen_num': 16}"
EVALUATION = f'''\
import argparse, json
options = argparse.ArgumentParser()
options.add_argument("--mlperf-accuracy-file", required=True)
options.add_argument("--dataset-file", required=True)
options.add_argument("--verbose", action="store_true")
options.add_argument("--dtype", default="int64")
options.add_argument("--model-name", default="meta-llama/Meta-Llama-3.1-8B-Instruct")
options.add_argument("--total-sample-count", default=13368, type=int)
assert len(json.load(open(options.parse_args().mlperf_accuracy_file))) == 16
print("{LLAMA3}")
'''
# vision/classification_and_detection/python/main.py: its options; what is in its way is an audit_conf of "".
VISION = """\
import argparse, os, sys
sys.path.insert(0, os.getcwd())
from standin import measure

options = argparse.ArgumentParser()
for name in "dataset dataset-list data-format profile output inputs outputs backend device model-name".split():
    options.add_argument("--" + name)
for name in "dataset-path model".split():
    options.add_argument("--" + name, required=True)
for name in "max-batchsize threads qps cache time count performance-sample-count samples-per-query".split():
    options.add_argument("--" + name, type=int)
for name in "use_preprocessed_dataset accuracy find-peak-performance debug".split():
    options.add_argument("--" + name, action="store_true")
for name in "cache_dir preprocessed_dir".split():
    options.add_argument("--" + name)
options.add_argument("--scenario", default="SingleStream")
options.add_argument("--user_conf", default="user.conf")
options.add_argument("--audit_conf", default="audit.config")
options.add_argument("--max-latency", type=float)
given = options.parse_args()
assert given.profile == "resnet50-onnxruntime" and os.path.isfile(given.model) and os.path.isdir(given.dataset_path)
conf, audit = os.path.abspath(given.user_conf), os.path.abspath(given.audit_conf)
measure("resnet50", given.scenario, given.accuracy, conf, given.output, audit)
"""
IMAGENET = """\
import argparse, json
options = argparse.ArgumentParser()
options.add_argument("--mlperf-accuracy-file", required=True)
options.add_argument("--imagenet-val-file", required=True)
options.add_argument("--verbose", action="store_true")
options.add_argument("--dtype", default="float32", choices=["float32", "int32", "int64"])
given = options.parse_args()
count = len(json.load(open(given.mlperf_accuracy_file)))
print("accuracy=76.500%", len(open(given.imagenet_val_file).readlines()), "images", count, "answers")
"""
# A container is its program with folders under other names.
DOCKER = """\
import os, re, subprocess, sys

words = sys.argv[1:]
assert words.pop(0) == "run"
mounts, entry, folder = {}, "", ""
while words[0].startswith("-"):
    word = words.pop(0)
    if word == "-v":
        outside, inside = words.pop(0).rsplit(":", 1)
        mounts[inside] = outside
    elif word == "-w":
        folder = words.pop(0)
    elif word == "--entrypoint":
        entry = words.pop(0)
    elif word == "--name":
        assert words.pop(0)  # by which the pass ends the container
    else:
        assert word == "--rm", word
assert re.fullmatch(r"[a-z-]+@sha256:[0-9a-f]{64}", words.pop(0))


def outside(path):
    for inside, there in sorted(mounts.items(), key=lambda item: -len(item[0])):
        if path == inside or path.startswith(inside + "/"):
            return there + path[len(inside):]
    assert not path.startswith("/"), f"{path} is not mounted"
    return path


sys.exit(subprocess.run([entry, *map(outside, words)], cwd=outside(folder)).returncode)
"""
# It deletes and places audit.config itself, writes its conf from a configuration of its own, and its logs into folders
# of its own below LOG_DIR, or elsewhere in a test.
MAKEFILE = """\
run_harness:
\t@mkdir -p $(LOG_DIR)
\t@python run.py $(RUN_ARGS)
"""
NVIDIA = '''\
import argparse, os, shutil
from pathlib import Path
from standin import measure

options = argparse.ArgumentParser()
for name in "benchmarks scenarios test_mode accuracy_target".split():
    options.add_argument("--" + name, required=True)
for name in "offline_expected_qps server_target_qps".split():
    options.add_argument("--" + name, type=float, default=20)
for name in "min_duration min_query_count".split():
    options.add_argument("--" + name, type=int, default=0)
options.add_argument("--audit_test", choices=["TEST01", "TEST04", "TEST06"])
given = options.parse_args()
assert float(given.accuracy_target) == 0.999
Path("audit.config").unlink(missing_ok=True)
logs = Path(os.environ["LOG_DIR"])
if given.audit_test:
    logs = Path("build/compliance_logs", given.audit_test)
    shutil.copyfile(f"build/inference/compliance/nvidia/{given.audit_test}/audit.config", "audit.config")
full = given.benchmarks + "-99.9"
conf = Path("build/loadgen-configs/box", full, given.scenarios, "user.conf")
conf.parent.mkdir(parents=True, exist_ok=True)
conf.write_text(f"""\
llama2-70b.Offline.target_qps = {given.offline_expected_qps}
*.*.min_duration = {given.min_duration}
*.*.min_query_count = {given.min_query_count or 100}
*.*.performance_sample_count_override = 16
""")
logs = logs / "box" / full / given.scenarios
measure("llama2-70b", given.scenarios, given.test_mode == "AccuracyOnly", conf, logs, "audit.config")
if given.audit_test:
    raise FileNotFoundError("Have you run `make stage_results`?")
'''
LLAMA2 = (
    "{'rouge1': 44.9, 'rouge2': 22.9, 'rougeL': 29.9, 'gen_len': 28000000, 'gen_num': 16, 'tokens_per_sample': 295.0}"
)
NVIDIA_SCORE = f'''\
import argparse, json
options = argparse.ArgumentParser()
for name in "checkpoint-path mlperf-accuracy-file dataset-file".split():
    options.add_argument("--" + name, required=True)
options.add_argument("--dtype", choices=["int32", "int64", "float"], required=True)
assert len(json.load(open(options.parse_args().mlperf_accuracy_file))) == 16
print("{LLAMA2}")
'''
TEST06 = {
    name: value.value
    for name, value in load_ruleset("v6.1")
    .benchmarks["llama2-70b-99.9"]
    .find_test("TEST06", "Offline")
    .settings.items()
}
AUDIT = write_audit_config(TEST06, ["as it comes with LoadGen"]).decode()
# `benchmark from-config` of the endpoints harness: variables in its configuration, and the options that it has.
ENDPOINTS = """\
import argparse, os, re, sys
from ruamel.yaml import YAML

options = argparse.ArgumentParser()
options.add_argument("what", choices=["benchmark"])
options.add_argument("how", choices=["from-config"])
options.add_argument("--config", "-c", required=True)
options.add_argument("--timeout", type=float)
options.add_argument("--mode", choices=["perf", "acc", "both"])
options.add_argument("--report-dir", required=True)
given = options.parse_args()
text = re.sub(r"\\$\\{(\\w+)\\}", lambda found: os.environ[found[1]], open(given.config).read())
read = YAML(typ="safe").load(text)
runtime, pattern = read["settings"]["runtime"], read["settings"]["load_pattern"]
sys.argv = [
    "serve.py", "--type", read["type"], "--mode", given.mode, "--model", read["model_params"]["name"],
    "--target-qps", str(pattern["target_qps"]), "--duration", str(runtime["min_duration_ms"]),
    "--sample-seed", str(runtime["dataloader_random_seed"]),
    "--schedule-seed", str(runtime["scheduler_random_seed"]), "--report-dir", given.report_dir,
]
"""
OFFLINE = """\
name: llama offline
type: offline
model_params: {name: meta-llama/Llama-3.1-8B-Instruct, streaming: "on"}
settings:
  load_pattern: {type: max_throughput, target_qps: ${TARGET_QPS}}
  runtime:
    min_duration_ms: ${MIN_DURATION_MS}
    dataloader_random_seed: ${SAMPLE_INDEX_SEED}
    scheduler_random_seed: ${SCHEDULE_SEED}
endpoint_config: {endpoints: ["http://127.0.0.1:8000"]}
"""
# What `vllm serve` is given, and what it answers; it ends by SIGINT as a person would end it.
SERVE = """\
import argparse, http.server
options = argparse.ArgumentParser()
options.add_argument("what", choices=["serve"])
options.add_argument("model")
options.add_argument("--port", type=int, required=True)
options.add_argument("--tensor-parallel-size", type=int)
options.add_argument("--no-enable-prefix-caching", action="store_true", required=True)
given = options.parse_args()
assert open(given.model + "/config.json").read() == "{}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()


try:
    http.server.ThreadingHTTPServer(("127.0.0.1", given.port), Handler).serve_forever()
except KeyboardInterrupt:
    print("shut down in order", flush=True)
    raise SystemExit(0)
"""
CLIENT = """\
import argparse, urllib.request
from standin import measure
options = argparse.ArgumentParser()
for name in "server dataset-path scenario mode user-conf output-log-dir".split():
    options.add_argument("--" + name, required=True)
options.add_argument("--audit-conf", default="")
given = options.parse_args()
assert urllib.request.urlopen(given.server + "/health").status == 200
accuracy = given.mode == "accuracy"
measure("llama3_1-8b", given.scenario, accuracy, given.user_conf, given.output_log_dir, given.audit_conf)
"""
BUILD = """\
import argparse, pathlib
options = argparse.ArgumentParser()
for name in "checkpoint_dir output_dir".split():
    options.add_argument("--" + name, type=pathlib.Path, required=True)
options.add_argument("--max_batch_size", type=int, required=True)
given = options.parse_args()
weights = (given.checkpoint_dir / "config.json").read_text()
(given.output_dir / "rank0.engine").write_text(weights + str(given.max_batch_size))
"""
HARNESS = """\
import argparse
from standin import measure
options = argparse.ArgumentParser()
for name in "engine scenario mode user-conf logs".split():
    options.add_argument("--" + name, required=True)
given = options.parse_args()
assert open(given.engine + "/rank0.engine").read() == "{}2048"
measure("llama2-70b", given.scenario, given.mode == "accuracy", given.user_conf, given.logs)
"""
NVIDIA_CODE = "inference_results_v5.1/closed/NVIDIA"
VISION_CODE = "inference/vision/classification_and_detection"
NVIDIA_EXAMPLE = "adapter: nvidia-v5.1"
FILES = {
    NVIDIA_EXAMPLE: {
        f"{NVIDIA_CODE}/Makefile": MAKEFILE,
        f"{NVIDIA_CODE}/code/main.py": "",  # the adapter needs it and the next; this Makefile starts run.py
        f"{NVIDIA_CODE}/configs/box/Offline/llama2-70b.py": "",
        f"{NVIDIA_CODE}/run.py": NVIDIA,
        f"{NVIDIA_CODE}/standin.py": LOADGEN,
        f"{NVIDIA_CODE}/build/inference/language/llama2-70b/evaluate-accuracy.py": NVIDIA_SCORE,
        f"{NVIDIA_CODE}/build/inference/compliance/nvidia/TEST06/audit.config": AUDIT,
        "models/Llama2/Llama-2-70b-chat-hf/config.json": "{}",
        "preprocessed_data/open_orca/open_orca_gpt4_tokenized_llama.sampled_24576.pkl": "",
    },
    "main.py, --vllm": {
        "inference/language/llama3.1-8b/main.py": VLLM,
        "inference/language/llama3.1-8b/standin.py": LOADGEN,
        "inference/language/llama3.1-8b/evaluation.py": EVALUATION,
        "models/Llama-3.1-8B-Instruct/config.json": "{}",
        "data/cnn_eval.json": "[]",
    },
    "docker, run": {
        f"{VISION_CODE}/python/main.py": VISION,
        f"{VISION_CODE}/standin.py": LOADGEN,
        f"{VISION_CODE}/tools/accuracy-imagenet.py": IMAGENET,
        "models/resnet50_v1.onnx": "weights",
        "data/imagenet/val_map.txt": "a.jpg 1\n" * 16,
        "bin/docker": f"#!{sys.executable}\n{DOCKER}",
    },
    "vllm, serve": {
        "client/client.py": CLIENT,
        "client/standin.py": LOADGEN,
        "client/evaluation.py": EVALUATION,
        "server/requirements.lock": "vllm==0.0\n",
        "models/Llama-3.1-8B-Instruct/config.json": "{}",
        "data/cnn_eval.json": "[]",
        "bin/vllm": f"#!{sys.executable}\n{SERVE}",
    },
    "trtllm-build": {
        "trtllm-harness/harness.py": HARNESS,
        "trtllm-harness/standin.py": LOADGEN,
        "trtllm-harness/evaluate.py": f"import sys\nassert len(sys.argv) == 3\nprint({LLAMA2!r})\n",
        "models/llama2-70b-fp8/config.json": "{}",
        "data/open_orca.pkl": "",
        "bin/trtllm-build": f"#!{sys.executable}\n{BUILD}",
    },
    "inference-endpoint": {
        "endpoints/offline.yaml": OFFLINE,
        "bin/inference-endpoint": f"#!{sys.executable}\n{ENDPOINTS}{SCRIPT}",
    },
}
DOCUMENT = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {{name: tiny}}
spec:
  round: v6.1
  submitter: ACME
  rehearsal: true
  systems:
    box: {{category: "datacenter,edge", status: available, description: {{cooling: air}}}}
  benchmarks:
{benchmark}
  divisions:
    open:
      box:
        {name}:
          Offline: {{min_duration: 0{more}}}
"""


def example(words: str) -> str:
    """The one block of the documents that starts what ``words`` say."""
    text = "".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    blocks: list[str] = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if words in " ".join(block.split())]
    return found


def with_example(root: Path, words: str, monkeypatch: pytest.MonkeyPatch) -> Repository:
    work = root / "work"
    for path, text in FILES[words].items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(text, encoding="utf-8")
    (work / "bin").mkdir(exist_ok=True)
    (work / "bin/python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    for program in (work / "bin").iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{work / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HF_TOKEN", "sesame")
    block = example(words)
    text = re.sub(r"(?<![\w}\"])/mlperf(?=[/:,\s])", str(work), block)
    benchmark = "".join(f"    {line}\n" for line in text.splitlines()).rstrip()
    counts = "" if words == "inference-endpoint" else ", min_query_count: 100, performance_sample_count: 16"
    spec = DOCUMENT.format(benchmark=benchmark, name=block.partition(":")[0], more=counts)
    return make_repository(root / "repository", spec)


def records_of(repository: Repository, kind: str) -> list[Record]:
    return [r for r in repository.records().values() if str(r.address.kind) == kind and r.ended is Ended.DONE]


def find_left(root: Path) -> list[Path]:
    """Audit settings where a run would read them: not where they come with LoadGen."""
    return [path for path in root.rglob("audit.config") if "nvidia" not in path.parts]


@pytest.mark.parametrize("words", FILES)
def test_an_example_of_the_readme_runs_as_written(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = with_example(tmp_path, words, monkeypatch)
    outcomes = repository.reconcile().outcomes
    assert {o.status for o in outcomes} == {Status.DONE}, [(o.message, o.log) for o in outcomes]
    modes = {str(record.inputs["mode"].value): record for record in records_of(repository, "Run")}
    assert modes.keys() == {"accuracy", "performance"}
    assert modes["performance"].values["validity"] == "VALID"
    (score,) = records_of(repository, "Score")
    assert score.values["accuracy_met"]
    assert not repository.look().plan.steps, "what it left behind is no new code"
    assert not find_left(tmp_path)


@pytest.mark.parametrize("words", [NVIDIA_EXAMPLE, "docker, run"])
def test_an_example_takes_audit_settings(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compliance test, and no other run, is given them."""
    repository = with_example(tmp_path, words, monkeypatch)
    test = "TEST06" if words == NVIDIA_EXAMPLE else "TEST04"
    repository.edit("specs/spec.yaml", "Offline: {", f"Offline: {{compliance: [{test}], ")
    repository.reconcile()
    (record,) = records_of(repository, "ComplianceTest")
    assert record.address.label == test
    assert not [
        step for step in repository.look().plan.steps if step.change.address.kind in (Kind.RUN, Kind.COMPLIANCE_TEST)
    ]
    assert not find_left(tmp_path)
