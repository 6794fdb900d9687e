import { Group, Text } from '@mantine/core';
import type { DeliveryTiming } from '../../../../proto/gen/rms/portal/v1/deliveries_pb.ts';
import styles from './timing-bar.module.css';

const PHASES = [
  ['dnsMs', 'Name resolution', 'grape-6'],
  ['connectMs', 'Connection', 'orange-6'],
  ['tlsMs', 'TLS handshake', 'teal-6'],
  ['waitMs', 'Waiting for the answer', 'blue-6'],
  ['readMs', 'Reading the answer', 'gray-6'],
] as const;

/** Where the time of an attempt went. */
export function TimingBar({
  timing,
  total,
}: {
  readonly timing: DeliveryTiming;
  readonly total: number;
}) {
  const phases = PHASES.flatMap(([key, title, color]) => {
    const ms = timing[key];
    return ms === undefined ? [] : [{ key, title, color, ms }];
  });
  const sum = Math.max(
    1,
    total,
    phases.reduce((all, { ms }) => all + ms, 0),
  );
  return (
    <div>
      <Text size="sm" fw={600} mb={4}>
        Where the time went: {total} ms
      </Text>
      <div className={styles.bar} aria-hidden="true">
        {phases.map(({ key, color, ms }) => (
          <div
            key={key}
            style={{ width: `${(ms / sum) * 100}%`, background: `var(--mantine-color-${color})` }}
          />
        ))}
      </div>
      <Group gap="md" mt={6} component="ul" p={0} style={{ listStyle: 'none' }}>
        {phases.map(({ key, title, color, ms }) => (
          <Text key={key} component="li" size="xs">
            <Text span style={{ color: `var(--mantine-color-${color})` }} aria-hidden>
              ■
            </Text>{' '}
            {title}: {ms} ms
          </Text>
        ))}
      </Group>
    </div>
  );
}
