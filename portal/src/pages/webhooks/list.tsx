import { useQuery } from '@connectrpc/connect-query';
import { Alert, Box, Button, Code, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { getRouteApi, Link } from '@tanstack/react-router';
import { Fragment } from 'react';
import {
  type Subscription,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { DataTable } from '../../parts/data-table.tsx';
import { EventName } from '../../parts/event-name.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { LongText } from '../../parts/text/long-text.tsx';
import { Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';
import { count, numberText } from '../../words.ts';
import { SuccessRate, Waiting } from './health.tsx';
import { WebhooksNav } from './nav.tsx';
import { ALL_WEBHOOKS } from './use-webhooks.ts';
import { healthOf, isFailing, webhookText } from './webhook.ts';

const DeliveryChart = lazyPart(async () => (await import('./delivery-chart.tsx')).DeliveryChart, 6);
const LastError = lazyPart(async () => (await import('./failing.tsx')).LastError);
const CreateWebhook = lazyPart(async () => (await import('./create.tsx')).CreateWebhook);

const route = getRouteApi('/webhooks');

export function WebhooksPage() {
  const { can } = useSession();
  const [creating, { open, close }] = useDisclosure(false);
  const { createSubscription, listSubscriptions } = WebhooksService.method;
  const query = useQuery(listSubscriptions, ALL_WEBHOOKS, { refetchInterval: 15_000 });
  const mayCreate = can(createSubscription);
  const add = mayCreate && <Button onClick={open}>Add a webhook</Button>;
  return (
    <>
      <PageHead
        title="Webhooks"
        about="The service sends an HTTP request to your address when something happens to a return."
        actions={query.data?.subscriptions.length ? add : undefined}
      />
      <WebhooksNav />
      <Meanings of={['Event', 'Topic', 'Payload', 'Waiting']} />
      <Loaded query={query}>
        {({ subscriptions: webhooks }) =>
          webhooks.length === 0 ? (
            <EmptyState title="No webhooks yet" action={add}>
              {mayCreate
                ? 'Add one with the https address of your system and the event that it wants.'
                : 'A developer, admin or owner of your shop can add one.'}
            </EmptyState>
          ) : (
            <Endpoints webhooks={webhooks} />
          )
        }
      </Loaded>
      {creating && <CreateWebhook onClose={close} />}
    </>
  );
}

function Endpoints({ webhooks }: { readonly webhooks: readonly Subscription[] }) {
  const { hours } = route.useSearch();
  return (
    <Stack gap="md">
      <FailingWebhooks webhooks={webhooks.filter(isFailing)} />
      <SilentPairs webhooks={webhooks.filter(({ delivers }) => !delivers)} />
      <DeliveryChart from="/webhooks" hours={hours} />
      <DataTable
        caption="Webhooks"
        linked
        rows={webhooks}
        rowKey={({ id }) => String(id)}
        columns={[
          { title: 'Webhook', roomy: true, cell: (one) => <Name webhook={one} /> },
          {
            title: 'Event',
            cell: ({ trigger, topic }) => <Pair trigger={trigger} topic={topic} />,
          },
          {
            title: 'Health',
            cell: (one) => <Status state={healthOf(one)} />,
          },
          {
            title: 'Succeeded, 24 h',
            align: 'end',
            cell: (one) => <SuccessRate of={one} />,
          },
          { title: 'Waiting', align: 'end', cell: (one) => <Waiting of={one} /> },
        ]}
      />
      <Text size="sm" c="dimmed">
        {count(webhooks.length, 'webhook')} of at most 100. Payloads have the version{' '}
        <Link to="/payload-version">{webhooks[0]?.health?.payloadVersion}</Link>.
      </Text>
    </Stack>
  );
}

/** Number of addresses, and of webhooks of each, that are named, so that what follows stays in view. */
const NAMED = 5;

/**
 * Webhooks whose receiver fails come first, because somebody must do something about them. Those of one address have one
 * cause, so they are named together.
 */
function FailingWebhooks({ webhooks }: { readonly webhooks: readonly Subscription[] }) {
  if (webhooks.length === 0) return null;
  // The newest first: the others are known already.
  const newestFirst = webhooks.toSorted((one, other) => since(other) - since(one));
  const addresses = [...Map.groupBy(newestFirst, ({ url }) => url)].slice(0, NAMED);
  const named = addresses.reduce((sum, [, group]) => sum + Math.min(group.length, NAMED), 0);
  return (
    <Alert color="red" title={count(webhooks.length, 'webhook fails', 'webhooks fail')}>
      <Bullets
        items={addresses.map(([url, group]) => [url, <Address key={url} url={url} of={group} />])}
      />
      {named < webhooks.length && (
        <>{numberText(webhooks.length - named)} more in the table below.</>
      )}
    </Alert>
  );
}

function since({ failingSince }: Subscription): number {
  return Number(failingSince?.seconds ?? 0);
}

/** The failing webhooks of one address, and what went wrong last. @param o.of newest first. */
function Address(o: { readonly url: string; readonly of: readonly Subscription[] }) {
  const failures = o.of.reduce((sum, one) => sum + one.failures, 0);
  return (
    <>
      <LongText text={o.url} />:{' '}
      {o.of.slice(0, NAMED).map((one, place) => (
        <Fragment key={String(one.id)}>
          {place > 0 && ', '}
          <Link to="/webhooks/$webhookId" params={{ webhookId: String(one.id) }}>
            {webhookText(one, { word: 'Webhook' })}
          </Link>{' '}
          <Code>{one.trigger}</Code>
        </Fragment>
      ))}
      . {count(failures, 'attempt')} failed since <Time at={o.of.at(-1)?.failingSince} />.
      {/* Has its line while it is loaded, so that what follows does not jump. */}
      <Box mih="1.55em">
        <LastError webhookId={o.of[0]?.id ?? 0n} />
      </Box>
    </>
  );
}

/** The description with the address below it, or the address alone. */
function Name({ webhook: { id, description, url } }: { readonly webhook: Subscription }) {
  const address = <LongText text={url} />;
  return (
    <>
      <Link to="/webhooks/$webhookId" params={{ webhookId: String(id) }}>
        {description || address}
      </Link>
      {description !== '' && <SecondLine>{address}</SecondLine>}
    </>
  );
}

function Pair({ trigger, topic }: Pick<Subscription, 'trigger' | 'topic'>) {
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
function SilentPairs({ webhooks }: { readonly webhooks: readonly Subscription[] }) {
  if (webhooks.length === 0) return null;
  return (
    <Alert color="yellow" title={`${count(webhooks.length, 'webhook')} can never send anything`}>
      <Bullets
        items={webhooks.map((one) => [
          String(one.id),
          <Fragment key={String(one.id)}>
            The topic <Code>{one.topic}</Code> has no payload for the event{' '}
            <Code>{one.trigger}</Code>.{' '}
            <Link to="/webhooks/$webhookId" params={{ webhookId: String(one.id) }}>
              Open {webhookText(one)} and choose another topic
            </Link>
          </Fragment>,
        ])}
      />
    </Alert>
  );
}
