import { MCP_SCOPE } from './access-token.ts';
import type { SupportedClients } from './clients/supported-clients.ts';
import { badRequest, type PageResponse, redirect } from './pages/response.ts';

/** The parameters that are passed on. All others are ignored (RFC 6749, 3.1). */
const KNOWN = [
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

/** The name under which `max_age` is passed on: oidc-provider accepts `max_age` only in OpenID requests. */
export const MAX_AGE = 'sign_in_max_age';

const PROMPTS: ReadonlySet<string> = new Set(['none', 'login', 'consent', 'select_account']);

/** The request as oidc-provider receives it, or the response that rejects it. */
export type Checked =
  | { readonly query: URLSearchParams }
  /** The reason is for the log. */
  | { readonly refusal: PageResponse; readonly reason: string };

/**
 * Checks an authorization request before oidc-provider sees it. The browser is redirected to the client only
 * after the client id and the redirect URI were checked; before that, errors are shown as a page.
 */
export function checkAuthorizeRequest(
  clients: SupportedClients,
  issuer: string,
  query: URLSearchParams,
): Checked {
  const repeated = [...new Set(query.keys())].filter(
    (name) => name !== 'resource' && query.getAll(name).length > 1,
  );
  if (repeated.length > 0)
    return refuse('repeated parameter', 'The address names one thing twice.');
  const clientId = query.get('client_id') ?? '';
  const redirectUri = query.get('redirect_uri') ?? '';
  if (!clients.ids.includes(clientId))
    return refuse('unknown client', 'The app that sent you here is not known to us.');
  if (!clients.allows(clientId, redirectUri)) {
    return refuse(
      'redirect URI not listed',
      'The app that sent you here wants its answer at an address that is not on our list.',
    );
  }
  const error = errorIn(query);
  if (error) {
    const url = new URL(redirectUri);
    const state = query.get('state');
    const answer = { ...error, ...(state !== null && { state }), iss: issuer };
    for (const [name, value] of Object.entries(answer)) url.searchParams.set(name, value);
    return { refusal: redirect(url.href), reason: error.error ?? 'invalid_request' };
  }
  return { query: forProvider(query) };
}

function refuse(reason: string, why: string): Checked {
  return {
    reason,
    refusal: badRequest(`${why} Go back to it and try again; if it stays so, tell its maker.`),
  };
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
  if ((query.get('response_mode') || 'query') !== 'query') {
    return { error: 'unsupported_response_mode', error_description: 'the only mode is query' };
  }
  return undefined;
}

function scopesIn(query: URLSearchParams): string[] {
  return (query.get('scope') ?? '').split(' ').filter((scope) => scope !== '');
}

function forProvider(query: URLSearchParams): URLSearchParams {
  const known = new URLSearchParams();
  for (const name of KNOWN) for (const value of query.getAll(name)) known.append(name, value);
  // Clients send scopes that other servers have, such as offline_access. This server has one scope.
  known.set('scope', MCP_SCOPE);
  const prompts = (query.get('prompt') ?? '').split(' ').filter((prompt) => PROMPTS.has(prompt));
  if (prompts.length > 0) known.set('prompt', prompts.join(' '));
  const maxAge = query.get('max_age');
  if (maxAge !== null) known.set(MAX_AGE, maxAge);
  return known;
}
