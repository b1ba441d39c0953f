"""Contiguous optima of the published throughput inputs at hand, by path below `tarnawski/throughput`."""

CONTIGUOUS = {
    "layer/bert24_inference": 17.78990625,
    "layer/bert24_training": 41.7458125,
    "layer/gnmt_inference": 32.910658203,
    "layer/resnet50_inference": 33.774666016,
    "layer/inceptionv3_inference": 51.551863586,
    "operator/bert_l-3_inference": 27.918567680,
    "operator/bert_l-3_training": 65.303149122,
    "operator/bert_l-6_inference": 29.579505806,
    "operator/resnet50_inference": 124.348849774,
    "operator/bert_L-12_training": 437.997637858,
}
"""Optima of the published program, re-run (specification of the DP over ideals)."""
