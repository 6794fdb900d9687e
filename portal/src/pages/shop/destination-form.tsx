import { useQuery } from '@connectrpc/connect-query';
import { NativeSelect, SimpleGrid, Switch, TextInput } from '@mantine/core';
import { useState } from 'react';
import {
  type Destination,
  DestinationsService,
  DestinationType,
} from '../../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { fieldError } from '../../api/field-errors.ts';
import { useWrite } from '../../api/use-write.ts';
import { FormModal } from '../../parts/dialog/form-modal.tsx';
import { tooLong } from '../../parts/text/too-long.ts';

const ADDRESS = [
  ['name', 'Recipient', 'name'],
  ['company', 'Company', 'organization'],
  ['address1', 'Address', 'address-line1'],
  ['address2', 'Second line', 'address-line2'],
  ['city', 'City', 'address-level2'],
  ['state', 'State or province', 'address-level1'],
  ['zip', 'Postal code', 'postal-code'],
  ['country', 'Country', 'country-name'],
  ['countryCode', 'Country code, two letters', 'country'],
  ['phone', 'Phone', 'tel'],
] as const;

type AddressField = (typeof ADDRESS)[number][0];
type AddressTexts = Record<AddressField, string>;

/** Names of the fields in errors. */
const FIELDS = ['name', 'type', ...ADDRESS.map(([field]) => `address.${inApi(field)}`)];

/** The form of a destination; of a new one when `of` is undefined. */
export function DestinationForm(o: {
  readonly of: Destination | undefined;
  readonly onClose: () => void;
}) {
  const { createDestination, updateDestination, listDestinations } = DestinationsService.method;
  // The list is read again while the form is open, so that `o.of` has what somebody else changes.
  useQuery(listDestinations, {}, { refetchInterval: 5_000 });
  const [opened] = useState(() => contentOf(o.of));
  const [name, setName] = useState(opened.name);
  const [type, setType] = useState<DestinationType>(opened.type);
  const [enabled, setEnabled] = useState(opened.enabled);
  const [address, setAddress] = useState(opened.address);
  const create = useWrite(createDestination, {
    done: 'The destination is added.',
    inline: true,
    onSuccess: o.onClose,
  });
  const update = useWrite(updateDestination, {
    done: 'The destination is changed.',
    inline: true,
    onSuccess: o.onClose,
  });
  const error = o.of ? update.error : create.error;
  const submit = () => {
    const next = { name, type, enabled, address };
    if (!o.of) return create.run(next);
    const { id: destinationId } = o.of;
    const now = contentOf(o.of);
    const change = { destinationId, ...changeOf(opened, next, now) };
    // Somebody else may change the destination before the user takes this change back.
    const expected = { ...now, ...change };
    update.run(change, { destinationId, ...changeOf(next, opened, now), expected });
  };
  return (
    <FormModal
      title={o.of ? `Edit ${o.of.name}` : 'Add a destination'}
      size="lg"
      onClose={o.onClose}
      submit="Save"
      pending={create.isPending || update.isPending}
      error={error}
      fields={FIELDS}
      onSubmit={submit}
    >
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <TextInput
          label="Name"
          required
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
          error={tooLong(name, 191) ?? fieldError(error, 'name')}
          data-autofocus
        />
        <NativeSelect
          label="Kind"
          value={String(type)}
          // The options are values of the enum.
          onChange={({ currentTarget }) => setType(Number(currentTarget.value) as DestinationType)}
          error={fieldError(error, 'type')}
          data={[
            { value: String(DestinationType.WAREHOUSE), label: 'Warehouse' },
            { value: String(DestinationType.DONATE), label: 'Donation centre' },
          ]}
        />
      </SimpleGrid>
      <Switch
        label="Enabled: new returns may go there"
        checked={enabled}
        onChange={({ currentTarget }) => setEnabled(currentTarget.checked)}
      />
      <AddressFields value={address} onChange={setAddress} error={error} />
    </FormModal>
  );
}

function AddressFields(o: {
  readonly value: AddressTexts;
  readonly onChange: (value: AddressTexts) => void;
  readonly error: unknown;
}) {
  return (
    <SimpleGrid cols={{ base: 1, sm: 2 }}>
      {ADDRESS.map(([field, label, autoComplete]) => (
        <TextInput
          key={field}
          label={label}
          autoComplete={autoComplete}
          value={o.value[field]}
          onChange={({ currentTarget }) => o.onChange({ ...o.value, [field]: currentTarget.value })}
          error={fieldError(o.error, `address.${inApi(field)}`)}
        />
      ))}
    </SimpleGrid>
  );
}

type Content = ReturnType<typeof contentOf>;

function contentOf(of: Destination | undefined) {
  const { name = '', type = DestinationType.WAREHOUSE, enabled = true } = of ?? {};
  return { name, type, enabled, address: textsOf(of) };
}

/**
 * The fields that differ. The others keep their stored values.
 *
 * @param now the destination as it is. A change always has the name, and all lines of an address.
 */
function changeOf(from: Content, { name, type, enabled, address }: Content, now: Content) {
  const lines = ADDRESS.filter(([field]) => address[field] !== from.address[field]);
  const changed = Object.fromEntries(lines.map(([field]) => [field, address[field]]));
  return {
    name: name === from.name ? now.name : name,
    ...(type !== from.type && { type }),
    ...(enabled !== from.enabled && { enabled }),
    ...(lines.length > 0 && { address: { ...now.address, ...changed } }),
  };
}

function textsOf(of: Destination | undefined): AddressTexts {
  const texts = Object.fromEntries(ADDRESS.map(([field]) => [field, of?.address?.[field] ?? '']));
  return texts as AddressTexts;
}

function inApi(field: AddressField): string {
  return field === 'countryCode' ? 'country_code' : field;
}
