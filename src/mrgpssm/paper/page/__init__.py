"""What the records of `mrgpssm reproduce` say: tables beside the paper's, claims, figures, and one page."""
