import { useQuery } from '@connectrpc/connect-query';
import { Button, Group, NativeSelect, Text } from '@mantine/core';
import { Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import {
  type GetPayloadVersionResponse,
  PayloadVersionService,
} from '../../../../proto/gen/rms/portal/v1/payload_version_pb.ts';
import { WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { newActionKey, useWrite } from '../../api/use-write.ts';
import { Panel } from '../../parts/panel.tsx';

/** Sends one test event in a version to one webhook. The setting of the shop stays as it is. */
export function SendVersionTest({ setting }: { readonly setting: GetPayloadVersionResponse }) {
  const navigate = useNavigate();
  const { data } = useQuery(WebhooksService.method.listWebhooks, {});
  const [chosen, setChosen] = useState('');
  const names = setting.versions.filter(({ selectable }) => selectable).map((one) => one.version);
  const [version, setVersion] = useState(
    () => names.find((name) => name !== setting.version) ?? '',
  );
  const { run, isPending } = useWrite(PayloadVersionService.method.sendVersionTest, {
    onSuccess: ({ delivery }) => {
      if (!delivery) return;
      void navigate({ to: '/deliveries/$deliveryId', params: { deliveryId: delivery.id } });
    },
  });
  const webhooks = (data?.webhooks ?? []).filter(
    ({ status, delivers }) => status === 'active' && delivers,
  );
  const webhookId = chosen || (webhooks[0]?.id ?? '');
  return (
    <Panel
      title="Send a test in another version"
      about="Your system gets one example, signed like a real event. The setting of your shop stays as it is."
    >
      {webhooks.length === 0 ? (
        <Text size="sm" c="dimmed">
          Your shop has no active webhook. <Link to="/webhooks">Add or activate one</Link> first.
        </Text>
      ) : (
        <Group align="flex-end" gap="sm">
          <NativeSelect
            label="Webhook"
            value={webhookId}
            onChange={({ currentTarget }) => setChosen(currentTarget.value)}
            data={webhooks.map(({ id, trigger, url }) => ({
              value: id,
              label: `${trigger} to ${url}`,
            }))}
          />
          <NativeSelect
            label="Version"
            value={version}
            data={names}
            onChange={({ currentTarget }) => setVersion(currentTarget.value)}
          />
          <Button
            variant="default"
            loading={isPending}
            onClick={() => run({ idempotencyKey: newActionKey(), webhookId, version })}
          >
            Send an example in {version}
          </Button>
        </Group>
      )}
    </Panel>
  );
}
