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
import { SecondLine } from '../../parts/cell-lines.tsx';
import { DataTable } from '../../parts/data-table.tsx';
import { EventName } from '../../parts/event-name.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { LongText } from '../../parts/long-text.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { Needs } from '../../parts/needs.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { useSession } from '../../session/session.tsx';
import { count } from '../../words.ts';
import { FailingWebhooks } from './failing-list.tsx';
import { SuccessRate, Waiting } from './health.tsx';
import { webhookText } from './name.ts';
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
          { title: 'Webhook', roomy: true, cell: (one) => <Name webhook={one} /> },
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

/** The description with the address below it, or the address alone. */
function Name({ webhook: { id, description, url } }: { readonly webhook: Webhook }) {
  const address = <LongText text={url} />;
  return (
    <>
      <Link to="/webhooks/$webhookId" params={{ webhookId: id }}>
        {description || address}
      </Link>
      {description !== '' && <SecondLine>{address}</SecondLine>}
    </>
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

/** Webhooks whose topic has no payload for their trigger: they look healthy and never send anything. */
function SilentPairs({ webhooks }: { readonly webhooks: readonly Webhook[] }) {
  if (webhooks.length === 0) return null;
  return (
    <Alert color="yellow" title={`${count(webhooks.length, 'webhook')} can never send anything`}>
      <Bullets
        items={webhooks.map((one) => [
          one.id,
          <Fragment key={one.id}>
            The topic <Code>{one.topic}</Code> has no payload for the event{' '}
            <Code>{one.trigger}</Code>.{' '}
            <Link to="/webhooks/$webhookId" params={{ webhookId: one.id }}>
              Open {webhookText(one)} and choose another topic
            </Link>
          </Fragment>,
        ])}
      />
    </Alert>
  );
}
