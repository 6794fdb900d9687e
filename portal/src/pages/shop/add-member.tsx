import { useQuery } from '@connectrpc/connect-query';
import { NativeSelect, TextInput } from '@mantine/core';
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
      <NativeSelect
        label="Role"
        required
        value={role}
        data={[
          { value: '', label: 'Choose a role' },
          ...o.roles.map((value) => ({ value, label: roleName(value) })),
        ]}
        description={data?.roles.find((one) => one.name === role)?.description ?? ' '}
        inputWrapperOrder={['label', 'input', 'description', 'error']}
        onChange={({ currentTarget }) => setRole(currentTarget.value)}
        error={fieldError(error, 'role')}
      />
    </FormModal>
  );
}
