"""What is made of the chart's values.yaml: the JSON schema that Helm checks values with, and the chart's README."""
