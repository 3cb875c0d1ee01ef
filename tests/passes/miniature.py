"""A small harness with the habits of those that hardware makers publish, and what a spec says of it.

It clears ``audit.config`` and other leftovers before each run; for a test it places its own and leaves it behind. Its
``build`` folder, which no .gitignore names, holds the confs that it writes, the logs of tests and of its own runs, and
caches. Logs of a test are where LOG_DIR is not heeded. Afterwards it verifies, and fails, because nothing is staged.
"""

from __future__ import annotations

import sys
from pathlib import Path

from reconciler.loadgen.user_conf import write_audit_config
from reconciler.rules.rounds import load_ruleset
from tests.passes.repository import Repository, make_repository

SCRIPT = """\
import argparse, array, os, shutil, sys, time
from pathlib import Path

import mlperf_loadgen as lg

KIND = "f"  # of the class numbers that it answers with
TOKENS = 0  # in place of a class number
ALTERED = 0  # what is added to the answers of performance runs
options = argparse.ArgumentParser()
for name in ("benchmarks", "scenarios", "test_mode"):
    options.add_argument("--" + name, required=True)
options.add_argument("--system", default=os.environ.get("SYSTEM_NAME"))
options.add_argument("--accuracy_target")
options.add_argument("--min_duration", type=int, default=300)
options.add_argument("--min_query_count", type=int, default=100)
options.add_argument("--audit_test", choices=["TEST01", "TEST04", "TEST06"])
options.add_argument("--offline_expected_qps", type=float, default=50.0)
given = options.parse_args(" ".join(sys.argv[1:]).split())

for leftover in ("audit.config", "verify_accuracy.txt", "accuracy.txt"):
    if os.path.exists(leftover):
        os.remove(leftover)
logs = Path(os.environ.get("LOG_DIR") or time.strftime("build/logs/%Y.%m.%d-%H.%M.%S"))
if given.audit_test:
    logs = Path("build/compliance_logs", given.audit_test)
    shutil.copyfile(f"audits/{given.audit_test}.config", "audit.config")
logs = logs / given.system / given.benchmarks / given.scenarios
logs.mkdir(parents=True, exist_ok=True)
full = given.benchmarks.replace("llama3_1", "llama3.1") if given.accuracy_target else given.benchmarks
conf = Path("build/loadgen-configs", given.system, full, given.scenarios, "user.conf")
conf.parent.mkdir(parents=True, exist_ok=True)
lines = {"target_qps": given.offline_expected_qps, "min_duration": given.min_duration}
lines["min_query_count"] = given.min_query_count
lines["performance_sample_count_override"] = 16
conf.write_text("".join(f"*.{given.scenarios}.{name} = {value}\\n" for name, value in lines.items()))
Path("build/cache").mkdir(exist_ok=True)
Path("build/cache", f"{time.time_ns()}.bin").write_bytes(b"cached")
Path("tuned").mkdir(exist_ok=True)
Path("tuned", "last.json").write_text(str(time.time_ns()))

settings = lg.TestSettings()
settings.FromConfig(str(conf), given.benchmarks, given.scenarios)
settings.scenario = getattr(lg.TestScenario, given.scenarios)
settings.mode = getattr(lg.TestMode, given.test_mode)
added = ALTERED if given.test_mode == "PerformanceOnly" else 0


def issue(samples):
    time.sleep(0.35)  # longer than the least duration, so that each run is valid
    for sample in samples:
        answer = array.array(KIND, [256 * (sample.index + 1) + added])
        if TOKENS:
            answer = array.array("i", [sample.index + 3] * (TOKENS - 1) + [2])
        response = lg.QuerySampleResponse(sample.id, answer.buffer_info()[0], len(answer) * answer.itemsize, TOKENS)
        lg.QuerySamplesComplete([response])


output = lg.LogOutputSettings()
output.outdir = str(logs)
how = lg.LogSettings()
how.log_output, how.enable_trace = output, False
sut, qsl = lg.ConstructSUT(issue, lambda: None), lg.ConstructQSL(16, 16, lambda _: None, lambda _: None)
lg.StartTestWithLogSettings(sut, qsl, settings, how)
lg.DestroyQSL(qsl)
lg.DestroySUT(sut)
(logs / "metadata.json").write_text("{}")
if given.audit_test:
    Path("verify_accuracy.txt").write_text("Accuracy check pass: True\\n")
    sys.exit("the results are not staged")
"""
SCORER = """\
import array, json, sys

answers = json.load(open(sys.argv[1]))
kind = {"float32": "f", "int32": "i", "int64": "q"}[sys.argv[3]]
good = sum(int(array.array(kind, bytes.fromhex(a["data"]))[0]) == 256 * (a["qsl_idx"] + 1) for a in answers)
print(f"accuracy={100 * good / len(answers):.3f}%, good={good}, total={len(answers)}")
"""
SPEC = f"""
      as: OFFICIAL
      performance_sample_count: 16
      harness:
        command:
          - {sys.executable}
          - main.py
          - "--benchmarks=KEY --scenarios={{scenario}} --system={{system}} --test_mode={{loadgen_mode}}
            {{test:+--audit_test={{test}}}} {{Offline:+{{target_qps:+--offline_expected_qps={{target_qps}}}}}}"
        env: {{LOG_DIR: "{{run_dir}}"}}
        code: theirs
        logs: "{{test:+build/compliance_logs/{{test}}}}"
        user_conf: harvested
        user_conf_at: "build/loadgen-configs/{{system}}/KEY/{{scenario}}/user.conf"
        audit_config: placed
        score: {{command: [{sys.executable}, score.py, "{{accuracy_log}}", --dtype, float32]}}
"""
# The same through what is known of the published code that has these habits.
MAKEFILE = f"run_harness:\n\t@LOG_DIR=$(LOG_DIR) {sys.executable} main.py $(RUN_ARGS)\n"
ADAPTED = f"""
      as: OFFICIAL
      performance_sample_count: 16
      harness:
        adapter: nvidia-v5.1
        code: theirs
        env: {{SYSTEM_NAME: box}}
        score: {{command: [{sys.executable}, score.py, "{{accuracy_log}}", --dtype, float32]}}
"""


def with_miniature(
    root: Path, test: str, *, official: str = "resnet", key: str = "resnet50", spec: str = SPEC
) -> Repository:
    """One Offline cell that is asked for a compliance test."""
    repository = make_repository(root)
    repository.write("theirs/main.py", SCRIPT)
    repository.write("theirs/score.py", SCORER)
    repository.write("theirs/Makefile", MAKEFILE)
    if spec == ADAPTED:  # the adapter needs these of the published code; this Makefile starts the script above
        repository.write("theirs/code/main.py", "")
        repository.write(f"theirs/configs/box/Offline/{key}.py", "")
    rules = load_ruleset("v6.1").find_benchmark(official)
    assert rules is not None
    asked = {name: value.value for name, value in rules.find_test(test, "Offline").settings.items()}
    own = write_audit_config(asked, ["as the harness brings it"]).decode()
    repository.write(f"theirs/audits/{test}.config", own)
    repository.edit("specs/spec.yaml", "      as: resnet\n      code: benchmarks/tiny.py\n", "")
    repository.edit("specs/spec.yaml", '      engine: {backend: "null", precision: fp32, batch_size: 4}\n', "")
    repository.edit("specs/spec.yaml", "      performance_sample_count: 16\n", "")
    reported = spec.replace("OFFICIAL", official).replace("KEY", key)
    repository.edit("specs/spec.yaml", "    tiny:\n      model", f"    tiny:{reported}      model")
    repository.edit("specs/spec.yaml", "min_duration: 0", "min_duration: 300 ms")
    if official != "resnet":
        repository.edit("specs/spec.yaml", "category: edge", "category: datacenter")
    repository.edit("specs/spec.yaml", "min_query_count: 100}", f"min_query_count: 100, compliance: [{test}]}}")
    return repository
