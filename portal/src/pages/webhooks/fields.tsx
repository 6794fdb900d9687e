import { useQuery } from '@connectrpc/connect-query';
import { Alert, NativeSelect, Text, TextInput } from '@mantine/core';
import { PayloadsService } from '../../../../proto/gen/rms/portal/v1/payloads_pb.ts';
import {
  type Subscription,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { fieldError } from '../../api/field-errors.ts';
import { ErrorState } from '../../parts/states.tsx';
import { tooLong } from '../../parts/text/too-long.ts';
import { visible } from '../../parts/text/visible.ts';
import { ALL_WEBHOOKS, useWebhookNames } from './use-webhooks.ts';
import { webhooksText } from './webhook.ts';

// The fields of a new webhook, and of a change.

interface FieldProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly error: unknown;
}

export function UrlField(o: FieldProps) {
  return (
    <TextInput
      label="Address"
      description="The receiver must answer with a status of 200 to 299 within 15 seconds."
      placeholder="https://example.com/returns"
      type="url"
      required
      data-autofocus
      value={o.value}
      onChange={({ currentTarget }) => o.onChange(visible(currentTarget.value))}
      error={tooLong(o.value, 2_048) ?? fieldError(o.error, 'url')}
    />
  );
}

export function DescriptionField(o: FieldProps) {
  return (
    <TextInput
      label="Description"
      description="What it is for, so that your team tells it from others. Only the portal shows it; your system does not get it."
      placeholder="Warehouse system"
      value={o.value}
      onChange={({ currentTarget }) => o.onChange(currentTarget.value)}
      error={tooLong(o.value, 200) ?? fieldError(o.error, 'description')}
    />
  );
}

interface PairOfWebhook {
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
  const query = useQuery(PayloadsService.method.listEventTypes, {}, { staleTime: Infinity });
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

type Chosen = Pick<Subscription, 'url' | 'topic' | 'trigger'>;

/**
 * Warns in a form that an event would be sent several times, because other webhooks have the same address, event and
 * topic. It is allowed, and mostly a mistake.
 *
 * @param o.own the id of the webhook that is edited; absent for a new one.
 */
export function EqualToChosen(o: { readonly chosen: Chosen; readonly own?: bigint }) {
  const { data } = useQuery(WebhooksService.method.listSubscriptions, ALL_WEBHOOKS);
  const equal = (data?.subscriptions ?? []).filter(
    (one) => one.id !== o.own && isEqual(one, o.chosen),
  );
  return <EqualWebhooks ids={equal.map(({ id }) => id)} />;
}

function isEqual(one: Chosen, other: Chosen): boolean {
  return one.url === other.url && one.topic === other.topic && one.trigger === other.trigger;
}

/** How many webhooks the warning names. */
const NAMED = 5;

/** The warning about the other webhooks with these ids. Nothing without ids. */
export function EqualWebhooks({ ids }: { readonly ids: readonly bigint[] }) {
  const named = useWebhookNames();
  if (ids.length === 0) return null;
  return (
    <Alert color="yellow" role="status" title="There is an equal webhook">
      {webhooksText(ids.slice(0, NAMED).map(named))}
      {ids.length > NAMED && ` and ${ids.length - NAMED} more`} {ids.length === 1 ? 'has' : 'have'}{' '}
      the same address, event and topic. While all of them are active, your system gets each event{' '}
      {ids.length + 1} times, each time with another webhook-id.
    </Alert>
  );
}
