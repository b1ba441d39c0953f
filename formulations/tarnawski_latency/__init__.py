"""The latency problem of Tarnawski et al.: one sample, a pool of CPUs, accelerators that run pieces in order."""
