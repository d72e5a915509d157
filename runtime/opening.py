"""The beginning of both faces: the folder is made or looked at, and a client of a new session is put together."""

from __future__ import annotations

import os
import time
from weakref import ref

from actors.protocol.errors import NestedRuntime
from runtime.config import RuntimeConfig
from runtime.host.client import EngineClient, EngineStarter
from runtime.host.handlers import inside_worker
from runtime.host.starter import ProcessStarter
from runtime.mail.blobs import BlobStore
from runtime.past import Past
from runtime.storage.folder import UNNAMED, StateFolder


def new_client(config: RuntimeConfig, starter: EngineStarter | None) -> EngineClient:
    """A client of a new session, not started. Makes the folder, so that what is wrong with it is said at once."""
    if inside_worker():
        raise NestedRuntime("a Runtime cannot be opened inside a worker, where waiting for tasks would hold their slot")
    with StateFolder.open(config.state_dir, holder_pid=UNNAMED, log_shards=config.log_shards) as folder:
        blobs = BlobStore(folder.blobs_path, config.durability == "fsync", folder.archived_blobs_path)
    session = f"{int(time.time()):x}{os.urandom(4).hex()}"
    if starter is None:
        ours = ProcessStarter({**config.to_wire(), "folder_uuid": str(folder.uuid)})
        client = EngineClient(ours, session, blobs)
        ours.client = ref(client)
    else:
        client = EngineClient(starter, session, blobs)
    client.scale_desk.on_scale = config.on_scale
    client.past = Past(config.state_dir, config.archive_rule, lambda: bool(client.intake.recovery.get("archive_owed")))
    return client
