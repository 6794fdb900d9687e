import { useQuery } from '@connectrpc/connect-query';
import { useState } from 'react';
import { CommerceService } from '../../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Loaded } from '../../parts/states.tsx';
import type { CommerceDialog } from './connection.tsx';

const ConnectionPanels = lazyPart(
  async () => (await import('./connection.tsx')).ConnectionPanels,
  4,
);
const dialog = (name: keyof typeof import('./connect.tsx')) =>
  lazyPart(async () => (await import('./connect.tsx'))[name]);
const DIALOGS = {
  connect: dialog('Connect'),
  rotate: dialog('Rotate'),
  disconnect: dialog('Disconnect'),
  shopify: lazyPart(async () => (await import('./shopify-link.tsx')).ShopifyLink),
};

/** While a dialog is open, the merchant may connect at Shopify in another tab. Milliseconds. */
const READ_EVERY_MS = 5_000;

/** Where refunds, gift cards and exchange orders of the shop are made. */
export function CommercePage() {
  const [opened, setOpened] = useState<CommerceDialog>();
  const query = useQuery(
    CommerceService.method.getConnection,
    {},
    { refetchInterval: READ_EVERY_MS },
  );
  const connection = query.data?.connection;
  const Dialog = opened && DIALOGS[opened];
  return (
    <>
      <PageHead
        title="Commerce platform"
        about="The system that makes the refunds, gift cards and exchange orders of your returns: your store at Shopify, or an endpoint of your own."
      />
      <Loaded query={query} rows={4}>
        {() => <ConnectionPanels connection={connection} open={setOpened} />}
      </Loaded>
      {Dialog && <Dialog url={connection?.url ?? ''} onClose={() => setOpened(undefined)} />}
    </>
  );
}
