"""The server: one model behind HTTP, with a page. docs/server.md is its contract.

    settings        settings of the server, limits of a request
    service         the model with its batcher, metrics and helper threads
    app, run        the FastAPI app; the socket, startup and shutdown
    protocol        HTTP/1.1 with a time limit for heads
    middleware      checks of every request
    requests, body  the bodies of requests, and reading them
    inputs          from a body to prompt, sampler and scorer
    request         a request in the event loop: events, deadline, disconnection
    programs        requests as generators of rows
    batcher         runs rows of many requests; admission and deadlines
    responses       the documents that the routes answer with
    routes          verify and solve; `openai`, OpenAI's routes; `info_routes`, the others
    stops           stop texts
    errors          errors in OpenAI's shape

`settings` and `service` import no package of the extra, so that a missing one is reported.
"""
