"""Names of settings that several stages read: a harness's own command, and its parts."""

from __future__ import annotations

HARNESS, SERVICE, BUILD = "harness", "harness.service", "harness.build"
COMMAND, SCORE_COMMAND = "harness.command", "harness.score.command"
SERVICE_COMMAND, BUILD_COMMAND = f"{SERVICE}.command", f"{BUILD}.command"
