import type { System } from '../system/system.ts';
import { waitFor } from '../wait.ts';

const EVERY_MS = 100;

/**
 * Waits until the result of every delivery of the shops is recorded: their queues are empty, and each delivery has
 * ended as delivered. A delivery that arrived but is still in the queue would be sent again after a crash.
 *
 * @throws Error with the number of deliveries left; its cause is the OverdueError.
 */
export async function untilRecorded(
  { pool }: System,
  shopIds: readonly number[],
  withinMs: number,
): Promise<void> {
  let left: Left = { queued: '?', open: '?' };
  const isRecorded = async (): Promise<boolean> => {
    const { rows } = await pool.query<Left>(LEFT, [shopIds]);
    left = rows[0] ?? left;
    return left.queued === '0' && left.open === '0';
  };
  const what = 'every result is recorded';
  await waitFor(isRecorded, { what, withinMs, everyMs: EVERY_MS }).catch((cause: unknown) => {
    const counts = `${left.queued} deliveries are in the queue, ${left.open} are not delivered`;
    throw new Error(`not ${what}, though all arrived: ${counts}`, { cause });
  });
}

interface Left {
  readonly queued: string;
  readonly open: string;
}

const LEFT = `
select (select count(*)::text from webhooks.queue where shop_id = any($1::bigint[])) as queued,
       (select count(*)::text from webhooks.deliveries
         where shop_id = any($1::bigint[]) and ended is distinct from 'delivered') as open`;
