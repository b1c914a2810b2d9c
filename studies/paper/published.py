"""Numbers that the paper prints, quoted with their place, to stand beside measured ones.

Nothing here was measured by this project, and nothing compares directly: the models are larger and
the problems are others. Tables 4 and 7 are of GSM8K and do not name their model. What the paper
prints of other models is in `remask.analysis.scaling`.
"""

from collections.abc import Mapping, Sequence

PAPER = "Reasoning on the Manifold, arXiv:2604.16565"


Pairs = Mapping[str, tuple[float, float]]  # AUROC and AUPR

DIAGNOSIS: Mapping[str, Mapping[str, Pairs]] = {  # Table 1, by model and method
    "LLaDA-8B-Instruct": {
        "confidence": {"GSM8K": (0.753, 0.879), "MATH": (0.713, 0.430),
                       "ARC-C": (0.550, 0.824), "GPQA": (0.482, 0.256)},
        "vote": {"GSM8K": (0.872, 0.929), "MATH": (0.803, 0.546),
                 "ARC-C": (0.735, 0.895), "GPQA": (0.539, 0.281)},
        "self_evaluation": {"GSM8K": (0.549, 0.737), "MATH": (0.558, 0.266),
                            "ARC-C": (0.546, 0.821), "GPQA": (0.529, 0.257)},
        "roundtrips": {"GSM8K": (0.893, 0.943), "MATH": (0.820, 0.613),
                       "ARC-C": (0.777, 0.918), "GPQA": (0.678, 0.375)},
    },
    "Dream-v0-Instruct-7B": {
        "confidence": {"GSM8K": (0.641, 0.468), "MATH": (0.522, 0.228),
                       "ARC-C": (0.463, 0.855), "GPQA": (0.468, 0.290)},
        "vote": {"GSM8K": (0.684, 0.498), "MATH": (0.675, 0.408),
                 "ARC-C": (0.708, 0.922), "GPQA": (0.527, 0.313)},
        "self_evaluation": {"GSM8K": (0.565, 0.401), "MATH": (0.525, 0.245),
                            "ARC-C": (0.570, 0.886), "GPQA": (0.539, 0.332)},
        "roundtrips": {"GSM8K": (0.898, 0.787), "MATH": (0.825, 0.660),
                       "ARC-C": (0.804, 0.951), "GPQA": (0.605, 0.329)},
    },
}  # fmt: skip
CODE: Mapping[str, Pairs] = {  # Table 8, by method
    "confidence": {"HumanEval": (0.535, 0.630), "MBPP": (0.528, 0.581)},
    "vote": {"HumanEval": (0.615, 0.684), "MBPP": (0.651, 0.669)},
    "self_evaluation": {"HumanEval": (0.683, 0.727), "MBPP": (0.639, 0.646)},
    "roundtrips": {"HumanEval": (0.687, 0.783), "MBPP": (0.662, 0.668)},
}
CORRECTION: Mapping[str, Mapping[str, Sequence[float]]] = {  # Table 5, accuracy in per cent
    "LLaDA-8B-Instruct": {  # on GSM8K, MATH, ARC-C, GPQA
        "standard": (70.5, 24.4, 83.2, 24.8), "vote3": (74.3, 24.2, 86.1, 25.0),
        "vote10": (79.4, 28.2, 88.7, 27.9), "best_of_3_confidence": (70.7, 23.8, 83.3, 27.7),
        "best_of_10_confidence": (71.1, 23.8, 82.1, 22.3), "best_of_3": (77.8, 26.0, 86.3, 25.0),
        "best_of_10": (78.7, 29.0, 85.2, 26.6), "mgrs": (79.5, 27.6, 87.2, 26.1),
    },
    "Dream-v0-Instruct-7B": {
        "standard": (72.0, 22.4, 74.7, 22.3), "vote3": (72.4, 20.2, 80.6, 29.5),
        "vote10": (72.5, 20.4, 80.6, 29.7), "best_of_3_confidence": (72.5, 20.2, 80.4, 29.5),
        "best_of_10_confidence": (72.5, 20.0, 80.4, 28.8), "best_of_3": (72.5, 20.2, 80.5, 29.7),
        "best_of_10": (72.5, 20.2, 80.4, 29.9), "mgrs": (72.9, 22.6, 81.0, 27.9),
    },
}  # fmt: skip
SAMPLES = {  # Table 6, drawn by rejection sampling
    "LLaDA-8B-Instruct": (3.3, 5.8, 3.2, 3.8),
    "Dream-v0-Instruct-7B": (2.2, 5.4, 2.9, 5.7),
}
LENGTHS = (128, 256, 512)  # of the columns of Table 3
ALIGNMENT: Mapping[str, Mapping[str, Sequence[float]]] = {  # Table 3, LLaDA, by length
    "SFT": {"GSM8K": (69.4, 77.9, 80.4), "MATH": (26.8, 32.8, 34.8),
            "ARC-C": (83.7, 83.2, 78.1), "GPQA": (25.0, 27.0, 26.8)},
    "outcome RL": {"GSM8K": (76.5, 82.9, 83.5), "MATH": (32.6, 35.8, 37.2),
                   "ARC-C": (83.1, 83.5, 82.2), "GPQA": (36.2, 35.0, 30.8)},
    "geometric alignment": {"GSM8K": (78.3, 85.4, 85.8), "MATH": (36.6, 40.2, 41.6),
                            "ARC-C": (85.5, 85.9, 85.2), "GPQA": (36.4, 33.5, 34.4)},
}  # fmt: skip
SPEARMAN = (0.301, 0.251, 0.215, 0.079)  # Table 10, of round trips and confidence, as above
PLANE = {  # Figure 5 and its text, GSM8K
    "spearman": 0.893, "spearman_confidence": SPEARMAN[0], "r2": 0.627, "density_ratio": 2.8,
    "hallucination_zone": 0.002, "hallucination_zone_expected": 0.123, "sparse_zone": 0.018,
    "sparse_zone_expected": 0.157, "chi2": 2847.3,
}  # fmt: skip
MIXTURES: Pairs = {  # Table 4
    "alone/cross_entropy": (0.576, 0.764),
    "alone/token_accuracy": (0.640, 0.783),
    "alone/semantic_similarity": (0.659, 0.796),
    "alone/confidence": (0.699, 0.817),
    "alone/number_retention": (0.796, 0.889),
    "alone/character_similarity": (0.638, 0.785),
    "alone/answer_match": (0.819, 0.916),
    "composite/surface": (0.684, 0.807),
    "composite/surface_logic": (0.753, 0.850),
    "composite/with_cross_entropy": (0.794, 0.874),
    "composite/uniform": (0.821, 0.901),
    "composite/optimized": (0.880, 0.927),
}
SETTINGS: Pairs = {  # Table 7
    "rebuild_steps/4": (0.840, 0.913),
    "rebuild_steps/16": (0.873, 0.923),
    "rebuild_steps/64": (0.875, 0.929),
    "rebuild_steps/128": (0.879, 0.928),
    "mask_ratio/0": (0.598, 0.753),
    "mask_ratio/0.3": (0.672, 0.794),
    "mask_ratio/0.5": (0.712, 0.816),
    "mask_ratio/0.7": (0.794, 0.873),
    "mask_ratio/0.9": (0.889, 0.937),
    "mask_ratio/1": (0.712, 0.861),
    "trips/1": (0.784, 0.870),
    "trips/2": (0.829, 0.887),
    "trips/4": (0.889, 0.937),
    "trips/8": (0.905, 0.945),
}
