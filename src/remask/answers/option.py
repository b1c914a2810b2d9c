"""Read the options of a prompt, and find their words in a text.

Options are written "A) tin", "(A) tin", "A. tin", "A: tin" or "a ) tin", on one line or on several.
Their letters must follow each other from A in one style. The last list counts, because worked
examples precede the question.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

_LABEL = re.compile(r"(?<![^\s,;])([(\[]?)([A-Za-z])( ?[)\].:])")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_STOP_WORDS = """
    a an the this that these those it its they them their he she his her and or but nor if of
    to in on at by for from with as than then so into over under is are was were be been has
    have had do does did will would can could may might must who what which when where why how
"""
# A visible verdict on an option reveals the letter.
_VERDICT = re.compile(r"\b(?:yes|no|true|false|correct|incorrect|right|wrong)\b", re.IGNORECASE)


def listed_options(prompt: str) -> dict[str, str]:
    """Return the text of each option by its capital letter; empty if there is no list."""
    labels = list(_LABEL.finditer(prompt))
    first = [label for label in labels if label.start() == 0 or prompt[label.start() - 1] == "\n"]
    listed = _last_run(first) or _last_run(
        labels
    )  # labels at line starts first: others may be part of a sentence
    ends = [*(label.start() for label in listed), len(prompt)][1:]
    return {
        label[2].upper(): prompt[label.end() : end].split("\n", 1)[0].strip(" \t,;")
        for label, end in zip(listed, ends, strict=False)
    }


def _last_run(labels: Sequence[re.Match[str]]) -> list[re.Match[str]]:
    """Return the last run of labels A, B, ..."""
    last: list[re.Match[str]] = []
    run: list[re.Match[str]] = []
    for label in labels:
        if run and _follows(run[-1], label):
            run.append(label)
            last = run
        elif label[2] in "Aa":
            run = [label]
    return last


def _follows(label: re.Match[str], following: re.Match[str]) -> bool:
    same = label[1] == following[1] and label[3] == following[3]
    return same and ord(following[2]) == ord(label[2]) + 1


def telling_words(options: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the lower-case words of each option that not all options share."""
    words = {letter: _all_words(option) for letter, option in options.items()}
    shared = set.intersection(*words.values()) if words else set()
    telling = {letter: own - shared for letter, own in words.items()}
    return {letter: _without_stop_words(own) or own for letter, own in telling.items()}


def word_spans(text: str, words: Iterable[str]) -> list[tuple[int, int]]:
    """Return the spans of these lower-case words in a text."""
    wanted = set(words)
    return [word.span() for word in _WORD.finditer(text) if word.group().lower() in wanted]


def verdict_spans(text: str) -> list[tuple[int, int]]:
    """Return the spans of verdicts such as yes, no, true and wrong."""
    return [word.span() for word in _VERDICT.finditer(text)]


def _all_words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def _without_stop_words(words: set[str]) -> set[str]:
    """Return the words without stop words and labels (single letters)."""
    return {word for word in words if len(word) > 1 or not word.isalpha()} - set(
        _STOP_WORDS.split()
    )
