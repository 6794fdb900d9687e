import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { freePort } from '../../deploy/local/free-ports.ts';
import { browse } from '../../deploy/local/identity/testing/browser.ts';
import { AutomaticProcessing_Moment } from '../../proto/gen/rms/returns/v1/policy_pb.ts';
import { admin } from '../kit/journeys/admin.ts';
import { callIn, journeyForTests, untilState } from '../kit/journeys/journey.ts';
import { ROOT } from '../kit/process.ts';
import { until } from '../kit/until.ts';

const journey = journeyForTests();

/** The apps of `docs/apps`. */
const EXAMPLES = [
  { name: 'Node', command: process.execPath, file: 'node/app.mjs' },
  { name: 'Python', command: 'python3', file: 'python/app.py' },
] as const;

/** Registers an app by the command of the page, and returns its id and secret. */
async function register(redirectUri: string): Promise<{ id: string; secret: string }> {
  const options = ['--redirect-uri', redirectUri, '--scopes', 'returns:submit,warehouse'];
  const lines = await admin(
    journey.stack,
    'partner-app',
    'create',
    '--name',
    'Example',
    ...options,
  );
  const printed = (name: string) => new RegExp(`^${name}: (\\S+)$`, 'm').exec(lines)?.[1] ?? '';
  return { id: printed('client id'), secret: printed('client secret') };
}

async function stop(child: ChildProcess): Promise<void> {
  const closed = once(child, 'close');
  child.kill('SIGKILL');
  await closed;
}

/** The policy that the page tells the owner to choose. */
beforeAll(async () => {
  const { returns } = journey.services;
  const call = callIn(journey.stack.shop);
  const policy = { process: { moment: AutomaticProcessing_Moment.ARRIVED } };
  await returns.updatePolicy({ ...call, policy });
});

describe.each(EXAMPLES)('the app in $name', ({ command, file }) => {
  test('is let in by a merchant, calls the API, refreshes, and gives the access back', async () => {
    const { stack } = journey;
    const { base_url, users } = stack.file;
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const redirectUri = `${url}/callback`;
    const { id, secret } = await register(redirectUri);
    const child = spawn(command, [join(ROOT, 'docs/apps', file)], {
      env: {
        PATH: process.env.PATH,
        BASE_URL: base_url,
        CLIENT_ID: id,
        CLIENT_SECRET: secret,
        REDIRECT_URI: redirectUri,
      },
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    try {
      await until(() => fetch(`${url}/`).then(() => true), {
        withinMs: 30_000,
        despiteErrors: true,
      });
      const { email = '', password = '' } = users.find(({ name }) => name === 'owner') ?? {};
      const fields = { email, password };
      const back = await browse(new URL(`${url}/connect`), { fields, until: 'none' });
      const shop = String(stack.shop.id);
      expect([back.status, JSON.parse(back.text)]).toEqual([
        200,
        { shop_id: stack.shop.id, scope: 'returns:submit warehouse', expires_in: 3_600 },
      ]);
      const send = (path: string, query = '', method = 'POST') =>
        fetch(`${url}${path}?shop=${shop}${query}`, { method });
      const answerOf = async (path: string, query = '') =>
        (await send(path, query, path === '/details' ? 'GET' : 'POST')).json();
      const order = `&order=%23T10-${randomInt(1_000, 1_000_000)}`;
      for (const path of ['/return', '/refresh', '/disconnect']) {
        expect((await send(path, order, 'GET')).status).toBe(405);
      }
      const { return_id: first } = (await answerOf('/return', order)) as { return_id: number };
      expect(await answerOf('/refresh')).toMatchObject({ shop_id: stack.shop.id });
      const { return_id: second } = (await answerOf('/return', order)) as { return_id: number };
      for (const returned of [first, second]) {
        await untilState(journey, returned, 'closed');
        const details = await answerOf('/details', `&id=${returned}`);
        expect(details).toEqual({ id: returned, state: 'closed', refund: '12.00' });
      }
      expect(await answerOf('/disconnect')).toEqual({ disconnected: shop });
      // A second callback with the same answer is no sign-in of this app.
      expect((await fetch(back.url)).status).toBe(502);
    } finally {
      await stop(child);
    }
  });
});
