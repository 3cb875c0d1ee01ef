"""Comparison of what must not change while the code is restructured: keys, records, trees and findings."""
