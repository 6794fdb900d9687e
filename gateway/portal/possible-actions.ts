import { type Return, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { type ActionName, permissionsFor } from '../actions/permissions.ts';
import { permits, type Role } from '../tenancy/permissions.ts';

interface PossibleAction {
  readonly name: string;
  readonly action: ActionName;
  readonly fits: (ret: Return) => boolean;
}

const isOpen = ({ state, processing }: Return) => state === ReturnState.OPEN && !processing;
const isInReview = ({ state }: Return) => state === ReturnState.REVIEW;

const ACTIONS: readonly PossibleAction[] = [
  { name: 'process', action: 'process_return', fits: isOpen },
  { name: 'flag', action: 'flag_return', fits: isOpen },
  { name: 'unflag', action: 'unflag_return', fits: isInReview },
  { name: 'cancel', action: 'cancel_return', fits: (ret) => isOpen(ret) || isInReview(ret) },
  { name: 'add_note', action: 'add_return_note', fits: () => true },
  { name: 'report_fraud', action: 'create_fraud_report', fits: () => true },
];

/** What a member with this role may do with the return in its state. */
export function possibleActions(role: Role, ret: Return): string[] {
  return ACTIONS.filter(
    ({ action, fits }) => fits(ret) && permits(role, permissionsFor(action)),
  ).map(({ name }) => name);
}
