import { Code, Stack, Text } from '@mantine/core';
import type {
  DeliveryAttempt,
  DeliveryHeader,
} from '../../../../proto/gen/rms/portal/v1/deliveries_pb.ts';
import { Facts } from '../../parts/facts.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time.tsx';
import { adviceOf } from './advice.ts';
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
      <Facts
        rows={[
          ['Request', <Code key="url">POST {attempt.url}</Code>],
          ['Answer', resultText(attempt)],
          ['Why it failed', attempt.error],
          ['What to check', adviceOf(attempt)],
        ]}
      />
      {attempt.timing && <TimingBar timing={attempt.timing} total={attempt.durationMs} />}
      <Headers title="Request headers" headers={attempt.requestHeaders} />
      <Headers title="Response headers" headers={attempt.responseHeaders} />
      <div>
        <Text size="sm" fw={600} mb={4}>
          Response, first KiB
        </Text>
        {attempt.responseExcerpt === '' ? (
          <Text size="sm" c="dimmed">
            The response had no body.
          </Text>
        ) : (
          <Code
            block
            tabIndex={0}
            role="region"
            aria-label={`Response of attempt ${attempt.number}`}
          >
            {attempt.responseExcerpt}
          </Code>
        )}
      </div>
    </Stack>
  );
}

interface HeadersProps {
  readonly title: string;
  readonly headers: readonly DeliveryHeader[];
}

function Headers({ title, headers }: HeadersProps) {
  if (headers.length === 0) return null;
  return (
    <div>
      <Text size="sm" fw={600} mb={4}>
        {title}
      </Text>
      <Facts rows={headers.map(({ name, value }) => [name, value] as const)} />
    </div>
  );
}
