"""Edit distance of texts, by which spec 003's cached embeddings are found."""

from __future__ import annotations


def levenshtein(one: str, other: str, most: int) -> int | None:
    """How many letters must be put in, taken out or changed to make one text the other; None for more than `most`.

    By rows of the matrix, which ends as soon as every way is too long (Wagner and Fischer 1974).
    """
    if abs(len(one) - len(other)) > most:
        return None
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, start=1):
        above, row = row, [place]
        for column, beside in enumerate(other, start=1):
            row.append(min(above[column] + 1, row[-1] + 1, above[column - 1] + (letter != beside)))
        if min(row) > most:
            return None
    return row[-1] if row[-1] <= most else None
