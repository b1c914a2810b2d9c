"""The server: one model behind HTTP, for programs and for people. docs/server.md is its contract.

    settings        how a model is served, and how much one request may ask for
    service         the model at work: its batcher, metrics and helpers
    middleware      what every request must pass
    routes          verify and solve; `chat`, `completions`, OpenAI's; `info_routes`, the rest
    schema          the bodies of requests; `openai_schema`, OpenAI's; `body` reads them
    inputs          from a body to what the core needs; `turns`, from messages
    request         a request as the event loop sees it
    programs        requests as generators of rows
    batcher         rows of many requests through one model; admission and deadlines
    sent            what of an answer is sent, up to its `stops`
    responses       the documents that the routes answer with
    errors          what goes wrong, in OpenAI's shape
    app, run        all of it together, on a socket; `protocol`, what is heard there

`settings` and `service` need no package of the extra, so that a missing one is one sentence.
"""
