import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createTestDatabase, type TestDatabase } from '../test/support/database.ts';
import { until } from '../test/support/until.ts';

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase('gateway');
});
afterAll(() => database.drop());

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url));
const TARGETS = ['RETURNS', 'DISPOSITIONS', 'DESTINATIONS', 'FRAUD', 'CARTS', 'WEBHOOKS'];

function start(env: Record<string, string>) {
  return spawn(process.execPath, [MAIN], {
    env: { PATH: process.env.PATH ?? '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

describe('the gateway process', () => {
  test('starts from the environment, and stops gracefully on SIGTERM', async () => {
    const targets = TARGETS.map((name) => [`${name}_TARGET`, '127.0.0.1:1']);
    const child = start({
      DATABASE_URL: database.url,
      SERVICE_TOKEN: 'a'.repeat(32),
      PORT: '0',
      METRICS_PORT: '0',
      ...Object.fromEntries(targets),
    });
    let port = 0;
    for await (const line of createInterface(child.stdout)) {
      const event: { msg?: string; port?: number } = JSON.parse(line);
      if (event.msg !== 'listening') continue;
      port = event.port ?? 0;
      break;
    }
    await until(async () => (await fetch(`http://127.0.0.1:${port}/readyz`)).status === 200);
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([0, null]);
  });

  test('names every missing variable and ends with status 1', async () => {
    const child = start({});
    let output = '';
    child.stderr.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
    expect(await once(child, 'exit')).toEqual([1, null]);
    for (const name of ['DATABASE_URL', 'SERVICE_TOKEN', 'CARTS_TARGET'])
      expect(output).toContain(name);
  });
});
