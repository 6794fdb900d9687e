import { Code, ConnectError } from '@connectrpc/connect';
import { Alert, Button, Checkbox, Group, Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { CommerceService } from '../../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { fieldError } from '../../api/field-errors.ts';
import { useWrite } from '../../api/use-write.ts';
import { Copyable } from '../../parts/copy.tsx';
import { Dialog } from '../../parts/dialog/dialog.tsx';
import { FormModal } from '../../parts/dialog/form-modal.tsx';
import { tooLong } from '../../parts/text/too-long.ts';
import { visible } from '../../parts/text/visible.ts';
import { CommerceDocs } from './commerce-docs.tsx';

// The dialogs of a connection to an endpoint.

interface Closable {
  readonly onClose: () => void;
}

/**
 * The address of an endpoint; then the secret, which is shown once.
 *
 * @param o.url the present address; empty when the shop has no endpoint.
 */
export function Connect(o: Closable & { readonly url: string }) {
  // The page shows a new connection while the dialog is open.
  const [isNew] = useState(o.url === '');
  const [url, setUrl] = useState(o.url);
  const [force, setForce] = useState(false);
  const [secret, setSecret] = useState<string>();
  const { run, isPending, error } = useWrite(CommerceService.method.connect, {
    done: isNew ? 'The endpoint is connected.' : 'The address is changed.',
    inline: true,
    onSuccess: (response) =>
      isNew || response.secret ? setSecret(response.secret?.value ?? '') : o.onClose(),
  });
  if (secret === '') return <NoSecret onClose={o.onClose} />;
  if (secret !== undefined) return <Secret value={secret} onClose={o.onClose} />;
  return (
    <FormModal
      title={isNew ? 'Connect an endpoint' : 'Change the address'}
      submit={isNew ? 'Connect' : 'Change the address'}
      onClose={o.onClose}
      pending={isPending}
      error={error}
      fields={['url']}
      onSubmit={() => run({ url, force })}
    >
      <Text size="sm">
        Your system answers signed requests at this address: it makes refunds, gift cards and
        exchange orders. <CommerceDocs />
      </Text>
      <TextInput
        label="Address"
        description="A public https address."
        placeholder="https://shop.example.com/returns"
        type="url"
        required
        data-autofocus
        value={url}
        onChange={({ currentTarget }) => setUrl(visible(currentTarget.value))}
        error={tooLong(url, 2_048) ?? fieldError(error, 'url')}
      />
      <Force error={error} checked={force} onChange={setForce} />
    </FormModal>
  );
}

/** Offers to do it all the same, once the service has said why not. */
function Force(o: {
  readonly error: unknown;
  readonly checked: boolean;
  readonly onChange: (checked: boolean) => void;
}) {
  const isRefused = o.error instanceof ConnectError && o.error.code === Code.FailedPrecondition;
  if (!isRefused && !o.checked) return null;
  return (
    <Checkbox
      label="Do it all the same"
      description="A refund, gift card or order that was requested of the present platform may then be made a second time."
      checked={o.checked}
      onChange={({ currentTarget }) => o.onChange(currentTarget.checked)}
    />
  );
}

/** The shop was connected before: by a try whose answer was lost, or by a colleague. */
function NoSecret({ onClose }: Closable) {
  return (
    <Dialog title="The shop was connected already" onClose={onClose}>
      <Stack>
        <Text size="sm">
          The address is set. The secret was shown to the first try only, and is not shown again: if
          you do not have it, rotate the secret.
        </Text>
        <Group justify="flex-end">
          <Button onClick={onClose}>Close</Button>
        </Group>
      </Stack>
    </Dialog>
  );
}

function Secret({ value, onClose }: Closable & { readonly value: string }) {
  return (
    <Dialog title="The secret of the connection" sticky onClose={onClose}>
      <Stack>
        <Text size="sm">
          Your system verifies with this secret that a request comes from us. Put it into your
          system now: it is shown only this once. If you lose it, rotate the secret.
        </Text>
        <Alert color="blue" title="Secret">
          <Copyable value={value} label="the secret of the connection" />
        </Alert>
        <Group justify="flex-end">
          <Button onClick={onClose}>I have stored it</Button>
        </Group>
      </Stack>
    </Dialog>
  );
}

const DEFAULT_OVERLAP_HOURS = '24';

/** Makes a new secret. The old one signs, too, for some hours. */
export function Rotate({ onClose }: Closable) {
  const [hours, setHours] = useState(DEFAULT_OVERLAP_HOURS);
  const [secret, setSecret] = useState('');
  const { run, isPending, error } = useWrite(CommerceService.method.rotateSecret, {
    inline: true,
    onSuccess: (response) => setSecret(response.secret?.value ?? ''),
  });
  if (secret !== '') return <Secret value={secret} onClose={onClose} />;
  return (
    <FormModal
      title="Rotate the secret"
      submit="Make a new secret"
      onClose={onClose}
      pending={isPending}
      error={error}
      onSubmit={() => run({ overlapHours: Number(hours) })}
    >
      <TextInput
        type="number"
        label="Hours in which the old secret signs, too"
        description="0 to 168. With 0 the old secret ends at once: choose this when somebody else knows it."
        min={0}
        max={168}
        value={hours}
        onChange={({ currentTarget }) => setHours(currentTarget.value)}
        data-autofocus
        required
      />
    </FormModal>
  );
}

/** Asks before the connection ends. */
export function Disconnect({ onClose }: Closable) {
  const [force, setForce] = useState(false);
  const { run, isPending, error } = useWrite(CommerceService.method.disconnect, {
    done: 'The platform is disconnected.',
    inline: true,
    onSuccess: onClose,
  });
  return (
    <FormModal
      title="Disconnect the commerce platform?"
      submit="Disconnect"
      danger
      onClose={onClose}
      pending={isPending}
      error={error}
      onSubmit={() => run({ force })}
    >
      <Text size="sm">
        Returns are not refunded any more until you connect a platform again. The secrets or the
        access to your store are deleted; a new connection gets new ones.
      </Text>
      <Force error={error} checked={force} onChange={setForce} />
    </FormModal>
  );
}
