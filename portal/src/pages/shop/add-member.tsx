import { useQuery } from '@connectrpc/connect-query';
import { Radio, Stack, TextInput } from '@mantine/core';
import { useState } from 'react';
import { TeamService } from '../../../../proto/gen/rms/portal/v1/team_pb.ts';
import { fieldError } from '../../api/field-errors.ts';
import { useWrite } from '../../api/use-write.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { roleName } from '../../words.ts';

export function AddMember(o: { readonly roles: readonly string[]; readonly onClose: () => void }) {
  const [email, setEmail] = useState('');
  const [name, setName] = useState('');
  const [role, setRole] = useState('');
  const { data } = useQuery(TeamService.method.listRoles, {}, { staleTime: Infinity });
  const { run, isPending, error } = useWrite(TeamService.method.addMember, {
    done: 'The person is added.',
    inline: true,
    onSuccess: o.onClose,
  });
  return (
    <FormModal
      title="Add a person"
      onClose={o.onClose}
      submit="Add to the team"
      pending={isPending}
      error={error}
      fields={['email', 'name', 'role']}
      disabled={role === ''}
      onSubmit={() => run({ email, name, role })}
    >
      <TextInput
        label="E-mail address"
        description={`The person signs in at ${location.origin}/portal with the account of this e-mail address. We send no invitation: tell the person.`}
        type="email"
        required
        value={email}
        onChange={({ currentTarget }) => setEmail(currentTarget.value)}
        error={fieldError(error, 'email')}
        data-autofocus
      />
      <TextInput
        label="Name"
        value={name}
        onChange={({ currentTarget }) => setName(currentTarget.value)}
        error={fieldError(error, 'name')}
      />
      <Radio.Group
        label="Role"
        required
        name="role"
        value={role}
        onChange={setRole}
        error={fieldError(error, 'role')}
      >
        <Stack gap="xs" mt="xs">
          {o.roles.map((value) => (
            <Radio
              key={value}
              value={value}
              label={roleName(value)}
              description={data?.roles.find(({ name: one }) => one === value)?.description}
            />
          ))}
        </Stack>
      </Radio.Group>
    </FormModal>
  );
}
