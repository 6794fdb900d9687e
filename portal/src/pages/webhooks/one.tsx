import { useQuery } from '@connectrpc/connect-query';
import { Alert, Anchor, Box, Code, Stack } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import {
  type Webhook,
  type WebhookHealth,
  WebhooksService,
} from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { Facts } from '../../parts/facts.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Needs } from '../../parts/needs.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time.tsx';
import { idOr0 } from '../../search.ts';
import { useSession } from '../../session/session.tsx';
import { WebhookActions } from './actions.tsx';
import { SuccessRate, Waiting } from './health.tsx';
import styles from './one.module.css';
import { WaitingAlert, WhatWaits } from './what-waits.tsx';

const RecentDeliveries = lazyPart(
  async () => (await import('./recent-deliveries.tsx')).RecentDeliveries,
  6,
);

const DeliveryChart = lazyPart(async () => (await import('./delivery-chart.tsx')).DeliveryChart, 6);

const SecretPanel = lazyPart(async () => (await import('./secret.tsx')).SecretPanel, 4);

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
    { refetchInterval: 15_000 },
  );
  return (
    <Needs method={WebhooksService.method.getWebhook}>
      <Loaded query={query} title={`Webhook ${webhookId}`} back={BACK}>
        {({ webhook }) => webhook && <Content webhook={webhook} />}
      </Loaded>
    </Needs>
  );
}

function Content({ webhook }: { readonly webhook: Webhook }) {
  const { can } = useSession();
  const { hours } = route.useSearch();
  return (
    <>
      {BACK}
      <PageHead
        title={`Webhook ${webhook.id}`}
        about={
          <>
            Sends <Code>{webhook.trigger}</Code> to <Code>{webhook.url}</Code>
          </>
        }
        actions={<WebhookActions webhook={webhook} />}
      />
      <Stack gap="md">
        <Warning webhook={webhook} />
        <div className={styles.halves}>
          <Panel title="Settings and health">
            <Facts rows={factsOf(webhook)} />
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
function Warning({ webhook }: { readonly webhook: Webhook }) {
  const { health, status, delivers, topic, trigger } = webhook;
  if (!delivers) {
    return (
      <Alert color="yellow" title="This webhook can never send anything">
        The topic <Code>{topic}</Code> has no payload for the event <Code>{trigger}</Code>. Edit the
        webhook and choose another topic.
      </Alert>
    );
  }
  if (health?.state === 'failing') return <Failing webhook={webhook} health={health} />;
  if (health && status === 'inactive') {
    return (
      <Alert color="gray" title="This webhook is inactive">
        {health.inactiveReason !== '' && <>{health.inactiveReason} </>}
        It has been inactive since <Time at={health.inactiveSince} />. Events are not sent.
        Deliveries that already waited are held for 30 days, and go on when you activate it.
      </Alert>
    );
  }
  return <WaitingAlert webhook={webhook} />;
}

function Failing(o: { readonly webhook: Webhook; readonly health: WebhookHealth }) {
  const { webhook, health } = o;
  return (
    <Alert color="red" title="The address does not accept requests">
      {health.failures} attempts have failed since <Time at={health.failingSince} />.{' '}
      <Link to="/deliveries" search={{ webhook: webhook.id, state: 'waiting' }}>
        Open a delivery
      </Link>{' '}
      to see what your system answered.{' '}
      {health.disablesAt !== undefined && (
        <>
          If every attempt fails until <Time at={health.disablesAt} />, the service deactivates the
          webhook.
        </>
      )}
      <Box mt="xs">
        <WhatWaits webhook={webhook} />
      </Box>
    </Alert>
  );
}
