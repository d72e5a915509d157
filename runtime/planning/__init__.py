"""Capacity planning from one's own history: what would have happened with other workers, quotas, weights or rates.

    recording.py   the log as arrivals, graphs and durations
    setting.py     what is changed, and the node types and policy that come of it
    worker.py      a worker on a virtual clock, with the decisions of a real one (`actors.worker`)
    lived.py       how each attempt goes, and which node of the simulation is which of the recording
    world.py       the real `EngineCore`, driven by the recording
    figures.py     waits, utilisation and queues of what was recorded and of what was simulated, by the same code
    report.py      both beside each other, as text, JSON and a page

Knows the log and the actors. Starts no process, reads no clock and writes nothing.
"""
