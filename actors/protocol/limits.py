"""Every bound of the engine in one place: unit last in the name, the reason and the relation to the others beside it.

Guarantee G5 (bounded) is this file: a queue, buffer, cache or file set that is not named here is a defect.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# --- mail ---------------------------------------------------------------------------------------------------------
RING_WORK_BYTES: Final = 4 * MIB
"""Work lane of a queue. Holds about 60,000 single submissions of 64 bytes, so that a burst does not stop its sender."""
RING_CONTROL_BYTES: Final = 256 * KIB
"""Control lane of a queue: cancels, queries, hello. Small: control messages are answered one by one."""
FRAME_BYTES_MAX: Final = RING_WORK_BYTES // 4
"""Largest message on a work lane. A quarter of the ring, so that a writer never deadlocks on wrap-around."""
PAYLOAD_INLINE_BYTES_MAX: Final = 64 * KIB
"""Larger encoded values travel by reference to a blob file. Below FRAME_BYTES_MAX by far."""
PAYLOAD_OPAQUE_BYTES_MIN: Final = 2 * KIB
"""Containers whose JSON text is longer travel as one string, so that the engine never builds their objects."""
PAYLOAD_BYTES_MAX: Final = 8 * 1024 * MIB
"""Largest single value, as a blob."""
RECEIVE_BYTES_PER_TURN_MAX: Final = 512 * KIB
"""What one turn of a loop takes from one queue: about 2 ms of work (rule R5)."""

# --- leases and workers -------------------------------------------------------------------------------------------
LEASE_SLOTS: Final = 32_768
"""Slots of a worker's lease table; a power of two. Bounds the prefetch of one worker."""
PREFETCH_MAX: Final = 8192
"""Leases outstanding at one worker; a quarter of LEASE_SLOTS, so slots are free long before they are used again."""
PREFETCH_TARGET_NS: Final = 3_000_000
"""Work a worker holds ahead, by measured duration: some wake-ups' worth, yet short enough to stay fair: who comes with
something small waits behind it."""
CLAIM_MAX: Final = 1024
"""Leases claimed by one compare-and-set."""
BATCH_MAX: Final = CLAIM_MAX
"""Calls in one batch of a batching handler, which are claimed together."""
BATCH_WAIT_NS_MAX: Final = 86_400_000_000_000
"""Longest that a call waits for others: a day. Who collects for longer wants a task that is due at a time."""
CLAIM_TARGET_NS: Final = 250_000
"""Work claimed at a time: what can no longer be taken back."""
RESULT_FLUSH_NS: Final = 1_000_000
"""A worker sends the results it has when this much time passed since the last sending."""
RESULT_ASKED_NS: Final = 200_000
"""The same while they are asked for (`AskResults`): sending and entering a batch takes the half of it."""
OUTPUT_BYTES_MAX: Final = 64 * KIB
"""Captured stdout and stderr per attempt: first quarter and last three quarters are kept, the middle is cut."""

# --- who runs next ------------------------------------------------------------------------------------------------
QUANTUM: Final = 64
"""Nodes that a tenant of weight 1, or a flow, may start in one turn. Pieces of 64 cost little more than whole batches;
an eighth of the 3 ms that a worker holds ahead (PREFETCH_TARGET_NS) is 64 tasks of 6 us."""
# --- size of a pool (`actors.policy.scale`) -----------------------------------------------------------------------
POOL_WAIT_NS: Final = 20_000_000
"""Work that waits for each worker, or waiting behind a task that takes long, above which a pool grows. Above
PREFETCH_TARGET_NS, which waits at a worker that is just busy; about what it takes until a new worker serves."""
POOL_DRAIN_NS: Final = 50_000_000
"""Growth is sized so that what waits is gone within this time; and for so long new workers may show what they change.
Some starts of a worker: shorter, and a step would start workers that find nothing left to do."""
POOL_SOON_NS: Final = 500_000_000
"""While what waits gets less so fast that it is gone within this time, a pool that has just grown is large enough."""
POOL_SURGE_NS: Final = 5_000_000
"""For so long work must have pressed before its rate is believed, and so often a pool looks whose workers start: what a
start takes is 10 times as long, and at 1,000 tasks a second 5 came."""
POOL_SURGE_MAX_NS: Final = 200_000_000
"""Longest time over which that rate is taken; after it, half of that."""
POOL_SURGE_PARTS: Final = 4
"""A pool whose workers start grows further by this part of it at least, rounded up, or to all that the rate needs."""
POOL_START_NS: Final = 250_000_000
"""A worker that did not say hello within this time does not hold back others; far below WORKER_START_NS."""
POOL_COOLDOWN_NS: Final = 15_000_000_000
"""A worker goes when it was not needed for two of them: 30 s idle. A start costs milliseconds, an import some 100."""
POOL_REGRET: Final = 8
"""A pool that grows again within so many cooldowns after it shrank waits so many times as long before the next time."""
POOL_HOLD_MAX: Final = 64
"""But so many cooldowns at most: 16 minutes."""
POOL_COOLDOWN_MAX_NS: Final = 86_400_000_000_000
"""Longest cooldown that can be set: a day."""
POOL_SURPLUS_PARTS: Final = 10
"""A pool shrinks by this part of it at least, rounded up: less is noise of the measured rate."""
POOL_LOOK_NS: Final = 50_000_000
"""Between two looks at what an elastic pool needs while nothing presses: 4 us each."""
POOL_RATE_NS: Final = 1_000_000_000
"""Arrivals are averaged over this time, or over an eighth of a short cooldown: what comes in waves is needed at their
height. Or over the duration of a task, if that is longer: one task then counts for one place at most."""
POOL_LONG_NS: Final = 1_000_000_000
"""A worker without a result for so long is in a task that takes long, and is needed whatever the rate of arrivals."""
POOL_UTILIZATION: Final = 0.8
"""Part of the time for which a worker of a pool of the needed size is busy: at 0.8, what comes at random waits four
times its duration at one worker (M/M/1), and far less at several."""
POOL_UNSEEN_MAX: Final = 8
"""Workers that one step adds while it is not known how busy the machine is."""
POOL_PATIENCE_NS: Final = 1_000_000_000
"""What has waited for so long behind tasks that take long gets a worker although the processors are busy."""
SCALE_ANSWER_NS: Final = 1_000_000_000
"""What `on_scale` may take; then a step is taken without it."""
SCALE_KEPT_NS: Final = 1_000_000_000
"""Between a veto of growth and the next question."""
SCALE_STEPS_KEPT: Final = 16
"""Latest steps of each pool that the engine tells of."""
MACHINE_LOOK_NS: Final = 1_000_000_000
"""Between two looks at processors and memory of the machine: 60 us each, and only while a pool wants to grow."""
MACHINE_STALE_NS: Final = 5_000_000_000
"""An older look at the machine says nothing."""
MACHINE_CPU_FULL: Final = 0.95
"""Busy part of all processors above which a pool that has a worker for each does not grow."""
MACHINE_MEMORY_FREE_MIN: Final = 0.05
"""Part of the memory that must be available for a pool to grow."""

# --- engine -------------------------------------------------------------------------------------------------------
NODES_OPEN_MAX: Final = 8_000_000
"""Nodes of unfinished runs. Beyond it the engine stops reading submissions (the submitter waits)."""
NODES_PER_RUN_MAX: Final = 4_000_000
"""Nodes of one run."""
RUNS_FINISHED_MAX: Final = 20_000
"""Finished runs kept for their results; the oldest go first."""
KEYS_MAX: Final = 100_000
"""Idempotency keys within their windows: about 530 bytes of memory each, and 110 bytes of the log. More are refused."""
NODES_FINISHED_MAX: Final = 200_000
"""Nodes of finished runs kept for their results. The latest finished run is kept whatever its size."""
LETTER_RUNS_MAX: Final = 2_000
"""Finished runs that are kept for their dead letters, beside RUNS_FINISHED_MAX; then the oldest go."""
LETTER_NODES_MAX: Final = 20_000
"""Nodes of all of them: a tenth of NODES_FINISHED_MAX. A failure with its traceback takes some 2.5 KB of memory."""
LETTER_BYTES_MAX: Final = 64 * MIB
"""Encoded arguments and results of all of them: an eighth of BYTES_FINISHED_MAX, since they are written to the log
again each time that it has gone round."""
LETTER_RUN_NODES_MAX: Final = 10_000
"""Nodes of one of them, and LETTER_RUN_BYTES_MAX its bytes: what is written again in one turn. Larger runs go with the
others."""
LETTER_RUN_BYTES_MAX: Final = 1 * MIB
BYTES_OPEN_MAX: Final = 1024 * MIB
"""Encoded bytes in which unfinished runs were submitted. Beyond it the engine stops reading submissions. In memory they
take two to four times as much. 32 times MAP_WINDOW_BYTES; a node of NODES_OPEN_MAX has 128 of them."""
BYTES_FINISHED_MAX: Final = 512 * MIB
"""Encoded bytes of finished runs, arguments and results, kept for their results; the oldest go first. 2.6 KiB for each
of NODES_FINISHED_MAX. The latest finished run is kept whatever its size."""
NAME_BYTES_MAX: Final = KIB
"""Name of a flow, node or task. Questions, and every row of an answer, carry such names and stay far below a frame."""
BUNDLE_NODES_MAX: Final = 1024
"""Single submissions that pile up become one bundle of at most this many nodes."""
STORY_EVENTS_MAX: Final = 256
"""Events kept in memory for the story of one run."""
POLICY_BYTES_MAX: Final = 256 * KIB
"""The policy (quotas, weights, rates, pauses) as JSON: some thousand tenants and keys with short names. It is a record
of the log and an answer, so it stays below FRAME_BYTES_MAX; also with who paused what and why, which may take as much
once more."""
AGEING_NS: Final = 5_000_000_000
"""A priority class that waits so long gets a turn before the better ones: a person who watches a task of class low sees
it move."""
QUOTA_MAX: Final = 2 * NODES_OPEN_MAX
"""Largest quota and burst: above all that can be open, so that it means "no limit" and still counts exactly."""
KINDS_MAX: Final = 65_536
"""Distinct task kinds (handler + options) in use in one engine. A worker that may know twice as many is replaced."""
TURN_NS: Final = 2_000_000
"""Longest turn of an event loop (rule R5)."""

WAVE_EDGES_MAX: Final = 4096
"""Edges of graphs over which one turn tells nodes what their parents came to, beyond what results take anyway: about
1 ms. More wait for the next turn. Cancels come out of the same: see `actors.consequences`."""

OUTBOX_TELLS_MAX: Final = 100_000
"""Messages to sessions that wait for the disk or for a slow reader; beyond it submissions wait."""
POST_BACKLOG_BYTES_MAX: Final = 16 * MIB
"""Frames to a face that does not read, beyond what its ring holds; above it nothing that it submits is read. What its
open runs still say comes on top. Four rings: a face that is busy for some 100 ms does not stop itself."""

# --- storage ------------------------------------------------------------------------------------------------------
SEGMENT_BYTES: Final = 64 * MIB
"""A log segment is closed when it is larger; or than what a checkpoint is taken after, if that is less."""
CHECKPOINT_BYTES: Final = 8 * MIB
"""Of log, after which there is a checkpoint, where nothing else is said: a start folds twice as much, as a rule."""
CHECKPOINT_BYTES_MIN: Final = 4 * KIB
CHECKPOINT_BYTES_MAX: Final = 1024 * 1024 * MIB
LOG_SHARDS_MAX: Final = 64
"""Each is a file that is open, a thread that syncs it, and a sync more of each commit."""
RECORD_BYTES_MAX: Final = 256 * MIB
"""A longer length field in a log means corruption."""
EVENTS_HELD: Final = 10_000
"""Events that wait for a reader, where they are not left in the log, when nothing else is asked for."""
EVENTS_UNACKED: Final = 10_000
"""Events that a durable subscription gives out before some are acknowledged, when nothing else is asked for."""
LOG_PENDING_BYTES_MAX: Final = 64 * MIB
"""Records waiting for the disk. Beyond it the engine stops reading its queues until the disk caught up."""

# --- events -------------------------------------------------------------------------------------------------------
EVENT_PATTERNS_MAX: Final = 256
"""Patterns of one kind in a filter of events: they become one regular expression."""
EVENT_PATTERN_CHARS_MAX: Final = 1024
"""Characters of one of them. As NAME_BYTES_MAX, what they are compared with."""
EVENTS_HELD_MAX: Final = 1_000_000
"""Events that a subscriber may hold at most, which is some 300 MB; the log holds the others. The default is 10,000."""
SUBSCRIPTIONS_MAX: Final = 256
"""Durable subscriptions of a state folder: a small file each, read when segments are removed."""
SUBSCRIPTION_KEEP_BYTES: Final = 256 * MIB
"""Log that is kept for a durable subscription that does not read, beyond what is kept anyway: four segments. What is
older goes, and the subscription is told what it lost."""
SUBSCRIPTION_DEAD_BYTES: Final = 16 * MIB
"""Dead letters of a subscription, as lines of JSON: some 50,000. Twice as many, then the older half goes."""
BRIDGE_BATCH_EVENTS: Final = 1_000
"""Events that a bridge sends before it waits for the server: a tenth of what NATS queues for a stream."""
BRIDGE_BATCH_BYTES: Final = MIB
"""The same in bytes, if one event is not larger."""
BRIDGE_EVENT_BYTES: Final = 256 * KIB
"""Of an event's JSON; a larger one goes without its details. A quarter of what NATS takes at most."""

# --- failure handling ---------------------------------------------------------------------------------------------
POISON_CRASHES_MAX: Final = 3
"""Crashes of its worker after which a task goes to dead letter."""
PARKED_LOOK_MIN_NS: Final = 500_000_000
PARKED_LOOK_MAX_NS: Final = 30_000_000_000
"""Between two looks for a handler that could not be found: the first soon, for a module that is just being deployed or
asks at import for a service that is just down; later ones seldom, because each costs an import."""
CLOCK_LOOK_NS: Final = 1_000_000_000
"""Between two looks at the wall clock while a task is due at a time of day: after somebody set the clock, or after the
machine slept, it starts at most so late. A look costs an idle engine 0.1 ms."""
BUNDLE_WAIT_NS: Final = 1_000_000_000
"""Tasks due later than this do not share a run with tasks that are not: a run is kept, with its part of the log and its
results, until its last node has ended."""
DUE_NODES_PER_TURN: Final = 256
"""Tasks that a turn queues because their time came: 2 us each, half a millisecond (rule R5)."""
EXPIRED_NODES_PER_TURN: Final = 64
"""Tasks that a turn ends because they expired: 20 us each, about 1 ms (rule R5)."""
EXPIRY_GRAIN_NS: Final = 1_000_000
"""Tasks of one run that expire within so much end together: single submissions do so some us apart."""
RESTARTS_MAX: Final = 5
"""Restarts of one child within RESTART_WINDOW_NS before its supervisor escalates."""
RESTART_WINDOW_NS: Final = 10_000_000_000
THINGS_CLOSE_NS: Final = 5_000_000_000
"""How long an engine that ends waits for its workers to close what is in their object pools."""
GRACE_NS: Final = 500_000_000
"""Between the steps of an escalation: cooperative, SIGTERM, SIGKILL."""
TRACEBACK_CHARS_MAX: Final = 16_000
MESSAGE_CHARS_MAX: Final = 4_000
"""Longer texts of a failure are cut in the middle, with a mark."""

# --- who runs next ------------------------------------------------------------------------------------------------
SCOPES_LIMITED_MAX: Final = KINDS_MAX
"""Scopes that have a quota, and keys that have a rate, in one engine: a kind in use has at most one key of each."""
RATE_LOOK_NS: Final = 1_000_000_000
"""Between two looks at who is the next of a rate: a task that waits longer than this for room may be cancelled, and
others wait for it. A look costs 5 us for each run or tenant that waits for the rate."""
BREAKER_WINDOW_NS: Final = 10_000_000_000
"""How far back a circuit breaker looks; equal to RESTART_WINDOW_NS, since both ask whether something is broken now."""
BREAKER_SLICES: Final = 10
"""Slices of that window, which is counted, not remembered: it slides by a tenth."""
BREAKER_ENDED_MIN: Final = 20
"""Attempts that ended within the window before their failures mean anything."""
BREAKER_FAILURE_RATIO: Final = 0.5
"""Share of failures among them that opens the breaker."""
BREAKER_COOLDOWN_NS: Final = 5_000_000_000
"""How long nothing starts after that; twice as long after each round of probes that failed, up to the next."""
BREAKER_COOLDOWN_MAX_NS: Final = 120_000_000_000
BREAKER_PROBES: Final = 3
"""Attempts that must succeed before all may start again."""
RETRY_RATIO: Final = 0.2
"""Retries for each first attempt: what Finagle and Linkerd allow."""
RETRY_MIN_PER_S: Final = 10.0
"""Retries a second besides, so that a node type with little to do can retry at all; of the same origin."""
RETRY_WINDOW_NS: Final = 10_000_000_000
"""How long a first attempt counts; of the same origin."""

# --- schedules ----------------------------------------------------------------------------------------------------
SCHEDULES_MAX: Final = 10_000
"""Schedules of one state folder: some per tenant of a platform. Each takes about 2 KiB of memory and, when the log goes
round, as much of the log."""
SCHEDULE_BYTES_MAX: Final = 32 * KIB
"""A schedule's task or flow with its arguments, encoded; it is asked for on the control lane (RING_CONTROL_BYTES), and
is in the log once for each run."""
SCHEDULE_QUEUED_MAX: Final = 1000
"""Due times of one schedule that wait for the run before, or are caught up. Later ones are passed over."""
SCHEDULE_STARTS_PER_TURN: Final = 32
"""Runs that one schedule starts in one turn: 60 us each (rule R5)."""
SCHEDULE_LATE_NS: Final = 10_000_000_000
"""What starts no later than this after its time was not missed: a killed engine is back within a second or two, also
on a busy machine; a job of every minute that was off for hours shall not count its latest due time as met."""
SCHEDULE_BACK_NS: Final = 3 * 3_600_000_000_000
"""A clock that is set back by more was wrong before, and schedules go by the new time; less is daylight saving done by
hand, or a correction, and what ran does not run again. The three hours are those of Vixie cron."""
SCHEDULE_EVERY_NS_MIN: Final = 10_000_000
"""Shortest interval of a schedule: a record of the log and a run each time."""
SCHEDULE_EVERY_NS_MAX: Final = 10 * 366 * 86_400_000_000_000
"""Longest interval, ten years; more is a mistake in a unit."""
SCHEDULE_JITTER_NS_MAX: Final = 86_400_000_000_000
"""Longest jitter, a day."""

# --- command line -------------------------------------------------------------------------------------------------
WORKFLOW_FILE_BYTES_MAX: Final = 512 * MIB
"""Largest workflow file that `run` reads. Its tree of objects takes about eight times as much memory."""

# --- log writing --------------------------------------------------------------------------------------------------
LOG_PIECES_PER_WRITE_MAX: Final = 1024
"""Buffers handed to one vectored write; IOV_MAX of Linux and macOS."""
LOG_COPY_BYTES_MAX: Final = 64 * KIB
"""A payload up to this size is copied into the batch's buffer; a larger one is a buffer of its own."""
DISK_FULL_RETRY_NS: Final = 500_000_000
"""Between two attempts to write when the disk is full: prompt for a person, cheap for the machine."""

COMMIT_DELAY_NS: Final = 5_000_000
"""How long records that nobody waits for gather before they are written. A crash runs again at most what ended within
it, and nobody was told of that. A commit costs the engine 100 us of CPU and switches; a graph made 2,000 a second."""
COMMIT_BYTES: Final = 256 * KIB
"""As many bytes are written without delay."""

# --- face ---------------------------------------------------------------------------------------------------------
UNACKED_BYTES_MAX: Final = 16 * MIB
"""Frames sent and not yet durable, which the face keeps to send again after a restart of the engine. Four times
RING_WORK_BYTES, so that the ring and the log are full before it: then `submit` waits and `submit_nowait` raises
QueueFull."""
MAP_WINDOW_ITEMS: Final = 128 * KIB
"""Items of one `map` that are submitted and not yet handed out. 128 chunks of MAP_CHUNK_MAX: two workers stay busy
while the consumer pauses for some 100 ms, at about 100 bytes an item."""
MAP_WINDOW_BYTES: Final = 32 * MIB
"""Encoded bytes of those items; twice UNACKED_BYTES_MAX, so that large items do not fill the engine's memory."""
MAP_CHUNK_MAX: Final = 4096
"""Items in one frame of a `map`: half of PREFETCH_MAX, so that a worker holds two of them ahead when tasks do nothing.
Frames of 1,024 made more wake-ups than work."""
MAP_CHUNK_FIRST: Final = 16
"""First chunk of a `map`: the first result comes soon, and an expensive or slow iterable is not read far ahead."""
MAP_PULL_NS: Final = 1_000_000
"""How long a `map` collects a chunk from an iterable that is not known to be fast."""
MAP_CHUNK_NS: Final = 20_000_000
"""Work in a chunk by the measured rate of results: some per wake-up, yet few to take back when the caller stops."""
FACE_KINDS_MAX: Final = KINDS_MAX // 2
"""Functions, with options, that one runtime remembers the kind numbers of; those that came first are given up by the
half. Half of KINDS_MAX, so that the engine has as many for what waits of earlier ones."""
PLANS_MAX: Final = 4096
"""Functions, or tasks with changed options, that a set of options or a flow remembers; then they are looked at anew."""
OPTION_SETS_MAX: Final = 4096
"""Sets of options, such as priority and tenant of single submissions, for which the face keeps its plans; equal to
PLANS_MAX. Some thousand tenants that submit in turn find theirs again."""
FINISHED_BATCHES_MAX: Final = 2 * RUNS_FINISHED_MAX
"""Sequence numbers of ended batches that the face remembers, so as to know a result that is delivered again after a
restart of the engine. Above RUNS_FINISHED_MAX, because the engine delivers again only what it still keeps."""
QUERY_ROWS_MAX: Final = 500
"""Rows of a table in one answer of the engine; longer tables come in pages, because control frames are small."""
QUERY_NODES_MAX: Final = 20_000
"""Nodes looked at for one page of those that match something: about 2 ms (rule R5)."""
ENGINE_START_NS: Final = 30_000_000_000
"""Longest start of an engine process without a sign of life; recovery of a long log sends signs of life."""
WORKER_START_NS: Final = 30_000_000_000
"""Longest start of a worker process until it says hello; it takes milliseconds. One that hangs, or was frozen, is
replaced. Equal to ENGINE_START_NS."""
LETTERS_PER_TURN: Final = 64
"""Dead letters that one question replays or discards: 0.2 ms, or 2 ms where each is of another run (rule R5). Who asks
for more asks again."""
LETTERS_LOOKED_AT_MAX: Final = 2_000
"""Dead letters looked at for one page of those that match something: 0.6 ms, or 2 ms where each is of another run."""
EXECUTOR_AHEAD_NS: Final = 10_000_000
"""Work that an Executor hands to the engine ahead of the workers. What is handed over can no longer be cancelled by its
future, so it is kept short; longer than a few wake-ups, so that workers do not wait."""
EXECUTOR_AHEAD_MAX: Final = 1024
"""Upper bound of the tasks that an Executor hands over ahead."""
PAYLOAD_BYTES_MAX_NO_STORE: Final = FRAME_BYTES_MAX // 4
"""Largest encoded value where there is no blob store to take it."""
PINNED_FILES_MAX: Final = 8192
"""Files of large results that are held open, as mappings, for handles that were not read yet; an eighth of what Linux
allows a process (vm.max_map_count), which the program needs for other things. Others are opened when they are read."""
PAYLOAD_DEPTH_MAX: Final = 200
"""Containers nested in each other in one value. orjson stops at 254; the difference is left to the frames around it."""

# --- rings ------------------------------------------------------------------------------------------------------
RING_BYTES_PER_FRAME_MEAN: Final = 64
"""A ring has one slot for so many bytes of its data: frames shorter than this on average fill the slots first."""
RECEIVE_FRAMES_PER_TURN_MAX: Final = 2048
"""Frames that one turn takes from one queue, besides RECEIVE_BYTES_PER_TURN_MAX; about 2 ms of work as well."""
RING_REREADS_MAX: Final = 20_000
"""Looks at a frame that does not fit its check before it counts as damaged: about 10 ms; a store shows within 1 us."""

# --- commands -----------------------------------------------------------------------------------------------------
COMMANDS_OPEN_MAX: Final = 8
"""Callers at the socket of a state folder at once: people and their scripts; more call again."""
QUESTION_BYTES_MAX: Final = RING_CONTROL_BYTES // 4 - KIB
"""A question, of a program or of a command: some dozen scopes with the longest names. A quarter of its lane is what a
frame may take, and a KiB is left for what is around it."""
COMMAND_BYTES_MAX: Final = QUESTION_BYTES_MAX + KIB
"""A line of a caller at that socket."""
COMMAND_WAIT_NS: Final = 5_000_000_000
"""A caller that has not asked by then is hung up on."""

# --- worker processes ---------------------------------------------------------------------------------------------
OUTPUT_SERIALS_MAX: Final = LEASE_SLOTS
"""Attempts of one worker whose output is kept until their result is there: all that it can hold. Oldest go first."""
OUTPUT_PENDING_BYTES_MAX: Final = 4 * MIB
"""Bytes of them: 64 attempts that print OUTPUT_BYTES_MAX each, or all that print a few lines."""
OUTPUTS_KEPT_MAX: Final = 1000
"""Ended attempts whose output can still be asked for."""
OUTPUTS_KEPT_CHARS_MAX: Final = 8 * MIB
"""Characters of them: 128 attempts that printed OUTPUT_BYTES_MAX each, or OUTPUTS_KEPT_MAX that printed 8 KiB."""
CALLS_PER_NODE_MAX: Final = 4_096
"""Calls of one task: how all of them ended is sent to it each time that it goes on."""
CALL_DEPTH_MAX: Final = 256
"""Calls within calls. More is a recursion without an end, which would stop at NODES_PER_RUN_MAX only."""
SPAWNED_BYTES_MAX: Final = FRAME_BYTES_MAX - KIB
"""Nodes that one attempt adds to its run, encoded: they travel as one message."""
