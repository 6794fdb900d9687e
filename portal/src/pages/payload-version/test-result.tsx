import type { Webhook } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { TestDeliveryResult } from '../deliveries/test-delivery-result.tsx';
import type { VersionTests } from './version-tests.ts';

/** What became of the last test of a webhook in a version, also if a colleague sent it. */
export function TestResult(o: {
  readonly webhook: Webhook;
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
