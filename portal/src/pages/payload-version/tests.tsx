import { useQuery } from '@connectrpc/connect-query';
import { Text } from '@mantine/core';
import { useState } from 'react';
import {
  type Delivery,
  type Subscription,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { RowButton } from '../../parts/row-button.tsx';
import { useSession } from '../../session/session.tsx';
import { isBeingSent } from '../deliveries/delivery.ts';
import { TEST_REFRESH_MS, TestDeliveryResult } from '../deliveries/test-delivery-result.tsx';
import { isActive, webhookText } from '../webhooks/webhook.ts';

/** The last tests in one version. */
export interface VersionTests {
  /** The last test by the id of its webhook; undefined while it is loaded, and when that failed. */
  readonly byWebhook: ReadonlyMap<bigint, Delivery> | undefined;
  readonly isFailed: boolean;
}

/** The last test of each webhook in a version, read again until each was tried. @param version undefined for none. */
export function useVersionTests(version: string | undefined): VersionTests {
  const { listLastTests } = WebhooksService.method;
  const mayList = useSession().can(listLastTests);
  const { data, error } = useQuery(
    listLastTests,
    { version: version ?? '' },
    {
      enabled: mayList && version !== undefined,
      refetchInterval: ({ state }) =>
        state.data?.deliveries.some(isBeingSent) ? TEST_REFRESH_MS : false,
    },
  );
  return {
    byWebhook: data && new Map(data.deliveries.map((one) => [one.subscriptionId, one])),
    isFailed: error !== null,
  };
}

/** Sends one test event in a version to one webhook, and says what became of the last one. The shop's setting stays. */
export function TestCell(o: {
  readonly webhook: Subscription;
  readonly version: string;
  readonly tests: VersionTests;
}) {
  const { webhook, version } = o;
  // Screen readers announce the result of a test that the reader sent, not those of all rows.
  const [asked, setAsked] = useState(false);
  const { run, isPending } = useWrite(WebhooksService.method.sendTest, {});
  const send = () => {
    setAsked(true);
    run({ subscriptionId: webhook.id, version });
  };
  if (!webhook.delivers) return <>–</>;
  return (
    <>
      {isActive(webhook) && (
        <RowButton
          text="Send a test"
          label={`Send a test in ${version} to ${webhookText(webhook)}`}
          isPending={isPending}
          onClick={send}
        />
      )}
      <Text size="xs" c="dimmed" mt={4} {...(asked && { role: 'status' })}>
        <TestResult webhook={webhook} tests={o.tests} />
      </Text>
    </>
  );
}

/** What became of the last test of a webhook in a version, also if a colleague sent it. */
export function TestResult(o: {
  readonly webhook: Subscription;
  readonly tests: VersionTests;
  readonly withoutLink?: boolean;
}) {
  const { byWebhook, isFailed } = o.tests;
  if (!byWebhook) return <>{isFailed ? 'the last test could not be loaded' : '…'}</>;
  const delivery = byWebhook.get(o.webhook.id);
  // The log keeps a delivery for 30 days.
  if (!delivery) return <>not tested in the last 30 days</>;
  return <TestDeliveryResult delivery={delivery} withoutLink={o.withoutLink ?? false} />;
}
