"""Checks of the fields of a specification, for its ``__post_init__``.

Every check takes the specification and the names of fields; a dot leads into a field that is itself
a specification (``"optim.steps"``). Where a bound is a string it names another field, and the
message gives the value of both. A field that holds a sequence is checked entry by entry.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from circuitax.kernel.spec import TransformerSpec

Bound = int | float | str


def require_at_least(spec: Any, least: Bound, *names: str, why: str = "") -> None:
    """Refuse fields below ``least``, a number or the name of another field.

    Args:
        spec: A specification.
        least: Smallest value allowed.
        *names: Fields.
        why: Reason, added to the message.

    Raises:
        ValueError: If a field is smaller, or None.
    """
    limit, text = _bound(spec, least)
    _each(spec, names, lambda value: value >= limit, f"at least {text}", why)


def require_at_most(spec: Any, most: Bound, *names: str, why: str = "") -> None:
    """Refuse fields above ``most``, a number or the name of another field.

    Raises:
        ValueError: If a field is larger, or None.
    """
    limit, text = _bound(spec, most)
    _each(spec, names, lambda value: value <= limit, f"at most {text}", why)


def require_below(spec: Any, limit: Bound, *names: str, why: str = "") -> None:
    """Refuse fields that reach ``limit``, a number or the name of another field.

    Raises:
        ValueError: If a field is not smaller, or None.
    """
    bound, text = _bound(spec, limit)
    _each(spec, names, lambda value: value < bound, f"below {text}", why)


def require_positive(spec: Any, *names: str, why: str = "") -> None:
    """Refuse fields that are not above 0.

    Raises:
        ValueError: If a field is 0, negative, not a number, or None.
    """
    _each(spec, names, lambda value: value > 0, "positive", why)


def require_in(spec: Any, interval: str, *names: str, why: str = "") -> None:
    """Refuse fields outside an interval, written as in mathematics.

    ``"[2, 5]"`` holds both of its ends, ``"(0, 1)"`` neither, ``"(0, 1]"`` the upper one. An end
    may be the name of another field: ``"[1, n_features]"``.

    Raises:
        ValueError: If a field is outside, or None; or if ``interval`` is not written like that.
    """
    ends = interval[1:-1].split(",")
    if interval[:1] not in ("[", "(") or interval[-1:] not in ("]", ")") or len(ends) != 2:
        raise ValueError(f"interval={interval!r} must be written like '[0, 1]' or '(0, 1]'")
    (low, low_text), (high, high_text) = (_bound(spec, _number(end.strip())) for end in ends)
    closed_low, closed_high = interval[0] == "[", interval[-1] == "]"
    if closed_low and closed_high:
        what = f"from {low_text} to {high_text}"
    else:
        first = "at least" if closed_low else "above"
        what = f"{first} {low_text} and {'at most' if closed_high else 'below'} {high_text}"

    def inside(value: Any) -> bool:
        above = value >= low if closed_low else value > low
        return above and (value <= high if closed_high else value < high)

    _each(spec, names, inside, what, why)


def require_divides(spec: Any, divisor: str, *multiples: str, why: str = "") -> None:
    """Refuse a field below 1, or no divisor of others, such as a chunk and the steps.

    Args:
        spec: A specification.
        divisor: Field with a whole number.
        *multiples: Fields that it must divide.
        why: Reason, added to the message.

    Raises:
        ValueError: If the divisor is below 1, or there is a remainder.
    """
    value = field_of(spec, divisor)
    for name in multiples:
        whole = field_of(spec, name)
        if value < 1 or whole % value:
            raise ValueError(_message(divisor, value, f"must divide {name}={whole}", why))


def require_equal(spec: Any, value: Any, *names: str, why: str = "") -> None:
    """Refuse fields unequal to ``value``, which may be the dotted name of another field.

    Raises:
        ValueError: If a field differs.
    """
    wanted, text = value, f"be {value}"
    if isinstance(value, str):
        wanted = field_of(spec, value)
        text = f"equal {value}={wanted}"
    for name in names:
        found = field_of(spec, name)
        if found != wanted:
            raise ValueError(_message(name, found, f"must {text}", why))


def require_increasing(spec: Any, *names: str, length: int = 2, why: str = "") -> None:
    """Refuse sequences that do not increase strictly, or hold fewer than ``length`` values.

    Raises:
        ValueError: If a field does.
    """
    for name in names:
        values = field_of(spec, name)
        if len(values) < length or sorted(set(values)) != list(values):
            what = f"must hold {length} increasing values or more"
            raise ValueError(_message(name, values, what, why))


def require_readable(
    model: TransformerSpec, *, d_vocab: int, length: int | None = None, name: str = "model"
) -> None:
    """Refuse a model for texts of another vocabulary, or longer than its context.

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


def field_of(spec: Any, name: str) -> Any:
    """The value of a field; a dot leads into a nested specification."""
    return reduce(getattr, name.split("."), spec)


def _bound(spec: Any, bound: Bound) -> tuple[Any, str]:
    if isinstance(bound, str):
        value = field_of(spec, bound)
        return value, f"{bound}={value}"
    return bound, f"{bound:g}" if isinstance(bound, float) else str(bound)


def _number(text: str) -> Bound:
    try:
        return float(text)
    except ValueError:
        return text


def _each(
    spec: Any, names: Sequence[str], fits: Callable[[Any], bool], what: str, why: str
) -> None:
    for name in names:
        value = field_of(spec, name)
        several = isinstance(value, tuple | list)
        entries = value if several else (value,)
        if not all(entry is not None and fits(entry) for entry in entries):
            must = f"must all be {what}" if several else f"must be {what}"
            raise ValueError(_message(name, value, must, why))


def _message(name: str, value: Any, must: str, why: str) -> str:
    return f"{name}={value} {must}{f': {why}' if why else ''}"
