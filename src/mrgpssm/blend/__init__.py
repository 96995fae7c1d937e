"""What is learned beside the state-space model, on data that training has not seen: static parts and noise laws."""
