"""Promise 7: bad inputs of all kinds are answered with one clear sentence, and nothing is modified.

The cases are the tables of the tests: the command line's, the library's, those of tables, datasets, model files.
"""

from account import Config, Outcome, keep
from pytests import run_pytest
from test_cli import BAD as ON_THE_COMMAND_LINE
from test_estimator import BAD as IN_THE_LIBRARY
from test_modelfile import HOSTILE, WRONG

NODES = [
    "test_estimator.py::test_bad_use_gets_one_sentence",
    "test_data.py::test_bad_data_gets_one_sentence",
    "test_data.py::test_sequences_do_not_share_memory_with_the_caller",
    "test_tables.py::test_bad_files_get_one_sentence",
    "test_tables.py::test_bad_tables_get_one_sentence",
    "test_tables.py::test_bad_times_get_one_sentence",
    "test_tables.py::test_columns_that_make_no_sense_are_refused",
    "test_tables.py::test_tables_in_memory_give_the_same_numbers_and_stay_as_they_are",
    "test_datasets.py::test_broken_files_get_one_sentence",
    "test_datasets.py::test_wrong_requests_get_one_sentence",
    "test_modelfile.py::test_files_that_do_not_fit_are_refused_even_with_a_good_checksum",
    "test_modelfile.py::test_hostile_bytes_are_refused",
]
COMMAND = "test_cli.py::test_every_bad_input_is_one_sentence_and_exit_code_2"


def measure(config: Config) -> Outcome:
    """Each case of a table is a test of its own, but for the command line's, which are one."""
    library, command = run_pytest(NODES), run_pytest([COMMAND])
    cases = library.passed + len(ON_THE_COMMAND_LINE) * command.passed
    counts = {"command line": len(ON_THE_COMMAND_LINE), "estimator": len(IN_THE_LIBRARY),
              "model files": len(WRONG) + len(HOSTILE)}  # fmt: skip
    failed = library.failed + command.failed
    figure = f"{cases} cases, {failed} failed ({len(ON_THE_COMMAND_LINE)} of the cases on the command line)"
    met = cases >= config["least"] and not library.code and not command.code
    return Outcome(figure, met, "" if met else (library.words + command.words)[-300:], counts | {"cases": cases})


if __name__ == "__main__":
    keep(measure, {"least": 100})
