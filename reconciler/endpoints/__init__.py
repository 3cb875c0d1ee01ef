"""MLPerf Endpoints, the second program: rules, client, points, tree, checks and views. ``program`` is its only entry
point."""
