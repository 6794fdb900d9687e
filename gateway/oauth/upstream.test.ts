import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ResponseTooLarge } from '../auth/bounded-fetch.ts';
import { createUpstream, IdentityProviderUnavailable, type Upstream } from './upstream.ts';

/** Maximum number of bytes that the server can send to a reader that stops at 1 MiB, with socket buffers. */
const SENT_MAX = 64 * 1024 * 1024;

let server: Server;
let issuer: string;
let isDiscoverable = true;
let sent = 0;

beforeAll(async () => {
  server = createServer((req, res) => {
    const isMetadata = req.url?.startsWith('/.well-known/') ?? false;
    res.setHeader('Content-Type', 'application/json');
    if (isMetadata && isDiscoverable) res.end(metadata());
    else sendEndlessly(res);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  issuer = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

function metadata(): string {
  return JSON.stringify({
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
  });
}

function sendEndlessly(res: ServerResponse): void {
  sent = 0;
  const piece = ' '.repeat(64 * 1024);
  const more = (): void => {
    while (!res.destroyed && sent < 2 * SENT_MAX) {
      sent += piece.length;
      if (!res.write(piece)) return void res.once('drain', more);
    }
  };
  more();
}

function causesOf(error: unknown): unknown[] {
  return error instanceof Error ? [error, ...causesOf(error.cause)] : [];
}

const upstream = (): Upstream =>
  createUpstream({ issuer, clientId: 'x', clientSecret: 'y', redirectUri: `${issuer}/back` });

describe('an endless response of the identity provider counts as unavailable, and is not read to its end', () => {
  const expectUnavailable = async (work: Promise<unknown>): Promise<void> => {
    const causes = causesOf(await work.catch((error: unknown) => error));
    expect(causes[0]).toBeInstanceOf(IdentityProviderUnavailable);
    expect(causes).toContainEqual(expect.any(ResponseTooLarge));
    expect(sent).toBeLessThan(SENT_MAX);
  };

  test('metadata', async () => {
    isDiscoverable = false;
    await expectUnavailable(upstream().origin());
  });

  test('tokens', async () => {
    isDiscoverable = true;
    const client = upstream();
    const { expected } = await client.begin('a@example.com');
    const callback = new URL(`${issuer}/back?code=c&state=${expected.state}`);
    await expectUnavailable(client.finish(callback, expected));
  });
});
