"""A server of the OpenAI protocol that computes nothing, and that misbehaves in the way that MISCHIEF names.

As a program: openai_server.py PORT FOLDER MODEL. It lists the files of MODEL; FOLDER/mischief is read anew for each
request. The answer to a prompt that begins with token t is t, t + 1, … as many as are asked for; as text, the same
numbers with spaces.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODEL = "tiny-model"
KEY = "sk-0123456789abcdefghijklmnop"
# The fields of a completion that trtllm-serve knows and this client may send; it refuses any other.
TRTLLM = {
    *("model", "prompt", "max_tokens", "min_tokens", "temperature", "top_p", "top_k", "seed", "stop_token_ids"),
    *("stream", "stream_options", "ignore_eos", "detokenize", "stop", "include_stop_str_in_output", "min_p"),
}
# Those that `transformers serve` has nothing against; it takes text.
PLAIN = {"model", "prompt", "max_tokens", "temperature", "stream", "stream_options"}


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/health":
            self._send(200, {})
        elif self._refused():
            return
        elif self.path == "/version" and self.server.mischief != "no version":
            self._send(200, {"version": "1.2"})
        elif self.path == "/props":
            self._send(200, {"build_info": "b7-0123456"})
        elif self.path == "/metrics" and self.server.mischief in ("shares", "shares nothing"):
            shared = self.server.mischief == "shares"
            reported = f'cache_config_info{{block_size="16",enable_prefix_caching="{shared}",engine="0"}} 1.0'
            self._send(200, f"# TYPE vllm:cache_config_info gauge\nvllm:{reported}\nvllm:num_requests_running 0.0\n")
        elif self.path == "/get_server_info" and self.server.mischief == "shares in a tree":
            self._send(200, {"version": "0.5.5", "disable_radix_cache": False})
        elif self.path == "/v1/models":
            name = "another-model" if self.server.mischief == "wrong model" else MODEL
            self._send(200, {"data": [{"id": name}]})
        else:
            self._send(404, {"error": "no such address"})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        server.asked.append(asked)
        if self._refused():
            return
        mischief = server.mischief
        if mischief == "dies":
            print("out of imagined memory", flush=True)
            os._exit(7)
        if mischief == "error":
            self._send(500, {"error": "device lost"})
            return
        if mischief == "strict" and (strange := sorted(set(asked) - TRTLLM)):
            self._send(400, {"object": "error", "message": f"{strange[0]}: Extra inputs are not permitted"})
            return
        if mischief == "picky" and (strange := set(asked) - PLAIN):
            self._send(422, {"detail": f"Unexpected fields in the request: {strange}"})
            return
        if mischief == "picky" and isinstance(asked["prompt"], list):
            self._send(400, {"detail": "prompt must be a string."})
            return
        if mischief not in ("ignores", "text only") and asked.get("min_tokens", 0) > asked["max_tokens"]:
            self._send(400, {"message": "min_tokens must be less than or equal to max_tokens"})
            return
        if mischief == "text only" and isinstance(asked.get("prompt"), list):
            self._send(422, {"detail": "prompt: Input should be a valid string"})
            return
        prompt = asked.get("prompt") or asked["messages"][0]["content"]
        first = prompt[0] if isinstance(prompt, list) else int(prompt.split()[0])
        count = 1 if mischief == "few" else asked["max_tokens"]
        tokens = [first + place for place in range(count)]
        if mischief != "goes on":
            tokens = self._stop(tokens, asked.get("stop", []))
            count = len(tokens)
        if asked.get("stream"):
            self._stream(tokens, asked, mischief)
        else:
            choice = {**self._part(tokens, asked), "finish_reason": self._reason}
            choices = [choice, {**choice, "index": 1}] if mischief == "twice" else [choice]
            usage = {} if mischief == "uncounted" else {"usage": {"completion_tokens": count, **self._details}}
            self._send(200, {"model": MODEL, "choices": choices, **usage})

    @property
    def _details(self) -> dict[str, Any]:
        """Nothing, or how much of a prompt was computed for another one."""
        cached = {"computes all": 0, "takes from others": 2}.get(self.server.mischief)
        return {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}

    @staticmethod
    def _stop(tokens: list[int], ends: list[str]) -> list[int]:
        """As far as the first of the texts, with it."""
        said = [" ".join(map(str, tokens[:count])) for count in range(1, len(tokens) + 1)]
        places = (place for place, text in enumerate(said, 1) if any(text.endswith(end) for end in ends))
        return tokens[: next(places, len(tokens))]

    @property
    def _reason(self) -> str:
        """Why an answer ends; SGLang's and trtllm-serve's words where they end it themselves."""
        return {"aborts": "abort", "runs out of time": "timeout"}.get(self.server.mischief, "length")

    def _refused(self) -> bool:
        """Asked for a key, it repeats the wrong one as some do."""
        given = self.headers.get("Authorization", "")
        if self.server.mischief != "expired" and given in ("", f"Bearer {KEY}"):
            return False
        self._send(401, {"error": {"message": f"Incorrect API key provided: {given.removeprefix('Bearer ')}"}})
        return True

    def _part(self, tokens: list[int], asked: dict[str, Any]) -> dict[str, Any]:
        text = "".join(f" {token}" for token in tokens)
        if "messages" in asked:
            return {"index": 0, "delta" if asked.get("stream") else "message": {"content": text}}
        if asked.get("detokenize") is False:
            return {"index": 0, "text": "", "token_ids": tokens, "stop_reason": None}
        ids = {"token_ids": tokens} if asked.get("return_token_ids") and self.server.mischief != "text" else {}
        return {"index": 0, "text": text, **ids}

    def _stream(self, tokens: list[int], asked: dict[str, Any], mischief: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        kept = ("Transfer-Encoding", "chunked") if mischief == "closes" else ("Connection", "close")
        self.send_header(*kept)
        self.end_headers()
        if mischief == "many at once":
            self._event([self._part(tokens * 2, asked)])
            return
        for place, token in enumerate(tokens):
            last = place == len(tokens) - 1 and mischief != "endless"
            self._event([{**self._part([token], asked), "finish_reason": self._reason if last else None}])
            if mischief == "breaks":
                return
            if mischief == "stalls":
                self.server.over.wait(60)
                return
            while mischief == "keeps alive" and not self.server.over.wait(0.05):
                self.wfile.write(b": still here\n\n")
        while mischief == "endless" and not self.server.over.wait(0.001):
            self._event([self._part([7], asked)])
        if mischief == "twice":
            self._event([{**self._part([7], asked), "finish_reason": "length"}])
        self._event([], usage={"completion_tokens": len(tokens) + (mischief == "counts the end"), **self._details})
        self._write(b"data: [DONE]\n\n")
        if mischief == "closes":  # later than its client takes it for free, as llama.cpp does
            self.wfile.write(b"0\r\n\r\n")
            self.server.over.wait(0.3)
            self.close_connection = True

    def _event(self, choices: list[dict[str, Any]], **more: Any) -> None:
        named = {"swapped model": "swapped-model", "revision": f"{MODEL}@main"}
        model = named.get(self.server.mischief, MODEL)
        self._write(b"data: " + json.dumps({"model": model, "choices": choices, **more}).encode() + b"\n\n")

    def _write(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data) if self.server.mischief == "closes" else data)

    def _send(self, status: int, document: Any) -> None:
        text = document if isinstance(document, str) else json.dumps(document)
        data = b"<html>" if self.server.mischief == "no protocol" else text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")  # else a server that is gone goes on where it is connected
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """It prints only what a test looks for."""


class Server(ThreadingHTTPServer):
    """``asked``: the documents that came. ``over``: a connection that hangs may end."""

    daemon_threads = True

    def __init__(self, port: int = 0, mischief: str = "", folder: Path | None = None) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.asked: list[dict[str, Any]] = []
        self.over = threading.Event()
        self._mischief, self._folder = mischief, folder

    @property
    def mischief(self) -> str:
        path = self._folder / "mischief" if self._folder else None
        return path.read_text().strip() if path is not None and path.exists() else self._mischief

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: Any) -> None:
        """Clients go away in the middle of things: that is what is tested."""

    def __enter__(self) -> Server:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.shutdown()
        self.server_close()


if __name__ == "__main__":
    with Server(int(sys.argv[1]), folder=Path(sys.argv[2])):
        files = ", ".join(sorted(path.name for path in Path(sys.argv[3]).iterdir()))
        print(f"loading {files}\nusing key {KEY}\nready to serve", flush=True)
        time.sleep(3600)
