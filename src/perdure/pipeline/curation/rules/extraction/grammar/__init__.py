"""The grammar that all readers share: verbs, persons, negation, times."""
