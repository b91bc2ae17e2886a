"""What is sent over HTTP: requests, responses, problem details."""
