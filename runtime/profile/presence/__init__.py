"""How the processes of a state folder are seen, and asked: a page in shared memory, a signal, and their names.

It knows processes, slots and requests. It does not know what the answers mean: who answers is named by module.
Reading order: `page` (what all show), `here` (this process in it), `control` (asking all), `folders` (whose
is what it makes for that), `find` (which folder),
`processes` (what page and kernel say of each), `appear`, `titles` and `naming` (what tools from outside see).
"""
