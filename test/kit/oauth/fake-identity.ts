import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';

/** The gateway's client at the fake identity provider. */
export const SIGN_IN_CLIENT = { clientId: 'gateway', clientSecret: 'x' };

/** A fake identity provider. It signs in every address, unless the test makes it unavailable. */
export interface FakeIdentity {
  readonly issuer: string;
  isUnavailable: boolean;
  /** Claims of the next ID tokens. They override the defaults, and undefined removes a claim. */
  claims: Record<string, unknown>;
  /** Whether ID tokens are signed with an unpublished key. */
  isForging: boolean;
  /** Returns the callback URL for an authorization URL. */
  callbackOf(sentTo: URL): string;
  /** Signs a token with these claims for the gateway, as it was issued now. */
  sign(claims: Record<string, unknown>): Promise<string>;
  stop(): void;
}

export async function startFakeIdentity(port: number): Promise<FakeIdentity> {
  const { privateKey, publicKey } = await generateKeyPair('RS256');
  const { privateKey: unpublished } = await generateKeyPair('RS256');
  const keys = [{ ...(await exportJWK(publicKey)), kid: 'k', alg: 'RS256' }];
  /** The parameters of the sign-ins whose codes are unused. */
  const codes = new Map<string, URLSearchParams>();
  const issuer = `http://127.0.0.1:${port}`;

  const sign = (claims: Record<string, unknown>) =>
    new SignJWT({ iat: Math.floor(Date.now() / 1_000), ...claims })
      .setProtectedHeader({ alg: 'RS256', kid: 'k' })
      .sign(identity.isForging ? unpublished : privateKey);
  const redeem = async (req: IncomingMessage): Promise<object> => {
    const code = new URLSearchParams(Buffer.concat(await req.toArray()).toString()).get('code');
    const signIn = codes.get(code ?? '');
    if (code === null || !signIn) return { error: 'invalid_grant' };
    codes.delete(code);
    const claims = {
      iss: issuer,
      aud: SIGN_IN_CLIENT.clientId,
      sub: 'somebody',
      nonce: signIn.get('nonce'),
      email: signIn.get('login_hint'),
      email_verified: true,
      exp: Math.floor(Date.now() / 1_000) + 300,
      ...identity.claims,
    };
    return { access_token: 'x', token_type: 'Bearer', id_token: await sign(claims) };
  };
  const respond = async (req: IncomingMessage): Promise<object> => {
    if (req.url === '/token') return redeem(req);
    if (req.url === '/jwks') return { keys };
    return {
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      jwks_uri: `${issuer}/jwks`,
    };
  };
  const server = createServer(async (req, res) => {
    const body = identity.isUnavailable ? {} : await respond(req);
    const status = identity.isUnavailable ? 503 : 'error' in body ? 400 : 200;
    res.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
  });
  await once(server.listen(port, '127.0.0.1'), 'listening');
  const identity: FakeIdentity = {
    issuer,
    isUnavailable: false,
    claims: {},
    isForging: false,
    callbackOf({ searchParams }) {
      const code = randomUUID();
      codes.set(code, searchParams);
      const back = new URLSearchParams({ code, state: searchParams.get('state') ?? '' });
      return `${searchParams.get('redirect_uri')}?${back}`;
    },
    sign,
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
  return identity;
}
