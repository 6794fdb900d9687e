// Example addresses in the OpenAPI documents. The gateway replaces them by the real ones when it serves a document.

/** The operator's authorization server. */
export const EXAMPLE_AUTH_URL = 'https://auth.example.com';

/** The base address of the service: that of `npm start -- --port 8080`. */
export const EXAMPLE_BASE_URL = 'http://127.0.0.1:8080';
