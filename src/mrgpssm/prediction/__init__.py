"""What a fitted model says: free runs, forecasts in the units of the data, scores, and the file it is kept in."""
