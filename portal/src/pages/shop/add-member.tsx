import { useQuery } from '@connectrpc/connect-query';
import { Button, Code, Group, Radio, Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { type Member, TeamService } from '../../../../proto/gen/rms/portal/v1/team_pb.ts';
import { fieldError } from '../../api/field-errors.ts';
import { useWrite } from '../../api/use-write.ts';
import { CopyText } from '../../parts/copy.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { FormModal } from '../../parts/form-modal.tsx';
import { visible } from '../../parts/visible.ts';
import { useSession } from '../../session/session.tsx';
import { roleName } from '../../words.ts';

export function AddMember(o: { readonly roles: readonly string[]; readonly onClose: () => void }) {
  const [email, setEmail] = useState('');
  const [name, setName] = useState('');
  const [role, setRole] = useState('');
  const [added, setAdded] = useState<Member>();
  const { data } = useQuery(TeamService.method.listRoles, {}, { staleTime: Infinity });
  const { run, isPending, error } = useWrite(TeamService.method.addMember, {
    inline: true,
    onSuccess: ({ member }) => setAdded(member),
  });
  const about = (name: string) => data?.roles.find((one) => one.name === name)?.description ?? '';
  if (added) return <Added member={added} about={about(added.role)} onClose={o.onClose} />;
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
        description="The person needs an account with this address at your sign-in provider. An administrator of that provider makes one."
        type="email"
        required
        value={email}
        onChange={({ currentTarget }) => setEmail(visible(currentTarget.value))}
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
            <Radio key={value} value={value} label={roleName(value)} description={about(value)} />
          ))}
        </Stack>
      </Radio.Group>
    </FormModal>
  );
}

/** What the new person must know, to copy: the service sends nothing. */
function Added(o: {
  readonly member: Member;
  readonly about: string;
  readonly onClose: () => void;
}) {
  const { email, name, role } = o.member;
  const text = `You can use the returns portal of ${useSession().shop.name}: ${location.origin}/portal
Sign in with your account for ${email}. If you have none, the administrator of our sign-in provider makes one.
Your role is ${roleName(role)}. ${o.about}`;
  return (
    <Dialog title={`${name || email} is in the team`} sticky onClose={o.onClose}>
      <Stack>
        <Group justify="space-between" wrap="nowrap" align="flex-start">
          <Text size="sm">We send no invitation. Copy this text, and send it to the person.</Text>
          <CopyText value={text} label="the text for the person" />
        </Group>
        <Code block style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
          {text}
        </Code>
        <Group justify="flex-end">
          <Button onClick={o.onClose}>Done</Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
