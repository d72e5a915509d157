"""Who looks when nobody does: bounds and objectives, each second, and evidence when one is passed.

It reads the page and asks for captures. It changes nothing in the processes that it watches.
Reading order: `burn` (objectives), `watching` (bounds and triggers), `bundle` (the evidence, as a folder).
"""
