"""A server of KServe's protocol that computes the tiny benchmark, and misbehaves in the way that ``mischief`` names."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from tests.unit.harness import tiny

MODEL = "tiny-model"
_METADATA: dict[str, Any] = {
    "name": MODEL,
    "inputs": [{"name": "point", "datatype": "FP32", "shape": [-1, tiny.WIDTH]}],
    "outputs": [{"name": "scores", "datatype": "FP32", "shape": [-1, tiny.CLASSES]}],
}


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        mischief = self.server.mischief
        if self.path == "/v2/health/ready":
            self._send(400 if mischief == "never ready" else 200, {})
        elif self.path == "/v2":
            self._send(200, {"name": "triton", "version": "2.99.0"})
        elif self.path == f"/v2/models/{MODEL}" and mischief != "no such model":
            self._send(200, _METADATA | self._twist(mischief))
        elif self.path == f"/v2/models/{MODEL}/config":
            self._send(200, {"max_batch_size": 2 if mischief == "small batches" else 8})
        elif self.path == f"/v2/models/{MODEL}/stats":
            self._send(200, {"model_stats": [self.server.stats()]})
        else:
            self._send(404, {"error": f"Request for unknown model or path: {self.path}"})

    def _twist(self, mischief: str) -> dict[str, Any]:
        shape = {"inputs": [{"name": "point", "datatype": "FP32", "shape": [-1, 3]}]}
        more = {"inputs": [*_METADATA["inputs"], {"name": "mask", "datatype": "INT64", "shape": [-1, 4]}]}
        dtype = {"outputs": [{"name": "scores", "datatype": "INT8", "shape": [-1, tiny.CLASSES]}]}
        return {"other shape": shape, "more inputs": more, "other type": dtype}.get(mischief, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        size = int(self.headers["Inference-Header-Content-Length"])
        asked, server = json.loads(body[:size]), self.server
        (point,) = asked["inputs"]
        server.asked.append(point["shape"])
        if server.mischief == "silent":
            time.sleep(5)
        if server.mischief == "hangs up":
            self.close_connection = True
            return
        if server.mischief == "hangs up once":
            server.mischief = ""
            self.close_connection = True
            return
        if server.mischief == "refuses":
            self._send(400, {"error": "unexpected shape for input 'point'"})
            return
        points = np.frombuffer(body[size:], np.float32).reshape(point["shape"])
        scores = points @ tiny.matrix()
        if server.mischief == "fewer rows":
            scores = scores[:-1]
        name = "other" if server.mischief == "other output" else "scores"
        said = {"name": name, "datatype": "FP32", "shape": list(scores.shape)}
        document = {"model_name": MODEL, "outputs": [said | {"parameters": {"binary_data_size": scores.nbytes}}]}
        head = json.dumps(document).encode()
        if server.mischief == "no JSON":
            head = head[:-5]
        data = head + scores.astype(np.float32).tobytes()
        self.send_response(200)
        self.send_header("Inference-Header-Content-Length", str(len(head)))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send(self, status: int, document: dict[str, Any]) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, mischief: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.mischief = mischief
        self.asked: list[list[int]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def stats(self) -> dict[str, Any]:
        sizes = [shape[0] for shape in self.asked]
        nothing = {"count": len(sizes), "ns": 0}
        said = dict.fromkeys(("success", "queue", "compute_input", "compute_infer", "compute_output"), nothing)
        return {
            "inference_count": sum(sizes),
            "execution_count": len(sizes),
            "inference_stats": {**said, "fail": {"count": 0, "ns": 0}},
            "batch_stats": [
                {"batch_size": size, "compute_infer": {"count": sizes.count(size), "ns": 0}}
                for size in sorted(set(sizes))
            ],
        }


@contextmanager
def serve(mischief: str = "") -> Iterator[Server]:
    server = Server(mischief)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
