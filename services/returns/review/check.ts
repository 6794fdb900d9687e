import type { MessageInitShape } from '@bufbuild/protobuf';
import type pg from 'pg';
import { z } from 'zod';
import type {
  CheckReturnRequest,
  CheckReturnResponseSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { Providers } from '../../commerce/providers.ts';
import { DomainError } from '../../platform/values/errors.ts';
import { callerShape, id, parseInput } from '../../platform/values/input.ts';
import { paidPartNow } from '../arrivals/paid-part-store.ts';
import { toMessage } from '../instant-refunds/instant-refunds.ts';
import { listInstantRefunds } from '../instant-refunds/instant-refunds-store.ts';
import {
  currentRuleInput,
  type RuleInput,
  resultWithoutQueueing,
  withoutProvider,
} from '../processing/process.ts';
import type { ReturnRef } from '../return.ts';
import { stateText } from '../store/texts.ts';
import { type Cancellation, cancellationOf } from './cancel.ts';

const checkInput = z.object({ ...callerShape, returnId: id });

/**
 * Returns what `processReturn` and `cancelReturn` would do with a return now, by their own rules. Changes and locks
 * nothing. So the answer may be outdated when a person reads it.
 *
 * @throws DomainError NOT_FOUND for a return that the shop does not have.
 */
export async function checkReturn(
  pool: pg.Pool,
  request: CheckReturnRequest,
  providers: Providers,
): Promise<MessageInitShape<typeof CheckReturnResponseSchema>> {
  const { shopId, returnId } = parseInput(checkInput, request);
  const ofReturn = { shopId, returnId };
  const input = await currentRuleInput(pool, ofReturn);
  const isRejected = resultWithoutQueueing(input);
  const provider = isRejected ?? (await providers.of(pool, { ...ofReturn, isCheck: true }));
  const result = isRejected ?? (provider ? QUEUED : withoutProvider());
  const instantRefunds = (await listInstantRefunds(pool, ofReturn)).map(toMessage);
  const { missingLineItemIds } = input;
  const paidPart = result.case === 'queued' ? await paidPartNow(pool, ofReturn) : undefined;
  return {
    process: { result, missingLineItemIds },
    ...(await cancelCheck(pool, input, ofReturn)),
    instantRefunds,
    ...(paidPart && { paidPart }),
  };
}

const QUEUED = { case: 'queued', value: {} } as const;

async function cancelCheck(
  pool: pg.Pool,
  { state, processing }: RuleInput,
  of: ReturnRef,
): Promise<{ cancelsOrder: boolean; cancelRefusal: string }> {
  const details = {
    id: of.returnId,
    processing,
    flagReasons: [],
    state: stateText.fromText(state),
  };
  const checked = await cancellationOf(pool, details, of).catch(refusalOf);
  return checked instanceof DomainError
    ? { cancelsOrder: false, cancelRefusal: checked.message }
    : { cancelsOrder: checked.cancelsOrder, cancelRefusal: '' };
}

function refusalOf(error: unknown): DomainError | Cancellation {
  if (error instanceof DomainError) return error;
  throw error;
}
