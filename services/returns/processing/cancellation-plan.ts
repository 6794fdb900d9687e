import type { Queryable } from '../../platform/postgres.ts';
import type { MadeOrder } from '../commerce/provider.ts';
import type { Fulfilment } from '../return.ts';
import type { Job } from './jobs.ts';
import { cancellationStep, type PlannedStep, type Step } from './plan.ts';

type OfReturn = Pick<Job, 'shopId' | 'returnId'>;

/** What was requested of the commerce provider for a return that is to be cancelled. */
export interface Requested {
  /** The exchange order, if it was made, or may have been. */
  readonly exchange: RequestedExchange | undefined;
  /** Whether the order was cancelled. */
  readonly isOrderCancelled: boolean;
  /** Whether processing made anything else, such as a refund, or may have. A cancellation cannot undo that. */
  readonly others: Fulfilment;
}

export interface RequestedExchange {
  readonly step: PlannedStep;
  /** The order; undefined while the outcome of its request is unknown. */
  readonly order: MadeOrder | undefined;
}

interface Row {
  readonly kind: PlannedStep['kind'];
  readonly key: string;
  readonly amount: string;
  readonly currency: string;
  readonly isDone: boolean;
  readonly providerId: string | null;
  readonly name: string | null;
}

/** Reads {@link Requested}. A caller that decides by the result must hold the return's row lock. */
export async function requestedOf(tx: Queryable, of: OfReturn): Promise<Requested> {
  const { rows } = await tx.query<Row>({
    name: 'cancellation-requested',
    text: `select kind, key, amount, currency, done_at is not null as "isDone",
                  provider_id as "providerId", name
             from processing_outcomes
            where shop_id = $1 and return_id = $2 and coalesce(done_at, asked_at) is not null`,
    values: [of.shopId, of.returnId],
  });
  const exchange = rows.find(({ kind }) => kind === 'exchange_order');
  return {
    exchange: exchange && exchangeOf(exchange),
    isOrderCancelled: rows.some(({ kind, isDone }) => kind === 'order_cancel' && isDone),
    others: fulfilmentIn(rows.filter((row) => !PART_OF_CANCELLATION.has(row.kind))),
  };
}

/** The kinds that a cancellation undoes, or is. */
const PART_OF_CANCELLATION: ReadonlySet<string> = new Set(['exchange_order', 'order_cancel']);

function fulfilmentIn(requested: readonly Row[]): Fulfilment {
  if (requested.length === 0) return 'none';
  return requested.every(({ isDone }) => isDone) ? 'made' : 'unknown';
}

function exchangeOf({ isDone, providerId, name, ...step }: Row): RequestedExchange {
  if (!isDone) return { step, order: undefined };
  if (providerId === null) throw new Error(`the order of ${step.key} has no id of the provider`);
  return { step, order: { id: BigInt(providerId), name: name ?? '' } };
}

/**
 * Records that a run will cancel the exchange order of a return, unless an earlier run has recorded it. Reads how long
 * ago the requests of both were sent.
 *
 * @returns the steps by kind.
 */
export async function intendCancellation(
  tx: Queryable,
  of: OfReturn,
  o: { readonly exchange: PlannedStep },
): Promise<{ readonly exchange: Step; readonly cancellation: Step }> {
  const { exchange } = o;
  const cancellation = cancellationStep(of.returnId, exchange.currency);
  const { rows } = await tx.query<{ kind: string; key: string; msAgo: number | null }>({
    name: 'cancellation-intend',
    text: `with intended as (
             insert into processing_outcomes (shop_id, return_id, kind, key, amount, currency)
             values ($1, $2, $3, $4, $5, $6)
             on conflict (shop_id, return_id, kind, key) do nothing
           )
           select kind, key, extract(epoch from now() - asked_at)::float8 * 1000 as "msAgo"
             from processing_outcomes where shop_id = $1 and return_id = $2`,
    values: [
      ...[of.shopId, of.returnId, cancellation.kind, cancellation.key],
      ...[cancellation.amount, cancellation.currency],
    ],
  });
  const stepOf = (step: PlannedStep): Step => ({
    ...step,
    requestedMsAgo:
      rows.find(({ kind, key }) => kind === step.kind && key === step.key)?.msAgo ?? undefined,
    newsAtPlan: undefined,
  });
  return { exchange: stepOf(exchange), cancellation: stepOf(cancellation) };
}
