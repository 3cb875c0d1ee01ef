"""A small server with weights and a client that drives LoadGen against it, as a user's harness has them."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.passes.repository import Repository, make_repository

SERVER = '''\
"""Answers each query with a number of its weights. MISCHIEF says what goes wrong, and when."""
import http.server, os, pathlib, signal, subprocess, sys, time

port, starts = int(sys.argv[1]), pathlib.Path(sys.argv[2])
MISCHIEF = os.environ.get("MISCHIEF", "")
weights = bytes(range(16))
asked = 0


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global asked
        if self.path == "/health" and MISCHIEF == "goes silent" and asked:
            time.sleep(600)
        if self.path == "/infer":
            asked += 1
            if MISCHIEF == "dies":
                print("out of imagined memory", flush=True)
                os._exit(7)
        body = weights[:1]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def end(*_):
    print("put in order", flush=True)
    with open(starts.with_name("ended"), "a") as stream:
        stream.write("in order\\n")
    sys.exit(0)


signal.signal(signal.SIGTERM, end)
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
with open(starts, "a") as stream:
    stream.write(f"{os.getpid()} {worker.pid} {port}\\n")
print("loading weights", flush=True)
if MISCHIEF == "never ready":
    time.sleep(600)
if MISCHIEF == "ends at once":
    sys.exit("there is no such device")
time.sleep(0.3)
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
print("ready to serve", flush=True)
server.serve_forever()
'''

CLIENT = '''\
"""One LoadGen run whose queries are answered over HTTP."""
import array, os, sys, time, urllib.request

import mlperf_loadgen as lg

scenario, mode, conf, logs, audit, url = sys.argv[1:7]
settings = lg.TestSettings()
settings.FromConfig(conf, "resnet50", scenario)
settings.scenario = getattr(lg.TestScenario, scenario)
settings.mode = lg.TestMode.AccuracyOnly if mode == "accuracy" else lg.TestMode.PerformanceOnly
out, outputs = lg.LogSettings(), lg.LogOutputSettings()
out.enable_trace = False
outputs.outdir, outputs.copy_summary_to_stdout = logs, False
out.log_output = outputs
if os.environ.get("WAITS") == mode:
    open("../waiting", "w").close()
    time.sleep(600)


def issue(samples):
    try:
        with urllib.request.urlopen(url + "/infer", timeout=20) as answer:
            number = answer.read(1)[0]
    except OSError:
        number = 0
        time.sleep(float(os.environ.get("LINGERS", "0")))
    data = array.array("i", [number])
    held.append(data)
    lg.QuerySamplesComplete([lg.QuerySampleResponse(s.id, data.buffer_info()[0], data.itemsize) for s in samples])


held = []
sut = lg.ConstructSUT(issue, lambda: None)
qsl = lg.ConstructQSL(16, 16, lambda _: None, lambda _: None)
lg.StartTestWithLogSettings(sut, qsl, settings, out, audit)
lg.DestroyQSL(qsl)
lg.DestroySUT(sut)
'''

HARNESS = f"""
      harness:
        command:
          ["{sys.executable}", client.py, "{{scenario}}", "{{mode}}", "{{user_conf}}", "{{run_dir}}",
           "{{audit_config}}", "{{service_url}}"]
        code: client
        service:
          command: ["{sys.executable}", server.py, "{{port}}", ../starts]
          code: server
"""


def with_service(root: Path, *, more: str = "", env: str = "") -> Repository:
    """The small benchmark, asked of a server; ``more`` goes below its service, ``env`` to the client."""
    repository = make_repository(root)
    repository.write("server/server.py", SERVER)
    repository.write("client/client.py", CLIENT)
    harness = HARNESS.replace("        code: client\n", f"        code: client\n{env}")
    repository.edit(
        "specs/spec.yaml", "      code: benchmarks/tiny.py\n", f"      code: benchmarks/tiny.py{harness}{more}"
    )
    repository.edit(
        "specs/spec.yaml", 'engine: {backend: "null", precision: fp32, batch_size: 4}', "min_query_count: 100"
    )
    return repository


def started(repository: Repository) -> list[list[int]]:
    """Of each start the server's process, its worker's and its port."""
    path = repository.root / "starts"
    return [[int(word) for word in line.split()] for line in path.read_text().splitlines()] if path.exists() else []
