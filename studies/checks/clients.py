"""What clients that others wrote can do with the server: a table, client by call.

    python -m studies.checks.clients
    python -m studies.checks.clients --page docs/server.md --figures docs/figures.json --commit SHA
    python -m studies.checks.clients --python OTHER/bin/python --clients openai

Every client runs unmodified, in a process of its own, against a real server on this machine; a
small random model answers. `--python` is another interpreter, with another version of a client. It
fails where any call does.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from serving.client_runs import CLIENTS, failures, run_client, share_ok, table, write_table
from serving.live import live, small_model

from remask.serve.settings import ServeSettings
from studies.shared.figures import figure_of, parse, save

MODEL = "small"


def main(words: Sequence[str]) -> None:
    """Run the clients; print the table, and write it where it belongs."""
    parser = argparse.ArgumentParser(description="Run clients against the server.")
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=CLIENTS)
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the clients")
    parser.add_argument("--page", type=Path, help="a page whose table of clients is written anew")
    arguments = parse(parser, words)
    with tempfile.TemporaryDirectory() as folder:
        settings = ServeSettings(model=MODEL, metrics="core")
        with live(small_model(Path(folder)), settings) as (_, url):
            outcomes = {
                client: run_client(arguments.python, url, MODEL, client)
                for client in arguments.clients
            }
    print(table(outcomes), *failures(outcomes), sep="\n")
    if arguments.page:
        write_table(arguments.page, outcomes)
    share, n = share_ok(outcomes)
    figures = {"clients/ok": figure_of(share, "share of calls of clients that go well", n)}
    save(arguments, figures, "clients", "python -m studies.checks.clients")
    if share < 1:
        raise SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
