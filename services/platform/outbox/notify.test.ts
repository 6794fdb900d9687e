import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import pg from 'pg';
import { Actor_Kind, ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { until } from '../../../test/kit/until.ts';
import { murmur2 } from '../bus/murmur2.ts';
import { inTransaction } from '../postgres.ts';
import { appendEvents, SHARDS } from './append.ts';
import { shardsNotified } from './notify.ts';

let database: TestDatabase;
let listener: pg.Client;
beforeAll(async () => {
  database = await createTestDatabase('fraud');
  listener = new pg.Client({ connectionString: database.url });
  await listener.connect();
});
afterAll(async () => {
  await listener.end();
  await database.drop();
});

test('a commit whose shard this process does not relay notifies the other relays', async () => {
  const received: string[] = [];
  listener.on('notification', ({ payload = '' }) => received.push(payload));
  await listener.query('listen outbox_fraud');
  const actor = create(ActorSchema, { kind: Actor_Kind.SYSTEM, id: 'test' });
  const event = { trigger: 'return.updated', shopId: 1n, key: '1:1', actor };
  await inTransaction(database.pool, (tx) => appendEvents(tx, [event]));
  await until(() => received.length > 0);
  expect(received.map(shardsNotified)).toEqual([[murmur2('1:1') % SHARDS]]);
});
