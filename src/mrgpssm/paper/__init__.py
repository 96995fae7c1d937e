"""The paper's experiments: configs in `configs/`, one fleet and one record per piece; tables read the records."""
