import { useQuery } from '@connectrpc/connect-query';
import { Progress, Text } from '@mantine/core';
import type { DeliveryCount } from '../../../../proto/gen/rms/portal/v1/deliveries_pb.ts';
import type { Replay } from '../../../../proto/gen/rms/portal/v1/replays_pb.ts';
import { WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { numberText } from '../../words.ts';

/** How often the progress is read. Milliseconds. */
const REFRESH_MS = 2_000;

/** The states of deliveries that are sent, with the words for a number of them. */
const STATES = [
  ['delivered', 'received'],
  ['waiting', 'still tried'],
  ['held', 'held'],
  ['exhausted', 'given up'],
  ['expired', 'expired'],
  ['dropped', 'dropped'],
] as const;

/** What became of the deliveries that a job has queued. */
export function Arrived({ replay }: { readonly replay: Replay }) {
  const isRunning = replay.state === 'running';
  const { data } = useQuery(
    WebhooksService.method.listDeliveries,
    { replayId: replay.id, pageSize: 1 },
    {
      refetchInterval: ({ state }) =>
        isRunning || numberOf(state.data?.count, 'waiting') > 0 ? REFRESH_MS : false,
    },
  );
  const counted = data?.count;
  if (!counted || counted.count === 0) return null;
  const received = numberOf(counted, 'delivered');
  const parts = STATES.flatMap(([state, words]) => {
    const number = numberOf(counted, state);
    return number > 0 ? [`${numberText(number)} ${words}`] : [];
  });
  return (
    <>
      <Progress
        value={(received / counted.count) * 100}
        size="lg"
        color="green"
        aria-label="Received"
        mt="sm"
        mb="xs"
      />
      <Text size="sm" role="status">
        Of {counted.more ? `the newest ${numberText(counted.count)}` : numberText(counted.count)}{' '}
        queued: {parts.join(', ')}.
      </Text>
    </>
  );
}

function numberOf(counted: DeliveryCount | undefined, state: string): number {
  return counted?.states.find((one) => one.state === state)?.count ?? 0;
}
