import type { MessageInitShape } from '@bufbuild/protobuf';
import { trace } from '@opentelemetry/api';
import DataLoader from 'dataloader';
import type { ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import type { Return } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type { DetailsSelector } from '../../services/contract/resources/details-query.ts';
import { forNobody, presentCaller } from '../../services/platform/caller.ts';
import { isUnavailable, reasonOf } from '../../services/platform/errors.ts';
import { createShopPermits } from '../../services/platform/shop-permits.ts';
import type { Services } from '../services.ts';
import { sent } from './context.ts';

/** Who reads: every read of a batch has the same shop and the same actor. */
export interface Reader {
  readonly shopId: bigint;
  readonly actor: MessageInitShape<typeof ActorSchema>;
}

/** Reads one return; of several of one order the newest. Rejects as `FindReturn` does. */
export type ReadReturn = (reader: Reader, selector: DetailsSelector) => Promise<Return>;

type Returns = Pick<Services['returns'], 'findReturn' | 'findReturns'>;

/** What one FindReturns takes. */
const MAX_BATCH = 32;
/** From the question to its answer, whichever way it goes. Milliseconds. */
const DEADLINE_MS = 5_000;

/** Above this a return is read under a permit: lines and uploads, as JSON. Bytes. */
const SMALL_BYTES = 1024 * 1024;
/** A large one takes several times its size in memory, here and at its service, until its answer is made. */
const LARGE = { size: 2, maxWaiting: 16, waitMs: 4_000, perShop: { size: 1, maxWaiting: 8 } };
/** Of one that is large, from its permit on. Milliseconds. */
const LARGE_DEADLINE_MS = 10_000;

/** Reads of one shop and actor that go out at the end of this turn. */
interface Gathering {
  readonly loader: DataLoader<DetailsSelector, Return | undefined>;
  /** Of the read that came first. */
  readonly traceId: string;
}

/**
 * Reads returns, those that are asked for in one turn of the event loop together.
 *
 * A busy caller's reads then share the cost of a call, and of a statement, without waiting for each
 * other: nothing is held back, and nothing is remembered. Together goes only what has the same shop
 * and the same actor, so a call says truly on whose behalf it is. It belongs to the trace of the first
 * of them; the others' spans name that trace (`batch.trace_id`).
 *
 * What a batch does not answer (absent, too large for company, or the batch failed) is asked alone, in
 * what is left of the time, and a large one once few others are in flight: no read fails for another's sake. A batch's work is bounded by the service,
 * so one that is not answered in time says that the service is away, which fails all of them: asking
 * 32 times more would keep it away.
 */
export function createReturnReader(returns: Returns): ReadReturn {
  const gathering = new Map<string, Gathering>();
  const large = createShopPermits(LARGE);

  const gather = (reader: Reader): Gathering => {
    const key = `${reader.shopId}:${reader.actor.kind}:${reader.actor.id}`;
    const span = trace.getActiveSpan();
    const open = gathering.get(key);
    if (open) {
      span?.setAttribute('batch.trace_id', open.traceId);
      return open;
    }
    const ask = (selectors: readonly DetailsSelector[]) => {
      gathering.delete(key);
      // It goes on when one of those who share it leaves.
      return forNobody(() => askTogether(returns, reader, selectors));
    };
    const loader = new DataLoader<DetailsSelector, Return | undefined>(ask, {
      cache: false,
      maxBatchSize: MAX_BATCH,
      batchScheduleFn: (dispatch) => void setImmediate(dispatch),
    });
    const opened = { loader, traceId: span?.spanContext().traceId ?? '' };
    gathering.set(key, opened);
    return opened;
  };

  return async (reader, selector) => {
    const askedAt = performance.now();
    const found = await gather(reader).loader.load(selector);
    if (found) return found;
    const timeoutMs = Math.max(1, DEADLINE_MS - (performance.now() - askedAt));
    const request = { ...reader, selector };
    try {
      const answer = await returns.findReturn({ ...request, maxBytes: SMALL_BYTES }, { timeoutMs });
      return sent(answer.return, 'return');
    } catch (error) {
      if (reasonOf(error) !== ErrorReason.ANSWER_TOO_LARGE) throw error;
    }
    await large.takeUntil(reader.shopId, presentCaller());
    const answer = await returns.findReturn(request, { timeoutMs: LARGE_DEADLINE_MS });
    return sent(answer.return, 'return');
  };
}

/** The return of each selector; undefined where only asking alone tells. Rejects when the service is away. */
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
