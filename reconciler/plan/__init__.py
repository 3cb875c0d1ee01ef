"""Turn changes into ordered steps, with selectors, policy and predicted time. Pure. A plan is data: it can be printed
and saved, and is refused when stale."""
