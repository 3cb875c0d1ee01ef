"""A systemd unit that keeps the watch running. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

_UNIT = """\
# Save as ~/.config/systemd/user/reconcile-watch.service, then:
#   systemctl --user daemon-reload && systemctl --user enable --now reconcile-watch
[Unit]
Description=Reconcile the MLPerf submission in {root}
After=network-online.target

[Service]
Type=exec
WorkingDirectory={folder}
ExecStart={command}
# Ended at once by SIGTERM: what is done is recorded, the run under way is dropped.
KillSignal=SIGTERM
KillMode=mixed
TimeoutStopSec=30
Restart=on-failure
RestartSec=10

[Install]
WantedBy=default.target
"""


def render_systemd_unit(root: Path, executable: str, arguments: Sequence[str]) -> str:
    command = shlex.join([executable, "watch", *arguments])
    return _UNIT.format(root=_plain(str(root)), folder=_plain(str(root)), command=_plain(command))


def _plain(text: str) -> str:
    """A % begins a specifier of systemd's."""
    return text.replace("%", "%%")
