"""From a request body to a response body: admission, batches, access log and headers."""
