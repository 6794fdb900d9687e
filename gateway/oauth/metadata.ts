import { MCP_SCOPE } from './access-token.ts';
import type { SupportedClients } from './clients/supported-clients.ts';
import { mcpResource } from './issue.ts';
import { SIGNING_ALG } from './keys.ts';

/** The metadata of the authorization server (RFC 8414). It is also served as OpenID discovery. */
export function authorizationServerMetadata(issuer: string, clients: SupportedClients) {
  return {
    issuer,
    authorization_endpoint: `${issuer}/oauth/authorize`,
    token_endpoint: `${issuer}/oauth/token`,
    registration_endpoint: `${issuer}/oauth/register`,
    revocation_endpoint: `${issuer}/oauth/revoke`,
    jwks_uri: `${issuer}/oauth/jwks`,
    scopes_supported: [MCP_SCOPE],
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code', 'refresh_token'],
    code_challenge_methods_supported: ['S256'],
    token_endpoint_auth_methods_supported: ['none'],
    revocation_endpoint_auth_methods_supported: ['none'],
    authorization_response_iss_parameter_supported: true,
    // True when the list of clients contains copies of metadata documents. Otherwise clients must use the preconfigured
    // client id.
    client_id_metadata_document_supported: clients.ids.some((id) => id !== clients.preconfiguredId),
    prompt_values_supported: ['none', 'login', 'consent', 'select_account'],
    // OpenID discovery requires these two fields, although this server issues no id tokens.
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: [SIGNING_ALG],
  };
}

/** The metadata of the MCP server as a protected resource (RFC 9728). */
export function protectedResourceMetadata(issuer: string) {
  return {
    resource: mcpResource(issuer),
    authorization_servers: [issuer],
    scopes_supported: [MCP_SCOPE],
    bearer_methods_supported: ['header'],
    resource_name: 'Returns Management Service',
  };
}
