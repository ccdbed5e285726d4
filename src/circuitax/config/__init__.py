"""Floor 6: all that deals with Hydra: specs as schemas, sweeps checked before they start."""
