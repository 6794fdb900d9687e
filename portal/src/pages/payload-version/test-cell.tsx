import { Text } from '@mantine/core';
import { useState } from 'react';
import { PayloadVersionService } from '../../../../proto/gen/rms/portal/v1/payload_version_pb.ts';
import type { Webhook } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { RowButton } from '../../parts/row-button.tsx';
import { webhookText } from '../webhooks/name.ts';
import { TestResult } from './test-result.tsx';
import type { VersionTests } from './version-tests.ts';

/** Sends one test event in a version to one webhook, and says what became of the last one. The shop's setting stays. */
export function TestCell(o: {
  readonly webhook: Webhook;
  readonly version: string;
  readonly tests: VersionTests;
}) {
  const { webhook, version } = o;
  // Screen readers announce the result of a test that the reader sent, not those of all rows.
  const [asked, setAsked] = useState(false);
  const { run, isPending } = useWrite(PayloadVersionService.method.sendVersionTest, {});
  const send = () => {
    setAsked(true);
    run({ webhookId: webhook.id, version });
  };
  if (!webhook.delivers) return <>–</>;
  return (
    <>
      {webhook.status === 'active' && (
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
