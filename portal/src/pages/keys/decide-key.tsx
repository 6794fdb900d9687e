import { Group } from '@mantine/core';
import { type ApiKey, ApiKeysService } from '../../../../proto/gen/rms/portal/v1/api_keys_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { confirm } from '../../parts/dialog/confirm.ts';
import { RowButton } from '../../parts/row-button.tsx';

/** For owners: approves or rejects a key that waits, because it may do more than the person who made it. */
export function DecideKey({ of: { id, description, createdBy } }: { readonly of: ApiKey }) {
  const { approveApiKey, rejectApiKey } = ApiKeysService.method;
  const approve = useWrite(approveApiKey, { done: 'The key is approved.' });
  const reject = useWrite(rejectApiKey, { done: 'The key is rejected.' });
  const name = description || id;
  const maker = createdBy?.name || `user ${createdBy?.id}`;
  const askToApprove = () =>
    confirm({
      title: `Approve the key “${name}”?`,
      text: `${maker} made it, has its text, and may not do all that it may do. Within 5 seconds the key works, until it ends or is revoked.`,
      action: 'Approve the key',
      onConfirm: () => approve.send({ keyId: id }),
    });
  const askToReject = () =>
    confirm({
      title: `Reject the key “${name}”?`,
      text: `The key never works. This cannot be undone: ${maker} can create another one.`,
      action: 'Reject the key',
      danger: true,
      onConfirm: () => reject.send({ keyId: id }),
    });
  return (
    <Group gap="xs">
      <RowButton
        text="Approve"
        label={`Approve ${name}`}
        onClick={askToApprove}
        isPending={approve.isPending}
      />
      <RowButton
        text="Reject"
        label={`Reject ${name}`}
        danger
        onClick={askToReject}
        isPending={reject.isPending}
      />
    </Group>
  );
}
