import { Code, Stack, Text } from '@mantine/core';
import type {
  DeliveryAttempt,
  DeliveryHeader,
} from '../../../../proto/gen/rms/portal/v1/deliveries_pb.ts';
import { Facts } from '../../parts/facts.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time.tsx';
import { adviceOf, answerText } from './advice.ts';
import styles from './attempts.module.css';
import { isSuccess, resultText } from './result.ts';
import { TimingBar } from './timing-bar.tsx';

/** Every attempt of a delivery, newest first. The newest is open. */
export function Attempts({ attempts }: { readonly attempts: readonly DeliveryAttempt[] }) {
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

function OneAttempt({ attempt }: { readonly attempt: DeliveryAttempt }) {
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
      <Headers title="Request headers" headers={attempt.requestHeaders} />
      <Headers title="Response headers" headers={attempt.responseHeaders} />
    </Stack>
  );
}

/** The beginning of the response's body, which is all that is kept of it. */
function Body({ attempt }: { readonly attempt: DeliveryAttempt }) {
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

interface HeadersProps {
  readonly title: string;
  readonly headers: readonly DeliveryHeader[];
}

/** Closed at first: only developers need them, and they are long. */
function Headers({ title, headers }: HeadersProps) {
  if (headers.length === 0) return null;
  return (
    <details className={styles.headers}>
      <summary className={styles.summary}>
        <Text span size="sm">
          {title}
        </Text>
      </summary>
      <Facts rows={headers.map(({ name, value }) => [name, value] as const)} />
    </details>
  );
}
