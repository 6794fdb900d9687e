import { useQuery } from '@connectrpc/connect-query';
import { Alert, Anchor, Box, Code, Stack } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import {
  type Subscription,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { Facts } from '../../parts/facts.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { isDue, Time } from '../../parts/time/time.tsx';
import { bigIdOr0 } from '../../search.ts';
import { useSession } from '../../session/session.tsx';
import { WebhookActions } from './actions.tsx';
import { SuccessRate, Waiting } from './health.tsx';
import { MissedDeliveries, useMissed } from './missed.tsx';
import styles from './one.module.css';
import { healthOf, isActive, isFailing } from './webhook.ts';

const RecentDeliveries = lazyPart(
  async () => (await import('../deliveries/table.tsx')).RecentDeliveries,
  6,
);

const Failing = lazyPart(async () => (await import('./failing.tsx')).Failing, 3);
const DeliveryChart = lazyPart(async () => (await import('./delivery-chart.tsx')).DeliveryChart, 6);

const SecretPanel = lazyPart(async () => (await import('./secret.tsx')).SecretPanel, 4);

const ResendMissed = lazyPart(async () => (await import('./resend.tsx')).ResendMissed);

const SendProgress = lazyPart(async () => (await import('./resend.tsx')).SendProgress, 2);

const TestNotice = lazyPart(async () => (await import('./test.tsx')).TestNotice, 2);

/** How often the webhook is read, and how often while something is sent at this moment. Milliseconds. */
const REFRESH_MS = 15_000;
const SENDING_MS = 2_000;

const route = getRouteApi('/webhooks/$webhookId');

const BACK = (
  <Anchor component={Link} to="/webhooks" size="sm">
    ← All webhooks
  </Anchor>
);

export function WebhookPage() {
  const { webhookId } = route.useParams();
  const query = useQuery(
    WebhooksService.method.getSubscription,
    { subscriptionId: bigIdOr0(webhookId), includeBacklog: true },
    {
      refetchInterval: ({ state }) =>
        isSending(state.data?.subscription) ? SENDING_MS : REFRESH_MS,
    },
  );
  return (
    <Loaded query={query} title={`Webhook ${webhookId}`} back={BACK}>
      {({ subscription: one }) => one && <Content key={String(one.id)} webhook={one} />}
    </Loaded>
  );
}

function isSending(webhook: Subscription | undefined): boolean {
  const { count = 0, nextAttemptAt } = webhook?.backlog ?? {};
  return count > 0 && isDue(nextAttemptAt);
}

/** Reads the chart and the lists again when the numbers of the webhook change: all count the same deliveries. */
function useSameNumbers(webhook: Subscription): void {
  const cache = useQueryClient();
  const { backlog, health } = webhook;
  const numbers = `${healthOf(webhook)} ${backlog?.count} ${health?.delivered} ${health?.counted}`;
  const shown = useRef(numbers);
  useEffect(() => {
    if (shown.current !== numbers) void cache.invalidateQueries();
    shown.current = numbers;
  }, [cache, numbers]);
}

function Content({ webhook }: { readonly webhook: Subscription }) {
  const { can } = useSession();
  const { hours } = route.useSearch();
  const [asking, setAsking] = useState(false);
  const [sending, setSending] = useState<number>();
  const [testedAs, setTestedAs] = useState<string>();
  useSameNumbers(webhook);
  return (
    <>
      {BACK}
      <PageHead
        title={webhook.description || `Webhook ${webhook.id}`}
        about={
          <>
            {webhook.description && `Webhook ${webhook.id}. `}
            Sends <Code>{webhook.trigger}</Code> to <Code>{webhook.url}</Code>
          </>
        }
        actions={<WebhookActions webhook={webhook} onTested={setTestedAs} />}
      />
      <Stack gap="md">
        {sending !== undefined && (
          <SendProgress webhook={webhook} total={sending} onClose={() => setSending(undefined)} />
        )}
        {testedAs !== undefined && (
          <TestNotice
            webhook={webhook}
            deliveryId={testedAs}
            onClose={() => setTestedAs(undefined)}
          />
        )}
        <Warning webhook={webhook} onAsk={() => setAsking(true)} />
        {/* Outside of the warning, which changes while the deliveries are sent. */}
        {asking && (
          <ResendMissed webhook={webhook} onClose={() => setAsking(false)} onSent={setSending} />
        )}
        <div className={styles.halves}>
          <Panel title="Settings and health">
            <Facts rows={factsOf(webhook)} />
            <Meanings of={['Event', 'Topic', 'Payload', 'Waiting', 'Held', 'Given up']} />
          </Panel>
          {can(WebhooksService.method.revealSecret) && <SecretPanel webhook={webhook} />}
        </div>
        <DeliveryChart from="/webhooks/$webhookId" webhookId={webhook.id} hours={hours} />
        {can(WebhooksService.method.listDeliveries) && <RecentDeliveries webhookId={webhook.id} />}
      </Stack>
    </>
  );
}

function factsOf(webhook: Subscription) {
  return [
    ['Health', <Status key="state" state={healthOf(webhook)} />],
    ['Address', webhook.url],
    ['Event', webhook.trigger],
    ['Topic', webhook.topic],
    ['Success, 24 h', <SuccessRate key="rate" of={webhook} />],
    ['Waiting', <Waiting key="waiting" of={webhook} />],
    ['Added', <Time key="added" at={webhook.createdAt} />],
    ['Changed', <Time key="changed" at={webhook.updatedAt} />],
  ] as const;
}

/** What is wrong with the webhook, and what to do. */
function Warning({
  webhook,
  onAsk,
}: {
  readonly webhook: Subscription;
  readonly onAsk: () => void;
}) {
  const { health, backlog, delivers, topic, trigger } = webhook;
  const missed = useMissed(webhook);
  const notReceived = <MissedDeliveries webhook={webhook} missed={missed} onAsk={onAsk} />;
  if (!delivers) {
    return (
      <Alert color="yellow" title="This webhook can never send anything">
        The topic <Code>{topic}</Code> has no payload for the event <Code>{trigger}</Code>. Edit the
        webhook and choose another topic.
      </Alert>
    );
  }
  if (isFailing(webhook)) return <Failing webhook={webhook}>{notReceived}</Failing>;
  if (!isActive(webhook)) {
    return (
      <Alert color="gray" title="This webhook is inactive">
        {webhook.inactiveReason !== '' && <>{webhook.inactiveReason} </>}
        It has been inactive since <Time at={webhook.inactiveSince} />. Events are not sent. What
        waited is held for 30 days, and is sent when you activate it.
        {missed.total > 0 && <Box mt="xs">{notReceived}</Box>}
      </Alert>
    );
  }
  if (missed.givenUp > 0) return <Alert color="yellow">{notReceived}</Alert>;
  const isLater = backlog?.nextAttemptAt !== undefined && !isDue(backlog.nextAttemptAt);
  // What is due is sent at this moment, and needs nobody.
  if (missed.waiting === 0 || !(isLater || health?.pausedSince)) return null;
  return (
    <Alert color="blue" role="status">
      {notReceived}
    </Alert>
  );
}
