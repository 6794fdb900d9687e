import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { advanceClock } from '../../test/kit/clock.ts';
import { startFaultyEndpoint } from '../../test/kit/commerce/faulty-endpoint.ts';
import { runAdmin } from '../../test/kit/gateway/run-admin.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { type ReturnsBench, startReturnsBench } from '../../test/kit/services/returns-bench.ts';
import { actor, identity } from '../../test/kit/services/running-service.ts';
import { until } from '../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../test/kit/webhooks/receiver.ts';
import { connectServices } from '../services.ts';

let under: TestGateway;
let bench: ReturnsBench;
let clients: ReturnType<typeof connectServices>;
let receiver: Receiver;
let shopId: bigint;
beforeAll(async () => {
  under = await startTestGateway();
  bench = await startReturnsBench();
  receiver = await startReceiver();
  const { target } = bench;
  const unused = { destinations: target, dispositions: target, fraud: target };
  const targets = { ...unused, carts: target, webhooks: target, returns: target };
  clients = connectServices(targets, { identity });
});
afterAll(async () => {
  clients?.close();
  await receiver?.stop();
  await bench?.stop();
  await under?.stop();
});
beforeEach(async () => {
  shopId = await under.newShop();
  await bench.client.updateSettings({ shopId, actor, settings: { currency: 'GBP' } });
});

const admin = (...words: string[]) =>
  runAdmin({ pool: under.database.pool, services: clients.services }, words);
/** The lines of a command that fails, and then its error. */
async function failing(...words: string[]): Promise<string[]> {
  const lines: string[] = [];
  const context = { pool: under.database.pool, services: clients.services };
  const error = await runAdmin(context, words, lines).catch((caught: unknown) => caught);
  if (!(error instanceof Error)) throw new Error('the command did not fail');
  return [...lines, error.message];
}
const commerce = (command: string, ...words: string[]) =>
  admin('commerce', command, '--shop', `${shopId}`, ...words);
const SECRET = /^secret (whsec_\S+) {2}\(shown only now\)$/;

async function audited(): Promise<string[]> {
  const { rows } = await under.database.pool.query<{ action: string; detail: unknown }>(
    'select action, detail from audit_log where shop_id = $1 order by id',
    [shopId],
  );
  return rows.map(({ action, detail }) => `${action} ${JSON.stringify(detail)}`);
}

describe('commerce', () => {
  test('connects, shows, rotates and disconnects; only the log of changes has no secret', async () => {
    expect(await commerce('show')).toEqual([`shop ${shopId} is not connected`]);
    const [line, secret = ''] = await commerce('connect', '--url', `${receiver.url}/`);
    expect(line).toContain(`shop ${shopId}  http  ${receiver.url}/  connected `);
    expect(secret).toMatch(SECRET);
    expect(await commerce('connect', '--url', `${receiver.url}/`)).toEqual([
      line,
      'the secret has not changed',
    ]);
    expect(await commerce('show')).toEqual([line]);
    const [rotated = ''] = await commerce('rotate', '--overlap', '0');
    expect(rotated).toMatch(SECRET);
    expect(rotated).not.toBe(secret);
    expect(await commerce('disconnect')).toEqual([`shop ${shopId} is disconnected`]);
    expect(await commerce('disconnect')).toEqual([`shop ${shopId} is not connected`]);
    const entries = await audited();
    expect(entries.map((entry) => entry.split(' ')[0])).toEqual([
      'commerce.connected',
      'commerce.connected',
      'commerce.secret.rotated',
      'commerce.disconnected',
    ]);
    expect(entries.join()).not.toContain('whsec_');
  });

  test('says why an address is not allowed', async () => {
    const [message] = await failing(
      ...['commerce', 'connect', '--shop', `${shopId}`, '--url', 'https://10.0.0.1/'],
    );
    expect(message).toContain('url must not be a private');
  });

  test('shows an order of the provider', async () => {
    await expect(commerce('order', '--name', '#1001')).rejects.toThrow('looks up no orders');
    await commerce('connect', '--url', `${receiver.url}/`);
    let order: object | null = null;
    receiver.answer = (response) => void response.end(JSON.stringify({ order }));
    expect(await commerce('order', '--name', '#1001')).toEqual(['there is no order #1001']);
    const line = { line_item_id: 9, title: 'Mug', quantity: 2, returnable: 1 };
    const unit_price = { shop: '10.00', presentment: '1550' };
    const names = { id: 445, name: '#1001', currency: 'GBP', presentment_currency: 'JPY' };
    order = { ...names, lines: [{ ...line, unit_price }] };
    expect(await commerce('order', '--name', '#1001')).toEqual([
      '#1001  445  GBP, paid in JPY',
      '9  -  Mug  1 of 2 returnable  paid 20.00 GBP (3100 JPY), left 10.00 GBP (1550 JPY)',
    ]);
  });

  test('lists the effects of a return', async () => {
    const { id: returnId } = await bench.submit(shopId);
    expect(await commerce('effects', '--return', `${returnId}`)).toEqual([
      `return ${returnId} has no effects`,
    ]);
    await bench.client.processReturn({ shopId, actor, returnId });
    const isClosed = async () =>
      (await bench.read({ shopId, id: returnId })).state === ReturnState.CLOSED;
    await until(isClosed);
    const [line] = await commerce('effects', '--return', `${returnId}`);
    expect(line).toMatch(
      /^refund {2}made {2}rms:return:\d+:[0-9a-f]{32}:refund {2}asked 20\S+ {2}answered 20\S+ {2}\S+ GBP {2}\d+$/,
    );
  });

  test('settles an effect with an unknown outcome', async () => {
    const { id: returnId } = await bench.submit(shopId);
    await commerce('connect', '--url', `${receiver.url}/`);
    receiver.answer = (response) => {
      const effect = { id: 'R-7', amount: '0.01', currency: 'GBP' };
      response.end(JSON.stringify({ effect }));
    };
    await bench.client.processReturn({ shopId, actor, returnId });
    const state = async () => (await commerce('effects', '--return', `${returnId}`))[0] ?? '';
    await until(async () => (await state()).startsWith('refund  unknown'));
    const [, hint] = await commerce('effects', '--return', `${returnId}`);
    expect(hint).toContain(`commerce settle --shop ${shopId} --return ${returnId} --effect refund`);
    await until(async () => !(await bench.read({ shopId, id: returnId })).processing);
    const settle = (...words: string[]) =>
      commerce('settle', '--return', `${returnId}`, '--effect', 'refund', ...words);
    await expect(settle()).rejects.toThrow('say either --made <id> or --not-made');
    await expect(settle('--not-made')).rejects.toThrow('may still arrive');
    advanceClock(121_000);
    const made = ['--made', 'R-7', '--amount', '0.01', '--gateway', 'card'];
    expect(await settle(...made)).toEqual(['refund  made  0.01 GBP  R-7']);
    await expect(settle('--not-made')).rejects.toThrow('is known');
    expect((await audited()).at(-1)).toBe(
      'commerce.effect.settled {"state":"made","effect":"refund","provider_id":"R-7"}',
    );
  });

  test('checks an endpoint, and fails when a check fails', async () => {
    const [, secret = ''] = await commerce('connect', '--url', `${receiver.url}/`);
    const value = SECRET.exec(secret)?.[1] ?? '';
    const sound = await startFaultyEndpoint(value, undefined);
    await commerce('connect', '--url', sound.url);
    const lines = await commerce('check');
    expect(lines.at(-1)).toBe('all 14 checks passed');
    sound.stop();
    const faulty = await startFaultyEndpoint(value, 'forgets keys');
    await commerce('connect', '--url', faulty.url);
    const found = await failing('commerce', 'check', '--shop', `${shopId}`);
    expect(found).toContainEqual(expect.stringMatching(/^FAILED {2}makes nothing again/));
    expect(found.at(-1)).toMatch(/^\d of 14 checks failed$/);
    faulty.stop();
  }, 60_000);
});

describe('reconcile', () => {
  test('compares days, and fails when effects differ', async () => {
    await commerce('connect', '--url', `${receiver.url}/`);
    receiver.answer = (response) => {
      const key = 'rms:return:1:refund';
      const effect = { id: 'R-1', key, kind: 'refund', amount: '5.00', currency: 'GBP' };
      const effects = [{ ...effect, created_at: new Date().toISOString() }];
      response.end(JSON.stringify({ effects, next_cursor: null }));
    };
    const today = new Date().toISOString().slice(0, 10);
    const lines = await failing('reconcile', '--shop', `${shopId}`, '--from', today);
    expect(lines).toEqual([
      `${today}  1 compared, 1 differ`,
      '  unexpected  refund  rms:return:1:refund  ours -  theirs 5.00 GBP  R-1',
      '1 effects differ',
    ]);
    receiver.answer = (response) => {
      response.end(JSON.stringify({ effects: [], next_cursor: null }));
    };
    expect(await admin('reconcile', '--shop', `${shopId}`, '--from', today)).toEqual([
      `${today}  0 compared, 0 differ`,
    ]);
  });
});
