import { Alert, Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import {
  CommerceService,
  type CreateShopifyInstallLinkResponse,
} from '../../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { fieldError } from '../../api/field-errors.ts';
import { useWrite } from '../../api/use-write.ts';
import { Dialog } from '../../parts/dialog/dialog.tsx';
import { FormModal } from '../../parts/dialog/form-modal.tsx';
import { visible } from '../../parts/text/visible.ts';
import { Time } from '../../parts/time/time.tsx';

/** Names the store, and opens the install there. */
export function ShopifyLink({ onClose }: { readonly onClose: () => void }) {
  const [typed, setTyped] = useState('');
  const shopDomain = domainIn(typed);
  const [created, setCreated] = useState<CreateShopifyInstallLinkResponse>();
  const { run, isPending, error } = useWrite(CommerceService.method.createShopifyInstallLink, {
    inline: true,
    onSuccess: setCreated,
  });
  if (created) return <Install {...created} shopDomain={shopDomain} onClose={onClose} />;
  return (
    <FormModal
      title="Connect a store at Shopify"
      submit="Begin the install"
      onClose={onClose}
      pending={isPending}
      error={error}
      fields={['shop_domain']}
      onSubmit={() => run({ shopDomain })}
    >
      <Text size="sm">
        You install our app in your store. Shopify then shows what the app may do, and asks you to
        agree. A present connection stays until the install is complete.
      </Text>
      <TextInput
        label="Domain of the store"
        description="The permanent one, which ends with .myshopify.com: in Shopify, Settings, Domains."
        placeholder="your-store.myshopify.com"
        required
        data-autofocus
        value={typed}
        onChange={({ currentTarget }) => setTyped(visible(currentTarget.value))}
        error={fieldError(error, 'shop_domain')}
      />
    </FormModal>
  );
}

/** The domain in what a person types or pastes, such as an address or only the name of the store. */
function domainIn(text: string): string {
  const [host = ''] = text
    .trim()
    .toLowerCase()
    .replace(/^https?:\/\//, '')
    .split(/[/?#]/);
  return host === '' || host.includes('.') ? host : `${host}.myshopify.com`;
}

function Install(
  o: Pick<CreateShopifyInstallLinkResponse, 'link' | 'expiresAt'> & {
    readonly shopDomain: string;
    readonly onClose: () => void;
  },
) {
  return (
    <Dialog title="Install the app in your store" sticky onClose={o.onClose}>
      <Stack>
        <Text size="sm">
          Open the install in this browser, as somebody who may install apps in {o.shopDomain}. It
          works for one install, until <Time at={o.expiresAt} />. When it is complete, this page
          shows the store.
        </Text>
        <Alert color="blue">Nothing is connected before Shopify has asked you.</Alert>
        <Group justify="flex-end">
          <Button variant="default" onClick={o.onClose}>
            Close
          </Button>
          <Button
            component="a"
            href={`/commerce/shopify/install?link=${o.link}`}
            target="_blank"
            rel="noopener noreferrer"
          >
            Open Shopify
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
