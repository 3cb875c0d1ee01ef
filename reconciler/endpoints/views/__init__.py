"""Curves as text, as charts and on the page."""
