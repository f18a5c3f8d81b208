"""A service around saved models: Annif's REST API, more under /longtail/v1, and a page; `longtail serve` starts it.

`supervisor` binds the address and keeps worker processes running; each `worker` runs one `app`. Requests pass a `gate`
(token, size, time, log), texts wait in one `batching` queue, and `models` holds what is served.
"""
