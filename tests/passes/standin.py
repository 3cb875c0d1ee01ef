"""A harness command of a user's: a small script around LoadGen, and what a spec says of it."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.passes.repository import Repository, declare_command, make_repository

SCRIPT = '''\
"""Answers every query with nothing. LIE says in which way it does not do what it was asked."""
import array, os, shutil, subprocess, sys, time
from pathlib import Path

import mlperf_loadgen as lg

scenario, mode, conf, logs, audit = sys.argv[1:6]
LIE = os.environ.get("LIE", "")
ANSWER = array.array("i", [0])


def run(folder, scenario=scenario, mode=mode, audit=audit, seed=None, change=None):
    settings = lg.TestSettings()
    settings.FromConfig(conf, "resnet50", scenario)
    settings.scenario = getattr(lg.TestScenario, scenario)
    settings.mode = lg.TestMode.AccuracyOnly if mode == "accuracy" else lg.TestMode.PerformanceOnly
    if seed:
        settings.qsl_rng_seed = seed
    if change:
        change(settings)
    out = lg.LogSettings()
    out.enable_trace = False
    outputs = lg.LogOutputSettings()
    folder.mkdir(parents=True, exist_ok=True)
    outputs.outdir, outputs.copy_summary_to_stdout = str(folder), False
    out.log_output = outputs

    def issue(samples):
        time.sleep(float(os.environ.get("DELAY", "0")))
        data = ANSWER.buffer_info()[0]
        lg.QuerySamplesComplete([lg.QuerySampleResponse(s.id, data, ANSWER.itemsize) for s in samples])

    sut = lg.ConstructSUT(issue, lambda: None)
    qsl = lg.ConstructQSL(16, 16, lambda _: None, lambda _: None)
    lg.StartTestWithLogSettings(sut, qsl, settings, out, audit)
    lg.DestroyQSL(qsl)
    lg.DestroySUT(sut)


folder = Path(logs)
print("running", scenario, mode, flush=True)
if LIE == "old logs" and os.path.isdir(os.environ["OLD"]):
    time.sleep(float(os.environ.get("WAIT", "0")))
    shutil.copytree(os.environ["OLD"], folder / "old")
elif LIE == "other scenario":
    run(folder, scenario="SingleStream")
elif LIE == "other target":
    run(folder, change=lambda s: setattr(s, "offline_expected_qps", 7))
elif LIE == "other mode":
    run(folder, mode="performance" if mode == "accuracy" else "accuracy")
elif LIE == "audit left on":
    (folder / "left.config").write_text("*.*.accuracy_log_rng_seed = 7\\n")
    run(folder, audit=str(folder / "left.config"))
elif LIE == "two sets":
    run(folder / "one")
    again = [sys.executable, __file__, scenario, mode, conf, str(folder / "two"), audit]
    subprocess.run(again, env={**os.environ, "LIE": "none"}, check=True)
elif LIE == "copied":
    run(folder / "backup")
    shutil.copytree(folder / "backup", folder / "old" / "backup")
    (folder / "backup" / "mlperf_log_accuracy.json").unlink()
elif LIE == "exit 0":
    run(folder)
    detail = folder / "mlperf_log_detail.txt"
    lines = detail.read_text().splitlines(True)
    detail.write_text("".join(x for x in lines if "result_" not in x and "power_end" not in x))
elif LIE == "wrong seeds":
    run(folder, seed=5)
elif LIE == "another round":

    def reseed(settings):
        names = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")
        for name, seed in zip(names, os.environ["SEEDS"].split()):
            setattr(settings, name, int(seed))

    run(folder, change=reseed)
elif LIE == "no logs":
    print("all is well")
else:
    run(folder)
sys.exit(0 if LIE else 3)  # the status says nothing
'''

HARNESS = f"""
      harness:
        command:
          ["{sys.executable}", run.py, "{{scenario}}", "{{mode}}", "{{user_conf}}", "{{run_dir}}", "{{audit_config}}"]
        code: ours
"""


def with_command(root: Path, *, more: str = "") -> Repository:
    """The small benchmark, run by a command whose code lies in ``ours``; ``more`` goes below its harness."""
    repository = make_repository(root)
    repository.write("ours/run.py", SCRIPT)
    repository.write("ours/README", "about it\n")
    declare_command(repository, f"{HARNESS}{more}")
    return repository
