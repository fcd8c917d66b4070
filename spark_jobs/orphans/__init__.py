"""The batch job `orphans`: what lies in the bucket, compared with the files that the log knows, at any size of either."""
