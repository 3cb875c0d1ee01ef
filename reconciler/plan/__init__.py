"""Changes -> ordered steps with selectors, policy and predicted time. Pure; a plan is data: printable, savable,
refused when stale."""
