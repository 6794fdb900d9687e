import { exportJWK, generateKeyPair } from 'jose';
import * as oauth from 'openid-client';
import { freePorts } from '../../free-ports.ts';
import { startIdentity } from '../start.ts';

export const SIGN_IN_REDIRECT = 'http://127.0.0.1:8080/oauth/callback';
const SIGN_IN = {
  clientId: 'sign-in',
  clientSecret: 'secret of the sign-in',
  redirectUris: [SIGN_IN_REDIRECT],
};
const person = (name: string) => ({
  id: `user-${name}`,
  name,
  email: `${name}@example.com`,
  password: `password of ${name}`,
});

export interface IdentityBench {
  readonly url: string;
  /** The sign-in of this service. */
  readonly signIn: oauth.Configuration;
  stop(): Promise<void>;
}

/** Starts an identity provider with these people: owner, both, nobody, unproved. */
export async function startIdentityBench(): Promise<IdentityBench> {
  const [port = 0] = await freePorts(1);
  const url = `http://127.0.0.1:${port}`;
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  const names = ['owner', 'both', 'nobody'];
  const identity = await startIdentity({
    port,
    issuer: url,
    signIn: SIGN_IN,
    accounts: [...names.map(person), { ...person('unproved'), emailVerified: false }],
    signingKey: { ...(await exportJWK(privateKey)), kty: 'RSA', kid: 'k1', alg: 'RS256' },
    cookieSecret: 'secret of the cookies',
  });
  const auth = oauth.ClientSecretBasic(SIGN_IN.clientSecret);
  const signIn = await oauth.discovery(new URL(url), SIGN_IN.clientId, SIGN_IN.clientSecret, auth, {
    execute: [oauth.allowInsecureRequests],
  });
  return { url, signIn, stop: () => identity.stop() };
}
