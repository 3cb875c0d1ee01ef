"""Stand-in for the kit's client: its options, its two runs of the workload, and the folders that it leaves."""

import argparse
import base64
import hashlib
import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

LOGS = ("mlperf_log_detail.txt", "mlperf_log_summary.txt")
FETCHED = ("power/ptd_logs.txt", "ranging/spl.txt", "power/server.json", "power/server.log", "run_1/spl.txt")

parser = argparse.ArgumentParser()
parser.add_argument("-a", required=True)
parser.add_argument("-p", type=int, required=True)
parser.add_argument("-n", required=True)
parser.add_argument("-w", required=True)
parser.add_argument("-L", type=Path, required=True)
parser.add_argument("-o", type=Path, required=True)
parser.add_argument("-T", action="store_true")
options = parser.parse_args()

options.o.mkdir(exist_ok=True)
with socket.create_connection((options.a, options.p)) as connection, connection.makefile("rw") as stream:

    def send(command):
        stream.write(f"{command}\n")
        stream.flush()
        return stream.readline().strip()

    def demand(command):
        if send(command) != "OK":
            sys.exit(f"the director refuses {command}")

    assert abs(float(send("time")) - time.time()) < 5
    session = send("new,,0").removeprefix("OK ")
    (options.o / "power").mkdir()
    for mode in ("ranging", "testing"):
        demand(f"session,{session},start,{mode}")
        subprocess.run(options.w, shell=True, check=True)
        demand(f"session,{session},stop,{mode}")
        folder = options.o / ("run_1" if mode == "testing" else mode)
        folder.mkdir()
        for name in LOGS:
            shutil.copy(options.L / name, folder)
    (options.o / "power/client.log").write_text("stand-in\n")
    names = ["power/client.log", *(f"{run}/{name}" for run in ("ranging", "run_1") for name in LOGS)]
    digests = {name: hashlib.sha1((options.o / name).read_bytes()).hexdigest() for name in names}
    (options.o / "power/client.json").write_text(json.dumps({"session_name": session, "results": digests}))
    demand(f"session,{session},done")
    for name in FETCHED:
        (options.o / name).write_bytes(base64.b64decode(send(f"download,{session},{name}")))
