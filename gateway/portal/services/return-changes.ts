import { isDeepStrictEqual } from 'node:util';
import { Code, type ServiceImpl } from '@connectrpc/connect';
import type { ReturnsService } from '../../../proto/gen/rms/portal/v1/returns_pb.ts';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { ProcessReturnResponse_Refused_Code as RefusedCode } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { findReturn, type ProcessResult, processReturn } from '../../actions/returns.ts';
import { cancelReturn, flagReturn, unflagReturn } from '../../actions/review.ts';
import { callOf, type PortalCall } from '../call.ts';
import { portalError } from '../errors.ts';
import { idOf, keyOf } from '../fields.ts';
import { checkOf, OPEN_INSTANT_REFUND } from '../return-check.ts';
import type { returnView } from '../views/return.ts';
import { processingEffects } from '../views/return-effects.ts';

/** Shows a return to the caller. */
export type ShowReturn = (call: PortalCall, ret: Return) => Promise<ReturnType<typeof returnView>>;

type Changes = 'processReturn' | 'flagReturn' | 'unflagReturn' | 'cancelReturn';

/** The methods that change the state of a return. */
export function returnChanges(show: ShowReturn): Pick<ServiceImpl<typeof ReturnsService>, Changes> {
  return {
    async processReturn({ returnId, idempotencyKey, shownEffects }, context) {
      const call = callOf(context);
      const value = idOf(returnId, 'return');
      const expectedRevision =
        shownEffects.length > 0 ? await requireShown(call, value, shownEffects) : 0n;
      const { result } = await processReturn(call.context, {
        returnId: value,
        details: {},
        source: 'admin',
        expectedRevision,
        idempotencyKey: keyOf(call, idempotencyKey),
      });
      const after = await findReturn(call.context, { case: 'returnId', value });
      return { ...resultView(result), return: await show(call, after) };
    },

    async flagReturn({ returnId, reasons, comment, idempotencyKey }, context) {
      const call = callOf(context);
      const input = { returnId: idOf(returnId, 'return'), reasons, comment };
      const key = keyOf(call, idempotencyKey);
      return {
        return: await show(call, await flagReturn(call.context, { ...input, idempotencyKey: key })),
      };
    },

    async unflagReturn({ returnId, comment, idempotencyKey }, context) {
      const call = callOf(context);
      const input = { returnId: idOf(returnId, 'return'), reasons: [], comment };
      const key = keyOf(call, idempotencyKey);
      return {
        return: await show(
          call,
          await unflagReturn(call.context, { ...input, idempotencyKey: key }),
        ),
      };
    },

    async cancelReturn({ returnId, reason, idempotencyKey }, context) {
      const call = callOf(context);
      const input = { returnId: idOf(returnId, 'return'), reason };
      const key = keyOf(call, idempotencyKey);
      return {
        return: await show(
          call,
          await cancelReturn(call.context, { ...input, idempotencyKey: key }),
        ),
      };
    },
  };
}

/**
 * Rejects a click when processing would now do something else than the user saw, such as refund more. A return that
 * is processed already, or cannot be, has no effects: the service answers then, also to a repeat.
 *
 * @returns the revision that has these effects.
 * @throws ConnectError FAILED_PRECONDITION
 */
async function requireShown(
  call: PortalCall,
  value: bigint,
  shown: readonly string[],
): Promise<bigint> {
  const ret = await findReturn(call.context, { case: 'returnId', value });
  const effects = processingEffects(ret, await checkOf(call, ret));
  if (effects.length === 0 || isDeepStrictEqual(effects, shown)) return ret.revision;
  const text =
    'The return was changed in the meantime, so that something else would happen. Read what would happen now before you process it.';
  throw portalError(Code.FailedPrecondition, text);
}

function resultView(result: ProcessResult) {
  switch (result.case) {
    case 'queued':
      return { result: 'queued' };
    case 'alreadyQueued':
      return { result: 'already_queued' };
    case 'skippedInstantRefund':
      return { result: 'skipped_instant_refund', message: OPEN_INSTANT_REFUND };
    case 'refused':
      return {
        result: 'refused',
        message: result.value.message,
        code: REFUSED.get(result.value.code) ?? '',
      };
    case undefined:
      throw new Error('the response of the service has no result');
    default:
      return result satisfies never;
  }
}

const REFUSED: ReadonlyMap<RefusedCode, string> = new Map([
  [RefusedCode.UNPROCESSABLE_FLAGGED_RETURN, 'UNPROCESSABLE_FLAGGED_RETURN'],
  [RefusedCode.UNPROCESSABLE_RETURN, 'UNPROCESSABLE_RETURN'],
  [RefusedCode.NO_COMMERCE_PROVIDER, 'NO_COMMERCE_PROVIDER'],
]);
