"""Facts of hardware, optimizers and schedules, each once and with its source; arithmetic stands elsewhere."""
