import { Stack, Text } from '@mantine/core';
import type { ReturnLabel } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import { Facts } from '../../parts/facts.tsx';
import { OutsideLink } from '../../parts/outside-link.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Time } from '../../parts/time.tsx';
import { inWords, moneyText } from '../../words.ts';

export function LabelsPanel(o: {
  readonly labels: readonly ReturnLabel[];
  readonly currency: string;
}) {
  return (
    <Panel title="Shipping labels">
      {o.labels.length === 0 ? (
        <Text size="sm" c="dimmed">
          There is no label yet.
        </Text>
      ) : (
        <Stack gap="md">
          {o.labels.map((label) => (
            <Facts
              key={label.id}
              rows={[
                ['Parcel', inWords(label.status)],
                ['Carrier', label.carrier],
                ['Tracking number', label.trackingNumber],
                [
                  'Label',
                  label.url !== '' && (
                    <OutsideLink key="url" url={label.url}>
                      Open the label
                    </OutsideLink>
                  ),
                ],
                ['Cost', label.rate !== '' && moneyText(label.rate, o.currency)],
                ['Bought', <Time key="bought" at={label.createdAt} />],
                ['Last news', <Time key="news" at={label.updatedAt} />],
              ]}
            />
          ))}
        </Stack>
      )}
    </Panel>
  );
}
