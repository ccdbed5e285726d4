"""What experiments of this chapter share."""
