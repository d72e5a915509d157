"""The stage's disk: the state folder and the write-ahead log in it.

Knows bytes, files and crashes. Must not know what a payload means, nor decide anything: the persister actor decides.
Read in this order: `files` (the seam to the disk), `segment` (the byte layout), `segment_files` (its files), `wal` (the
writer), `syncs` (of several files at once), `reader` (recovery), `salvage` (a damaged log made whole again), `folder`
(identity and ownership), `sqlite_file` and `packing` (what checkpoint and archive have in common), `checkpoint` (the
state in a file), `resume` (where a recovery begins), `stand_in` (in the place of a lost checkpoint), `clocks` (behind
a hole), `take` (the next checkpoint), `verify` (its bytes).

Reading from any place: `seek` (a record by its LSN or a key), `seek_keys`, `seek_run` (a run's submission), `tail`.

A log in shards: `merge` (how several files are read as one, and where the log ends then), `sharded_tail`,
`salvage_shards`, `reshard` (another number of shards). `read_log`, `LogWriter`, `open_tail` take either.

Finished runs that memory let go of: `archive` and `archive_rows` (the file), `archiving` (how they come there),
`archive_trim` (how they go), `past_runs` (how they are asked for).

What stands above that seam, and reads payloads with the actors' own code: `recovery` (a folder read only), `sieve`
(what of a damaged log fits), `contents` (the check of records and blobs), `rescue` (salvage into a new folder),
`transfer` (export and import).
"""
