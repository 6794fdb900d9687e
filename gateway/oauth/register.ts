import { messageError } from '../../services/contract/public-errors.ts';
import { jsonOf } from '../../services/platform/text.ts';
import { HttpError } from '../errors.ts';
import { MCP_SCOPE } from './access-token.ts';
import type { SupportedClients } from './clients/supported-clients.ts';

/** Maximum number of redirect URIs that are read from a request. The others are ignored. */
const MAX_URIS = 50;

/**
 * The response of `/oauth/register` (interface). It is the pre-configured client. Its redirect URIs are those of the
 * request that are on the list, or the whole list when the request has none of them. A request cannot add a redirect URI
 * to the list.
 *
 * @param request the parsed body.
 */
export function clientMetadata(clients: SupportedClients, request: object) {
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

/**
 * What to do about a registration whose redirect URIs are all unsupported, in ASCII. The response lists the supported
 * ones, but the client cannot use them.
 */
export function registrationHint(clients: SupportedClients, request: object): string | undefined {
  const uris = redirectUrisIn(request);
  if (uris.length === 0 || uris.some((uri) => clients.isListed(uri))) return undefined;
  return 'none of these redirect_uris is supported: the response lists the supported ones, and the operator of this service adds others with MCP_CLIENTS';
}

/**
 * Parses a registration request (RFC 7591, 3.1). An empty body counts as an empty object.
 *
 * @throws HttpError 400 `invalid_client_metadata` for a body that is not a JSON object.
 */
export function parseRequest(body: string): object {
  if (body === '') return {};
  const request = jsonOf(body);
  if (typeof request === 'object' && request !== null && !Array.isArray(request)) return request;
  const detail = 'The client metadata must be a JSON object.';
  const common = messageError(400, 'BAD_REQUEST', { title: 'Bad Request', detail });
  const oauth = { error: 'invalid_client_metadata', error_description: detail };
  throw new HttpError({ ...common, body: { ...oauth, message: detail, errors: {} } });
}

export function redirectUrisIn(request: object): string[] {
  const uris: unknown = 'redirect_uris' in request ? request.redirect_uris : [];
  if (!Array.isArray(uris)) return [];
  return uris.slice(0, MAX_URIS).filter((uri) => typeof uri === 'string');
}
