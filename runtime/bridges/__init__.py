"""Bridges: what happens in a state folder, published to a NATS JetStream stream or a Redis stream, each event once.

    with Bridge("state/", "nats://localhost:4222", kinds="run.*") as bridge:
        bridge.run()                              # until close(); also: python -m runtime bridge state/ --to nats://...

The log is the outbox: an event is published when it is durable, from the log, by whoever runs the bridge: the program
itself or a process beside it, with or without an engine. The engine does nothing for it.

Exactly once means: in the stream, each event is there once, in order, whatever was killed and restarted on the way.
Each event carries its position (LSN and place), a server never takes an event behind one that is not there, and the
stream itself says where to go on. The cursor in the state folder keeps the log for the bridge, and says where to go on
where the stream does not.

Reading order: `wire` (what is published), `standing` (where to go on; pure), `horizon` (how far may be read), `cursor`
(the log and the cursor file), `outlet` (the seam to a server) with `nats` and `redis`, `target` (from an address to an
outlet), `bridge` (the loop and the public face).

Knows the log through `runtime.event_reader`, as every subscriber does. Must not know the engine.
"""

from __future__ import annotations

from runtime.bridges.bridge import AsyncBridge, Bridge, BridgeStatistics

__all__ = ["AsyncBridge", "Bridge", "BridgeStatistics"]
