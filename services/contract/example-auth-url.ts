/** The example address in the OpenAPI documents of the operator's authorization server. */
export const EXAMPLE_AUTH_URL = 'https://auth.example.com';
