"""Turn changes into ordered steps, with selectors, policy and predicted time. Pure. A plan is data, so it can be
printed and saved; a stale one is refused."""
