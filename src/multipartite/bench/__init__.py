"""Speed: ratios to max pooling, measured in one process."""
