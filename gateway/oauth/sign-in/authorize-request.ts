import type { SupportedClients } from '../clients/supported-clients.ts';
import type { MessageList } from '../pages/pages.ts';
import { badRequest, type PageResponse, redirect } from '../pages/response.ts';
import { MCP_SCOPE } from '../tokens/access-token.ts';
import { mcpResource, namesMcp } from '../tokens/issue.ts';

/** The parameters that oidc-provider gets. All other parameters are ignored (RFC 6749, 3.1). */
const FORWARDED = [
  'client_id',
  'redirect_uri',
  'response_type',
  'code_challenge',
  'code_challenge_method',
  'state',
  'resource',
  'login_hint',
  'request',
  'request_uri',
] as const;

/** The name under which oidc-provider gets `max_age`, because it accepts `max_age` only in OpenID requests. */
export const MAX_AGE = 'sign_in_max_age';

const PROMPTS: ReadonlySet<string> = new Set(['none', 'login', 'consent', 'select_account']);

/** The query for oidc-provider, or the response that rejects the request. */
export type CheckedRequest =
  | { readonly query: URLSearchParams }
  /** The page or redirect that rejects the request, and the reason for the log. */
  | { readonly rejection: PageResponse; readonly reason: string };

/**
 * Checks an authorization request before oidc-provider gets it. For an invalid client id or redirect URI, the user gets
 * a page: the browser must not be redirected to an address that is not on the list. For other errors, the browser is
 * redirected to the client.
 */
export function checkAuthorizeRequest(
  clients: SupportedClients,
  issuer: string,
  sent: URLSearchParams,
): CheckedRequest {
  const repeated = [...new Set(sent.keys())].filter(
    (name) => name !== 'resource' && sent.getAll(name).length > 1,
  );
  if (repeated.length > 0)
    return rejected('repeated parameter', 'The address contains a parameter twice.');
  // A parameter without a value counts as omitted (RFC 6749, 3.1).
  const query = new URLSearchParams([...sent].filter(([, value]) => value !== ''));
  const clientId = query.get('client_id') ?? '';
  const redirectUri = query.get('redirect_uri') ?? '';
  if (!clients.ids.includes(clientId))
    return rejected('unknown client', 'The app that sent you here is not supported.', {
      title: `${IN_MCP_CLIENTS} The client ids of the listed apps are:`,
      items: clients.ids,
    });
  if (!clients.allows(clientId, redirectUri)) {
    return rejected(
      'redirect URI not listed',
      'The app that sent you here gave a return address that is not on our list.',
      {
        title: `${IN_MCP_CLIENTS} Listed are:`,
        items: clients.redirectUris,
      },
    );
  }
  const error = errorIn(query);
  if (error) {
    const url = new URL(redirectUri);
    const state = query.get('state');
    const parameters = { ...error, ...(state !== null && { state }), iss: issuer };
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
    return { rejection: redirect(url.href), reason: error.error ?? 'invalid_request' };
  }
  return { query: forProvider(query, issuer) };
}

const IN_MCP_CLIENTS = 'The operator of this service can add an app in the setting MCP_CLIENTS.';

function rejected(reason: string, text: string, list?: MessageList): CheckedRequest {
  const advice =
    'Go back to the app and try again. If this happens again, tell the maker of the app.';
  return { reason, rejection: badRequest(`${text} ${advice}`, list) };
}

function errorIn(query: URLSearchParams): Record<string, string> | undefined {
  const scopes = scopesIn(query);
  if (scopes.length > 0 && !scopes.includes(MCP_SCOPE)) {
    return { error: 'invalid_scope', error_description: `the only scope is ${MCP_SCOPE}` };
  }
  if ((query.get('response_type') ?? 'code') !== 'code') {
    return { error: 'unsupported_response_type', error_description: 'the only type is code' };
  }
  if (query.has('max_age') && !/^\d{1,9}$/.test(query.get('max_age') ?? '')) {
    return { error: 'invalid_request', error_description: 'max_age is a number of seconds' };
  }
  if ((query.get('response_mode') ?? 'query') !== 'query') {
    return { error: 'unsupported_response_mode', error_description: 'the only mode is query' };
  }
  return undefined;
}

function scopesIn(query: URLSearchParams): string[] {
  return (query.get('scope') ?? '').split(' ').filter((scope) => scope !== '');
}

function forProvider(query: URLSearchParams, issuer: string): URLSearchParams {
  const forwarded = new URLSearchParams();
  for (const name of FORWARDED)
    for (const value of query.getAll(name)) forwarded.append(name, value);
  const resources = query.getAll('resource');
  if (resources.length > 0 && resources.every((one) => namesMcp(issuer, one))) {
    forwarded.set('resource', mcpResource(issuer));
  }
  // Some clients also send scopes of other servers, such as offline_access. This server has only one scope.
  forwarded.set('scope', MCP_SCOPE);
  const prompts = (query.get('prompt') ?? '').split(' ').filter((prompt) => PROMPTS.has(prompt));
  if (prompts.length > 0) forwarded.set('prompt', prompts.join(' '));
  const maxAge = query.get('max_age');
  if (maxAge !== null) forwarded.set(MAX_AGE, maxAge);
  return forwarded;
}
