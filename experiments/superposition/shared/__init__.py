"""Common code of this chapter's experiments."""
