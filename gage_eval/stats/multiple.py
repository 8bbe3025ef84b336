"""Several tests at once."""

from collections.abc import Mapping


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down adjusted p values (Holm 1979): the chance of any false alarm in the family stays at its level.

    Args:
        p_values: p value by name.

    Returns:
        The adjusted values by name, in the order given: p₍ᵢ₎ · (m − i + 1), made monotone, at most 1.
    """
    adjusted: dict[str, float] = {}
    largest = 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, p * (len(p_values) - rank)))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}
