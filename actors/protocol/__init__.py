"""The words the actors share: limits, errors, states, graph, messages, effects, records.

Knows nothing of processes, disks or clocks. Read `states`, then `graph`, then `messages` and `effects`.
"""
