import { useQuery } from '@connectrpc/connect-query';
import { Alert, Anchor, Box, Code, Stack } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { type Webhook, WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { Facts } from '../../parts/facts.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { Needs } from '../../parts/needs.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { isDue, Time } from '../../parts/time.tsx';
import { idOr0 } from '../../search.ts';
import { useSession } from '../../session/session.tsx';
import { WebhookActions } from './actions.tsx';
import { SuccessRate, Waiting } from './health.tsx';
import { MissedDeliveries } from './missed.tsx';
import styles from './one.module.css';
import { useMissed } from './use-missed.ts';

const RecentDeliveries = lazyPart(
  async () => (await import('./recent-deliveries.tsx')).RecentDeliveries,
  6,
);

const Failing = lazyPart(async () => (await import('./failing.tsx')).Failing, 3);
const DeliveryChart = lazyPart(async () => (await import('./delivery-chart.tsx')).DeliveryChart, 6);

const SecretPanel = lazyPart(async () => (await import('./secret.tsx')).SecretPanel, 4);

const ResendMissed = lazyPart(async () => (await import('./resend-missed.tsx')).ResendMissed);

const SendProgress = lazyPart(async () => (await import('./send-progress.tsx')).SendProgress, 2);

const TestNotice = lazyPart(async () => (await import('./test-notice.tsx')).TestNotice, 2);

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
    WebhooksService.method.getWebhook,
    { webhookId: idOr0(webhookId) },
    {
      refetchInterval: ({ state }) => (isSending(state.data?.webhook) ? SENDING_MS : REFRESH_MS),
    },
  );
  return (
    <Needs method={WebhooksService.method.getWebhook}>
      <Loaded query={query} title={`Webhook ${webhookId}`} back={BACK}>
        {({ webhook }) => webhook && <Content key={webhook.id} webhook={webhook} />}
      </Loaded>
    </Needs>
  );
}

function isSending(webhook: Webhook | undefined): boolean {
  const { waiting = 0, nextAttemptAt } = webhook?.health ?? {};
  return waiting > 0 && isDue(nextAttemptAt);
}

/** Reads the chart and the lists again when the numbers of the webhook change: all count the same deliveries. */
function useSameNumbers({ health }: Webhook): void {
  const cache = useQueryClient();
  const { state, waiting, succeeded24h, failed24h } = health ?? {};
  const numbers = `${state} ${waiting} ${succeeded24h} ${failed24h}`;
  const shown = useRef(numbers);
  useEffect(() => {
    if (shown.current !== numbers) void cache.invalidateQueries();
    shown.current = numbers;
  }, [cache, numbers]);
}

function Content({ webhook }: { readonly webhook: Webhook }) {
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

function factsOf(webhook: Webhook) {
  const { health } = webhook;
  return [
    ['Health', <Status key="state" state={health?.state || webhook.status} />],
    ['Address', webhook.url],
    ['Event', webhook.trigger],
    ['Topic', webhook.topic],
    ['Success, 24 h', <SuccessRate key="rate" health={health} />],
    ['Waiting', <Waiting key="waiting" health={health} />],
    ['Added', <Time key="added" at={webhook.createdAt} />],
    ['Changed', <Time key="changed" at={webhook.updatedAt} />],
  ] as const;
}

/** What is wrong with the webhook, and what to do. */
function Warning({ webhook, onAsk }: { readonly webhook: Webhook; readonly onAsk: () => void }) {
  const { health, status, delivers, topic, trigger } = webhook;
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
  if (health?.state === 'failing')
    return (
      <Failing webhook={webhook} health={health}>
        {notReceived}
      </Failing>
    );
  if (health && status === 'inactive') {
    return (
      <Alert color="gray" title="This webhook is inactive">
        {health.inactiveReason !== '' && <>{health.inactiveReason} </>}
        It has been inactive since <Time at={health.inactiveSince} />. Events are not sent. What
        waited is held for 30 days, and is sent when you activate it.
        {missed.total > 0 && <Box mt="xs">{notReceived}</Box>}
      </Alert>
    );
  }
  if (missed.givenUp > 0) return <Alert color="yellow">{notReceived}</Alert>;
  const isLater = health?.nextAttemptAt !== undefined && !isDue(health.nextAttemptAt);
  // What is due is sent at this moment, and needs nobody.
  if (missed.waiting === 0 || !(isLater || health?.pausedSince)) return null;
  return (
    <Alert color="blue" role="status">
      {notReceived}
    </Alert>
  );
}
