import { MCP_SCOPE } from './access-token.ts';
import type { SupportedClients } from './clients/supported-clients.ts';

/** More of a caller's own redirect URIs are not looked at. */
const MAX_URIS = 50;

/**
 * The client metadata that a flow starts with (interface: `/oauth/register`): the one pre-configured
 * client, with the redirect URIs of the request that are on the list, else the whole list. Nothing is
 * stored, and no redirect URI becomes allowed by being named here.
 *
 * @param request the parsed body, whatever it is.
 */
export function clientMetadata(clients: SupportedClients, request: unknown) {
  const listed = redirectUrisIn(request).filter((uri) => clients.isListed(uri));
  return {
    client_id: clients.preconfiguredId,
    client_name: 'MCP client',
    redirect_uris: listed.length > 0 ? listed : clients.redirectUris,
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    scope: MCP_SCOPE,
  };
}

function redirectUrisIn(request: unknown): string[] {
  const given: unknown =
    typeof request === 'object' && request !== null && 'redirect_uris' in request
      ? request.redirect_uris
      : [];
  if (!Array.isArray(given)) return [];
  return given.slice(0, MAX_URIS).filter((uri) => typeof uri === 'string');
}
