import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { isPublicAddress } from '../../platform/outbound/address.ts';
import { checkUrl, type UrlPolicy } from '../../platform/outbound/guard.ts';
import { type Dial, openSocket, trustOf } from '../../platform/outbound/open-socket.ts';
import { onRequest, sendingFixtures } from './testing/sending.ts';

const file = new URL('../../platform/outbound/hostile-urls.json', import.meta.url);
const corpus = z
  .record(z.string(), z.array(z.string()))
  .parse(JSON.parse(readFileSync(file, 'utf8')));
const URLS = Object.values(corpus).flat();

const PRODUCTION: UrlPolicy = { allowedOrigins: [], stackPorts: () => [] };
const LOCAL: UrlPolicy = { allowedOrigins: ['http://127.0.0.1:*'], stackPorts: () => [8080] };
const NAME = 'hooks.example.com';
const PUBLIC = '93.184.215.14';

const { sender, peer } = sendingFixtures();

/** Every connection, whatever its destination, arrives here. */
let trap: Awaited<ReturnType<typeof peer>>;
/** The intended destinations. */
let dialled: string[];
let dial: Dial;

beforeEach(async () => {
  trap = await peer((socket) => socket.end());
  dialled = [];
  dial = (addresses): Socket => {
    dialled.push(...addresses);
    return connect({ host: '127.0.0.1', port: trap.port });
  };
});

/** What a name would have to resolve to, to reach the URL: its host, as address or as text. */
function hostOf(url: string): string {
  const host = URL.parse(url)?.hostname ?? /^[a-z+]*:?\/*([^/?#]*)/i.exec(url)?.[1] ?? url;
  return host.replace(/^\[|\]$/g, '').replace(/^example\.com$|^$/, '127.0.0.1');
}

test('there are at least 200 of them', () => {
  expect(new Set(URLS).size).toBe(URLS.length);
  expect(URLS.length).toBeGreaterThanOrEqual(200);
});

test('the trap works: a public name is connected to, at the checked address', async () => {
  const send = sender({ policy: PRODUCTION, resolve: async () => [PUBLIC], dial });
  expect(await send(`https://${NAME}/`)).toMatchObject({ kind: 'failed', status: 0 });
  expect(dialled).toEqual([PUBLIC]);
  expect(trap.connections()).toBe(1);
});

describe.each(Object.entries(corpus))('%s', (_kind, urls) => {
  test('cannot be saved', () => {
    const saved = urls.filter((url) => checkUrl(url, PRODUCTION).ok || checkUrl(url, LOCAL).ok);
    expect(saved).toEqual([]);
  });

  test('are not connected to, even if they were saved', async () => {
    // Every name leads to the trap, so that an accepted name is noticed.
    for (const policy of [PRODUCTION, LOCAL]) {
      const send = sender({ policy, resolve: async () => ['127.0.0.1'], dial });
      for (const url of urls) {
        expect({ url, ...(await send(url)) }).toMatchObject({ url, kind: 'failed', status: 0 });
      }
    }
    expect(dialled).toEqual([]);
    expect(trap.connections()).toBe(0);
  });

  test('are rejected by the connector alone, whatever earlier checks said', async () => {
    const secureContext = trustOf(undefined);
    const signal = new AbortController().signal;
    for (const url of urls.flatMap((text) => URL.parse(text) ?? [])) {
      const timing = { dnsMs: null, connectMs: null, tlsMs: null };
      const o = { policy: PRODUCTION, resolve: async () => ['127.0.0.1'], dial, secureContext };
      await expect(openSocket(url, o, { signal, timing })).rejects.toThrow(
        expect.objectContaining({ name: 'AddressNotAllowed' }),
      );
    }
    expect(dialled).toEqual([]);
    expect(trap.connections()).toBe(0);
  });

  test('are not reached by a name that resolves to another address the second time, or to both', async () => {
    for (const host of urls.map(hostOf)) {
      const answers = [[PUBLIC], [host], [PUBLIC, host], [host, PUBLIC]];
      let asked = 0;
      const resolve = async () => answers[asked++] ?? [];
      const send = sender({ policy: PRODUCTION, resolve, dial });
      dialled = [];
      for (const _ of answers) await send(`https://${NAME}/`);
      // The name is resolved once for each connection, and only the first result is used.
      expect({ host, asked, dialled }).toEqual({ host, asked: 4, dialled: [PUBLIC] });
    }
    expect(dialled.every(isPublicAddress)).toBe(true);
  });

  test('are not reached by a redirect', async () => {
    let location = '';
    const receiver = await peer((socket) =>
      onRequest(socket, () => {
        const head = Buffer.from(`HTTP/1.1 307 X\r\nlocation: ${location}\r\n`, 'utf8');
        socket.write(Buffer.concat([head, Buffer.from('content-length: 0\r\n\r\n')]));
      }),
    );
    const toReceiver: Dial = (addresses, port) => {
      if (port !== receiver.port) return dial(addresses, port);
      return connect({ host: '127.0.0.1', port });
    };
    const send = sender({ policy: LOCAL, resolve: async () => ['127.0.0.1'], dial: toReceiver });
    for (const url of urls) {
      // A header has no control characters; a client would not see the redirect at all.
      location = url.replace(/\p{Cc}/gu, '');
      expect(await send(receiver.url)).toMatchObject({ kind: 'failed', status: 307 });
    }
    expect(dialled).toEqual([]);
    expect(trap.connections()).toBe(0);
  });
});
