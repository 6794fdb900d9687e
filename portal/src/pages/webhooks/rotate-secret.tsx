import { Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import {
  type Secret,
  type Subscription,
  WebhooksService,
} from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { FormModal } from '../../parts/dialog/form-modal.tsx';

const DEFAULT_OVERLAP_HOURS = '24';

/** Makes a new secret. The old one signs, too, for some hours. */
export function RotateSecret(o: {
  readonly webhook: Subscription;
  readonly onClose: () => void;
  readonly onRotated: (secrets: readonly Secret[]) => void;
}) {
  const [hours, setHours] = useState(DEFAULT_OVERLAP_HOURS);
  const { run, isPending, error } = useWrite(WebhooksService.method.rotateSecret, {
    done: 'There is a new signing secret.',
    inline: true,
    onSuccess: ({ secret }) => {
      if (secret) o.onRotated([secret]);
      o.onClose();
    },
  });
  return (
    <FormModal
      title="Rotate the signing secret"
      onClose={o.onClose}
      submit="Make a new secret"
      pending={isPending}
      error={error}
      onSubmit={() => run({ subscriptionId: o.webhook.id, overlapHours: Number(hours) })}
    >
      <TextInput
        type="number"
        label="Hours in which the old secret signs, too"
        description="0 to 168. With 0 the old secret ends at once: choose this when somebody else knows it."
        min={0}
        max={168}
        value={hours}
        onChange={({ currentTarget }) => setHours(currentTarget.value)}
        data-autofocus
        required
      />
      <Text size="sm" c="dimmed">
        {Number(hours) === 0
          ? 'Your system rejects our requests until it has the new secret. We repeat them.'
          : `Put the new secret into your system within ${hours} hours. Until then each request has a signature of both.`}
      </Text>
    </FormModal>
  );
}
