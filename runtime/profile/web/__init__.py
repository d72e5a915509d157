"""Go's URLs over HTTP, off unless asked for: for `go tool pprof`, Pyroscope, Parca and a browser.

It knows HTTP, and captures as functions. It does not know how they are made, and shows no values of variables.
Reading order: `callers` (places), `server` (who may ask), `request` (what, and how often), `views` (the URLs), `text`
(Go's text forms).
"""
