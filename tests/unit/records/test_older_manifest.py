"""What version 0.1.0 wrote of a sampler is read as what is written now."""

from dataclasses import asdict

from remask.records.manifest import Manifest, whole_sampler
from remask.sampling.settings import SamplerSettings
from remask.verifier.threshold import ScoreContext, differences

OLDER = {  # the keys of a manifest, or a certificate, of 0.1.0
    "order": "low_confidence", "order_temperature": 0.0, "ends_last": False,
    "reveal_threshold": None, "top_p": None, "top_k": None, "length": 64, "steps": 16, "block": 16,
    "temperature": 1.6, "edit_threshold": None, "post_steps": 16, "suppress_eos": False,
}  # fmt: skip
NOW = asdict(SamplerSettings(length=64, steps=16, block=16, temperature=1.6))


def test_records_that_it_began_are_continued() -> None:
    assert Manifest(settings={"sampler": OLDER}).sampler == NOW


def test_certificates_that_it_wrote_hold() -> None:
    known = ScoreContext(kind="", sampler=whole_sampler(OLDER))
    assert not differences(known, ScoreContext(kind="", sampler=NOW))
    assert differences(known, ScoreContext(kind="", sampler=NOW | {"commit_gap": 5.0}))
