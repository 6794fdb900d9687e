import { create } from '@bufbuild/protobuf';
import { ActorSchema } from '../../../../proto/gen/rms/common/v1/actor_pb.ts';
import { systemActor } from '../../../platform/identity.ts';
import type { Logger } from '../../../platform/log.ts';
import type { Queryable } from '../../../platform/postgres.ts';
import { type Loop, startLoop } from '../../../platform/worker.ts';
import { type Redacted, type RedactionDeps, redactBatch } from '../../redact.ts';

/** How often a process searches for redactions of processes that ended. Milliseconds. */
const EVERY_MS = 60_000;
/** Maximum number of batches in one step. So a stop does not wait long, and a claim does not expire during a step. */
const BATCHES = 20;
/** After this time another process may start the redaction again. It is longer than a step. Minutes. */
const CLAIM_MINUTES = 10;

const ACTOR = create(ActorSchema, systemActor('shopify'));

/**
 * Starts the job that does the redactions which Shopify requested. A redaction is a row until it is complete, so a
 * crash does not lose it: after ten minutes another process continues. Two processes may do the same redaction at the
 * same time without harm.
 */
export function startRedactions(o: RedactionDeps & { readonly logger: Logger }): Loop {
  return startLoop({
    name: 'shopify: redactions',
    idleMs: EVERY_MS,
    logger: o.logger,
    step: async (signal) => ((await redactNext(o, signal)) ? 'again' : 'idle'),
  });
}

interface Redaction {
  readonly id: bigint;
  readonly shopId: bigint;
  readonly email: string | null;
  readonly orderIds: readonly bigint[] | null;
}

/** Does the next redaction, or a part of a large one. Returns false when there is none. */
export async function redactNext(
  o: RedactionDeps & { readonly logger: Logger },
  signal: AbortSignal,
): Promise<boolean> {
  const { pool, logger } = o;
  const redaction = await claim(pool);
  if (!redaction) return false;
  const { id, shopId } = redaction;
  let left = BATCHES;
  for (const whose of selections(redaction)) {
    for (;;) {
      if (signal.aborted || left === 0) {
        await pool.query('update shopify_redactions set begun_at = null where id = $1', [id]);
        return true;
      }
      const { returns } = await redactBatch(o, { shopId, actor: ACTOR }, whose);
      if (returns === 0) break;
      left -= 1;
    }
  }
  await pool.query('delete from shopify_redactions where id = $1', [id]);
  logger.info({ shop: String(shopId) }, 'shopify: redaction complete');
  return true;
}

async function claim(db: Queryable): Promise<Redaction | undefined> {
  const { rows } = await db.query<Redaction>(
    `update shopify_redactions set begun_at = now()
      where id = (
        select id from shopify_redactions
         where begun_at is null or begun_at < now() - make_interval(mins => $1)
         order by id limit 1 for update skip locked)
     returning id, shop_id as "shopId", email, order_ids as "orderIds"`,
    [CLAIM_MINUTES],
  );
  return rows[0];
}

function selections({ email, orderIds }: Redaction): Redacted[] {
  if (email === null && orderIds === null) return ['everybody'];
  return [
    ...(email ? [{ email }] : []),
    ...(orderIds && orderIds.length > 0 ? [{ providerOrderIds: orderIds }] : []),
  ];
}
