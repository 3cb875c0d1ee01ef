"""The timing cache: what the builder measured of kernels, kept between builds and shared by them.

Merged under a lock: two builds at once lose nothing of what either measured.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class TimingCache:
    """One file for each flavour and version. ``path`` None keeps nothing."""

    def __init__(self, path: Path | None, version: str) -> None:
        self._path = path.with_name(f"{path.stem}-{version}{path.suffix}") if path else None
        self.before = self.after = ""

    def attach(self, config: Any) -> None:
        """Give the builder what is known. One of another device or version is ignored, and measured again."""
        if self._path is None:
            return
        known = self._read()
        self.before = _digest(known)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # TensorRT for RTX keeps it for a while only
            cache = _made(config, known)
            if cache is None or not config.set_timing_cache(cache, False):
                self.before = ""
                config.set_timing_cache(config.create_timing_cache(b""), False)

    def keep(self, config: Any) -> str:
        """Add what this build measured; why not, where it cannot be written: that costs the next build time, and must
        not cost this one its engine.
        """
        cache = config.get_timing_cache() if self._path else None
        if cache is None or self._path is None:
            return ""
        aside = self._path.with_name(self._path.name + ".partial")
        try:
            with self._locked():
                known = _made(config, self._read())
                if known is not None:
                    with contextlib.suppress(Exception):  # a cache that cannot be merged is replaced
                        cache.combine(known, False)
                content = bytes(cache.serialize())
                aside.write_bytes(content)
                aside.replace(self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                aside.unlink()
            return f"the timing cache is not kept: {error}"
        self.after = _digest(content)
        return ""

    def _read(self) -> bytes:
        try:
            return self._path.read_bytes() if self._path else b""
        except OSError:
            return b""

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        assert self._path is not None
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_name(self._path.name + ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _made(config: Any, content: bytes) -> Any:
    try:
        return config.create_timing_cache(content)
    except Exception:  # damaged bytes; its exceptions share no base class
        return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest() if content else ""
