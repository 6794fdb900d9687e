import { Code, Group, Stack, Text } from '@mantine/core';
import type { Attempt, AttemptTiming } from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { Facts } from '../../parts/facts.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time/time.tsx';
import { adviceOf, answerText } from './advice.ts';
import styles from './attempts.module.css';
import { isSuccess, resultText } from './delivery.ts';

/** Every attempt of a delivery, newest first. The newest is open. */
export function Attempts({ attempts }: { readonly attempts: readonly Attempt[] }) {
  const newest = attempts.at(-1);
  return (
    <Panel title="Attempts" about={newest ? undefined : 'There was no attempt yet.'}>
      {newest && (
        <Stack gap="xs">
          {attempts.toReversed().map((attempt) => (
            <details
              key={attempt.number}
              className={styles.attempt}
              open={attempt.number === newest.number}
            >
              <summary className={styles.summary}>
                <Text span size="sm" fw={600}>
                  Attempt {attempt.number}
                </Text>
                <Status state={isSuccess(attempt) ? 'delivered' : 'failed'} />
                <Code>{resultText(attempt)}</Code>
                <Text span size="sm" c="dimmed">
                  <Time at={attempt.startedAt} as="exact" /> · {attempt.durationMs} ms
                </Text>
              </summary>
              <OneAttempt attempt={attempt} />
            </details>
          ))}
        </Stack>
      )}
    </Panel>
  );
}

function OneAttempt({ attempt }: { readonly attempt: Attempt }) {
  return (
    <Stack gap="md">
      <div>
        <Text size="sm" fw={600} mb={4}>
          What the receiver answered
        </Text>
        <Text size="sm" mb={4}>
          {answerText(attempt)}. {adviceOf(attempt)}
        </Text>
        <Body attempt={attempt} />
      </div>
      <Facts rows={[['Sent to', <Code key="url">{attempt.url}</Code>]]} />
      {attempt.timing && <TimingBar timing={attempt.timing} total={attempt.durationMs} />}
      <Headers title="Request headers" json={attempt.requestHeadersJson} />
      <Headers title="Response headers" json={attempt.responseHeadersJson} />
    </Stack>
  );
}

/** The beginning of the response's body, which is all that is kept of it. */
function Body({ attempt }: { readonly attempt: Attempt }) {
  const { number, status, responseExcerpt } = attempt;
  // Without a status there was no response.
  if (status === 0) return null;
  if (responseExcerpt === '') {
    return (
      <Text size="sm" c="dimmed">
        It sent no text.
      </Text>
    );
  }
  return (
    <>
      <Code
        block
        className={styles.body ?? ''}
        role="region"
        aria-label={`Response of attempt ${number}`}
      >
        {responseExcerpt}
      </Code>
      <Text size="xs" c="dimmed" mt={4}>
        At most the first 1,024 bytes are kept.
      </Text>
    </>
  );
}

/** Closed at first: only developers need them, and they are long. @param o.json an object of texts, or nothing. */
function Headers({ title, json }: { readonly title: string; readonly json: string }) {
  if (json === '') return null;
  const headers = Object.entries(JSON.parse(json) as Record<string, string>);
  if (headers.length === 0) return null;
  return (
    <details className={styles.headers}>
      <summary className={styles.summary}>
        <Text span size="sm">
          {title}
        </Text>
      </summary>
      <Facts rows={headers} />
    </details>
  );
}

const PHASES = [
  ['dnsMs', 'Name resolution', 'grape-6'],
  ['connectMs', 'Connection', 'orange-6'],
  ['tlsMs', 'TLS handshake', 'teal-6'],
  ['waitMs', 'Waiting for the answer', 'blue-6'],
  ['readMs', 'Reading the answer', 'gray-6'],
] as const;

/** Where the time of an attempt went. */
function TimingBar({ timing, total }: { readonly timing: AttemptTiming; readonly total: number }) {
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
