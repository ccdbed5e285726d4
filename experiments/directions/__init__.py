"""Almost orthogonal directions: Johnson-Lindenstrauss, capacity, features of models."""
