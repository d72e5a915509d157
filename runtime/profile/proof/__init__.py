"""The reachability proof: which tasks wait for what nothing alive can give them, told in a forked child.

It knows the objects of this process. It does not know the ledger's grades, and changes nothing in the process.
Reading order: `prove` (the whole), `roots` (what is alive before the fork), `apart` (the fork), `mark` with `kin` and
`rings` (the work in it), `support` (whether this Python can be looked into).
"""
