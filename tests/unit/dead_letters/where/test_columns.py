"""The columns of `--where` are distinct, typed and explained."""

from kafka_redelivery.dead_letters.where.columns import BY_NAME, COLUMNS, ColumnKind


def test_each_column_has_one_name_a_type_of_values_and_a_meaning() -> None:
    """A name that is given twice would hide a column."""
    assert len(BY_NAME) == len(COLUMNS)
    assert not {column.kind for column in COLUMNS} & {ColumnKind.INTERVAL}
    assert all(column.meaning for column in COLUMNS)
