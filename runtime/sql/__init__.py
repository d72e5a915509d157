"""History in SQL: the views `runs` and `tasks`, over what a state folder knew at one LSN.

    log, checkpoint ──► snapshot ──► sources ──► columns ──► views ──► statement ──► QueryRows
                        a fold that   runs by     what a      virtual    one SELECT,
                        follows       number      row says    tables     read only

Reading order: `rows` (what comes back), `budget`, `snapshot` (what was known), `sources` (where runs come from),
`run_columns` and `task_columns` (what is said of them), `views` (how SQLite reads them), `statement` (how one is run),
`folder` (all of it for a state folder, one query after the other).

Knows the log and SQLite; the engine is asked nothing, and nothing is written. Everything runs in the asker's process.
Must not know a running engine: whoever has one says how far the log may be read. `apsw` is loaded by the first query.
It opens no file: another SQLite than the standard library's in the same process, of which each would take the other's
locks on a file for its own.
"""
