import { timestampMs } from '@bufbuild/protobuf/wkt';
import { useQuery } from '@connectrpc/connect-query';
import { Alert, Button, Code, Group, Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { type ApiKey, ApiKeysService } from '../../../../proto/gen/rms/portal/v1/api_keys_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { FirstLine, SecondLine } from '../../parts/cell-lines.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { confirm } from '../../parts/dialog/confirm.ts';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { RowButton } from '../../parts/row-button.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { LongText } from '../../parts/text/long-text.tsx';
import { now } from '../../parts/time/clock.ts';
import { Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';

const DecideKey = lazyPart(async () => (await import('./decide-key.tsx')).DecideKey, 1);
const RotateKey = lazyPart(async () => (await import('./key-dialogs.tsx')).RotateKey);
const CreateKey = lazyPart(async () => (await import('./key-dialogs.tsx')).CreateKey);

export function ApiKeysPage() {
  const { can } = useSession();
  const { listApiKeys, createApiKey } = ApiKeysService.method;
  const [dialog, setDialog] = useState<'create' | ApiKey>();
  // After a rotation the reader waits until the former key is no longer used.
  const query = useQuery(listApiKeys, {}, { refetchInterval: 30_000 });
  const add = can(createApiKey) && (
    <Button onClick={() => setDialog('create')}>Create an API key</Button>
  );
  return (
    <>
      <PageHead
        title="API keys"
        about={
          <>
            Your systems, and those of partners such as a warehouse, call the REST API with a key.
            Its text is shown once. A partner that has an app for this service needs no key: see{' '}
            <Link to="/partner-apps">Partner apps</Link>.
          </>
        }
        actions={query.data?.keys.length ? add : undefined}
      />
      <Loaded query={query}>
        {({ keys }) =>
          keys.length === 0 ? (
            <EmptyState title="No API keys yet" action={add}>
              Create one for each system, with only the rights that it needs.
            </EmptyState>
          ) : (
            <>
              <DataTable
                caption="API keys"
                rows={keys}
                rowKey={({ id }) => id}
                columns={[
                  ...COLUMNS,
                  { title: 'Actions', cell: (key) => <KeyActions of={key} rotate={setDialog} /> },
                ]}
              />
              {keys.filter(({ state }) => state !== 'valid' && state !== 'waiting').length >=
                ENDED && (
                <Text size="sm" c="dimmed" mt="xs">
                  Of the keys that have ended, these are the {ENDED} that ended last.
                </Text>
              )}
            </>
          )
        }
      </Loaded>
      {dialog === 'create' && <CreateKey onClose={() => setDialog(undefined)} />}
      {typeof dialog === 'object' && <RotateKey of={dialog} onClose={() => setDialog(undefined)} />}
    </>
  );
}

/** As many revoked and expired keys as the service lists. */
const ENDED = 100;

const COLUMNS: readonly Column<ApiKey>[] = [
  {
    title: 'Key',
    roomy: true,
    cell: ({ id, description, sandbox, state, replacedBy }) => (
      <>
        <FirstLine>
          {state === 'valid' && replacedBy !== '' && (
            <>
              <span aria-hidden>↳ </span>
              <span className="visually-hidden">former key of </span>
            </>
          )}
          {description || 'No description'}
        </FirstLine>
        <Code>
          rms_{sandbox && 'test_'}
          {id}_…
        </Code>
      </>
    ),
  },
  { title: 'Rights', cell: ({ scopes }) => <Scopes scopes={scopes} /> },
  {
    title: 'State',
    cell: (key) => <State of={key} />,
  },
  {
    title: 'Last used',
    roomy: true,
    cell: ({ lastUsedAt, lastOperation }) => (
      <>
        <Time at={lastUsedAt} none="never" />
        <SecondLine>
          <LongText text={lastOperation} />
        </SecondLine>
      </>
    ),
  },
  {
    title: 'Created',
    cell: ({ createdAt, createdBy }) => (
      <>
        <Time at={createdAt} as="day" />
        <SecondLine>{createdBy?.name || createdBy?.id}</SecondLine>
      </>
    ),
  },
];

/** A replaced key says how long it still works. */
function State({ of: { state, expiresAt, replacedBy } }: { readonly of: ApiKey }) {
  const isReplaced = replacedBy !== '';
  const works = state === 'valid';
  return (
    <>
      <Status state={works && isReplaced ? 'replaced' : state} />
      {state === 'waiting' && <SecondLine>until an owner approves it</SecondLine>}
      {works && expiresAt && (
        <SecondLine>
          {isReplaced ? (
            <>
              ends <Time at={expiresAt} as="relative" />, <Time at={expiresAt} />
            </>
          ) : (
            <>
              until <Time at={expiresAt} />
            </>
          )}
        </SecondLine>
      )}
      {isReplaced && <SecondLine>replaced by {replacedBy}</SecondLine>}
    </>
  );
}

/** The scopes in the words of the service. */
function Scopes({ scopes }: { readonly scopes: readonly string[] }) {
  const { data } = useQuery(ApiKeysService.method.listScopes, {}, { staleTime: Infinity });
  if (scopes.length === 0) return <>none</>;
  return (
    <>
      {scopes.map((scope) => (
        <Text key={scope} size="xs" miw={180} maw={260} title={scope}>
          {data?.scopes.find((one) => one.scope === scope)?.description ?? scope}
        </Text>
      ))}
    </>
  );
}

function KeyActions(o: { readonly of: ApiKey; readonly rotate: (key: ApiKey) => void }) {
  const { can } = useSession();
  const { approveApiKey, listScopes, revokeApiKey, rotateApiKey } = ApiKeysService.method;
  const { data } = useQuery(listScopes, {}, { staleTime: Infinity });
  const { send, isPending } = useWrite(revokeApiKey, { done: 'The key is revoked.' });
  const { id, description, scopes, state, replacedBy } = o.of;
  if (state === 'waiting' && can(approveApiKey)) return <DecideKey of={o.of} />;
  if (state !== 'valid' && state !== 'waiting') return null;
  const isAbove = data?.scopes.some(
    ({ scope, needsOwner }) => needsOwner && scopes.includes(scope),
  );
  const name = description || id;
  const isReplaced = replacedBy !== '';
  const words = isReplaced ? END_NOW : REVOKE;
  const ask = () =>
    confirm({
      title: words.title(name),
      text: <BeforeTheEnd of={o.of} text={words.text} />,
      action: words.action,
      danger: true,
      onConfirm: () => send({ keyId: id }),
    });
  return (
    <Group gap="xs">
      {can(rotateApiKey) && state === 'valid' && !isReplaced && !isAbove && (
        <RowButton
          text="Rotate"
          label={`Rotate ${name}`}
          hint="Makes a new key. This one works for some hours more."
          onClick={() => o.rotate(o.of)}
        />
      )}
      {can(revokeApiKey) && (
        <RowButton
          text={words.button}
          label={words.label(name)}
          hint="Ends this key at once."
          danger
          onClick={ask}
          isPending={isPending}
        />
      )}
    </Group>
  );
}

const WEEK_MS = 7 * 86_400_000;

/** What ending a key does, and whether somebody still calls with it. */
function BeforeTheEnd(o: { readonly of: ApiKey; readonly text: string }) {
  const { lastUsedAt, lastOperation } = o.of;
  const isInUse = lastUsedAt && now() - timestampMs(lastUsedAt) < WEEK_MS;
  const use = lastUsedAt ? (
    <>
      Last used <Time at={lastUsedAt} as="relative" />, <Time at={lastUsedAt} />
      {lastOperation !== '' && `, ${lastOperation}`}.
    </>
  ) : (
    'No call with it is recorded.'
  );
  return (
    <Stack gap="sm">
      {isInUse ? (
        <Alert color="yellow" title="A system uses this key">
          {use} That system loses its access.
        </Alert>
      ) : (
        <div>{use}</div>
      )}
      <div>{o.text}</div>
    </Stack>
  );
}

const REVOKE = {
  button: 'Revoke',
  label: (name: string) => `Revoke ${name}`,
  title: (name: string) => `Revoke the key “${name}”?`,
  text: 'Within 5 seconds every request with this key is rejected. This cannot be undone. To replace a key without an interruption, rotate it.',
  action: 'Revoke the key',
};

/** The same for a key that was replaced and still works. */
const END_NOW = {
  button: 'End now',
  label: (name: string) => `End now: the former key of ${name}`,
  title: (name: string) => `End the former key of “${name}” now?`,
  text: 'Within 5 seconds every request with the former key is rejected. The new key works on. This cannot be undone.',
  action: 'End the former key',
};
