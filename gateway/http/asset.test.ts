import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { afterEach, describe, expect, test } from '@jest/globals';
import express from 'express';
import { until } from '../../test/kit/until.ts';
import { type Asset, sendAsset } from './asset.ts';
import type { EndReason } from './connections.ts';
import type { MinimumRate } from './minimum-rate.ts';
import { startHttpServer } from './server.ts';

const MIB = 1024 * 1024;

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

async function serve(plain: Buffer, rate?: MinimumRate) {
  const none = Buffer.alloc(0);
  const asset: Asset = { type: 'text/plain', etag: 'W/"1"', plain, br: none, gzip: none };
  const app = express().get('/', (req, res) => sendAsset(req, res, asset, rate));
  const ended: EndReason[] = [];
  const server = await startHttpServer(app, {
    host: '127.0.0.1',
    port: 0,
    counts: { opened: () => {}, closed: () => {}, ended: (reason) => ended.push(reason) },
    limits: { idleAtStopMs: 0 },
  });
  cleanups.push(() => server.stop());
  return { port: server.port, ended };
}

describe('a large asset', () => {
  test.each([
    ['GET', 1],
    ['HEAD', 0],
  ])('arrives unchanged: %s', async (method, copies) => {
    const plain = Buffer.from(Array.from({ length: 300_000 }, (_, nth) => `${nth},`).join(''));
    expect(plain.length).toBeGreaterThan(MIB);
    const { port } = await serve(plain);
    const [res]: IncomingMessage[] = await once(request({ port, method }).end(), 'response');
    expect(res?.headers['content-length']).toBe(String(plain.length));
    const received = res ? await buffer(res) : Buffer.alloc(0);
    expect(received.equals(plain.subarray(0, copies * plain.length))).toBe(true);
  });

  test('that the client does not read is aborted, and the connection is closed', async () => {
    const { port, ended } = await serve(Buffer.alloc(32 * MIB), { bytesPerS: 1, windowMs: 200 });
    const socket = connect(port, '127.0.0.1')
      .pause()
      .on('error', () => {});
    socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    await until(() => ended.length > 0);
    expect(ended).toEqual(['answer not read']);
    socket.destroy();
  });
});
