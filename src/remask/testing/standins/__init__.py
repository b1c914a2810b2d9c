"""Small random checkpoints that stand in for the published ones, in the layout of the hub's cache.

Every id of the catalogue has one, so that whatever is written for a published model can be tried
on a laptop, offline, through the hub's own code. They are written from the authors' files and not
from what this package reads: a key that the authors leave out is left out here.
"""

from pathlib import Path

from remask.errors import SettingsError
from remask.testing.standins import a2d, dream, gsai, inclusion, sdar
from remask.testing.standins.standin import Standin

STANDINS: dict[str, Standin] = {
    standin.id: standin
    for house in (gsai, dream, inclusion, a2d, sdar)
    for standin in house.STANDINS
}


def write_standin(model: str, cache: Path, *, true_ids: bool = False, seed: int = 0) -> Path:
    """Write the stand-in of a published model into a hub cache; return its snapshot folder.

    Args:
        model: the hub id, in any case.
        cache: what HF_HUB_CACHE is to point at; other models in it are left alone.
        true_ids: give the tokens the authors' ids. That takes their full vocabulary, and seconds.
        seed: the weights are a function of it.
    """
    by_name = {name.lower(): standin for name, standin in STANDINS.items()}
    if model.lower() not in by_name:
        raise SettingsError(
            f"no stand-in is known for {model!r}; use one of {', '.join(STANDINS)}."
        )
    return by_name[model.lower()].write(cache, true_ids=true_ids, seed=seed)
