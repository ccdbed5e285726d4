"""Language models that others trained: their induction heads, paths and streams."""
