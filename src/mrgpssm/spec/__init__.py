"""The options of a model: what there is, what values they take, what they mean."""

from mrgpssm.spec.declare import Option, Section, describe_unknown, fix, fixed_value, options_of, read_section
from mrgpssm.spec.kinds import Choice, Kind, Number, Part, Several, Switch, Whole
from mrgpssm.spec.sections import (
    HIDDEN_UNITS,
    MOST_SEED,
    PARTS,
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
    "MOST_SEED",
    "PARTS",
    "SECTIONS",
    "Bands",
    "Choice",
    "Kind",
    "Number",
    "Option",
    "Part",
    "Section",
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
