"""Floor 6: everything about Hydra: specs as schemas, sweeps checked before they start."""
