import type { NotReplayable } from '../../../../proto/gen/rms/portal/v1/replays_pb.ts';
import { numberText } from '../../words.ts';

const REASONS: Readonly<Record<string, string>> = {
  waiting: 'wait, and come by themselves at the time of their next attempt',
  subscription_deleted: 'belong to a deleted webhook',
  subscription_inactive: 'belong to an inactive webhook: activate it first',
  payload_gone: 'have no payload any more',
};

/** A sentence for each reason why a replay leaves deliveries out, with its key. */
export function notSentItems(all: readonly NotReplayable[]): [string, string][] {
  return all.map(({ reason, count }) => [
    reason,
    `${numberText(count)} ${REASONS[reason] ?? reason}: not sent now`,
  ]);
}
