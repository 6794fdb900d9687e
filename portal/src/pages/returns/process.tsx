import { Alert, Text } from '@mantine/core';
import { useState } from 'react';
import {
  type ProcessReturnResponse,
  ReturnsService,
} from '../../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { useActionKey, useWrite } from '../../api/use-write.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { FormModal } from '../../parts/form-modal.tsx';
import { notifyDone } from '../../parts/notify.ts';
import type { ReturnDialogProps } from './dialog-props.ts';

const RESULTS: Readonly<Record<string, string>> = {
  queued: 'The return is queued. It closes when everything is made.',
  already_queued: 'The return was queued already.',
  skipped_instant_refund:
    'Nothing was queued: the shopper has an instant refund that is not settled.',
};

export function Process({ about, returnId, onClose }: ReturnDialogProps) {
  const idempotencyKey = useActionKey();
  const [refusal, setRefusal] = useState<ProcessReturnResponse>();
  const { run, isPending, error } = useWrite(ReturnsService.method.processReturn, {
    inline: true,
    onSuccess: (response) => {
      if (response.result === 'refused') return setRefusal(response);
      notifyDone(RESULTS[response.result] ?? 'The return is queued.');
      onClose();
    },
  });
  return (
    <FormModal
      title={`Process the return of ${about.summary?.orderName ?? ''}?`}
      onClose={onClose}
      submit="Process the return"
      pending={isPending}
      error={error}
      disabled={refusal !== undefined}
      onSubmit={() => run({ idempotencyKey, returnId })}
    >
      <Text size="sm">This will happen, and it cannot be undone:</Text>
      <Bullets items={about.processingDoes.map((sentence) => [sentence, sentence])} />
      {refusal && (
        <Alert color="red" role="alert" title="The return was not processed">
          {refusal.message}
        </Alert>
      )}
    </FormModal>
  );
}
