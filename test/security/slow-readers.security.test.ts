import { connect } from 'node:net';
import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createApiKey } from '../../gateway/tenancy/api-keys.ts';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { CustomerSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { SCOPES } from '../../services/contract/scopes.ts';
import { DomainError } from '../../services/platform/values/errors.ts';
import { createTestDatabase, type TestDatabase } from '../kit/database.ts';
import { startFakeBackend } from '../kit/gateway/fake-backend.ts';
import { sampleReturn } from '../kit/gateway/fake-objects.ts';
import { TEST_AUTHOR } from '../kit/gateway/test-gateway.ts';
import { until } from '../kit/until.ts';
import { ask, repeat } from './attacks.ts';
import { startGatewayInCgroup } from './gateway-in-cgroup.ts';
import type { ProcessInCgroup } from './process-in-cgroup.ts';

const MIB = 1024 * 1024;
const RETURN_BYTES = 23 * MIB;
const SLOW_SHOPS = 20;
const DETAILS = '/api/v1/warehouse/return/details?return_id=11';
/** Longer than the 5 s after which a slow client is disconnected for others, shorter than its limit of 120 s. */
const TIMEOUT_MS = 30_000;

let database: TestDatabase;
let backend: Awaited<ReturnType<typeof startFakeBackend>>;
let gateway: ProcessInCgroup;
let keys: readonly string[];

beforeAll(async () => {
  database = await createTestDatabase('gateway');
  backend = await startFakeBackend();
  const customer = create(CustomerSchema, { firstName: 'x'.repeat(RETURN_BYTES) });
  backend.services.returns.findReturn = ({ maxBytes }) => {
    const reason = ErrorReason.ANSWER_TOO_LARGE;
    if (maxBytes > 0) throw new DomainError(Code.ResourceExhausted, reason, 'too large');
    return { return: { ...sampleReturn(), customer } };
  };
  const newKey = async (): Promise<string> => {
    const { rows } = await database.pool.query<{ id: bigint }>(
      `with founder as (
         insert into users (email) values (gen_random_uuid() || '@example.com') returning id
       )
       insert into shops (name, currency, founder_id) select 'Shop', 'GBP', id from founder
       returning id`,
    );
    const key = { scopes: SCOPES, description: 'Test', by: TEST_AUTHOR, restPerMinute: 1_000_000 };
    return (await createApiKey(database.pool, { shopId: rows[0]?.id ?? 0n, ...key })).text;
  };
  keys = await Promise.all(Array.from({ length: SLOW_SHOPS + 1 }, newKey));
  gateway = await startGatewayInCgroup({
    databaseUrl: database.url,
    targets: backend.targets,
    serviceToken: 'test-token-of-32-characters-or-more',
  });
});
afterAll(async () => {
  await gateway.stop();
  await backend.stop();
  await database.drop();
});

/** Requests a large return and does not read it. Repeats this when it is disconnected. @returns a function that stops it. */
function neverReads(key: string): () => void {
  let isOver = false;
  let leave = (): void => {};
  const begin = (): void => {
    const socket = connect(gateway.port, '127.0.0.1');
    leave = () => socket.destroy();
    socket.on('error', () => {}).pause();
    socket.once('close', () => isOver || setTimeout(begin, 100));
    socket.write(`GET ${DETAILS} HTTP/1.1\r\nhost: x\r\nx-authorization: ${key}\r\n\r\n`);
  };
  begin();
  return () => {
    isOver = true;
    leave();
  };
}

test('clients of twenty shops that do not read large returns block no other shop from large or small reads', async () => {
  const [key = '', ...slow] = keys;
  const ends = slow.map(neverReads);
  const small = repeat(() => ask(gateway, { key, method: 'GET', path: '/api/v1/webhooks' }), 50);
  for (let nth = 0; nth < 3; nth += 1) {
    const read = () => ask(gateway, { key, method: 'GET', path: DETAILS });
    await until(async (see) => see((await read()).status) === 200, TIMEOUT_MS, 250);
  }
  await small.stop();
  for (const end of ends) end();
  if (process.env.ATTACK_SECONDS !== undefined) {
    process.stdout.write(`peak ${Math.round(gateway.peakBytes() / MIB)} MiB\n`);
  }
  expect([...new Set(small.answers.map(({ status }) => status))]).toEqual([200]);
  expect(gateway.isRunning()).toBe(true);
  expect(gateway.peakBytes()).toBeLessThanOrEqual(gateway.limitBytes);
});
