"""The page in a real browser: Chromium, where it and what drives it (`.[dev-browser]`) are installed."""
