"""Many runs: jobs, who works on them, the comparison and the search."""
