"""Flags of the site's running text are kept on one line."""

import pytest
from flags import in_one_piece  # type: ignore[import-not-found]


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<code>--force</code>", '<code><span class="flag">--force</span></code>'),
        (
            "<p><code>remask serve --max-queue 3 -m x</code></p>",
            '<p><code>remask serve <span class="flag">--max-queue</span> 3 '
            '<span class="flag">-m</span> x</code></p>',
        ),
        ("<code>a-b, 3--4, x = -&gt; y</code>", None),
        ("<pre><span></span><code><span>--force</span></code></pre>", None),
        ("<p>--force</p>", None),
    ],
)
def test_flags_in_inline_code_are_marked_and_nothing_else(html: str, expected: str | None) -> None:
    assert in_one_piece(html) == (expected or html)
