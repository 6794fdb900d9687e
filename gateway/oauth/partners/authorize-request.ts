import type { PartnerApp } from '../../tenancy/partner-apps.ts';
import { type PageResponse, redirect } from '../pages/response.ts';
import { MAX_AGE } from '../sign-in/authorize-request.ts';
import { namesOneOf } from '../tokens/issue.ts';
import { unknownAppPage } from './pages.ts';

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

/** Every authorization asks for consent, so `consent` adds nothing. */
const PROMPTS: ReadonlySet<string> = new Set(['none', 'login', 'consent', 'select_account']);

/** The query for oidc-provider, or the response that rejects the request, with the reason for the log. */
export type CheckedPartnerRequest =
  | { readonly query: URLSearchParams }
  | { readonly rejection: PageResponse; readonly reason: string };

/**
 * Checks an authorization request of a partner's app before oidc-provider gets it. For an unknown app or redirect URI,
 * the user gets a page: the browser must not be redirected to an address that is not registered. For other errors, the
 * browser is redirected to the app (RFC 6749, 4.1.2.1).
 *
 * @param o.find the app with a client id; undefined when it is not registered.
 */
export async function checkPartnerRequest(
  sent: URLSearchParams,
  o: {
    readonly issuer: string;
    readonly resource: string;
    readonly find: (clientId: string) => Promise<PartnerApp | undefined>;
  },
): Promise<CheckedPartnerRequest> {
  const isRepeated = [...new Set(sent.keys())].some(
    (name) => name !== 'resource' && sent.getAll(name).length > 1,
  );
  // A parameter without a value counts as omitted (RFC 6749, 3.1).
  const query = new URLSearchParams([...sent].filter(([, value]) => value !== ''));
  if (isRepeated) return rejected('repeated parameter', query);
  const app = await o.find(query.get('client_id') ?? '');
  if (!app) return rejected('unknown client', query);
  const redirectUri = query.get('redirect_uri') ?? '';
  if (!app.redirectUris.includes(redirectUri))
    return rejected('redirect URI not registered', query);
  const requested = (query.get('scope') ?? '').split(' ');
  const scopes = app.scopes.filter((scope) => requested.includes(scope));
  const error = errorIn(query, scopes, app);
  if (error) {
    const url = new URL(redirectUri);
    const state = query.get('state');
    const parameters = { ...error, ...(state !== null && { state }), iss: o.issuer };
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
    return { rejection: redirect(url.href), reason: error.error };
  }
  return { query: forProvider(query, scopes, o.resource) };
}

type Rejected = 'repeated parameter' | 'unknown client' | 'redirect URI not registered';

function rejected(reason: Rejected, query: URLSearchParams): CheckedPartnerRequest {
  return { reason, rejection: unknownAppPage(reason, query) };
}

interface OAuthError {
  readonly error: string;
  readonly error_description: string;
}

function errorIn(
  query: URLSearchParams,
  scopes: readonly string[],
  app: PartnerApp,
): OAuthError | undefined {
  if (scopes.length === 0) {
    return oauthError('invalid_scope', `send one or more of ${app.scopes.join(' ')}`);
  }
  if ((query.get('response_type') ?? 'code') !== 'code') {
    return oauthError('unsupported_response_type', 'the only type is code');
  }
  if (query.has('max_age') && !/^\d{1,9}$/.test(query.get('max_age') ?? '')) {
    return oauthError('invalid_request', 'max_age is a number of seconds');
  }
  if ((query.get('response_mode') ?? 'query') !== 'query') {
    return oauthError('unsupported_response_mode', 'the only mode is query');
  }
  return undefined;
}

function oauthError(error: string, error_description: string): OAuthError {
  return { error, error_description };
}

function forProvider(
  query: URLSearchParams,
  scopes: readonly string[],
  resource: string,
): URLSearchParams {
  const forwarded = new URLSearchParams();
  for (const name of FORWARDED)
    for (const value of query.getAll(name)) forwarded.append(name, value);
  const resources = query.getAll('resource');
  if (resources.length > 0 && resources.every((one) => namesOneOf([resource], one))) {
    forwarded.set('resource', resource);
  }
  forwarded.set('scope', scopes.join(' '));
  const prompts = (query.get('prompt') ?? '').split(' ').filter((prompt) => PROMPTS.has(prompt));
  if (prompts.length > 0) forwarded.set('prompt', prompts.join(' '));
  const maxAge = query.get('max_age');
  if (maxAge !== null) forwarded.set(MAX_AGE, maxAge);
  return forwarded;
}
