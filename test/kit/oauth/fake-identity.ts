import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';

/** Our client at the fake identity provider. */
export const SIGN_IN_CLIENT = { clientId: 'gateway', clientSecret: 'x' };

/** A fake identity provider that signs in every address, unless it is set to be unavailable. */
export interface FakeIdentity {
  readonly issuer: string;
  isUnavailable: boolean;
  /** Claims of the next ID tokens; they override the defaults, and undefined removes a claim. */
  claims: Record<string, unknown>;
  /** Whether ID tokens are signed by a key that is not published. */
  isForging: boolean;
  /** Returns the callback URL for an authorization URL. */
  callbackOf(sentTo: URL): string;
  stop(): void;
}

export async function startFakeIdentity(port: number): Promise<FakeIdentity> {
  const { privateKey, publicKey } = await generateKeyPair('RS256');
  const { privateKey: unpublished } = await generateKeyPair('RS256');
  const keys = [{ ...(await exportJWK(publicKey)), kid: 'k', alg: 'RS256' }];
  /** The sign-ins of unused codes. */
  const codes = new Map<string, URLSearchParams>();
  const issuer = `http://127.0.0.1:${port}`;

  const redeem = async (req: IncomingMessage): Promise<object> => {
    const code = new URLSearchParams(Buffer.concat(await req.toArray()).toString()).get('code');
    const asked = codes.get(code ?? '');
    if (code === null || !asked) return { error: 'invalid_grant' };
    codes.delete(code);
    const claims = {
      iss: issuer,
      aud: SIGN_IN_CLIENT.clientId,
      sub: 'somebody',
      nonce: asked.get('nonce'),
      email: asked.get('login_hint'),
      email_verified: true,
      exp: Math.floor(Date.now() / 1_000) + 300,
      ...identity.claims,
    };
    const id_token = await new SignJWT(claims)
      .setProtectedHeader({ alg: 'RS256', kid: 'k' })
      .setIssuedAt()
      .sign(identity.isForging ? unpublished : privateKey);
    return { access_token: 'x', token_type: 'Bearer', id_token };
  };
  const answer = async (req: IncomingMessage): Promise<object> => {
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
    const body = identity.isUnavailable ? {} : await answer(req);
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
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
  return identity;
}
