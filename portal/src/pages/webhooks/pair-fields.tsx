import { useQuery } from '@connectrpc/connect-query';
import { NativeSelect, Text } from '@mantine/core';
import { WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { fieldError } from '../../api/field-errors.ts';
import { ErrorState } from '../../parts/states.tsx';

export interface PairOfWebhook {
  readonly topic: string;
  readonly trigger: string;
}

/**
 * Which event, and in which shape. Only pairs that deliver something can be chosen; a pair of an existing webhook that
 * delivers nothing stays in the list.
 */
export function PairFields(o: {
  readonly value: PairOfWebhook;
  readonly onChange: (value: PairOfWebhook) => void;
  readonly error: unknown;
}) {
  const query = useQuery(WebhooksService.method.listEventTypes, {}, { staleTime: Infinity });
  const { data } = query;
  const topics = data?.topics ?? [];
  const triggers = data?.triggers ?? [];
  const { topic, trigger } = o.value;
  const fitting = topics.filter(({ delivers }) => delivers.includes(trigger));
  const isSilent = data !== undefined && !fitting.some((one) => one.topic === topic);

  const choose = (next: string) => {
    const topicsOfNext = topics.filter(({ delivers }) => delivers.includes(next));
    const keeps = topicsOfNext.some((one) => one.topic === topic);
    o.onChange({ trigger: next, topic: keeps ? topic : (topicsOfNext[0]?.topic ?? topic) });
  };
  if (query.error && !data) {
    return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  }
  return (
    <>
      <NativeSelect
        label="Event"
        value={trigger}
        onChange={({ currentTarget }) => choose(currentTarget.value)}
        error={fieldError(o.error, 'trigger')}
        description={triggers.find(({ name }) => name === trigger)?.description ?? ' '}
        inputWrapperOrder={['label', 'input', 'description', 'error']}
        data={triggers.map(({ name }) => ({ value: name, label: name }))}
      />
      <NativeSelect
        label="Topic: the shape of the payload"
        value={topic}
        onChange={({ currentTarget }) => o.onChange({ trigger, topic: currentTarget.value })}
        error={fieldError(o.error, 'topic')}
        description={topics.find((one) => one.topic === topic)?.description ?? ' '}
        inputWrapperOrder={['label', 'input', 'description', 'error']}
        data={[
          ...fitting.map((one) => ({ value: one.topic, label: one.topic })),
          ...(isSilent ? [{ value: topic, label: `${topic} (sends nothing for this event)` }] : []),
        ]}
      />
      {isSilent && (
        <Text size="sm" c="var(--mantine-color-error)">
          This topic has no payload for this event, so that nothing would be sent.
        </Text>
      )}
    </>
  );
}
