import { z } from 'zod';
import {
  list,
  originList,
  type Settings,
  wholeNumber,
} from '../../services/platform/process/config.ts';
import { keyringText, parseKeyring } from '../../services/platform/security/keyring.ts';
import { KNOWN_CLIENTS } from './clients/known-clients.ts';
import {
  createSupportedClients,
  parseClientDocuments,
  type SupportedClients,
} from './clients/supported-clients.ts';
import type { SignInProvider } from './sign-in/upstream.ts';
import { DEFAULT_GRANT_DAYS } from './tokens/issue.ts';

/** The client id of clients that do not use a metadata document. */
export const DEFAULT_CLIENT_ID = 'rms-mcp';

/** The environment variables for the sign-in of assistants. */
export const oauthShape = {
  SIGN_IN_ISSUER: z
    .url({ protocol: /^https?$/, error: 'must be an http or https address' })
    .optional()
    .describe(
      'OpenID issuer where members and users of assistants sign in; needs SIGN_IN_CLIENT_ID, SIGN_IN_CLIENT_SECRET and OAUTH_KEYRING. Without it nobody can sign in (503). Register a confidential client there with the redirect URIs <PUBLIC_BASE_URL>/oauth/callback and <PUBLIC_BASE_URL>/portal/callback, and the scopes openid email profile. It must return email, and email_verified as true. So that a sign-out there ends sessions of the portal, register the back-channel logout URI <PUBLIC_BASE_URL>/portal/backchannel-logout',
    ),
  SIGN_IN_CLIENT_ID: z.string().min(1).optional().describe('Our client id at that issuer'),
  SIGN_IN_CLIENT_SECRET: z.string().min(1).optional().describe('Our client secret at that issuer'),
  SIGN_IN_REQUIRED_ACR: list
    .default([])
    .describe(
      'Authentication context classes (acr), such as that of a second factor; a sign-in must have one of them. Not checked when empty',
    ),
  SIGN_IN_FORM_ORIGINS: originList
    .default([])
    .describe(
      'Additional origins that the identity provider redirects through, for the content security policy of the forms',
    ),
  OAUTH_KEYRING: keyringText
    .transform(parseKeyring)
    .optional()
    .describe(
      'Keys that encrypt the signing keys of access tokens at rest; the first encrypts, all decrypt',
    ),
  MCP_CLIENT_ID: z
    .string()
    .regex(
      /^[A-Za-z0-9._-]{1,100}$/,
      'must have 1 to 100 letters, digits, dots, dashes and underscores',
    )
    .default(DEFAULT_CLIENT_ID)
    .describe('Client id of assistants that do not use a metadata document'),
  MCP_CLIENTS: z
    .string()
    .refine(isClientList, 'must be JSON, [{"name", "client_id"?, "redirect_uris"}]')
    .transform(parseClientDocuments)
    .optional()
    .describe(
      'Supported assistants and their redirect URIs, as JSON; the well-known ones when absent. An assistant with a metadata document needs its URL as client_id here. The tokens of a removed assistant stop at once',
    ),
  MCP_GRANT_DAYS: wholeNumber(1, 365)
    .default(DEFAULT_GRANT_DAYS)
    .describe(
      'Days after which an assistant must be connected again; renewing a token does not extend them',
    ),
};

type OAuthConfig = Settings<typeof oauthShape>;

/**
 * Returns the settings of the identity provider. Undefined when it is not configured: then `/oauth` responds with 503.
 */
export function signInProvider(o: OAuthConfig): SignInProvider | undefined {
  const { SIGN_IN_ISSUER: issuer, SIGN_IN_CLIENT_ID: clientId } = o;
  const { SIGN_IN_CLIENT_SECRET: clientSecret, SIGN_IN_REQUIRED_ACR: requiredAcr } = o;
  const isComplete = issuer !== undefined && clientId !== undefined && clientSecret !== undefined;
  return isComplete ? { issuer, clientId, clientSecret, requiredAcr } : undefined;
}

/**
 * Checks settings that depend on one another. Returns texts about contradictions, and about settings that are unsafe in
 * production.
 */
export function oauthFaults(
  config: OAuthConfig & { readonly NODE_ENV: string; readonly PUBLIC_BASE_URL: string },
): string[] {
  const together = [
    config.SIGN_IN_ISSUER,
    config.SIGN_IN_CLIENT_ID,
    config.SIGN_IN_CLIENT_SECRET,
    config.OAUTH_KEYRING,
  ];
  const setCount = together.filter((value) => value !== undefined).length;
  const faults: string[] = [];
  if (setCount > 0 && setCount < together.length) {
    faults.push(
      'SIGN_IN_ISSUER, SIGN_IN_CLIENT_ID, SIGN_IN_CLIENT_SECRET and OAUTH_KEYRING must be set together or not at all',
    );
  }
  if (setCount > 0 && new URL(config.PUBLIC_BASE_URL).pathname !== '/') {
    faults.push('PUBLIC_BASE_URL: with a sign-in it must not have a path');
  }
  if (config.NODE_ENV !== 'production' || setCount === 0) return faults;
  if (!config.SIGN_IN_ISSUER?.startsWith('https://')) {
    faults.push('SIGN_IN_ISSUER: must be https in production');
  }
  if (!config.PUBLIC_BASE_URL.startsWith('https://')) {
    faults.push('PUBLIC_BASE_URL: with a sign-in, it must be https in production');
  }
  return faults;
}

/** The clients of MCP_CLIENTS; the well-known ones when it is not set. */
export function supportedClients(o: OAuthConfig): SupportedClients {
  return createSupportedClients(o.MCP_CLIENT_ID, o.MCP_CLIENTS ?? KNOWN_CLIENTS);
}

function isClientList(text: string): boolean {
  try {
    parseClientDocuments(text);
    return true;
  } catch {
    return false;
  }
}
