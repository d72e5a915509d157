"""Runs the actors in processes: spawning, effects made real, workers.

Knows processes, signals, clocks and queues; must not decide (that is `actors`) and must not know the log's format (that
is `storage`). Read for processes: `launch` (the outside view), `spawner`, `children`, `channel`, `kernel`. For workers:
`worker_main` (boot), `worker_process` and `worker_async` with `async_attempt` (the two modes), `handlers` (finding and
calling user code), `batches` (many calls as one), `outbox` (results on their way), `output` (captured text),
`housekeeping`. For what the engine has done beside it: `one_shot` and `one_shot_main` (a process for one thing),
`checkpointing`, `checkpointer`, `archive_trimmer`. `progress_publisher` and `folder_board`: how far runs are, in shared
memory.
"""
