import { afterAll, beforeAll, expect, test } from '@jest/globals';
import pg from 'pg';
import { type ReturnsBench, startReturnsBench } from '../../test/kit/services/returns-bench.ts';
import { failure } from '../../test/kit/services/rpc-bench.ts';
import { actor } from '../../test/kit/services/running-service.ts';
import { until } from '../../test/kit/until.ts';
import { isUnavailable } from '../platform/errors.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const WRITES = 40;

test('while the outbox is locked, reads succeed, and a write stops when its caller disconnects', async () => {
  const { shopId, id: returnId } = await bench.submit(await bench.shop());
  const lock = new pg.Client(bench.db.migratorUrl);
  await lock.connect();
  await lock.query('begin');
  await lock.query('lock table returns.events in access exclusive mode');

  const leaving = new AbortController();
  const flag = (options: { signal?: AbortSignal } = {}) =>
    bench.client.flagReturn({ shopId, actor, returnId, reasons: ['odd'] }, options);
  const writes = Array.from({ length: WRITES }, () => failure(flag({ signal: leaving.signal })));
  await until(async () => (await waitingForLocks()) > 1);
  for (let nth = 0; nth < 20; nth += 1) {
    await bench.client.findReturn({
      shopId,
      actor,
      selector: { case: 'returnId', value: returnId },
    });
  }
  leaving.abort();
  for (const error of await Promise.all(writes)) expect(isUnavailable(error)).toBe(true);
  // The lock still exists, and no statement of a disconnected caller waits for it any more.
  await until(async () => (await waitingForLocks()) === 0);

  await lock.query('rollback');
  await lock.end();
  // A cancelled write may have committed, so this write is of another shop.
  const shop = await bench.shop();
  await until(() =>
    bench.submit(shop).then(
      () => true,
      () => false,
    ),
  );
});

/** Statements of calls that wait for a lock: the flagging of a return, and the calls behind it. */
async function waitingForLocks(): Promise<number> {
  const { rows } = await bench.db.pool.query<{ count: bigint }>(
    `select count(*) from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'
        and (query like '%insert into events%' or query ~ 'for (no key )?update')`,
  );
  return Number(rows[0]?.count ?? 0);
}
