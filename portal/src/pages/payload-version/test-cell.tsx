import { Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { PayloadVersionService } from '../../../../proto/gen/rms/portal/v1/payload_version_pb.ts';
import type { Webhook } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { newActionKey, useWrite } from '../../api/use-write.ts';
import { RowButton } from '../../parts/row-button.tsx';
import { useSession } from '../../session/session.tsx';
import { rememberTest, useLastTest } from './sent-tests.ts';
import { TestResult } from './test-result.tsx';

/** Sends one test event in a version to one webhook, and says what became of it. The shop's setting stays as it is. */
export function TestCell({
  webhook,
  version,
}: {
  readonly webhook: Webhook;
  readonly version: string;
}) {
  const { shop } = useSession();
  const about = { shopId: shop.id, webhookId: webhook.id, version };
  const deliveryId = useLastTest(about);
  const { run, isPending } = useWrite(PayloadVersionService.method.sendVersionTest, {
    onSuccess: ({ delivery }) => {
      if (delivery) rememberTest({ ...about, deliveryId: delivery.id });
    },
  });
  if (webhook.status !== 'active' || !webhook.delivers) return <>–</>;
  return (
    <>
      <RowButton
        text="Send a test"
        label={`Send a test in ${version} to webhook ${webhook.id}`}
        isPending={isPending}
        onClick={() => run({ idempotencyKey: newActionKey(), webhookId: webhook.id, version })}
      />
      <Text size="xs" c="dimmed" mt={4} role="status">
        <TestResult webhook={webhook} version={version} />
        {deliveryId !== undefined && (
          <>
            {': '}
            <Link to="/deliveries/$deliveryId" params={{ deliveryId }}>
              open it
            </Link>
          </>
        )}
      </Text>
    </>
  );
}
