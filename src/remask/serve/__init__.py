"""The server: one model behind HTTP, for programs and for people. docs/server.md is its contract.

    schema      what requests may say, and what answers look like
    faults      what goes wrong, in OpenAI's shape
    service     the model, its limits, and who may ask
    question    from a request to what the core wants
    work        a request as rows of work
    batcher     rows of many requests through one model
    errand      a request's work, seen from the event loop
    telling     from values to documents; `commands` for the line that gives the same
    gate        what every request must pass
    routes      verify, solve; `chat`, OpenAI's; `about`, the rest
    app, run    all of it together, on a socket

The web framework is imported inside functions, so that a missing extra is one sentence.
"""
