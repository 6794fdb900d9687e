/** Stands in the OpenAPI documents for the address of the operator's authorization server. */
export const EXAMPLE_AUTH_URL = 'https://auth.example.com';
