import type pg from 'pg';
import { DOCS_PATHS } from '../../../gateway/docs/paths.ts';
import { signInSecretOf } from '../memory.ts';
import type { Plan, Stopper } from '../plan.ts';
import type { Account } from './accounts.ts';
import { createDirectory } from './directory.ts';
import { startIdentity } from './start.ts';

/** The client id of the gateway at the identity provider. */
export const SIGN_IN_CLIENT_ID = 'rms-sign-in';

/** The redirect URI of the partner's demo app. */
export const PARTNER_REDIRECT_URI = 'http://127.0.0.1:7777/callback';

/** The redirect URIs of the gateway's client: sign-ins of assistants, and of the portal. */
export function signInRedirects(baseUrl: string): string[] {
  return [`${baseUrl}/oauth/callback`, `${baseUrl}/portal/callback`];
}

/** The name of the partner's demo app on the pages. */
export const PARTNER_APP_NAME = 'Demo partner app';

/** The client id of the API reference, see {@link referenceClient}. */
export const REFERENCE_CLIENT_ID = 'api-reference';

/** The API reference of the gateway at this base address, as a client of the bundled identity provider. */
export function referenceClient(baseUrl: string) {
  return {
    name: 'API reference',
    clientId: REFERENCE_CLIENT_ID,
    redirectUri: `${baseUrl}${DOCS_PATHS.oauthRedirect}`,
  };
}

/** Starts the bundled identity provider, unless the stack uses another issuer. @param pool of the gateway's schema. */
export async function startSignIn(
  plan: Plan,
  pool: pg.Pool,
  accounts: readonly Account[],
): Promise<Stopper> {
  if (plan.externalSystems.oidcIssuer) return { stop: async () => {} };
  const { partner, signingKey, cookieSecret } = plan.memory.memory;
  const identity = await startIdentity({
    port: plan.ports.identity,
    issuer: plan.authUrl,
    resource: plan.baseUrl,
    partner: { ...partner, name: PARTNER_APP_NAME, redirectUri: PARTNER_REDIRECT_URI },
    reference: referenceClient(plan.baseUrl),
    signIn: {
      clientId: SIGN_IN_CLIENT_ID,
      clientSecret: signInSecretOf(plan.memory),
      redirectUris: signInRedirects(plan.baseUrl),
    },
    accounts,
    directory: createDirectory(pool, plan.authUrl),
    signingKey,
    cookieSecret,
  });
  await plan.memory.save();
  return identity;
}
