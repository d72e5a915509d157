"""Small pure mechanisms, one per file, each usable and testable alone.

Knows nothing of actors; actors are made of these.
"""
