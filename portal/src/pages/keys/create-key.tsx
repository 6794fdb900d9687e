import { useQuery } from '@connectrpc/connect-query';
import { Checkbox, NativeSelect, Stack, TextInput } from '@mantine/core';
import { useState } from 'react';
import { ApiKeysService } from '../../../../proto/gen/rms/portal/v1/api_keys_pb.ts';
import { fieldError } from '../../api/field-errors.ts';
import { useWrite } from '../../api/use-write.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { Loaded } from '../../parts/states.tsx';
import { tooLong } from '../../parts/too-long.ts';
import { KeyText } from './key-text.tsx';

const LIFETIMES = [
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In a year' },
  { value: '30', label: 'In 30 days' },
  { value: '', label: 'Never' },
];

export function CreateKey({ onClose }: { readonly onClose: () => void }) {
  const [description, setDescription] = useState('');
  const [scopes, setScopes] = useState<string[]>([]);
  const [days, setDays] = useState('365');
  const [text, setText] = useState<string>();
  const known = useQuery(ApiKeysService.method.listScopes, {}, { staleTime: Infinity });
  const { run, isPending, error } = useWrite(ApiKeysService.method.createApiKey, {
    inline: true,
    onSuccess: (response) => setText(response.text),
  });
  if (text !== undefined) return <KeyText text={text} onClose={onClose} />;
  const submit = () =>
    run({ description, scopes, ...(days !== '' && { lifetimeDays: Number(days) }) });
  return (
    <FormModal
      title="Create an API key"
      onClose={onClose}
      submit="Create the key"
      pending={isPending}
      error={error}
      fields={['description', 'scopes', 'lifetime_days']}
      disabled={scopes.length === 0}
      onSubmit={submit}
    >
      <TextInput
        label="Which system will use it?"
        placeholder="Warehouse system"
        required
        value={description}
        onChange={({ currentTarget }) => setDescription(currentTarget.value)}
        error={tooLong(description, 191) ?? fieldError(error, 'description')}
        data-autofocus
      />
      <Checkbox.Group
        label="What may it do?"
        description="There are no smaller rights than these. Tick only what the system needs."
        value={scopes}
        onChange={setScopes}
        error={fieldError(error, 'scopes')}
        required
      >
        <Stack gap="xs" mt="xs">
          <Loaded query={known}>
            {(found) =>
              found.scopes.map(({ scope, description: about }) => (
                <Checkbox key={scope} value={scope} label={about || scope} description={scope} />
              ))
            }
          </Loaded>
        </Stack>
      </Checkbox.Group>
      <NativeSelect
        label="When does it end?"
        data={LIFETIMES}
        value={days}
        onChange={({ currentTarget }) => setDays(currentTarget.value)}
        error={fieldError(error, 'lifetime_days')}
      />
    </FormModal>
  );
}
