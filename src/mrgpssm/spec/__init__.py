"""The options of a model: what there is, what values they take, what they mean."""

from mrgpssm.spec.declare import Option, OptionSection, describe_unknown, fix, fixed_value, options_of, read_section
from mrgpssm.spec.kinds import Choice, Ingredient, Kind, Number, Several, Switch, Whole
from mrgpssm.spec.sections import (
    HIDDEN_UNITS,
    INGREDIENTS,
    MOST_SEED,
    SECTIONS,
    Bands,
    Spec,
    Structure,
    Training,
    arrange,
    find_option,
    make_spec,
    read_spec,
    sort_options,
)

__all__ = [
    "HIDDEN_UNITS",
    "INGREDIENTS",
    "MOST_SEED",
    "SECTIONS",
    "Bands",
    "Choice",
    "Ingredient",
    "Kind",
    "Number",
    "Option",
    "OptionSection",
    "Several",
    "Spec",
    "Structure",
    "Switch",
    "Training",
    "Whole",
    "arrange",
    "describe_unknown",
    "find_option",
    "fix",
    "fixed_value",
    "make_spec",
    "options_of",
    "read_section",
    "read_spec",
    "sort_options",
]
