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
/** Deadline of a read, whether in a batch or alone. Milliseconds. */
const DEADLINE_MS = 5_000;

/** A return whose lines and uploads are larger than this, as JSON, is read with a permit. Bytes. */
const SMALL_BYTES = 1024 * 1024;
/** Permits for large returns. Each needs several times its size in memory, here and in its service. */
const LARGE = { size: 2, maxWaiting: 16, waitMs: 4_000, perShop: { size: 1, maxWaiting: 8 } };
/** Deadline of the read of a large return, counted from its permit. Milliseconds. */
const LARGE_DEADLINE_MS = 10_000;

/** The reads of one shop and actor that are sent at the end of this turn of the event loop. */
interface Batch {
  readonly loader: DataLoader<DetailsSelector, Return | undefined>;
  /** The trace of the first read. */
  readonly traceId: string;
}

/**
 * Reads returns. Reads in one turn of the event loop are sent as one batch.
 *
 * So the reads of a busy caller share the cost of one call and one statement. No read is delayed, and nothing is
 * cached. A batch contains only reads with the same shop and the same actor, so that the call has the right actor. It
 * belongs to the trace of its first read; the spans of the others have that trace in `batch.trace_id`.
 *
 * A return that the batch does not contain (it does not exist, it is too large, or the batch failed) is read alone in
 * the remaining time, so no read fails because of another one. A large one waits for a permit. The service bounds the
 * work of a batch, so a batch without an answer in time means that the service is unavailable. Then all its reads
 * fail, because 32 single calls would only increase the load.
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
    const ask = (selectors: readonly DetailsSelector[]) => {
      batches.delete(key);
      // The batch continues when one of its callers disconnects.
      return withoutCaller(() => askTogether(returns, reader, selectors));
    };
    const loader = new DataLoader<DetailsSelector, Return | undefined>(ask, {
      cache: false,
      maxBatchSize: MAX_BATCH,
      batchScheduleFn: (dispatch) => void setImmediate(dispatch),
    });
    const opened = { loader, traceId: span?.spanContext().traceId ?? '' };
    batches.set(key, opened);
    return opened;
  };

  return async (reader, selector) => {
    const askedAt = performance.now();
    const found = await batchOf(reader).loader.load(selector);
    if (found) return found;
    const timeoutMs = Math.max(1, DEADLINE_MS - (performance.now() - askedAt));
    const request = { ...reader, selector };
    try {
      const answer = await returns.findReturn({ ...request, maxBytes: SMALL_BYTES }, { timeoutMs });
      return sent(answer.return, 'return');
    } catch (error) {
      if (reasonOf(error) !== ErrorReason.ANSWER_TOO_LARGE) throw error;
    }
    await large.takeUntil(reader.shopId, currentCaller());
    const answer = await returns.findReturn(request, { timeoutMs: LARGE_DEADLINE_MS });
    return sent(answer.return, 'return');
  };
}

/** The return of each selector; undefined for those to be read alone. Rejects when the service is unavailable. */
async function askTogether(
  returns: Returns,
  reader: Reader,
  selectors: readonly DetailsSelector[],
): Promise<(Return | undefined)[]> {
  const answers = new Array<Return | undefined>(selectors.length).fill(undefined);
  if (selectors.length === 1) return answers;
  const request = { ...reader, selectors: selectors.map((selector) => ({ selector })) };
  try {
    const { found } = await returns.findReturns(request, { timeoutMs: DEADLINE_MS });
    for (const { positions, return: ret } of found) {
      for (const position of positions) answers[position] = ret;
    }
  } catch (error) {
    if (isUnavailable(error)) throw error;
  }
  return answers;
}
