"""Where an answer ends: tokens that a tokenizer left in the text, and what stands after them.

A canvas is filled up with tokens such as `<|eot_id|>` and `<|endoftext|>`. What comes after the
first of them was never said; before anything is said they mean nothing. A mask is not one of them:
what stands beside it is unfinished, and is not read.
"""

import re

_END = re.compile(
    r"<[|\uff5c](?![^|<>\uff5c]{0,20}mask)[^|<>\s\uff5c]{1,40}[|\uff5c]>"
    r"|</s>(?=\s*(?:</s>|\Z))|<(?:eos|pad|end_of_turn)>|\[EOS\]",
    re.IGNORECASE,
)


def answer_of(text: str) -> str:
    """Return a text up to the token that ends it; tokens before its first word are left out."""
    start = 0
    for end in _END.finditer(text):
        if text[start : end.start()].strip():
            return text[start : end.start()] + "\n"  # the end of a line: nothing was cut off
        start = end.end()
    return text[start:]
