import { Alert, Button, Group, Stack, Text } from '@mantine/core';
import {
  CommerceAdapter,
  type Connection,
} from '../../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { Facts } from '../../parts/facts.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';

const CheckPanel = lazyPart(async () => (await import('./check.tsx')).CheckPanel, 4);

/** The dialogs of the page. */
export type CommerceDialog = 'connect' | 'rotate' | 'disconnect' | 'shopify';

/** What is connected, whether it answers, and what can be changed about it. */
export function ConnectionPanels({
  connection,
  open,
}: {
  readonly connection: Connection | undefined;
  readonly open: (dialog: CommerceDialog) => void;
}) {
  return (
    <Stack gap="md">
      <Sandbox />
      {connection ? (
        <Connected connection={connection} open={open} />
      ) : (
        <NotConnected open={open} />
      )}
      {connection?.adapter === CommerceAdapter.HTTP && <CheckPanel url={connection.url} />}
    </Stack>
  );
}

function Sandbox() {
  if (!useSession().shop.sandbox) return null;
  return (
    <Alert color="yellow" title="This shop is a sandbox">
      No money moves here. Requests to your platform say <code>sandbox</code>. The operator of the
      service makes the shop live.
    </Alert>
  );
}

function NotConnected({ open }: { readonly open: (dialog: CommerceDialog) => void }) {
  const { shop } = useSession();
  return (
    <Panel title="Nothing is connected yet">
      <Stack gap="sm" align="flex-start">
        <Text size="sm">
          {shop.sandbox
            ? 'A sandbox needs no platform: a ledger of ours stands for it.'
            : 'Until you connect a platform, returns are submitted and received, but not refunded.'}
        </Text>
        <Group gap="xs">
          <Button onClick={() => open('connect')}>Connect an endpoint</Button>
          <Button variant="default" onClick={() => open('shopify')}>
            Connect a store at Shopify
          </Button>
        </Group>
      </Stack>
    </Panel>
  );
}

function Connected(o: {
  readonly connection: Connection;
  readonly open: (dialog: CommerceDialog) => void;
}) {
  const { adapter, url, shopDomain, scopes, connectedAt } = o.connection;
  const isStore = adapter === CommerceAdapter.SHOPIFY;
  const button = (dialog: CommerceDialog, text: string) => (
    <Button size="xs" variant="default" onClick={() => o.open(dialog)}>
      {text}
    </Button>
  );
  return (
    <Panel title={isStore ? 'Your store at Shopify is connected' : 'Your endpoint is connected'}>
      <Stack gap="md">
        <Broken connection={o.connection} />
        <Facts
          rows={[
            ['Address', url],
            ['Store', shopDomain],
            ['Connected', <Time key="at" at={connectedAt} />],
            ['Access that you gave', scopes.join(', ')],
          ]}
        />
        <Group gap="xs">
          {isStore ? (
            <>
              {button('shopify', 'Install again')}
              {button('connect', 'Use an endpoint instead')}
            </>
          ) : (
            <>
              {button('connect', 'Change the address')}
              {button('rotate', 'Rotate the secret')}
              {button('shopify', 'Use a store at Shopify instead')}
            </>
          )}
          {button('disconnect', 'Disconnect')}
        </Group>
      </Stack>
    </Panel>
  );
}

/** Why a connected store does not answer. */
function Broken({ connection: { uninstalledAt, refusedAt } }: { readonly connection: Connection }) {
  if (!uninstalledAt && !refusedAt) return null;
  return (
    <Alert
      color="red"
      title={uninstalledAt ? 'The app was removed at Shopify' : 'Shopify refuses our access'}
    >
      Since <Time at={uninstalledAt ?? refusedAt} />. Returns wait and are not refunded. Install the
      app again.
    </Alert>
  );
}
