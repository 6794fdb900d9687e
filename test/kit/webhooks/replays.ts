import { randomUUID } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import type pg from 'pg';
import { DeliveryFilterSchema } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { type Claim, claimPart } from '../../../services/webhooks/jobs/claim.ts';
import { previewFilter, startReplay } from '../../../services/webhooks/jobs/methods.ts';
import { replayBatch } from '../../../services/webhooks/jobs/worker.ts';
import { createLog } from './log.ts';

type FilterInput = MessageInitShape<typeof DeliveryFilterSchema>;

/** Replays of a log. Only the test runs their jobs. */
export async function createReplays() {
  const log = await createLog();

  /** Claims the next batch of a shop's jobs, also while other tests have jobs. */
  async function claim(shopId: bigint): Promise<Claim | undefined> {
    await log.pool.query(
      // Rows are locked in id order, because several tests may claim concurrently. A due time more than a minute ahead would
      // look like a step of the clock.
      `with found as (
         select shop_id, job_id, subscription_id from replay_parts
          where state = 'running'
          order by shop_id, job_id, subscription_id for update
       )
       update replay_parts p
          set next_at = case when p.shop_id = $1 then now() - interval '1 s' else now() + interval '50 s' end
         from found f
        where (p.shop_id, p.job_id, p.subscription_id) = (f.shop_id, f.job_id, f.subscription_id)
          and p.state = 'running'`,
      [shopId],
    );
    return claimPart(log.pool);
  }

  async function batch(shopId: bigint): Promise<number | undefined> {
    const claimed = await claim(shopId);
    return claimed && replayBatch(log.pool, claimed, { offsetMs: 0 });
  }

  return {
    log,
    claim,
    batch,
    preview: (shopId: bigint, filter: FilterInput) =>
      previewFilter(log.pool, shopId, create(DeliveryFilterSchema, filter)),
    start: (shopId: bigint, filter: FilterInput, key: string = randomUUID()) =>
      startReplay(log.pool, { shopId, key, requested: create(DeliveryFilterSchema, filter) }),
    /** Runs the shop's jobs to their end. Each delivery that they start is delivered immediately. */
    async runAll(shopId: bigint, subscriptions: readonly bigint[]): Promise<number> {
      let total = 0;
      for (;;) {
        const count = await batch(shopId);
        if (count === undefined) return total;
        total += count;
        for (const id of subscriptions) await log.deliver(shopId, id);
      }
    },
    stop: () => log.stop(),
  };
}

export type Replays = Awaited<ReturnType<typeof createReplays>>;

/**
 * A pool whose transactions break at their last statement, like those of a process that is killed there. A connection
 * without a commit works again for its next user.
 */
export function dying(pool: pg.Pool): pg.Pool {
  return Object.assign(Object.create(pool), {
    connect: async () => {
      const client = await pool.connect();
      const query = client.query.bind(client);
      const release = client.release.bind(client);
      Object.assign(client, {
        query: (first: unknown, ...rest: unknown[]) =>
          first === 'commit'
            ? Promise.reject(new Error('killed'))
            : Reflect.apply(query, client, [first, ...rest]),
        release: (error?: Error | boolean) => {
          Object.assign(client, { query });
          release(error);
        },
      });
      return client;
    },
  });
}
