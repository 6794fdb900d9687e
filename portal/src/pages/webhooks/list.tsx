import { useQuery } from '@connectrpc/connect-query';
import { Alert, Button, Code, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { getRouteApi, Link } from '@tanstack/react-router';
import { Fragment } from 'react';
import {
  type ListWebhooksResponse,
  type Webhook,
  WebhooksService,
} from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { DataTable } from '../../parts/data-table.tsx';
import { EventName } from '../../parts/event-name.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { LongText } from '../../parts/long-text.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { Needs } from '../../parts/needs.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time.tsx';
import { useSession } from '../../session/session.tsx';
import { count, numberText } from '../../words.ts';
import { SuccessRate, Waiting } from './health.tsx';
import { WebhooksNav } from './nav.tsx';

const DeliveryChart = lazyPart(async () => (await import('./delivery-chart.tsx')).DeliveryChart, 6);
const CreateWebhook = lazyPart(async () => (await import('./create.tsx')).CreateWebhook);

const route = getRouteApi('/webhooks');

export function WebhooksPage() {
  const { can } = useSession();
  const [creating, { open, close }] = useDisclosure(false);
  const { createWebhook, listWebhooks } = WebhooksService.method;
  const query = useQuery(listWebhooks, {}, { refetchInterval: 15_000 });
  const mayCreate = can(createWebhook);
  const add = mayCreate && <Button onClick={open}>Add a webhook</Button>;
  return (
    <Needs method={listWebhooks}>
      <PageHead
        title="Webhooks"
        about="The service sends an HTTP request to your address when something happens to a return."
        actions={query.data?.webhooks.length ? add : undefined}
      />
      <WebhooksNav />
      <Meanings of={['Event', 'Topic', 'Payload', 'Waiting']} />
      <Loaded query={query}>
        {({ webhooks, payloadVersion }) =>
          webhooks.length === 0 ? (
            <EmptyState title="No webhooks yet" action={add}>
              {mayCreate
                ? 'Add one with the https address of your system and the event that it wants.'
                : 'A developer, admin or owner of your shop can add one.'}
            </EmptyState>
          ) : (
            <Endpoints webhooks={webhooks} payloadVersion={payloadVersion} />
          )
        }
      </Loaded>
      {creating && <CreateWebhook onClose={close} />}
    </Needs>
  );
}

type EndpointsProps = Pick<ListWebhooksResponse, 'webhooks' | 'payloadVersion'>;

function Endpoints({ webhooks, payloadVersion }: EndpointsProps) {
  const { hours } = route.useSearch();
  return (
    <Stack gap="md">
      <FailingWebhooks webhooks={webhooks.filter(({ health }) => health?.state === 'failing')} />
      <SilentPairs webhooks={webhooks.filter(({ delivers }) => !delivers)} />
      <DeliveryChart from="/webhooks" hours={hours} />
      <DataTable
        caption="Webhooks"
        linked
        rows={webhooks}
        rowKey={({ id }) => id}
        columns={[
          { title: 'Address', roomy: true, cell: (one) => <Address webhook={one} /> },
          {
            title: 'Event',
            cell: ({ trigger, topic }) => <Pair trigger={trigger} topic={topic} />,
          },
          {
            title: 'Health',
            cell: ({ health, status }) => <Status state={health?.state || status} />,
          },
          {
            title: 'Succeeded, 24 h',
            align: 'end',
            cell: (one) => <SuccessRate health={one.health} />,
          },
          { title: 'Waiting', align: 'end', cell: (one) => <Waiting health={one.health} /> },
        ]}
      />
      <Text size="sm" c="dimmed">
        {count(webhooks.length, 'webhook')} of at most 100. Payloads have the version{' '}
        <Link to="/payload-version">{payloadVersion}</Link>.
      </Text>
    </Stack>
  );
}

function Address({ webhook }: { readonly webhook: Webhook }) {
  return (
    <Link to="/webhooks/$webhookId" params={{ webhookId: webhook.id }}>
      <LongText text={webhook.url} />
    </Link>
  );
}

function Pair({ trigger, topic }: Pick<Webhook, 'trigger' | 'topic'>) {
  return (
    <>
      <Code>
        <EventName name={trigger} />
      </Code>
      <Text size="xs" c="dimmed" mt={2}>
        topic {topic}
      </Text>
    </>
  );
}

/** Number of failing webhooks that are named, so that what follows stays in view. */
const NAMED = 5;

/** Webhooks whose receiver fails come first, because somebody must do something about them. */
function FailingWebhooks({ webhooks }: { readonly webhooks: readonly Webhook[] }) {
  if (webhooks.length === 0) return null;
  const unnamed = webhooks.length - NAMED;
  // The newest first: the others are known already.
  const since = ({ health }: Webhook) => Number(health?.failingSince?.seconds ?? 0);
  const newestFirst = webhooks.toSorted((one, other) => since(other) - since(one));
  return (
    <Alert color="red" title={count(webhooks.length, 'webhook fails', 'webhooks fail')}>
      <Bullets
        items={newestFirst.slice(0, NAMED).map(({ id, trigger, url, health }) => [
          id,
          <Fragment key={id}>
            <Link to="/webhooks/$webhookId" params={{ webhookId: id }}>
              Webhook {id}
            </Link>
            , <Code>{trigger}</Code> to {url}: {count(health?.failures ?? 0, 'attempt')} failed
            since <Time at={health?.failingSince} />
          </Fragment>,
        ])}
      />
      {unnamed > 0 && <>{numberText(unnamed)} more in the table below.</>}
    </Alert>
  );
}

/** Webhooks whose topic has no payload for their trigger: they look healthy and never send anything. */
function SilentPairs({ webhooks }: { readonly webhooks: readonly Webhook[] }) {
  if (webhooks.length === 0) return null;
  return (
    <Alert color="yellow" title={`${count(webhooks.length, 'webhook')} can never send anything`}>
      <Bullets
        items={webhooks.map(({ id, topic, trigger }) => [
          id,
          <Fragment key={id}>
            The topic <Code>{topic}</Code> has no payload for the event <Code>{trigger}</Code>.{' '}
            <Link to="/webhooks/$webhookId" params={{ webhookId: id }}>
              Open webhook {id} and choose another topic
            </Link>
          </Fragment>,
        ])}
      />
    </Alert>
  );
}
