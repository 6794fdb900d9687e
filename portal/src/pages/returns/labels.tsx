import { Stack, Text } from '@mantine/core';
import { LabelStatusSchema, type Return } from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import { Facts } from '../../parts/facts.tsx';
import { OutsideLink } from '../../parts/outside-link.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Time } from '../../parts/time/time.tsx';
import { inWords, moneyText, wordOf } from '../../words.ts';

/** The labels, newest first. */
export function LabelsPanel({ about: { labels, currency } }: { readonly about: Return }) {
  return (
    <Panel title="Shipping labels">
      {labels.length === 0 ? (
        <Text size="sm" c="dimmed">
          There is no label yet.
        </Text>
      ) : (
        <Stack gap="md">
          {labels.toReversed().map((label) => (
            <Facts
              key={String(label.id)}
              rows={[
                ['Parcel', inWords(wordOf(LabelStatusSchema, label.status))],
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
                ['Cost', label.rate !== '' && moneyText(label.rate, currency)],
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
