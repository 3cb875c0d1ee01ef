"""A remote object store, reached through fsspec; only this module imports fsspec, and only when a store is opened.

Objects are stored at ``<url>/<first two digits>/<sha256>``, as in ``.reconcile/objects``; notes, which may change, are
stored under their own names in the same place. Both are written atomically, under a temporary name first, unless the
store shows nothing before the last byte (s3, gs, …).
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from reconciler.errors import ReconcilerError, StoreError
from reconciler.resource.embargo import show_embargo
from reconciler.storage.parallel_transfers import TransferStoppedError
from reconciler.storage.storage_errors import PARTIAL, can_explain, explain_storage_error

_CHUNK = 4 << 20
_BLOCK = 16 << 20  # bytes of one request when reading
# Their uploads show nothing until they are complete; a rename would be a second upload.
_WHOLE = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"})
_LOCAL = frozenset({"file", "local"})
_HTTP = frozenset({"http", "https"})
# Protocols that reach a place directly. The others of fsspec wrap another protocol (files in an archive, a list of
# references with templates, a cache), and some versions of them execute what they read.
_PLACES = frozenset(
    {
        *_WHOLE,
        *_LOCAL,
        *_HTTP,
        *("adl", "arrow_hdfs", "box", "dbfs", "dropbox", "ftp", "gdrive", "github", "hdfs", "hf", "lakefs", "memory"),
        *("oci", "ocilake", "oss", "root", "sftp", "smb", "ssh", "tos", "tosfs", "webdav", "webhdfs"),
    }
)
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
_REFUSED = (
    "credential",
    "forbidden",
    "unauthorized",
    "accessdenied",
    "access denied",
    "invalidaccesskey",
    "expiredtoken",
)
_NOT_THERE = (404, 410)


class Remote(Struct, frozen=True):
    """``url``: as shown in messages. ``root``: the store's folder, as its file system names it."""

    url: str
    protocol: str
    root: str
    system: Any

    def find_path(self, sha256: str) -> str:
        return f"{self.root}/{sha256[:2]}/{sha256}"

    def list_files(self) -> dict[str, int]:
        """Map every file name in the store, temporary ones included, to its size in bytes. Raises StoreError, also for
        a web server: its pages may lead to ever more pages, and nothing is pushed to it."""
        if self.protocol in _HTTP:
            raise _make_store_error(self.url, NotImplementedError())
        with self._translate_errors():
            try:
                found = self.system.find(self.root, detail=True)
            except FileNotFoundError:
                return {}
        return {path.rpartition("/")[2]: int(item.get("size") or 0) for path, item in found.items()}

    def get_size(self, sha256: str) -> int | None:
        """Return the bytes of an object; None if it does not exist, -1 if the store does not report sizes."""
        with contextlib.suppress(FileNotFoundError), self._translate_errors(passing=(FileNotFoundError,)):
            found = self.system.info(self.find_path(sha256)).get("size")
            return -1 if found is None else int(found)
        return None

    def put(self, source: Path, sha256: str, moved: Callable[[int], None]) -> None:
        """Write an object. ``moved`` is called with the number of bytes sent, and may raise to stop the transfer."""
        path = self.find_path(sha256)
        with self._translate_errors():
            if self.protocol in _WHOLE:
                from fsspec.callbacks import Callback

                self.system.put_file(str(source), path, callback=_make_callback(Callback, moved))
            else:
                self._put_aside(source, path, moved)

    def _put_aside(self, source: Path, path: str, moved: Callable[[int], None]) -> None:
        with source.open("rb") as stream, self._open_aside(path) as target:
            while chunk := stream.read(_CHUNK):
                target.write(chunk)
                moved(len(chunk))

    @contextlib.contextmanager
    def _open_aside(self, path: str) -> Iterator[Any]:
        aside = f"{path}.{secrets.token_hex(4)}{PARTIAL}"
        self.system.makedirs(path.rpartition("/")[0], exist_ok=True)
        try:
            with self.system.open(aside, "wb") as target:
                yield target
            self.system.mv(aside, path)
        except BaseException:
            with contextlib.suppress(Exception):
                self.system.rm_file(aside)
            raise

    def remove(self, name: str) -> None:
        """Remove a file left by a killed write; another process may already have removed it."""
        with contextlib.suppress(Exception):
            self.system.rm_file(f"{self.root}/{name[:2]}/{name}")

    def write_note(self, name: str, data: bytes) -> None:
        """Write or replace a small file. ``name``: its path below the store, with slashes."""
        path = f"{self.root}/{name}"
        with self._translate_errors():
            if self.protocol in _WHOLE:
                self.system.pipe_file(path, data)
                return
            with self._open_aside(path) as target:
                target.write(data)

    def read_note(self, name: str) -> bytes | None:
        """Return the content of a note, or None if there is none."""
        with contextlib.suppress(FileNotFoundError), self._translate_errors(passing=(FileNotFoundError,)):
            return bytes(self.system.cat_file(f"{self.root}/{name}"))
        return None

    def remove_notes(self, folder: str, *names: str) -> None:
        """Remove notes; missing ones are ignored."""
        for name in names:
            with contextlib.suppress(FileNotFoundError), self._translate_errors(passing=(FileNotFoundError,)):
                self.system.rm_file(f"{self.root}/{folder}/{name}")

    def read(self, sha256: str, start: int = 0) -> Iterator[bytes]:
        """Yield an object's bytes from ``start`` on. Raises FileNotFoundError if it does not exist, ValueError if this
        store cannot start in the middle, and StoreError for everything else."""
        with self._translate_errors(passing=(FileNotFoundError, ValueError) if start else (FileNotFoundError,)):
            # Some HTTP servers do not support ranges: from the beginning, one request streams everything.
            block = 0 if self.protocol in _HTTP and not start else _BLOCK
            with self.system.open(self.find_path(sha256), "rb", block_size=block) as stream:
                if start:
                    stream.seek(start)
                while chunk := stream.read(_CHUNK):
                    yield chunk

    @contextlib.contextmanager
    def _translate_errors(self, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Turn the errors of a file system's library, which rarely say what to do, into StoreError. ``passing`` ones
        are passed on; among them, a FileNotFoundError means that the store answers and has no such object."""
        try:
            yield
        except (ReconcilerError, TransferStoppedError):
            raise
        except Exception as error:
            if isinstance(error, passing) and (not isinstance(error, FileNotFoundError) or self._is_absence(error)):
                raise
            raise _make_store_error(self.url, error) from error

    def _is_absence(self, error: FileNotFoundError) -> bool:
        """Return True if the store answers and has no such object."""
        if self.protocol in _LOCAL:
            return Path(self.root).is_dir()  # else it is not mounted, or nothing was ever pushed
        cause = error.__cause__
        response = getattr(cause, "response", None)
        if isinstance(response, dict):
            return bool(response.get("Error", {}).get("Code") != "NoSuchBucket")
        # fsspec's HTTP also reports "not found" for a server that refuses or does not answer.
        known = cause is None or isinstance(cause, FileNotFoundError | KeyError)  # KeyError comes from the memory store
        return known or getattr(cause, "status", 0) in _NOT_THERE


def _make_callback(base: type, moved: Callable[[int], None]) -> Any:
    class CountingCallback(base):  # type: ignore[misc]
        def relative_update(self, inc: int = 1) -> None:
            moved(inc)

    return CountingCallback()


def _make_store_error(url: str, error: Exception) -> StoreError:
    cause = error.__cause__
    if isinstance(error, FileNotFoundError) and isinstance(cause, Exception) and not hasattr(cause, "response"):
        error = cause
    said = f"{type(error).__name__}: {error}".replace("\n", " ")[:300]
    if isinstance(error, PermissionError) or getattr(error, "status", 0) in (401, 403) or _is_refusal(said):
        fix = "check this machine's credentials for it (such as AWS_PROFILE, or options: {key: {from_env: NAME}})"
        return StoreError(f"{url} refuses: {said}", fix=fix)
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return StoreError(f"cannot write to {url}: {error.strerror}", fix="free space there, or use another store")
    if isinstance(error, NotImplementedError):
        return StoreError(f"{url} is read-only", fix="push to a writable store, such as s3:// or file://")
    if isinstance(error, FileNotFoundError):
        return StoreError(f"{url} does not exist: {said}", fix="create the bucket or folder, or fix the store's url")
    if isinstance(error, OSError) and url.partition(":")[0] in _LOCAL and can_explain(error):
        refused = explain_storage_error(error, url)
        return StoreError(refused.message, fix=refused.fix)
    fix = "run the same command again to continue, once the store answers"
    return StoreError(f"{url} does not answer: {said}", fix=fix)


def _is_refusal(said: str) -> bool:
    return any(word in said.lower().replace("'", "") for word in _REFUSED)


def open_remote(url: str, options: Mapping[str, object]) -> Remote:
    """Open a store. Raises StoreError if fsspec or the protocol's library is not installed, the protocol is unknown, or
    a variable that ``options`` refer to is not set."""
    resolved = read_options(options)
    protocol, _, rest = url.partition("://")
    said = show_embargo(url)
    if not rest.strip("/"):
        problem = f"{said} is not a store url"
        raise StoreError(problem, fix="use a url such as s3://bucket/folder or file:///mnt/share/objects")
    try:
        from fsspec import get_filesystem_class
        from fsspec.registry import known_implementations

        if protocol in known_implementations and protocol not in _PLACES:
            fix = "use a direct url, such as s3://bucket/folder or file:///mnt/share/objects"
            raise StoreError(f"cannot open {said}: protocol {protocol} is not supported", fix=fix)
        kind = get_filesystem_class(protocol)
        # Listings must be current, since another machine may push at the same time.
        known = kind(**{"use_listings_cache": False, "skip_instance_cache": True, **resolved})
        root = str(known._strip_protocol(url)).rstrip("/")
    except StoreError:
        raise
    except ImportError as error:
        raise StoreError(f"cannot open {said}: {error}", fix=_install(protocol, error)) from error
    except (ValueError, TypeError) as error:
        raise StoreError(f"cannot open {said}: {error}", fix="see fsspec's documentation for this protocol") from error
    except Exception as error:
        raise _make_store_error(said, error) from error
    if protocol in _LOCAL and not Path(root).parent.is_dir():
        fix = "mount it, or create its parent folder"
        raise StoreError(f"{said}: no such folder: {os.path.dirname(root)}", fix=fix)  # noqa: PTH120
    return Remote(said, protocol, root, known)


def read_options(options: Mapping[str, object]) -> dict[str, object]:
    """Resolve the options for fsspec. Raises StoreError if a variable that one refers to is not set."""
    return {name: _read_option(name, value) for name, value in options.items()}


def list_option_variables(options: Mapping[str, object]) -> list[str]:
    """List the environment variables that options refer to."""
    return [str(value[1]) for value in options.values() if isinstance(value, tuple | list)]


def _read_option(name: str, value: object) -> object:
    if not isinstance(value, tuple | list):
        return value
    variable = str(value[1])
    if not os.environ.get(variable):
        raise StoreError(f"option {name} of the store: {variable} is not set", fix=f"export {variable}=…")
    return os.environ[variable]


def _install(protocol: str, error: ImportError) -> str:
    extras = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}
    if "fsspec" in str(error):
        return f"pip install 'mlperf-reconciler[{extras.get(protocol, 'store')}]'"
    return f"pip install 'mlperf-reconciler[{extras[protocol]}]'" if protocol in extras else str(error)
