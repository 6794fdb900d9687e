import { createSocket, type RemoteInfo } from 'node:dgram';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { z } from 'zod';
import { until } from '../../../test/kit/until.ts';
import { NoSocketLeft } from '../../platform/outbound/failure.ts';
import { checkUrl, isPublicAddress, type UrlPolicy } from '../../platform/outbound/guard.ts';
import { type Dial, openSocket, trustOf } from '../../platform/outbound/open-socket.ts';
import { createResolver } from '../../platform/outbound/resolver.ts';
import { OK, onRequest, sendingFixtures } from './testing/sending.ts';

const { sender, peer } = sendingFixtures();

describe('a name', () => {
  const A = 1;
  const AAAA = 28;

  /** Addresses for the response; a status (2 fails, 3 no such name); undefined for no response. */
  type Reply = readonly number[][] | number | undefined;
  type ReplyTo = (name: string, type: number) => Reply | Promise<Reply>;

  const closers: (() => void)[] = [];
  afterEach(() => {
    jest.restoreAllMocks();
    for (const close of closers.splice(0)) close();
  });
  const { sender } = sendingFixtures();

  /** A name server on loopback. */
  async function startNameServer(reply: ReplyTo) {
    const socket = createSocket('udp4');
    const asked: string[] = [];
    const questions = new Set<string>();
    socket.on('message', async (query: Buffer, from: RemoteInfo) => {
      const { name, end } = readName(query);
      const type = query.readUInt16BE(end);
      // A client that waited too long asks again with the same id. That counts as one question.
      const asks = `${query.readUInt16BE(0)} ${name} ${type}`;
      if (!questions.has(asks)) asked.push(`${name} ${type}`);
      questions.add(asks);
      const answer = await reply(name, type);
      if (answer === undefined) return;
      const addresses = typeof answer === 'number' ? [] : answer;
      const header = Buffer.alloc(12);
      query.copy(header, 0, 0, 2);
      header.writeUInt16BE(0x8180 | (typeof answer === 'number' ? answer : 0), 2);
      header.writeUInt16BE(1, 4);
      header.writeUInt16BE(addresses.length, 6);
      const records = addresses.map((bytes) =>
        // The name by its offset, type, class IN, a TTL of one minute, the address.
        Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 60, 0, bytes.length, ...bytes]),
      );
      const question = query.subarray(12, end + 4);
      socket.send(Buffer.concat([header, question, ...records]), from.port, from.address);
    });
    socket.bind(0, '127.0.0.1');
    await once(socket, 'listening');
    closers.push(() => socket.close());
    return { server: `127.0.0.1:${socket.address().port}`, asked };
  }

  function readName(query: Buffer): { name: string; end: number } {
    const labels: string[] = [];
    let at = 12;
    for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
      labels.push(query.toString('latin1', at + 1, at + 1 + length));
      at += length + 1;
    }
    return { name: labels.join('.').toLowerCase(), end: at + 1 };
  }

  const V4 = [[93, 184, 215, 14]];
  const V6 = [[0x26, 6, 0x47, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x11]];

  test('returns all its addresses, IPv4 first', async () => {
    const { server } = await startNameServer((_name, type) => (type === A ? V4 : V6));
    const resolve = createResolver({ servers: [server] });
    expect(await resolve('a.example.com')).toEqual(['93.184.215.14', '2606:4700::1111']);
  });

  test('with one family is not delayed by a missing response for the other', async () => {
    for (const family of [A, AAAA]) {
      const { server } = await startNameServer((_name, type) =>
        type !== family ? undefined : family === A ? V4 : V6,
      );
      // A client that waits for the other family would reach the limit.
      const resolve = createResolver({ servers: [server], limitMs: 3_500 });
      expect(await resolve('a.example.com')).toHaveLength(1);
    }
  });

  test('is resolved again at each connection, and once for parallel callers', async () => {
    const { server, asked } = await startNameServer((_name, type) => (type === A ? V4 : 0));
    const resolve = createResolver({ servers: [server] });
    await Promise.all([1, 2, 3].map(() => resolve('a.example.com')));
    expect(asked.length).toBe(2);
    await resolve('a.example.com');
    expect(asked.length).toBe(4);
  });

  test('that does not exist is not resolved again for a moment', async () => {
    const { server, asked } = await startNameServer(() => 3);
    const resolve = createResolver({ servers: [server] });
    // The same moment, however long this takes.
    const clock = jest.spyOn(performance, 'now').mockReturnValue(performance.now());
    for (const _ of [1, 2]) {
      await expect(resolve('a.example.com')).rejects.toMatchObject({ code: 'ENOTFOUND' });
    }
    clock.mockRestore();
    expect(asked.length).toBe(2);
    await expect(resolve('b.example.com')).rejects.toMatchObject({ code: 'ENOTFOUND' });
    expect(asked.length).toBe(4);
  });

  test('without a response ends the attempt', async () => {
    const { server } = await startNameServer(() => undefined);
    const resolve = createResolver({ servers: [server], limitMs: 200 });
    await expect(resolve('a.example.com')).rejects.toThrow('host name not resolved in time');
    const patient = createResolver({ servers: [server] });
    const policy = { allowedOrigins: [], stackPorts: () => [] };
    const send = sender({ policy, resolve: patient, attemptMs: 300 });
    // The limit of the attempt ends it, not the longer one of the name, which would be a failure.
    expect(await send('https://b.example.com/')).toMatchObject({
      kind: 'timeout',
      timing: { dnsMs: null, connectMs: null },
    });
  });

  test('waits while too many other names are being resolved', async () => {
    const held = Promise.withResolvers<void>();
    const { server, asked } = await startNameServer(async (name, type) => {
      if (name.startsWith('slow')) await held.promise;
      return type === A ? V4 : 0;
    });
    const resolve = createResolver({ servers: [server], maxConcurrent: 2 });
    const slow = ['slow1.example.com', 'slow2.example.com'].map(resolve);
    await until(() => asked.length === 4);
    const fast = resolve('a.example.com');
    // If `a.example.com` had been resolved, its query would have arrived before the query for `later.example.com`.
    await createResolver({ servers: [server] })('later.example.com');
    expect(asked.some((question) => question.startsWith('a.'))).toBe(false);
    held.resolve();
    expect(await Promise.all([...slow, fast])).toEqual(Array(3).fill(['93.184.215.14']));
  });
});

describe('hostile urls', () => {
  const file = new URL('../../platform/outbound/hostile-urls.json', import.meta.url);
  const corpus = z
    .record(z.string(), z.array(z.string()))
    .parse(JSON.parse(readFileSync(file, 'utf8')));
  const URLS = Object.values(corpus).flat();

  const PRODUCTION: UrlPolicy = { allowedOrigins: [], stackPorts: () => [] };
  const LOCAL: UrlPolicy = { allowedOrigins: ['http://127.0.0.1:*'], stackPorts: () => [8080] };
  const NAME = 'hooks.example.com';
  const PUBLIC = '93.184.215.14';

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
});

/** Fails like Node. */
function failingDial(fields: { code: string; address?: string }): Dial {
  return () => {
    const socket = new Socket();
    process.nextTick(() => socket.destroy(Object.assign(new Error(fields.code), fields)));
    return socket;
  };
}

describe('when this process has no socket left', () => {
  test.each([
    { code: 'EMFILE' },
    { code: 'ENFILE' },
    { code: 'ENOBUFS' },
    { code: 'EADDRNOTAVAIL', address: '127.0.0.1' },
  ])('nothing counts as an attempt: $code', async (fields) => {
    const post = sender({ dial: failingDial(fields) });
    const error = await post('http://127.0.0.1:9999/').catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(NoSocketLeft);
    expect(error).toMatchObject({ code: fields.code });
  });

  test.each([
    { code: 'ECONNREFUSED', address: '127.0.0.1' },
    { code: 'EADDRNOTAVAIL', address: '::1' },
  ])('another error counts as a failed attempt: $code at $address', async (fields) => {
    const post = sender({ dial: failingDial(fields) });
    expect(await post('http://127.0.0.1:9999/')).toMatchObject({ kind: 'failed' });
  });

  test('closes idle connections', async () => {
    let closed = 0;
    const receiver = await peer((socket) => {
      socket.once('close', () => {
        closed += 1;
      });
      onRequest(socket, () => socket.write(OK));
    });
    let hasNoSocketLeft = false;
    const post = sender({
      dial: ([host = ''], port) =>
        hasNoSocketLeft ? failingDial({ code: 'EMFILE' })([host], port) : connect({ host, port }),
    });
    await post(receiver.url);
    hasNoSocketLeft = true;
    await expect(post('http://127.0.0.1:9999/')).rejects.toThrow(NoSocketLeft);
    while (closed === 0) await new Promise(setImmediate);
    expect(closed).toBe(1);
  });
});
