import type { Queryable } from '../../platform/postgres/postgres.ts';
import { raw, rowsOf, sql, unnamed } from '../../platform/postgres/sql.ts';
import { dayOf, rangeOfDay, rangeOfEvent } from '../delivery-id.ts';
import { bodyWithoutCustomer } from './shape.ts';

/**
 * Redacts the customer of returns. Sets the stored payloads of these returns to null, shapes the payloads of waiting
 * deliveries again without the customer, and deletes the stored responses of receivers.
 */
export async function redactReturns(
  tx: Queryable,
  shopId: bigint,
  returnIds: readonly bigint[],
): Promise<void> {
  await tx.query(
    `insert into redacted_returns (shop_id, return_id) select $1, unnest($2::bigint[])
     on conflict (shop_id, return_id) do update set redacted_at = now()`,
    [shopId, returnIds],
  );
  let after = FIRST_ID;
  for (;;) {
    const ids = await lockPayloads(tx, { shopId, returnIds, after });
    const last = ids.at(-1);
    if (last === undefined) return;
    await redactPayloads(tx, shopId, ids);
    await deleteResponses(tx, shopId, ids);
    after = last;
  }
}

const FIRST_ID = '00000000-0000-0000-0000-000000000000';

/** Maximum number of payloads that one statement locks. */
const BATCH = 100;

/** Locks payloads in the order of ids, so that two redactions cannot deadlock. */
async function lockPayloads(
  tx: Queryable,
  o: { shopId: bigint; returnIds: readonly bigint[]; after: string },
): Promise<string[]> {
  const { rows } = await tx.query<{ id: string }>(
    `select p.id from payloads p
      where p.shop_id = $1 and p.return_id = any($2::bigint[]) and p.id > $3
      order by p.id limit $4
        for update of p`,
    [o.shopId, o.returnIds, o.after, BATCH],
  );
  return rows.map((row) => row.id);
}

/** Payloads, by id, with the range of ids of their events. */
const payloadRows = rowsOf<string>({
  id: ['uuid', (id) => id],
  first: ['uuid', (id) => rangeOfEvent(id).first],
  last: ['uuid', (id) => rangeOfEvent(id).last],
});

/**
 * Redacts locked payloads. A separate statement after the lock finds the waiting deliveries, so that it sees a replay
 * for which the lock waited. Only one body is in memory at a time, because bodies are large. The time of redaction is
 * the time of the write. So a delivery that ended before it is never replayed with the new body.
 */
async function redactPayloads(
  tx: Queryable,
  shopId: bigint,
  ids: readonly string[],
): Promise<void> {
  const { rows } = await tx.query<{ id: string }>(
    unnamed(sql`
      select p.id from ${payloadRows('p', ids)}
       where exists (
         select from deliveries d
          where d.shop_id = ${shopId} and d.id between p.first and p.last and d.payload_id = p.id and d.ended is null)
       order by p.id`),
  );
  const waiting = rows.map((row) => row.id);
  await tx.query(
    `update payloads set body = null, redacted_at = clock_timestamp()
      where shop_id = $1 and id = any($2::uuid[]) and id <> all($3::uuid[])`,
    [shopId, ids, waiting],
  );
  for (const id of waiting) await shapeAgain(tx, shopId, id);
}

/** Deletes the responses to deliveries of the payloads, because a response may repeat the payload. */
async function deleteResponses(
  tx: Queryable,
  shopId: bigint,
  payloadIds: readonly string[],
): Promise<void> {
  // One statement for each day, as in `recordStatement`.
  for (const [day, ids] of Map.groupBy(payloadIds, (id) => dayOf(id).getTime())) {
    const { first, end } = rangeOfDay(new Date(day));
    await tx.query(
      unnamed(sql`
      update attempts a set response_excerpt = '', response_headers = ''
        from ${payloadRows('p', ids)}
       where a.shop_id = ${shopId} and a.delivery_id between p.first and p.last
         and ${raw(`a.delivery_id >= '${first}' and a.delivery_id < '${end}'`)}
         and (a.response_excerpt <> '' or a.response_headers <> '')`),
    );
  }
}

async function shapeAgain(tx: Queryable, shopId: bigint, id: string): Promise<void> {
  const { rows } = await tx.query<{ topic: string; body: Buffer }>(
    'select topic, body from payloads where shop_id = $1 and id = $2 and body is not null',
    [shopId, id],
  );
  for (const { topic, body } of rows) {
    await tx.query(
      'update payloads set body = $3, redacted_at = clock_timestamp() where shop_id = $1 and id = $2',
      [shopId, id, bodyWithoutCustomer(topic, body)],
    );
  }
}

/** Maximum time from the recording of a result during a redaction to its commit. Minutes. */
const LATE_MINUTES = 10;
const MAX_LATE = 10_000;

/**
 * Deletes again the responses to payloads that were redacted a short time ago. A redaction does not see a response that
 * another transaction is recording at the same time, and that transaction does not see the redaction.
 */
export async function deleteLateResponses(db: Queryable): Promise<void> {
  const { rows } = await db.query<{ shopId: bigint; id: string }>(
    `select p.shop_id as "shopId", p.id
       from redacted_returns r join payloads p on p.shop_id = r.shop_id and p.return_id = r.return_id
      where r.redacted_at > now() - interval '${LATE_MINUTES} minutes'
      order by r.redacted_at desc limit ${MAX_LATE}`,
  );
  for (const [shopId, own] of Map.groupBy(rows, (row) => row.shopId)) {
    await deleteResponses(
      db,
      shopId,
      own.map(({ id }) => id),
    );
  }
}
