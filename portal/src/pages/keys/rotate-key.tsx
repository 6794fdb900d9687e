import { Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import {
  type ApiKey,
  ApiKeysService,
  type RotateApiKeyResponse,
} from '../../../../proto/gen/rms/portal/v1/api_keys_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { Time } from '../../parts/time.tsx';
import { KeyText } from './key-text.tsx';

/** Makes a new key with the same rights. The old one works for some hours more. */
export function RotateKey(o: { readonly of: ApiKey; readonly onClose: () => void }) {
  const [hours, setHours] = useState('24');
  const [rotated, setRotated] = useState<RotateApiKeyResponse>();
  const { run, isPending, error } = useWrite(ApiKeysService.method.rotateApiKey, {
    inline: true,
    onSuccess: setRotated,
  });
  if (rotated) {
    return (
      <KeyText text={rotated.text} onClose={o.onClose}>
        <Text size="sm">
          The old key works until <Time at={rotated.former?.expiresAt} />,{' '}
          <Time at={rotated.former?.expiresAt} as="relative" />.
        </Text>
      </KeyText>
    );
  }
  return (
    <FormModal
      title={`Rotate “${o.of.description || o.of.id}”`}
      onClose={o.onClose}
      submit="Make a new key"
      pending={isPending}
      error={error}
      onSubmit={() =>
        run({
          keyId: o.of.id,
          overlapHours: Number(hours),
        })
      }
    >
      <TextInput
        type="number"
        label="Hours in which the old key works, too"
        description="0 to 168. With 0 the old key ends at once: choose this when somebody else knows it."
        min={0}
        max={168}
        required
        value={hours}
        onChange={({ currentTarget }) => setHours(currentTarget.value)}
        data-autofocus
      />
      <Text size="sm" c="dimmed">
        The new key has the same rights and description. Its text is shown once.
      </Text>
    </FormModal>
  );
}
