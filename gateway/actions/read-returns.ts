import { trace } from '@opentelemetry/api';
import DataLoader from 'dataloader';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import type { Return } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type { DetailsSelector } from '../../services/contract/resources/details-query.ts';
import { currentCaller, withoutCaller } from '../../services/platform/caller.ts';
import { isUnavailable, reasonOf } from '../../services/platform/errors.ts';
import { createShopPermits } from '../../services/platform/shop-permits.ts';
import type { Services } from '../services.ts';
import { type Reader, type ReadReturn, sent } from './context.ts';

type Returns = Pick<Services['returns'], 'findReturn' | 'findReturns'>;

/** Maximum number of selectors of FindReturns. */
const MAX_BATCH = 32;
/** Deadline of a read, for the batch and the single read together. Milliseconds. */
const DEADLINE_MS = 5_000;

/** A return above this size is read with a permit. The size is that of its line items and uploads as JSON. Bytes. */
const SMALL_BYTES = 1024 * 1024;
/**
 * Permits for large returns. A large return needs several times its size in memory, in the gateway and in the returns
 * service.
 */
const LARGE = { size: 2, maxWaiting: 16, waitMs: 4_000, perShop: { size: 1, maxWaiting: 8 } };
/** Deadline of the read of a large return, from the time when it gets its permit. Milliseconds. */
const LARGE_DEADLINE_MS = 10_000;

/** The reads of one shop and actor in one turn of the event loop. They are sent at its end. */
interface Batch {
  readonly loader: DataLoader<DetailsSelector, Return | undefined>;
  /** Id of the trace of the first read in the batch. */
  readonly traceId: string;
}

/**
 * Creates a reader that collects the reads of one turn of the event loop, and sends those of the same shop and actor as
 * one batch.
 *
 * The reads of a busy caller share the cost of one call and one statement. Nothing waits longer than the turn, and
 * nothing is cached. The batch belongs to the trace of its first read. The spans of its other reads have the id of this
 * trace in `batch.trace_id`.
 *
 * The response to a batch lacks returns that do not exist or are too large. The response to a batch that fails lacks
 * all returns. The reader then reads each missing return alone in the remaining time, so that no read fails because of
 * another one. A large return first needs a permit. When the service is unavailable, all reads of the batch fail,
 * because 32 single calls would only increase the load. A timeout counts as unavailable, because the service bounds the
 * work of a batch.
 */
export function createReturnReader(returns: Returns): ReadReturn {
  const batches = new Map<string, Batch>();
  const large = createShopPermits(LARGE);

  const batchOf = (reader: Reader): Batch => {
    const key = `${reader.shopId}:${reader.actor.kind}:${reader.actor.id}`;
    const span = trace.getActiveSpan();
    const open = batches.get(key);
    if (open) {
      span?.setAttribute('batch.trace_id', open.traceId);
      return open;
    }
    const readBatch = (selectors: readonly DetailsSelector[]) => {
      batches.delete(key);
      // A caller that disconnects must not cancel the batch, because it has reads of other callers.
      return withoutCaller(() => readTogether(returns, reader, selectors));
    };
    const loader = new DataLoader<DetailsSelector, Return | undefined>(readBatch, {
      cache: false,
      maxBatchSize: MAX_BATCH,
      batchScheduleFn: (dispatch) => void setImmediate(dispatch),
    });
    const opened = { loader, traceId: span?.spanContext().traceId ?? '' };
    batches.set(key, opened);
    return opened;
  };

  return async (reader, selector) => {
    const startedAt = performance.now();
    const found = await batchOf(reader).loader.load(selector);
    if (found) return found;
    const timeoutMs = Math.max(1, DEADLINE_MS - (performance.now() - startedAt));
    const request = { ...reader, selector };
    try {
      const small = await returns.findReturn({ ...request, maxBytes: SMALL_BYTES }, { timeoutMs });
      return sent(small.return, 'return');
    } catch (error) {
      if (reasonOf(error) !== ErrorReason.ANSWER_TOO_LARGE) throw error;
    }
    await large.takeUntil(reader.shopId, currentCaller());
    const whole = await returns.findReturn(request, { timeoutMs: LARGE_DEADLINE_MS });
    return sent(whole.return, 'return');
  };
}

/**
 * Reads a batch. Returns one entry for each selector: the return, or undefined when it must be read alone. Rejects when
 * the service is unavailable.
 */
async function readTogether(
  returns: Returns,
  reader: Reader,
  selectors: readonly DetailsSelector[],
): Promise<(Return | undefined)[]> {
  const results = new Array<Return | undefined>(selectors.length).fill(undefined);
  if (selectors.length === 1) return results;
  const request = { ...reader, selectors: selectors.map((selector) => ({ selector })) };
  try {
    const { found } = await returns.findReturns(request, { timeoutMs: DEADLINE_MS });
    for (const { positions, return: ret } of found) {
      for (const position of positions) results[position] = ret;
    }
  } catch (error) {
    if (isUnavailable(error)) throw error;
  }
  return results;
}
