import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import type { Return, SubmitterSchema } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import type { Operation } from '../../services/contract/operation.ts';
import { openersAmong, type Scope } from '../../services/contract/scopes.ts';
import { withoutCustomer } from '../../services/contract/views/without-customer.ts';
import { DomainError } from '../../services/platform/values/errors.ts';
import type { Caller } from '../auth/caller.ts';

/**
 * What the credential of one request reaches, by those of its scopes that open the operation. Another scope of the
 * credential does not widen it: `returns:read` beside `returns:submit` lets nobody cancel the returns of others.
 */
export interface Access {
  /** Stored with a return that the caller submits; undefined when every credential that sees returns may see it. */
  readonly submitter: MessageInitShape<typeof SubmitterSchema> | undefined;
  /** Present when the caller reaches only returns with this submitter, so that a search leaves out the others. */
  readonly onlyOf: Access['submitter'];
  /** Whether the credential may submit what the policy refuses. */
  readonly mayOverridePolicy: boolean;
  /**
   * Called with each return that an operation reads or changes by its id or order.
   *
   * @throws DomainError RETURN_NOT_FOUND when the caller must not know of it.
   */
  requireReach(ret: Return): void;
  /** The response as the caller may see it: for `warehouse` without who the customer is. Called once, at the end. */
  shown(response: unknown): unknown;
}

/** The scopes that reach only some returns, or only parts of them. */
const LIMITED: readonly Scope[] = ['returns:submit', 'warehouse'];

/** The access of a caller whose scopes were checked. */
export function accessOf(operation: Operation, caller: Caller): Access {
  const openers = openersAmong(caller.scopes, operation);
  const isLimited = openers.every((scope) => LIMITED.includes(scope));
  const isOfWarehouse = isLimited && openers.includes('warehouse');
  const submitter = submitterOf(caller);
  let hidesCustomer = isOfWarehouse;
  return {
    submitter,
    onlyOf: isLimited && !isOfWarehouse ? submitter : undefined,
    mayOverridePolicy: caller.scopes.includes('returns'),
    requireReach(ret) {
      if (!isLimited) return;
      if (openers.includes('returns:submit') && isBy(ret, submitter)) {
        hidesCustomer = false;
        return;
      }
      if (isOfWarehouse) return;
      throw new DomainError(Code.NotFound, ErrorReason.RETURN_NOT_FOUND, 'no such return');
    },
    shown: (response) => (hidesCustomer ? withoutCustomer(response) : response),
  };
}

/** Who submits a return with this credential: a key without `returns` is a storefront's, and an app is itself. */
function submitterOf({ scheme, scopes, actor }: Caller): Access['submitter'] {
  if (scheme === 'bearer') return { by: { case: 'app', value: actor.id ?? '' } };
  if (scopes.includes('returns')) return undefined;
  return { by: { case: 'storefrontKey', value: true } };
}

function isBy({ submitter: stored }: Return, submitter: Access['submitter']): boolean {
  return (
    stored?.by.case !== undefined &&
    stored.by.case === submitter?.by?.case &&
    stored.by.value === submitter.by.value
  );
}
