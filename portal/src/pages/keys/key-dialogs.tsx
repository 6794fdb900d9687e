import { useQuery } from '@connectrpc/connect-query';
import {
  Alert,
  Button,
  Checkbox,
  Code,
  Group,
  NativeSelect,
  Stack,
  Text,
  TextInput,
} from '@mantine/core';
import { type ReactNode, useState } from 'react';
import {
  type ApiKey,
  ApiKeysService,
  type CreateApiKeyResponse,
  type RotateApiKeyResponse,
} from '../../../../proto/gen/rms/portal/v1/api_keys_pb.ts';
import { fieldError } from '../../api/field-errors.ts';
import { useWrite } from '../../api/use-write.ts';
import { Copyable, CopyText } from '../../parts/copy.tsx';
import { Dialog } from '../../parts/dialog/dialog.tsx';
import { FormModal } from '../../parts/dialog/form-modal.tsx';
import { Fold } from '../../parts/fold.tsx';
import { Loaded } from '../../parts/states.tsx';
import { tooLong } from '../../parts/text/too-long.ts';
import { Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';

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
  const [made, setMade] = useState<CreateApiKeyResponse>();
  const known = useQuery(ApiKeysService.method.listScopes, {}, { staleTime: Infinity });
  const { run, isPending, error } = useWrite(ApiKeysService.method.createApiKey, {
    inline: true,
    onSuccess: setMade,
  });
  if (made) {
    return (
      <KeyText text={made.text} scopes={scopes} onClose={onClose}>
        {made.key?.state === 'waiting' && (
          <Alert color="blue" title="The key waits for an owner">
            It may do more than you, so it works as soon as an owner approves it on this page.
          </Alert>
        )}
      </KeyText>
    );
  }
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
        description="Tick only what the system needs: a storefront or a warehouse has its own."
        value={scopes}
        onChange={setScopes}
        error={fieldError(error, 'scopes')}
        required
      >
        <Stack gap="xs" mt="xs">
          <Loaded query={known}>
            {(found) =>
              found.scopes.map(({ scope, description: about, needsOwner }) => (
                <Checkbox
                  key={scope}
                  value={scope}
                  label={about || scope}
                  description={needsOwner ? `${scope}, needs the approval of an owner` : scope}
                />
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
      <KeyText text={rotated.text} scopes={o.of.scopes} onClose={o.onClose}>
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

/** A call to try a key with, by a scope that allows it. */
const CALLS: readonly (readonly [scope: string, path: string])[] = [
  ['returns', '/warehouse/returns'],
  ['returns:read', '/warehouse/returns'],
  ['returns:submit', '/policy'],
  ['warehouse', '/warehouse/expected'],
  ['developer_tools', '/webhooks'],
];

/** The text of a new key, which is shown only now, with what the engineers of the other system need. */
function KeyText(o: {
  readonly text: string;
  readonly scopes: readonly string[];
  readonly onClose: () => void;
  readonly children?: ReactNode;
}) {
  const call = CALLS.find(([scope]) => o.scopes.includes(scope))?.[1];
  const { baseUrl = '', docsUrl = '' } = useSession().links ?? {};
  const api = `${baseUrl}/api/2026-10`;
  const handOver = [
    `Base URL: ${api}`,
    `API key, in the header X-Authorization: ${o.text}`,
    ...(docsUrl === '' ? [] : [`API reference: ${docsUrl}/reference`]),
  ].join('\n');
  return (
    <Dialog title="Copy the key now" size="lg" sticky onClose={o.onClose}>
      <Stack>
        <Alert color="yellow" title="This is the only time that the key is shown">
          <Copyable value={o.text} label="the API key" />
        </Alert>
        {o.children}
        <Group justify="space-between" wrap="nowrap" align="flex-start">
          <Text size="sm">
            For the engineers of the system. Send it so that nobody else can read it, not by e-mail.
          </Text>
          <CopyText value={handOver} label="the text for the engineers" />
        </Group>
        <Code block style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
          {handOver}
        </Code>
        {call !== undefined && (
          <Fold title="Try it">
            <Code block tabIndex={0} role="region" aria-label="Example of a call">
              {`curl -H 'X-Authorization: ${o.text}' \\\n  '${api}${call}'`}
            </Code>
          </Fold>
        )}
        <Group justify="flex-end">
          <Button onClick={o.onClose}>I have copied it</Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
