import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import express from 'express';
import { portalPageRouter } from './page.ts';

let folder: string;
let server: Server;
const at = (path: string): string =>
  `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;

/** Every page may be shown. */
const signInFor = async () => undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'portal-page-'));
  await mkdir(join(folder, 'assets'));
  await writeFile(
    join(folder, 'index.html'),
    '<script nonce="__CSP_NONCE__"></script><style nonce="__CSP_NONCE__">',
  );
  await writeFile(join(folder, 'assets', 'main-abc123.js'), 'console.log(1);'.repeat(1_000));
  await writeFile(join(folder, 'icon.svg'), '<svg/>');
  await writeFile(join(folder, 'secret.json'), '{}');
  const app = express().use(portalPageRouter({ dist: pathToFileURL(`${folder}/`), signInFor }));
  server = createServer(app).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
});
afterAll(async () => {
  server.close();
  await rm(folder, { recursive: true });
});

test.each(['/portal', '/portal/', '/portal/webhooks/41/deliveries'])(
  '%s is the page',
  async (path) => {
    const response = await fetch(at(path));
    const text = await response.text();
    const policy = response.headers.get('content-security-policy') ?? '';
    const nonce = /'nonce-([^']+)'/.exec(policy)?.[1] ?? '';
    expect(nonce).toMatch(/^[A-Za-z0-9+/]{22}==$/);
    expect(text).toBe(`<script nonce="${nonce}"></script><style nonce="${nonce}">`);
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
    expect(policy).toContain("frame-ancestors 'none'");
  },
);

test('has another nonce each time', async () => {
  const texts = await Promise.all([1, 2].map(async () => (await fetch(at('/portal'))).text()));
  expect(texts[0]).not.toBe(texts[1]);
});

test('serves hashed files for ever, compressed', async () => {
  const response = await fetch(at('/portal/assets/main-abc123.js'), {
    headers: { 'accept-encoding': 'gzip, br' },
  });
  expect(response.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
  expect(response.headers.get('content-encoding')).toBe('br');
  expect(await response.text()).toHaveLength(15_000);
  const plain = await fetch(at('/portal/assets/main-abc123.js'), {
    headers: { 'accept-encoding': 'br;q=0' },
  });
  expect(plain.headers.get('content-encoding')).toBeNull();
  expect((await fetch(at('/portal/icon.svg'))).headers.get('content-type')).toBe('image/svg+xml');
});

test.each([
  '/portal/assets/absent.js',
  '/portal/assets/..%2f..%2fpackage.json',
  '/portal/assets/sub/main.js',
  '/portalx',
])('%s does not exist', async (path) => {
  expect((await fetch(at(path))).status).toBe(404);
});

test('a file of an unknown kind is not served', async () => {
  expect(await (await fetch(at('/portal/secret.json'))).text()).toContain('<script');
});

test('says how to build the page when it is not built', async () => {
  const app = express().use(
    portalPageRouter({ dist: pathToFileURL(`${folder}/none/`), signInFor }),
  );
  const other = createServer(app).listen(0, '127.0.0.1');
  await new Promise((resolve) => other.once('listening', resolve));
  const response = await fetch(`http://127.0.0.1:${(other.address() as AddressInfo).port}/portal`);
  expect([response.status, await response.text()]).toEqual([
    503,
    expect.stringContaining('npm run portal:build'),
  ]);
  other.close();
});
