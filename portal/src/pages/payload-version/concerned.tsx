import { useQuery } from '@connectrpc/connect-query';
import { Text } from '@mantine/core';
import type { GetPayloadVersionResponse } from '../../../../proto/gen/rms/portal/v1/payloads_pb.ts';
import { WebhooksService } from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { Loaded } from '../../parts/states.tsx';
import { ALL_WEBHOOKS } from '../webhooks/use-webhooks.ts';
import { isActive } from '../webhooks/webhook.ts';
import { changedTopics } from './changes.ts';
import { TestResult, useVersionTests } from './tests.tsx';

/** What another version changes, said before it is chosen: the webhooks that get another payload, and their tests. */
export function Concerned(o: {
  readonly setting: GetPayloadVersionResponse;
  readonly version: string;
}) {
  const { setting, version } = o;
  const query = useQuery(WebhooksService.method.listSubscriptions, ALL_WEBHOOKS);
  const tests = useVersionTests(version);
  const changed = changedTopics(setting, setting.version, version);
  return (
    <>
      Every webhook of your shop sends events from now on in {version}. Deliveries that wait keep
      their version. You can switch to {setting.version} again at any time while it is supported.
      <Text size="sm" fw={600} mt="sm">
        Webhooks that get another payload
      </Text>
      <Text size="sm" c="dimmed">
        An accepted test shows only that the address answered. Ask the people of each system whether
        it understands {version}.
      </Text>
      <Loaded query={query} rows={2}>
        {({ subscriptions }) => {
          const concerned = subscriptions.filter(({ topic }) => changed.has(topic));
          if (concerned.length === 0) return <>None.</>;
          return (
            <Bullets
              items={concerned.map((webhook) => [
                String(webhook.id),
                <>
                  {webhook.description && `${webhook.description}, `}
                  {webhook.trigger} to {webhook.url}:{' '}
                  {isActive(webhook) ? (
                    <TestResult webhook={webhook} tests={tests} withoutLink />
                  ) : (
                    'inactive'
                  )}
                </>,
              ])}
            />
          );
        }}
      </Loaded>
    </>
  );
}
