import { signInSecretOf } from '../memory.ts';
import type { Plan, Stopper } from '../plan.ts';
import type { Account } from './accounts.ts';
import { startIdentity } from './start.ts';

/** The client id of the gateway at the identity provider. */
export const SIGN_IN_CLIENT_ID = 'rms-sign-in';

/** The redirect URIs of the gateway's client: sign-ins at its authorization servers, and of the portal. */
export function signInRedirects(baseUrl: string): string[] {
  return [`${baseUrl}/oauth/callback`, `${baseUrl}/portal/callback`];
}

/** Starts the bundled identity provider, unless the stack uses another issuer. */
export async function startSignIn(plan: Plan, accounts: readonly Account[]): Promise<Stopper> {
  if (plan.externalSystems.oidcIssuer) return { stop: async () => {} };
  const { signingKey, cookieSecret } = plan.memory.memory;
  const identity = await startIdentity({
    port: plan.ports.identity,
    issuer: plan.identityUrl,
    signIn: {
      clientId: SIGN_IN_CLIENT_ID,
      clientSecret: signInSecretOf(plan.memory),
      redirectUris: signInRedirects(plan.baseUrl),
    },
    accounts,
    signingKey,
    cookieSecret,
  });
  await plan.memory.save();
  return identity;
}
