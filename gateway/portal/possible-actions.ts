import { type Return, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { type ActionName, permissionsFor } from '../actions/permissions.ts';
import { permits, type Role } from '../tenancy/permissions.ts';
import type { ReturnCheck } from './return-check.ts';

interface PossibleAction {
  readonly action: ActionName;
  readonly fits: (ret: Return, check: ReturnCheck) => boolean;
}

const isOpen = ({ state, processing }: Return) => state === ReturnState.OPEN && !processing;
const isInReview = ({ state }: Return) => state === ReturnState.REVIEW;

const ACTIONS: Readonly<Record<string, PossibleAction>> = {
  process: {
    action: 'process_return',
    fits: (ret, { processingRefused }) => isOpen(ret) && processingRefused === '',
  },
  flag: { action: 'flag_return', fits: isOpen },
  unflag: { action: 'unflag_return', fits: isInReview },
  // The dialog of `cancel` says why it is refused, so the action is offered all the same.
  cancel: { action: 'cancel_return', fits: (ret) => isOpen(ret) || isInReview(ret) },
  add_note: { action: 'add_return_note', fits: () => true },
  inspect: { action: 'record_dispositions', fits: () => true },
  report_fraud: { action: 'create_fraud_report', fits: () => true },
};

/** What a member with this role may do with the return in its state. */
export function possibleActions(role: Role, ret: Return, check: ReturnCheck): string[] {
  return Object.entries(ACTIONS)
    .filter(([, { action, fits }]) => fits(ret, check) && permits(role, permissionsFor(action)))
    .map(([name]) => name);
}
