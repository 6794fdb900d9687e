import { NativeSelect, SimpleGrid, Switch, TextInput } from '@mantine/core';
import { useState } from 'react';
import {
  type Destination,
  DestinationsService,
} from '../../../../proto/gen/rms/portal/v1/destinations_pb.ts';
import { fieldError } from '../../api/field-errors.ts';
import { useWrite } from '../../api/use-write.ts';
import { FormModal } from '../../parts/form-modal.tsx';

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
  const { createDestination, updateDestination } = DestinationsService.method;
  const [name, setName] = useState(o.of?.name ?? '');
  const [type, setType] = useState(o.of?.type ?? 'warehouse');
  const [enabled, setEnabled] = useState(o.of?.enabled ?? true);
  const [address, setAddress] = useState(() => textsOf(o.of));
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
    const fields = { name, type, enabled, address };
    if (o.of) update.run({ ...fields, destinationId: o.of.id }, formerOf(o.of));
    else create.run(fields);
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
          maxLength={191}
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
          error={fieldError(error, 'name')}
          data-autofocus
        />
        <NativeSelect
          label="Kind"
          value={type}
          onChange={({ currentTarget }) => setType(currentTarget.value)}
          error={fieldError(error, 'type')}
          data={[
            { value: 'warehouse', label: 'Warehouse' },
            { value: 'donate', label: 'Donation centre' },
          ]}
        />
      </SimpleGrid>
      <Switch
        label="Enabled: new returns may go there"
        checked={enabled}
        onChange={({ currentTarget }) => setEnabled(currentTarget.checked)}
      />
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        {ADDRESS.map(([field, label, autoComplete]) => (
          <TextInput
            key={field}
            label={label}
            autoComplete={autoComplete}
            value={address[field]}
            onChange={({ currentTarget }) =>
              setAddress({ ...address, [field]: currentTarget.value })
            }
            error={fieldError(error, `address.${inApi(field)}`)}
          />
        ))}
      </SimpleGrid>
    </FormModal>
  );
}

/** The change that gives a destination its values back. */
function formerOf(of: Destination) {
  const { id: destinationId, name, type, enabled } = of;
  return { destinationId, name, type, enabled, address: textsOf(of) };
}

function textsOf(of: Destination | undefined): AddressTexts {
  const texts = Object.fromEntries(ADDRESS.map(([field]) => [field, of?.address?.[field] ?? '']));
  return texts as AddressTexts;
}

function inApi(field: AddressField): string {
  return field === 'countryCode' ? 'country_code' : field;
}
