"""Mail: how bytes and values travel between the processes of the engine.

It knows shared memory, bells and the encoding of values. It does not know what a message means: frames are bytes
whose first byte names their type, and the actors and the host agree on the rest.

Read in this order:

- `blocks`: anonymous shared memory, a descriptor without a name, so that nothing can be left behind;
- `bell`: waking a sleeping process through the kernel;
- `ring`: one-way queue of frames in shared memory, and why it is safe on weakly ordered machines;
- `link`: two processes joined by four rings and their bells, and why no wake-up is lost;
- `pieces`: messages that are longer than a frame;
- `board`: how far runs are, for whoever looks;
- `lease_table`: which prefetched tasks a worker may start, decided by compare-and-set;
- `codec`, `blobs`, `pins`, `failure`: values, large values and exceptions as bytes.
"""
