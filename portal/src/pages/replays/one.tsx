import { useQuery } from '@connectrpc/connect-query';
import { Alert, Anchor, Button, Progress, Stack, Text } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import type { Replay } from '../../../../proto/gen/rms/portal/v1/replays_pb.ts';
import { WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { Facts } from '../../parts/facts.tsx';
import { Needs } from '../../parts/needs.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time.tsx';
import { idOr0 } from '../../search.ts';
import { useSession } from '../../session/session.tsx';
import { numberText } from '../../words.ts';
import { Arrived } from './arrived.tsx';
import { Unlisted } from './unlisted.tsx';
import { kindText, useWhatText } from './what.ts';

const route = getRouteApi('/replays/$replayId');

/** How often the progress is read. Milliseconds. */
const REFRESH_MS = 1_000;

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
    { replayId: idOr0(replayId) },
    {
      refetchInterval: ({ state }) =>
        state.data?.replay?.state === 'running' ? REFRESH_MS : false,
    },
  );
  return (
    <Needs method={getReplay}>
      <Loaded query={query} title={`Job ${replayId}`} back={BACK}>
        {({ replay }) => replay && <Content replay={replay} />}
      </Loaded>
    </Needs>
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
        <Panel title="Progress" actions={<Status state={replay.state} />}>
          <Progress value={Math.min(100, share)} size="lg" aria-label="Queued" mb="xs" />
          <Text size="sm" role="status">
            {numberText(done)} of {numberText(total)} queued, {numberText(skipped)} left out.
          </Text>
          {mayList && !replay.unlisted && <Arrived replay={replay} />}
          {mayList && replay.unlisted && (
            <Text size="sm" mt="xs">
              <Unlisted replay={replay} />
            </Text>
          )}
        </Panel>
        <Panel title="About this job">
          <Facts
            rows={[
              ['Started', <Time key="start" at={replay.startedAt} as="exact" />],
              ['Ended', replay.finishedAt && <Time key="end" at={replay.finishedAt} as="exact" />],
              ['Events from', filter?.from && <Time key="from" at={filter.from} as="exact" />],
              ['Events until', filter?.to && <Time key="to" at={filter.to} as="exact" />],
              ['Deliveries', !replay.unlisted && <DeliveriesLink key="log" replay={replay} />],
            ]}
          />
        </Panel>
      </Stack>
    </>
  );
}

function DeliveriesLink({ replay }: { readonly replay: Replay }) {
  return (
    <Link to="/deliveries" search={{ replay: replay.id }}>
      Open them in the log
    </Link>
  );
}

function Stop({ replay }: { readonly replay: Replay }) {
  const { can } = useSession();
  const { stopReplay } = WebhooksService.method;
  const { run, isPending } = useWrite(stopReplay, {
    done: 'The job is stopped. What was queued already is still sent.',
  });
  if (replay.state !== 'running' || !can(stopReplay)) return null;
  return (
    <Button color="red.8" loading={isPending} onClick={() => run({ replayId: replay.id })}>
      Stop
    </Button>
  );
}
