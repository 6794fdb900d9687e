import { createSocket, type RemoteInfo } from 'node:dgram';
import { once } from 'node:events';
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { until } from '../../../test/kit/until.ts';
import { createResolver } from '../../platform/outbound/resolver.ts';
import { sendingFixtures } from './testing/sending.ts';

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

describe('a name', () => {
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
