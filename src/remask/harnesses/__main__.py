"""`python -m remask.harnesses run --model remask ...`: the command of lm-evaluation-harness.

It is the harness's own, with the model `remask` known to it, whichever version it is, and with the
scores of the answers in its results and in its samples log.
"""

import sys
from typing import Any

from remask.errors import RemaskError


def main() -> None:
    """Run the harness's command line; a mistake of ours is one sentence."""
    try:
        import lm_eval
        from lm_eval.__main__ import cli_evaluate

        from remask.harnesses.lm_eval import add_scores
    except ImportError as error:
        sys.exit(f"remask: {error}; install lm_eval, the harness.")
    evaluate = lm_eval.simple_evaluate

    def with_scores(*args: Any, **further: Any) -> Any:
        results = evaluate(*args, **further)
        return None if results is None else add_scores(results)

    lm_eval.simple_evaluate = with_scores  # the command asks for it by this name
    try:
        cli_evaluate()
    except RemaskError as error:
        sys.exit(f"remask: {error}")


if __name__ == "__main__":
    main()
