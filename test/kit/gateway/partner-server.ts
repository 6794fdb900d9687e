import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';

/** An authorization server for partners' apps, as the gateway sees one: its keys, and tokens that it signs. */
export interface PartnerServer {
  /** The settings with which a gateway accepts its tokens. */
  readonly settings: {
    readonly PARTNER_ISSUER: string;
    readonly PARTNER_JWKS_URL: string;
    readonly PUBLIC_BASE_URL: string;
  };
  /** A token of an app for shop 1. @param o.scope separated by spaces. */
  token(o: { readonly clientId: string; readonly scope: string }): Promise<string>;
  stop(): void;
}

const ISSUER = 'https://login.example.com/';
const AUDIENCE = 'https://api.example.com';

export async function startPartnerServer(): Promise<PartnerServer> {
  const { privateKey, publicKey } = await generateKeyPair('ES256');
  const keys = [{ ...(await exportJWK(publicKey)), kid: 'k1', alg: 'ES256' }];
  const server = createServer((_req, res) => res.end(JSON.stringify({ keys })));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    settings: {
      PARTNER_ISSUER: ISSUER,
      PARTNER_JWKS_URL: `http://127.0.0.1:${port}/jwks`,
      PUBLIC_BASE_URL: AUDIENCE,
    },
    token: ({ clientId, scope }) =>
      new SignJWT({ client_id: clientId, shop_id: 1, scope })
        .setProtectedHeader({ alg: 'ES256', kid: 'k1', typ: 'at+jwt' })
        .setIssuer(ISSUER)
        .setAudience(AUDIENCE)
        .setExpirationTime('10m')
        .sign(privateKey),
    stop: () => void server.close(),
  };
}
