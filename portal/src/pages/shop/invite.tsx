import { useQuery } from '@connectrpc/connect-query';
import { Button, Code, Group, Radio, Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import {
  type InviteMemberResponse,
  TeamService,
} from '../../../../proto/gen/rms/portal/v1/team_pb.ts';
import { fieldError } from '../../api/field-errors.ts';
import { useWrite } from '../../api/use-write.ts';
import { CopyText } from '../../parts/copy.tsx';
import { Dialog } from '../../parts/dialog/dialog.tsx';
import { FormModal } from '../../parts/dialog/form-modal.tsx';
import { visible } from '../../parts/text/visible.ts';
import { roleName } from '../../words.ts';

export function Invite(o: { readonly roles: readonly string[]; readonly onClose: () => void }) {
  const [email, setEmail] = useState('');
  const [name, setName] = useState('');
  const [role, setRole] = useState('');
  const [made, setMade] = useState<InviteMemberResponse>();
  const { data } = useQuery(TeamService.method.listRoles, {}, { staleTime: Infinity });
  const { run, isPending, error } = useWrite(TeamService.method.inviteMember, {
    inline: true,
    onSuccess: setMade,
  });
  const about = (name: string) => data?.roles.find((one) => one.name === name)?.description ?? '';
  if (made) return <Invited email={email} link={made.link} onClose={o.onClose} />;
  return (
    <FormModal
      title="Invite a person"
      onClose={o.onClose}
      submit="Invite"
      pending={isPending}
      error={error}
      fields={['email', 'name', 'role']}
      disabled={role === ''}
      onSubmit={() => run({ email, name, role })}
    >
      <TextInput
        label="E-mail address"
        description="The person signs in with this address at your sign-in provider. Until the person accepts, only your name is shown, not the shop."
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

/** What happens next: a mail has the link, or it is here to copy when the service sends no mails. */
export function Invited(o: {
  readonly email: string;
  readonly link: string;
  readonly onClose: () => void;
}) {
  return (
    <Dialog title={`${o.email} is invited`} sticky onClose={o.onClose}>
      <Stack>
        {o.link === '' ? (
          <Text size="sm">
            A mail with a link is on its way. The list says whether it was sent. The link works
            once, and for seven days.
          </Text>
        ) : (
          <>
            <Group justify="space-between" wrap="nowrap" align="flex-start">
              <Text size="sm">
                This service sends no mails. Copy this link now, and send it to {o.email}. It is not
                shown again. It works once, for seven days, and only after a sign-in with this
                address.
              </Text>
              <CopyText value={o.link} label="the link" />
            </Group>
            <Code block style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
              {o.link}
            </Code>
          </>
        )}
        <Group justify="flex-end">
          <Button onClick={o.onClose}>Done</Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
