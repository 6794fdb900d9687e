import { useQuery } from '@connectrpc/connect-query';
import { Alert, Anchor, Button, Progress, Stack, Text } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import {
  type DeliveryCount,
  DeliveryState,
  type Replay,
  ReplayState,
  ReplayStateSchema,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { Facts } from '../../parts/facts.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time/time.tsx';
import { bigIdOr0 } from '../../search.ts';
import { useSession } from '../../session/session.tsx';
import { numberText, wordOf } from '../../words.ts';
import { kindText, useWhatText } from './what.ts';

const route = getRouteApi('/replays/$replayId');

/** How often the progress is read. Milliseconds. */
const REFRESH_MS = 1_000;

/** The same for what became of its deliveries. Milliseconds. */
const ARRIVED_REFRESH_MS = 2_000;

const BACK = (
  <Anchor component={Link} to="/replays" size="sm">
    ← All jobs
  </Anchor>
);

export function ReplayPage() {
  const { replayId } = route.useParams();
  const { getReplay } = WebhooksService.method;
  const query = useQuery(
    getReplay,
    { replayId: bigIdOr0(replayId) },
    {
      refetchInterval: ({ state }) =>
        state.data?.replay?.state === ReplayState.RUNNING ? REFRESH_MS : false,
    },
  );
  return (
    <Loaded query={query} title={`Job ${replayId}`} back={BACK}>
      {({ replay }) => replay && <Content replay={replay} />}
    </Loaded>
  );
}

function Content({ replay }: { readonly replay: Replay }) {
  const { total, done, skipped, filter } = replay;
  const { can } = useSession();
  const whatText = useWhatText();
  const mayList = can(WebhooksService.method.listDeliveries);
  const share = total === 0 ? 100 : ((done + skipped) / total) * 100;
  return (
    <>
      {BACK}
      <PageHead
        title={`${kindText(replay)} ${replay.id}`}
        about={whatText(replay)}
        actions={<Stop replay={replay} />}
      />
      <Stack gap="md">
        {replay.error !== '' && (
          <Alert color="red" title="The job failed">
            {replay.error}
          </Alert>
        )}
        <Panel
          title="Progress"
          actions={<Status state={wordOf(ReplayStateSchema, replay.state)} />}
        >
          <Progress value={Math.min(100, share)} size="lg" aria-label="Queued" mb="xs" />
          <Text size="sm" role="status">
            {numberText(done)} of {numberText(total)} queued, {numberText(skipped)} left out.
          </Text>
          {mayList && <Arrived replay={replay} />}
        </Panel>
        <Panel title="About this job">
          <Facts
            rows={[
              ['Started', <Time key="start" at={replay.startedAt} as="exact" />],
              ['Ended', replay.finishedAt && <Time key="end" at={replay.finishedAt} as="exact" />],
              ['Events from', filter?.from && <Time key="from" at={filter.from} as="exact" />],
              ['Events until', filter?.to && <Time key="to" at={filter.to} as="exact" />],
              ['Deliveries', <DeliveriesLink key="log" replay={replay} />],
            ]}
          />
        </Panel>
      </Stack>
    </>
  );
}

function DeliveriesLink({ replay }: { readonly replay: Replay }) {
  return (
    <Link to="/deliveries" search={{ replay: String(replay.id) }}>
      Open them in the log
    </Link>
  );
}

function Stop({ replay }: { readonly replay: Replay }) {
  const { can } = useSession();
  const { cancelReplay } = WebhooksService.method;
  const { run, isPending } = useWrite(cancelReplay, {
    done: 'The job is stopped. What was queued already is still sent.',
  });
  if (replay.state !== ReplayState.RUNNING || !can(cancelReplay)) return null;
  return (
    <Button color="red.8" loading={isPending} onClick={() => run({ replayId: replay.id })}>
      Stop
    </Button>
  );
}

/** The states of deliveries that are sent, with the words for a number of them. */
const STATES = [
  [DeliveryState.DELIVERED, 'received'],
  [DeliveryState.WAITING, 'still tried'],
  [DeliveryState.HELD, 'held'],
  [DeliveryState.EXHAUSTED, 'given up'],
  [DeliveryState.EXPIRED, 'expired'],
  [DeliveryState.DROPPED, 'dropped'],
] as const;

/** What became of the deliveries that a job has queued. */
function Arrived({ replay }: { readonly replay: Replay }) {
  const isRunning = replay.state === ReplayState.RUNNING;
  const { data } = useQuery(
    WebhooksService.method.listDeliveries,
    { replayId: replay.id, pageSize: 1, includeCount: true },
    {
      refetchInterval: ({ state }) =>
        isRunning || numberOf(state.data?.count, DeliveryState.WAITING) > 0
          ? ARRIVED_REFRESH_MS
          : false,
    },
  );
  const counted = data?.count;
  if (!counted || counted.count === 0) return null;
  const received = numberOf(counted, DeliveryState.DELIVERED);
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

function numberOf(counted: DeliveryCount | undefined, state: DeliveryState): number {
  return counted?.states.find((one) => one.state === state)?.count ?? 0;
}
