import { useQuery } from '@connectrpc/connect-query';
import { Group, Text } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import type { GetPayloadVersionResponse } from '../../../../proto/gen/rms/portal/v1/payloads_pb.ts';
import {
  type Subscription,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { EventName } from '../../parts/event-name.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { LongText } from '../../parts/text/long-text.tsx';
import { useSession } from '../../session/session.tsx';
import { ALL_WEBHOOKS } from '../webhooks/use-webhooks.ts';
import { isActive } from '../webhooks/webhook.ts';
import { changedTopics, type VersionChange } from './changes.ts';
import { TestCell, useVersionTests, type VersionTests } from './tests.tsx';

const route = getRouteApi('/payload-version');

/**
 * The shop's webhooks with the version that each is sent, whether a change of the version concerns its payload, and a
 * test in the new version.
 *
 * @param o.change undefined when there is no version to compare with.
 */
export function SentVersions({
  setting,
  change,
}: {
  readonly setting: GetPayloadVersionResponse;
  readonly change: VersionChange | undefined;
}) {
  const query = useQuery(WebhooksService.method.listSubscriptions, ALL_WEBHOOKS);
  const mayTest = useSession().can(WebhooksService.method.sendTest);
  const tests = useVersionTests(mayTest ? change?.to : undefined);
  const { version: current } = setting;
  const changed = changedTopics(setting, change?.from ?? current, change?.to ?? current);
  return (
    <Panel
      title="What each webhook is sent"
      about={`The version counts for all webhooks of the shop: each is sent ${current}. Deliveries that waited when it was changed keep the version of before.`}
    >
      <Loaded query={query} rows={3}>
        {({ subscriptions: webhooks }) =>
          webhooks.length === 0 ? (
            <Text size="sm" c="dimmed">
              Your shop has no webhook. <Link to="/webhooks">Add one</Link> to be sent events.
            </Text>
          ) : (
            <>
              {change && (
                <Text size="sm" mb="xs">
                  {concernedText(change)}:{' '}
                  {webhooks.filter(({ topic }) => changed.has(topic)).length} of {webhooks.length}.
                </Text>
              )}
              <DataTable
                caption="Webhooks and their versions"
                rows={sorted(webhooks, changed)}
                rowKey={({ id }) => String(id)}
                columns={[
                  ...columnsOf(current),
                  ...(change ? [effectOf(change, changed)] : []),
                  ...(change && mayTest ? [testIn(change.to, tests)] : []),
                ]}
              />
              {change && mayTest && (
                <Text size="sm" c="dimmed" mt="xs">
                  A test is an example, signed like a real event. The last one of each webhook is
                  shown, also if a colleague sent it. “Accepted” means that the receiver answered
                  with 200 to 299. Whether it understands the new form, only its people know.
                </Text>
              )}
            </>
          )
        }
      </Loaded>
    </Panel>
  );
}

function concernedText({ from, to, isMade }: VersionChange): string {
  return isMade
    ? `Webhooks whose payload changed from ${from} to ${to}`
    : `Webhooks that get another payload in ${to}`;
}

/** Those that change first. */
function sorted(webhooks: readonly Subscription[], changed: ReadonlySet<string>): Subscription[] {
  return webhooks.toSorted((a, b) => Number(changed.has(b.topic)) - Number(changed.has(a.topic)));
}

function columnsOf(served: string): readonly Column<Subscription>[] {
  return [
    {
      title: 'Webhook',
      roomy: true,
      cell: ({ id, description, trigger, url, ...webhook }) => (
        <>
          <Group gap={6}>
            <Link to="/webhooks/$webhookId" params={{ webhookId: String(id) }}>
              {description || <EventName name={trigger} />}
            </Link>
            {!isActive(webhook) && <Status state="inactive" />}
          </Group>
          <SecondLine>
            {description && `${trigger} to `}
            <LongText text={url} />
          </SecondLine>
        </>
      ),
    },
    { title: 'Topic', short: true, cell: ({ topic }) => topic },
    { title: 'Sent in', short: true, cell: () => served },
  ];
}

function testIn(version: string, tests: VersionTests): Column<Subscription> {
  return {
    title: `Test in ${version}`,
    roomy: true,
    cell: (webhook) => <TestCell webhook={webhook} version={version} tests={tests} />,
  };
}

function effectOf(
  { from, to, isMade }: VersionChange,
  changed: ReadonlySet<string>,
): Column<Subscription> {
  const [changes, stays] = isMade ? ['Changed', 'Stayed the same'] : ['Changes', 'Stays the same'];
  const since = isMade ? { since: from } : {};
  return {
    title: `In ${to}`,
    cell: ({ topic, trigger }) =>
      changed.has(topic) ? (
        <>
          {changes}:{' '}
          <route.Link
            to="."
            hash="compare"
            search={{ event: `example:${trigger}`, topic, from, to, ...since }}
            aria-label={`Show what ${changes.toLowerCase()} for ${trigger}`}
          >
            show what
          </route.Link>
        </>
      ) : (
        stays
      ),
  };
}
