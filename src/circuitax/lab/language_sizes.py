"""That a model can read its texts, asked of every language experiment's specification."""

from circuitax.kernel.spec import TransformerSpec


def require_readable(
    model: TransformerSpec, *, d_vocab: int, length: int | None = None, name: str = "model"
) -> None:
    """Refuse a model for texts of other symbols, or of more tokens than it has positions.

    Args:
        model: Sizes of the model.
        d_vocab: ``task.d_vocab``.
        length: ``task.length``; None where the length is the model's own.
        name: Field of the model.

    Raises:
        ValueError: If ``d_vocab`` is not the model's, ``length`` is above its ``n_ctx``, or texts
            with a length of their own, whose symbols all occur, meet a start token.
    """
    if model.d_vocab != d_vocab:
        raise ValueError(f"{name}.d_vocab={model.d_vocab} must equal task.d_vocab={d_vocab}")
    if length is not None and model.start_token is not None:
        raise ValueError(
            f"{name}.start_token={model.start_token} must be null: task draws all of its d_vocab="
            f"{d_vocab} symbols, none is left for it"
        )
    if length is not None and model.n_ctx is not None and length > model.n_ctx:
        raise ValueError(f"task.length={length} must be at most {name}.n_ctx={model.n_ctx}")
