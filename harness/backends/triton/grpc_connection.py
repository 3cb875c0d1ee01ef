"""One connection to a server over gRPC: the caller waits for the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.backends.triton.grpc_protocol import METHOD, make_input
from harness.contract import installing
from harness.errors import HarnessError

# Batches are larger than what gRPC takes by default, and no answer may take all memory; a channel of its own does not
# share a connection with others.
_OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", (1 << 31) - 1),
    ("grpc.use_local_subchannel_pool", 1),
]


class GrpcRefusalError(Exception):
    """A server's refusal of a request."""


class GrpcConnection:
    """Not for several threads."""

    def __init__(self, host: str, port: int, timeout: float) -> None:
        """Raises HarnessError where gRPC is not installed."""
        try:
            import grpc
        except ImportError as error:
            fix = f"pip install grpcio, which is in {installing('triton')}; or leave run.options.protocol out"
            raise HarnessError(f"gRPC is not installed: {error}", "missing", fix) from error
        self._grpc: Any = grpc
        self._timeout = timeout
        self._channel = self._grpc.insecure_channel(f"{host}:{port}", options=_OPTIONS)
        self._infer = self._channel.unary_unary(METHOD)

    def ask(self, head: bytes, arrays: Sequence[np.ndarray]) -> bytes:
        """Raises OSError (TimeoutError for no answer in time), and GrpcRefusalError."""
        message = b"".join([head, *(part for array in arrays for part in make_input(array))])
        try:
            answer: bytes = self._infer(message, timeout=self._timeout, wait_for_ready=True)
        except self._grpc.RpcError as error:
            raise self._explain(error) from error
        return answer

    def close(self) -> None:
        self._channel.close()

    def _explain(self, error: Any) -> Exception:
        code, codes, said = error.code(), self._grpc.StatusCode, str(error.details())[:300]
        if code is codes.DEADLINE_EXCEEDED:
            return TimeoutError(said)
        if code in (codes.UNAVAILABLE, codes.CANCELLED):
            return ConnectionError(said)
        return GrpcRefusalError(f"gRPC {code.name}: {said}")
